//! The origin of a check's number, which determines whether agreement is evidence for the model.

use crate::profile::{Profile, Source};

/// The relation between a published number and the model before the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Neither a fit nor a choice used the published number, and the number does not follow from numbers that
    /// a fit or a choice used.
    Predicted,
    /// The profile was fitted to the number, or a translation layer or a count was chosen to reproduce the
    /// number.
    Fitted,
    /// The number follows from published or fitted numbers, or the author knew it when choosing numbers of
    /// the profile.
    Derived(Derivation),
}

/// The reason why a derived number is not a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derivation {
    /// The number equals a number from another column of the same table, multiplied by a ratio; the simulator
    /// is not needed.
    TableRatio,
    /// The number follows from the shape of random-write throughput over the range. This shape has a separate
    /// check.
    Shape,
    /// The number is the point from which the speedup no longer rises, because a fitted or assumed latency is
    /// then completely hidden.
    Plateau,
    /// The number restates another published number in another unit.
    Restated,
    /// The author knew the number when choosing plausible numbers for the profile.
    ChosenInView,
    /// The number was measured under a scheduler, and the authors of the scheduler's model had read the
    /// study.
    StudyInView,
}

impl Derivation {
    /// Returns the derivation's name in JSON and its description for people.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Derivation::TableRatio => {
                ("table_ratio", "follows from the phone's column and one ratio, without the simulator")
            }
            Derivation::Shape => ("shape", "follows from the shape of throughput over the range"),
            Derivation::Plateau => ("plateau", "first point of a plateau"),
            Derivation::Restated => ("restated", "restates a slowdown in microseconds"),
            Derivation::ChosenInView => {
                ("chosen_in_view", "the author knew this number when choosing erase blocks and log blocks")
            }
            Derivation::StudyInView => {
                ("study_in_view", "the authors of the scheduler's model had read the study")
            }
        }
    }
}

/// The classes of checks, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Agreement shows that the model predicts the number.
    Predicted,
    /// Agreement shows that the fit worked.
    Fitted,
    /// Agreement shows that the numbers are consistent.
    Derived,
}

impl Class {
    /// All classes, in display order.
    pub const ALL: [Class; 3] = [Class::Predicted, Class::Fitted, Class::Derived];

    /// Returns the class's name in tables and JSON.
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
            Class::Fitted => "the profile was fitted or chosen to give the number",
            Class::Derived => "the number follows from published or fitted numbers, or the author knew it",
        }
    }
}

impl Origin {
    /// Returns the class in which the origin is counted.
    pub fn class(self) -> Class {
        match self {
            Origin::Predicted => Class::Predicted,
            Origin::Fitted => Class::Fitted,
            Origin::Derived(_) => Class::Derived,
        }
    }

    /// Returns the derivation's name in JSON; `None` if the number is not derived.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Origin::Predicted | Origin::Fitted => None,
            Origin::Derived(derivation) => Some(derivation.words().0),
        }
    }

    /// Explains for people why the number is not a prediction; empty if it is a prediction.
    pub fn explained(self) -> &'static str {
        match self {
            Origin::Predicted => "",
            Origin::Fitted => "the fit used this number",
            Origin::Derived(derivation) => derivation.words().1,
        }
    }

    /// Returns the origin of the number `what`, according to the profile. A number that the profile does not
    /// name counts as predicted.
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

    /// Replaces `Predicted` with a derived origin.
    pub(super) fn or_derived(self, derivation: Derivation) -> Origin {
        if self == Origin::Predicted { Origin::Derived(derivation) } else { self }
    }
}
