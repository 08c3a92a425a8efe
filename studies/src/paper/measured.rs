//! Stores our results of each run, with the way in which they came about, and a mark if a published number
//! influenced them.
//!
//! The modules of the papers compute with [`Measured`] instead of plain numbers. If a value is missing or
//! marked, every value computed from it is missing or marked, too. A computed value is at most as real as its
//! least real part.

use fonio_core::statistics::sample::median;
use serde::Serialize;

/// The way in which a number of ours came about, from the most to the least real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// Measured on a real program, unchanged, on an emulated device.
    RealProgram,
    /// Measured on an imitation, on an emulated device: a workload that makes the calls that an app is assumed
    /// to make, or a program of ours in place of the study's.
    Imitation,
    /// Computed by a model of a device or a scheduler, without a program.
    Model,
    /// Follows from our configuration, such as a size, a count or a rate that a workload or a link sets.
    Construction,
}

impl Kind {
    pub(super) const ALL: [Kind; 4] = [Kind::RealProgram, Kind::Imitation, Kind::Model, Kind::Construction];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::RealProgram => "real program",
            Kind::Imitation => "imitation",
            Kind::Model => "model",
            Kind::Construction => "by construction",
        }
    }

    /// Creates a value of this kind from one number per run. A number that is not finite counts as missing.
    pub(super) fn runs(self, values: impl IntoIterator<Item = impl Into<Option<f64>>>) -> Measured {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let runs = values.into_iter().map(|value| finite(value.into())).collect();
        Measured { runs, origin: self.into() }
    }

    pub(super) fn once(self, value: impl Into<Option<f64>>) -> Measured {
        self.runs([value])
    }
}

/// The origin of a value: its kind, and whether a published number influenced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    kind: Kind,
    is_known: bool,
}

impl From<Kind> for Origin {
    fn from(kind: Kind) -> Origin {
        Origin { kind, is_known: false }
    }
}

impl Origin {
    /// Marks the value as known if a published number influenced it, by a fit or by a choice, or if the author
    /// of the workload or the model knew this number. The mark cannot be removed.
    pub(super) fn known(self, by_author: bool) -> Origin {
        Origin { is_known: self.is_known | by_author, ..self }
    }

    pub(super) fn kind(self) -> Kind {
        self.kind
    }

    /// Returns whether a published number influenced the value.
    pub(super) fn is_known(self) -> bool {
        self.is_known
    }

    fn with(self, other: Origin) -> Origin {
        Origin { kind: self.kind.max(other.kind), is_known: self.is_known | other.is_known }
    }
}

/// A figure of ours: one value per run, in the order of the rounds. A [`Kind`] creates it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    runs: Vec<Option<f64>>,
    origin: Origin,
}

impl Measured {
    /// Marks the value as [known](Origin::known).
    pub(super) fn known(self, by_author: bool) -> Measured {
        Measured { origin: self.origin.known(by_author), ..self }
    }

    pub(super) fn origin(&self) -> Origin {
        self.origin
    }

    pub(super) fn each(&self) -> &[Option<f64>] {
        &self.runs
    }

    pub(super) fn count(&self) -> usize {
        self.runs.len()
    }

    /// Returns the median of the runs; for an even number of runs, the mean of the middle two values. `None`
    /// if the value of a run is missing.
    pub(super) fn value(&self) -> Option<f64> {
        median(&self.runs.iter().copied().collect::<Option<Vec<f64>>>()?)
    }

    /// Returns the ratio of the largest to the smallest run; `None` if a run is missing or not above 0.
    pub(super) fn spread(&self) -> Option<f64> {
        let values = self.sorted()?;
        (values[0] > 0.0).then(|| values[values.len() - 1] / values[0])
    }

    pub(super) fn ends(&self) -> Option<(f64, f64)> {
        let values = self.sorted()?;
        Some((values[0], values[values.len() - 1]))
    }

