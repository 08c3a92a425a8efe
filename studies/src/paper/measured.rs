//! Stores our results of each run, with a mark if a published number influenced them.
//!
//! The modules of the papers compute with [`Measured`] instead of plain numbers. If a value is missing or
//! marked, every value computed from it is missing or marked, too.

use fonio_core::statistics::sample::median;

/// A measured figure: one value per run, in the order of the rounds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    runs: Vec<Option<f64>>,
    used: bool,
}

impl Measured {
    /// Creates a value from one number per run. A number that is not finite counts as missing.
    pub(super) fn runs(values: impl IntoIterator<Item = impl Into<Option<f64>>>) -> Measured {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        Measured { runs: values.into_iter().map(|value| finite(value.into())).collect(), used: false }
    }

    pub(super) fn once(value: impl Into<Option<f64>>) -> Measured {
        Measured::runs([value])
    }

    /// Marks the value as used if a published number influenced it, by a fit or by a choice. The mark cannot
    /// be removed.
    pub(super) fn shaped(mut self, by_published: bool) -> Measured {
        self.used |= by_published;
        self
    }

    /// Returns whether a published number influenced the value.
    pub(super) fn is_used(&self) -> bool {
        self.used
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
        Measured { used: self.used || base.used, ..Measured::runs(runs) }
    }

    pub(super) fn times(&self, factor: f64) -> Measured {
        Measured {
            runs: self.runs.iter().map(|run| run.map(|value| value * factor)).collect(),
            used: self.used,
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
    use super::*;

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
            assert_eq!(Measured::runs(runs.clone()).value(), value, "{runs:?}");
        }
    }

    #[test]
    fn ratios_are_made_round_by_round() {
        let (own, base) = (Measured::runs([6.0, 8.0, 9.0]), Measured::runs([2.0, 4.0, 3.0]));
        assert_eq!(own.over(&base), Measured::runs([3.0, 2.0, 3.0]));
        assert_eq!(own.over(&base).spread(), Some(1.5));
        assert_eq!(own.over(&Measured::runs([2.0, 0.0, 3.0])).value(), None, "no share of nothing");
        assert_eq!(own.over(&Measured::runs([2.0, 4.0])).value(), None, "a round without a partner");
        assert_eq!(own.times(2.0), Measured::runs([12.0, 16.0, 18.0]));
    }

    #[test]
    fn a_shaped_part_marks_the_whole() {
        let (free, shaped) = (Measured::once(2.0), Measured::once(1.0).shaped(true));
        assert!(!free.over(&free).is_used());
        assert!(free.over(&shaped).is_used(), "a fitted denominator");
        assert!(shaped.over(&free).is_used());
        assert!(shaped.times(2.0).is_used());
        assert!(shaped.shaped(false).is_used(), "the mark stays");
    }
}
