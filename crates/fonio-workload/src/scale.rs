//! Scales a workload and keeps the ratio between its steps.
//!
//! A step's total is its *count* multiplied by the *rounds* of all enclosing repeats. At scale s, each total
//! becomes `round(total × s)`, at least 1, so the ratio between any two steps stays the same except for
//! rounding. Repeats are reduced first. If the number of repeats cannot be reduced further (there is no tenth
//! of a launch), the counts of the nested steps are reduced, and spread evenly over the remaining rounds.
//! Request sizes and batch sizes never change.

use crate::definition::Step;

/// A step with its scaled number of operations.
#[derive(Debug)]
pub(crate) struct Planned<'a> {
    pub(crate) step: &'a Step,
    /// The step's number at each nesting depth, from 1, such as `2.1`.
    pub(crate) key: String,
    /// The number of rounds of a repeat or a transaction in each enclosing round.
    pub(crate) times: u64,
    /// For any other step: the number of operations in the complete run.
    pub(crate) total: u64,
    /// The number of rounds over which the total is spread.
    pub(crate) rounds: u64,
    /// Index of the step in the statistics, counting all steps of the plan and their nested steps.
    pub(crate) index: usize,
    pub(crate) inner: Vec<Planned<'a>>,
}

/// Returns `count × scale`, rounded, but at least 1.
pub(crate) fn scaled(count: u64, scale: f64) -> u64 {
    ((count as f64 * scale).round() as u64).max(1)
}

pub(crate) fn plan(steps: &[Step], scale: f64) -> Vec<Planned<'_>> {
    let mut index = 0;
    plan_within(steps, scale, Around { full: 1, rounds: 1, left: scale }, "", &mut index)
}

#[derive(Clone, Copy)]
struct Around {
    full: u64,
    rounds: u64,
    /// The part of the scale that the enclosing repeats could not apply.
    left: f64,
}

fn plan_within<'a>(
    steps: &'a [Step],
    scale: f64,
    around: Around,
    prefix: &str,
    index: &mut usize,
) -> Vec<Planned<'a>> {
    let mut planned = Vec::with_capacity(steps.len());
    for (position, step) in steps.iter().enumerate() {
        let own_index = *index;
        *index += 1;
        let key = format!("{prefix}{}", position + 1);
        let full = around.full * step.count();
        let (times, inner) = if step.inner().is_empty() {
            (1, Vec::new())
        } else {
            let times = scaled(step.count(), around.left);
            let left = around.left * step.count() as f64 / times as f64;
            let within = Around { full, rounds: around.rounds * times, left };
            (times, plan_within(step.inner(), scale, within, &format!("{key}."), index))
        };
        // Pauses, replays and evictions occur in every round, regardless of the scale.
        let total = match step {
            Step::Think { .. } | Step::Replay { .. } | Step::Evict { .. } => around.rounds,
            _ => scaled(full, scale),
        };
        planned.push(Planned { step, key, times, total, rounds: around.rounds, index: own_index, inner });
    }
    planned
}

/// Returns how many of `total` operations belong to round `round` of `rounds`, spread as evenly as possible.
pub(crate) fn due(total: u64, rounds: u64, round: u64) -> u64 {
    let before = |round: u64| u128::from(total) * u128::from(round) / u128::from(rounds);
    (before(round + 1) - before(round)) as u64
}

/// Returns the number of operations in a plan, for the progress of the run.
pub(crate) fn operations(plan: &[Planned<'_>]) -> u64 {
    plan.iter().map(|step| if step.inner.is_empty() { step.total } else { operations(&step.inner) }).sum()
}

/// Returns the number of steps in a plan, including nested steps.
pub(crate) fn steps(plan: &[Planned<'_>]) -> usize {
    plan.iter().map(|step| 1 + steps(&step.inner)).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::definition::{Bytes, Work};

    fn leaf(count: u64) -> Step {
        Step::Work { kind: Work::Parse, bytes: Some(Bytes(1)), count }
    }

    fn repeat(times: u64, steps: Vec<Step>) -> Step {
        Step::Repeat { times, every: None, mark: None, steps }
    }

    fn executed(plan: &[Planned<'_>], round: u64, into: &mut Vec<u64>) {
        for step in plan {
            if step.inner.is_empty() {
                into[step.index] += due(step.total, step.rounds, round);
            } else {
                for time in 0..step.times {
                    executed(&step.inner, round * step.times + time, into);
                }
            }
        }
    }

    fn totals(steps_: &[Step], scale: f64) -> Vec<u64> {
        let plan = plan(steps_, scale);
        let mut counts = vec![0; steps(&plan)];
        executed(&plan, 0, &mut counts);
        counts
    }

    #[test]
    fn pages_shrink_before_what_is_in_them() {
        let steps = [repeat(50, vec![leaf(15), leaf(4)]), leaf(2)];
        assert_eq!(totals(&steps, 1.0), [0, 750, 200, 2]);
        assert_eq!(totals(&steps, 0.1), [0, 75, 20, 1]);
        assert_eq!(totals(&steps, 0.001), [0, 1, 1, 1]);
        assert_eq!(plan(&steps, 0.1)[0].times, 5);
        assert_eq!(totals(&steps, 2.0), [0, 1500, 400, 4]);
    }

    fn tree() -> impl Strategy<Value = Step> {
        (1_u64..200).prop_map(leaf).prop_recursive(3, 20, 4, |inner| {
            (1_u64..30, prop::collection::vec(inner, 1..4)).prop_map(|(times, steps)| repeat(times, steps))
        })
    }

    fn full_totals(steps: &[Step], around: u64, into: &mut Vec<u64>) {
        for step in steps {
            into.push(if step.inner().is_empty() { around * step.count() } else { 0 });
            full_totals(step.inner(), around * step.count(), into);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Each step's scaled total must be its full total multiplied by the scale, rounded, at least 1.
        #[test]
        fn the_mix_is_kept(steps in prop::collection::vec(tree(), 1..4), scale in 0.001_f64..3.0) {
            let mut full = Vec::new();
            full_totals(&steps, 1, &mut full);
            let expected: Vec<u64> = full.iter().map(|&total| if total == 0 { 0 } else { scaled(total, scale) }).collect();
            prop_assert_eq!(totals(&steps, scale), expected);
        }
    }
}
