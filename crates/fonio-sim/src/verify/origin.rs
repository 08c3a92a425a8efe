//! The origin of a check's number, which decides whether agreement is evidence for the model.

use crate::profile::{Profile, Source};

/// The relation of a published number to the model's before they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No fit and no choice used the published number, and it does not follow from numbers that were used.
    Predicted,
    /// The profile was solved for it, or a layer or a count was chosen to give it.
    Fitted,
    /// It follows from numbers that were published or fitted, or numbers of the profile were chosen with it in view.
    Derived(Derivation),
}

/// The reason why a derived number is not a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derivation {
    /// Another column of the same table times one ratio gives it, without the simulator.
    TableRatio,
    /// It follows from the shape of random writes over their range, which has a check of its own.
    Shape,
    /// The speedup stops rising where a fitted or assumed latency is hidden; its first such point is the best.
    Plateau,
    /// It is another published number in another unit.
    Restated,
    /// The author of the profile knew it, and chose numbers of the profile among plausible ones.
    ChosenInView,
    /// It was measured under a scheduler whose model was written by people who had read the study.
    StudyInView,
}

/// The classes that group checks for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Agreement shows that the model predicts.
    Predicted,
    /// Agreement shows that the fit worked.
    Fitted,
    /// Agreement shows that the numbers are consistent.
    Derived,
}

impl Class {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Class; 3] = [Class::Predicted, Class::Fitted, Class::Derived];

    /// Returns its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Class::Predicted => "predicted",
            Class::Fitted => "fitted",
            Class::Derived => "derived",
        }
    }

    /// Describes the numbers of this class, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Class::Predicted => {
                "no fit and no choice used the number, and no other published number gives it"
            }
            Class::Fitted => "the profile was solved or chosen to give the number",
            Class::Derived => "the number follows from published or fitted ones, or was in view",
        }
    }
}

impl Origin {
    /// The class under which it is counted.
    pub fn class(self) -> Class {
        match self {
            Origin::Predicted => Class::Predicted,
            Origin::Fitted => Class::Fitted,
            Origin::Derived(_) => Class::Derived,
        }
    }

    /// The condition or derivation, as JSON writes it. `None` if the class says all.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Origin::Predicted | Origin::Fitted => None,
            Origin::Derived(derivation) => Some(match derivation {
                Derivation::TableRatio => "table_ratio",
                Derivation::Shape => "shape",
                Derivation::Plateau => "plateau",
                Derivation::Restated => "restated",
                Derivation::ChosenInView => "chosen_in_view",
                Derivation::StudyInView => "study_in_view",
            }),
        }
    }

    /// The same for people.
    pub fn explained(self) -> &'static str {
        match self {
            Origin::Predicted => "",
            Origin::Fitted => "the fit used this number",
            Origin::Derived(Derivation::TableRatio) => {
                "follows from the phone's column by one ratio, without the simulator"
            }
            Origin::Derived(Derivation::Shape) => "follows from the shape over the range",
            Origin::Derived(Derivation::Plateau) => "the least number on a plateau",
            Origin::Derived(Derivation::Restated) => "restates a slowdown in microseconds",
            Origin::Derived(Derivation::ChosenInView) => {
                "erase blocks and log blocks were chosen with this number in view"
            }
            Origin::Derived(Derivation::StudyInView) => {
                "the scheduler's model was written by people who had read the study"
            }
        }
    }

    /// Returns the origin of the number called `what`, by the profile's own account. A number that the
    /// profile does not name is predicted.
    pub(super) fn by_profile(profile: &Profile, what: &str) -> Origin {
        let names =
            |source| profile.provenance().iter().any(|number| number.source == source && number.to == what);
        if names(Source::Fitted) {
            Origin::Fitted
        } else if names(Source::Chosen) {
            Origin::Derived(Derivation::ChosenInView)
        } else {
            Origin::Predicted
        }
    }

    /// The same, but a number that nothing used counts as derived.
    pub(super) fn or_derived(self, derivation: Derivation) -> Origin {
        if self == Origin::Predicted { Origin::Derived(derivation) } else { self }
    }
}