    /// Divides the values by the values of `base`, round by round. The value of a round is missing in the
    /// result if it is missing in `self` or in `base`, or if it is 0 in `base`.
    pub(super) fn over(&self, base: &Measured) -> Measured {
        let rounds = self.runs.len().max(base.runs.len());
        let of = |runs: &[Option<f64>], round: usize| runs.get(round).copied().flatten();
        let runs = (0..rounds).map(|round| {
            let (own, base) = of(&self.runs, round).zip(of(&base.runs, round))?;
            (base != 0.0).then(|| own / base)
        });
        let origin = self.origin.with(base.origin);
        Measured { origin, ..origin.kind.runs(runs) }
    }

    /// Subtracts the values of `other`, round by round. A round without both values is missing in the result.
    pub(super) fn minus(&self, other: &Measured) -> Measured {
        let rounds = self.runs.len().max(other.runs.len());
        let of = |runs: &[Option<f64>], round: usize| runs.get(round).copied().flatten();
        let runs = (0..rounds)
            .map(|round| of(&self.runs, round).zip(of(&other.runs, round)).map(|(own, other)| own - other));
        let origin = self.origin.with(other.origin);
        Measured { origin, ..origin.kind.runs(runs) }
    }

    pub(super) fn times(&self, factor: f64) -> Measured {
        Measured {
            runs: self.runs.iter().map(|run| run.map(|value| value * factor)).collect(),
            origin: self.origin,
        }
    }

    fn sorted(&self) -> Option<Vec<f64>> {
        let mut values: Vec<f64> = self.runs.iter().copied().collect::<Option<_>>()?;
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then_some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::Kind::{Construction, Imitation, Model, RealProgram};

    #[test]
    fn a_missing_run_makes_the_value_missing() {
        for (runs, value) in [
            (vec![Some(3.0), Some(1.0), Some(2.0)], Some(2.0)),
            (vec![Some(1.0), Some(2.0)], Some(1.5)),
            (vec![Some(1.0), None, Some(2.0)], None),
            (vec![Some(f64::NAN)], None),
            (vec![Some(f64::INFINITY)], None),
            (vec![], None),
        ] {
            assert_eq!(Imitation.runs(runs.clone()).value(), value, "{runs:?}");
        }
    }

    #[test]
    fn ratios_are_made_round_by_round() {
        let (own, base) = (Imitation.runs([6.0, 8.0, 9.0]), Imitation.runs([2.0, 4.0, 3.0]));
        assert_eq!(own.over(&base), Imitation.runs([3.0, 2.0, 3.0]));
        assert_eq!(own.over(&base).spread(), Some(1.5));
        assert_eq!(own.over(&Imitation.runs([2.0, 0.0, 3.0])).value(), None, "no share of nothing");
        assert_eq!(own.over(&Imitation.runs([2.0, 4.0])).value(), None, "a round without a partner");
        assert_eq!(own.times(2.0), Imitation.runs([12.0, 16.0, 18.0]));
        assert_eq!(own.minus(&base), Imitation.runs([4.0, 4.0, 6.0]));
        assert_eq!(own.minus(&Imitation.runs([2.0, 4.0])).value(), None, "a round without a partner");
        assert!(own.minus(&base.known(true)).origin().is_known());
    }

    #[test]
    fn a_known_part_marks_the_whole() {
        let (free, known) = (Imitation.once(2.0), Imitation.once(1.0).known(true));
        assert!(!free.over(&free).origin().is_known());
        assert!(free.over(&known).origin().is_known(), "a fitted denominator");
        assert!(known.over(&free).origin().is_known());
        assert!(known.times(2.0).origin().is_known());
        assert!(known.known(false).origin().is_known(), "the mark stays");
    }

    #[test]
    fn the_least_real_part_gives_the_kind() {
        for (own, base, ratio) in [
            (RealProgram, RealProgram, RealProgram),
            (RealProgram, Imitation, Imitation),
            (Model, Imitation, Model),
            (RealProgram, Construction, Construction),
            (Construction, Model, Construction),
        ] {
            let found = own.once(2.0).over(&base.once(1.0)).times(3.0);
            assert_eq!(found.origin().kind(), ratio, "{own:?} over {base:?}");
        }
    }
}
