//! Measures several arms in interleaved rounds, and compares the arms within rounds.
//!
//! A [`Design`] lists its arms: setups of a workload or a launch, or layers of an I/O path. A round
//! measures every arm once. Every second round measures the arms in reverse order, so that changes of the
//! machine over time affect all arms equally. Each round has its own seed, which all arms share: only the
//! arm differs within a round, and no single seed decides the result. [`Design::run`] runs the rounds;
//! [`run_times`] and [`compare`] turn the measurements into ratios with intervals.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fonio_analysis::Change;
use fonio_analysis::compare::interval::{RUNS_MIN, compare_rounds, rounds_needed};
use fonio_core::statistics::sample::Spread;
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;

/// One of the alternatives that a [`Design`] compares.
#[derive(Clone, Debug)]
pub struct Arm<S> {
    /// The arm's name, also used for the folders of its recordings.
    pub name: String,
    /// The index of the arm with which this arm is compared; `None` for the first arm.
    pub compared_with: Option<usize>,
    /// The setup that the arm measures.
    pub setup: S,
}

/// How the number of rounds is determined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rounds {
    /// A fixed number of rounds, at least 1.
    Fixed(u32),
    /// As many rounds as are needed to bring every arm's confidence interval within `factor` of its ratio.
    /// This number is estimated from a pilot of three rounds, which are part of the result. The number is
    /// reduced if the rounds would exceed `budget`.
    Pilot {
        /// Requested precision, a factor above 1: 1.25 means within 25 percent.
        factor: f64,
        /// Time limit for all rounds together.
        budget: Duration,
    },
}

/// Number of rounds of a pilot: the minimum for estimating a spread.
pub const PILOT_ROUNDS: u32 = RUNS_MIN as u32;

/// The factor within which a gain is known precisely enough, for a pilot and for advice on more rounds.
pub const KNOWN_WITHIN: f64 = 1.25;
/// Maximum number of rounds after a pilot: more rounds do not help, even if they are short.
pub(crate) const ROUNDS_MAX: usize = 1000;

/// The arms to measure and the number of rounds.
#[derive(Debug)]
pub struct Design<'a, S> {
    /// The arms to measure; at least one.
    pub arms: &'a [Arm<S>],
    /// The number of rounds. Each round measures every arm once.
    pub rounds: Rounds,
    /// The seed of the first round; the seed increases by one with each round.
    pub seed: u64,
    /// A flag that a signal handler sets to start no further measurement.
    pub stop: &'a AtomicBool,
}

/// One measurement of one arm.
#[derive(Clone, Copy, Debug)]
pub struct Measurement<'a, S> {
    /// The index of the arm in its design.
    pub arm: usize,
    /// The name of the measured arm.
    pub name: &'a str,
    /// The setup of the measured arm.
    pub setup: &'a S,
    /// The number of the round, counted from 1.
    pub round: u32,
    /// The number of rounds planned so far. More rounds can follow a pilot.
    pub rounds: u32,
    /// The number of measurements in all planned rounds.
    pub measurements: usize,
    /// The seed of the round; all arms share this seed.
    pub seed: u64,
}

impl<S> Measurement<'_, S> {
    /// Returns the folder of this measurement's recording in `results`.
    pub fn recording(&self, results: &Path) -> PathBuf {
        results.join(file_name(self.name, self.round))
    }
}

/// The result of a measurement, with a run time.
pub trait Timed {
    /// Returns the run time in seconds, which must be above 0.
    fn wall_s(&self) -> f64;
}

impl<S> Design<'_, S> {
    /// Measures every arm in every round with `measure`, and returns the results of each arm, in the order of
    /// the arms and the rounds. Calls `begins` before each measurement. Returns the error of the first failed
    /// measurement, or [`ExperimentError::Interrupted`] after `stop` is set. Panics if there are no arms or
    /// no rounds, or if an arm is compared with a later arm.
    pub fn run<T: Timed>(
        &self,
        begins: &mut dyn FnMut(&Measurement<'_, S>),
        measure: &mut dyn FnMut(&Measurement<'_, S>) -> Result<T, ExperimentError>,
    ) -> Result<Vec<Vec<T>>, ExperimentError> {
        let mut rounds = match self.rounds {
            Rounds::Fixed(rounds) => rounds,
            Rounds::Pilot { .. } => PILOT_ROUNDS,
        };
        assert!(!self.arms.is_empty() && rounds > 0, "there is at least one arm and one round");
        let is_earlier = |(at, arm): (usize, &Arm<S>)| arm.compared_with.is_none_or(|with| with < at);
        assert!(self.arms.iter().enumerate().all(is_earlier), "an arm is compared with an earlier one");
        let mut results: Vec<Vec<T>> = self.arms.iter().map(|_| Vec::new()).collect();
        let began = Instant::now();
        let mut round = 0;
        while round < rounds {
            round += 1;
            let seed = self.seed.wrapping_add(u64::from(round - 1));
            // Reverse the order in every second round, so that neither an arm's effect on the next arm nor
            // drift of the machine favours an arm.
            let mut order: Vec<usize> = (0..self.arms.len()).collect();
            if round % 2 == 0 {
                order.reverse();
            }
            for at in order {
                let arm = &self.arms[at];
                check_stop(self.stop)?;
                let measurements = self.arms.len() * rounds as usize;
                let measurement = Measurement {
                    arm: at,
                    name: &arm.name,
                    setup: &arm.setup,
                    round,
                    rounds,
                    measurements,
                    seed,
                };
                begins(&measurement);
                results[at].push(measure(&measurement)?);
            }
            if let Rounds::Pilot { factor, budget } = self.rounds
                && round == PILOT_ROUNDS
            {
                rounds = rounds_after_pilot(self.arms, &results, factor, budget, began.elapsed());
            }
        }
        Ok(results)
    }
}

/// Fails with [`ExperimentError::Interrupted`] if `stop` is set.
pub(crate) fn check_stop(stop: &AtomicBool) -> Result<(), ExperimentError> {
    if stop.load(Ordering::Relaxed) { Err(ExperimentError::Interrupted) } else { Ok(()) }
}

/// Returns the total number of rounds: as many as every arm's interval needs, but not more than fit into
/// the budget.
fn rounds_after_pilot<S, T: Timed>(
    arms: &[Arm<S>],
    results: &[Vec<T>],
    factor: f64,
    budget: Duration,
    pilot: Duration,
) -> u32 {
    let fit = f64::from(PILOT_ROUNDS) * budget.as_secs_f64() / pilot.as_secs_f64().max(f64::MIN_POSITIVE);
    let most = fit.clamp(f64::from(PILOT_ROUNDS), ROUNDS_MAX as f64) as usize;
    let together = arms.iter().filter(|arm| arm.compared_with.is_some()).count();
    let needed = arms.iter().zip(results).filter_map(|(arm, own)| {
        rounds_needed(&times(&results[arm.compared_with?]), &times(own), factor, together, most)
    });
    needed.max().map_or(PILOT_ROUNDS, |needed| needed as u32)
}

fn times<T: Timed>(results: &[T]) -> Vec<f64> {
    results.iter().map(Timed::wall_s).collect()
}

/// The run times of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunTimes {
    /// The mean run time in seconds.
    pub wall_s: f64,
    /// The shortest run time in seconds.
    pub wall_s_min: f64,
    /// The longest run time in seconds.
    pub wall_s_max: f64,
    /// Speedup over the compared arm: the geometric mean of the rounds' ratios. A value above 1 means that
    /// this arm is faster; `None` for the first arm.
    pub speedup: Option<f64>,
    /// This arm's run time divided by the compared arm's, with the confidence interval over the rounds.
    pub change: Option<Change>,
}

/// Returns the run times of each arm. All confidence intervals hold simultaneously (Holm's procedure).
pub fn run_times<S, T: Timed>(arms: &[Arm<S>], results: &[Vec<T>]) -> Vec<RunTimes> {
    let all: Vec<Vec<f64>> = results.iter().map(|results| times(results)).collect();
    let values: Vec<Option<Vec<f64>>> = all.iter().cloned().map(Some).collect();
    let mut changes = compare(arms, &[&values]).remove(0);
    let spread = |(at, times): (usize, &Vec<f64>)| {
        let Spread { mean, min, max, .. } = Spread::of(times).expect("each arm was measured");
        let change = changes[at].take();
        let speedup = change.as_ref().and_then(|change| Some(1.0 / change.ratio?));
        RunTimes { wall_s: mean, wall_s_min: min, wall_s_max: max, speedup, change }
    };
    all.iter().enumerate().map(spread).collect()
}

/// Compares each arm's values with the values of its compared arm, paired by rounds. `figures` has one list
/// per figure: each arm's values, or `None` if the arm has no values. All comparisons are tested together
/// (Holm's procedure). An entry of the result is `None` if either arm has no values.
pub(crate) fn compare<S>(arms: &[Arm<S>], figures: &[&[Option<Vec<f64>>]]) -> Vec<Vec<Option<Change>>> {
    let pair = |(figure, at): (usize, usize)| {
        let values = figures[figure];
        Some((values[arms[at].compared_with?].as_deref()?, values[at].as_deref()?))
    };
    let cells =
        || (0..figures.len()).flat_map(|figure| (0..arms.len()).map(move |at| (figure, at))).map(pair);
    let known: Vec<(&[f64], &[f64])> = cells().flatten().collect();
    let mut changes = compare_rounds(&known).into_iter();
    let all: Vec<Option<Change>> = cells().map(|pair| pair.and_then(|_| changes.next())).collect();
    all.chunks(arms.len()).map(<[_]>::to_vec).collect()
}

/// Returns a file name that is not hidden and that every file system accepts.
fn file_name(arm: &str, round: u32) -> String {
    let arm = if arm == "." { "here" } else { arm };
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    format!("{}-{round}", arm.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use fonio_analysis::Answer;
    use fonio_core::Random;

    use super::*;

    struct Took(f64);

    impl Timed for Took {
        fn wall_s(&self) -> f64 {
            self.0
        }
    }

    fn arm(name: &str, compared_with: Option<usize>, setup: f64) -> Arm<f64> {
        Arm { name: name.to_owned(), compared_with, setup }
    }

    #[test]
    fn rounds_are_interleaved_and_share_a_seed() {
        let arms = [arm("a", None, 2.0), arm("b", Some(0), 1.0)];
        let stop = AtomicBool::new(false);
        let design = Design { arms: &arms, rounds: Rounds::Fixed(2), seed: u64::MAX, stop: &stop };
        let mut begun = Vec::new();
        let results = design
            .run(
                &mut |measurement| {
                    begun.push(format!(
                        "{}/{} {} {}",
                        measurement.round, measurement.rounds, measurement.name, measurement.seed
                    ))
                },
                &mut |measurement| Ok(Took(*measurement.setup + f64::from(measurement.round))),
            )
            .expect("no measurement fails");
        let max = u64::MAX;
        assert_eq!(
            begun,
            [format!("1/2 a {max}"), format!("1/2 b {max}"), "2/2 b 0".into(), "2/2 a 0".into()]
        );
        let times = run_times(&arms, &results);
        assert_eq!((times[0].wall_s, times[0].wall_s_min, times[0].wall_s_max), (3.5, 3.0, 4.0));
        assert!(times[0].change.is_none() && times[0].speedup.is_none());
        let change = times[1].change.as_ref().expect("the second arm is compared with the first");
        assert_eq!(change.answer, Answer::Unknown, "two rounds show nothing");
    }

    #[test]
    fn a_pilot_adds_rounds_only_where_they_help() {
        let run = |spread: f64, budget| {
            let arms = [arm("a", None, 1.0), arm("b", Some(0), 2.0)];
            let stop = AtomicBool::new(false);
            let rounds = Rounds::Pilot { factor: 1.25, budget };
            let design = Design { arms: &arms, rounds, seed: 1, stop: &stop };
            // The run times of the second arm alternate.
            let measure = &mut |measurement: &Measurement<'_, f64>| {
                let odd = if measurement.arm == 1 && measurement.round % 2 == 1 { spread } else { 1.0 };
                Ok(Took(measurement.setup * odd))
            };
            design.run(&mut |_| {}, measure).expect("no measurement fails")[0].len()
        };
        let long = Duration::from_secs(3600);
        assert_eq!(run(1.01, long), 3);
        assert!(run(1.5, long) > 3);
        assert_eq!(run(1.5, Duration::ZERO), 3);
    }

    /// Tests equal arms, in fixed rounds and after a pilot: one fix, as in most proofs of a command, and seven.
    /// Student's t assumes that the logarithms of run times are normally distributed. Real run times have a longer
    /// upper tail, and so does the noise of this test.
    #[test]
    fn equal_arms_are_called_different_in_at_most_5_percent_of_designs() {
        const DESIGNS: u64 = 400;
        let pilot = Rounds::Pilot { factor: KNOWN_WITHIN, budget: Duration::from_secs(3600) };
        for (count, rounds) in [2, 8]
            .into_iter()
            .flat_map(|count| [Rounds::Fixed(3), Rounds::Fixed(5), pilot].map(|rounds| (count, rounds)))
        {
            let arms: Vec<Arm<()>> = (0..count)
                .map(|at| Arm { name: at.to_string(), compared_with: (at > 0).then_some(0), setup: () })
                .collect();
            let mut claimed = 0;
            for seed in 0..DESIGNS {
                let stop = AtomicBool::new(false);
                let design = Design { arms: &arms, rounds, seed, stop: &stop };
                let mut random = Random::new(seed);
                let mut uniform = || random.uniform();
                let measure = &mut |_: &Measurement<'_, ()>| {
                    let noise = uniform() + uniform() + uniform() - 1.5;
                    let tail = if uniform() < 0.1 { uniform() } else { 0.0 };
                    Ok(Took((0.2 * noise + 0.5 * tail).exp()))
                };
                let results = design.run(&mut |_| {}, measure).expect("no measurement fails");
                let changes = run_times(&arms, &results).into_iter().filter_map(|times| times.change);
                claimed += u64::from(changes.into_iter().any(|change| change.is_claimed()));
            }
            assert!(
                claimed * 20 <= DESIGNS,
                "{count} arms, {rounds:?}: {claimed} false claims in {DESIGNS} designs"
            );
        }
    }

    #[test]
    fn a_request_to_stop_ends_the_rounds_before_the_next_measurement() {
        let arms = [arm("a", None, 1.0)];
        let stop = AtomicBool::new(false);
        let design = Design { arms: &arms, rounds: Rounds::Fixed(5), seed: 1, stop: &stop };
        let mut measured = 0;
        let ended = design.run(&mut |_| {}, &mut |_| {
            measured += 1;
            stop.store(measured == 2, Ordering::Relaxed);
            Ok(Took(1.0))
        });
        assert!(matches!(ended, Err(ExperimentError::Interrupted)));
        assert_eq!(measured, 2);
    }

    #[test]
    fn figures_that_an_arm_has_not_are_not_compared() {
        let arms = [arm("a", None, 0.0), arm("b", Some(0), 0.0), arm("c", Some(1), 0.0)];
        let values = [Some(vec![1.0, 1.1, 0.9]), None, Some(vec![1.0; 3])];
        let full = [Some(vec![1.0, 1.1, 0.9]), Some(vec![4.0, 4.4, 3.6]), Some(vec![4.0, 4.4, 3.6])];
        let changes = compare(&arms, &[&values, &full]);
        assert!(changes[0].iter().all(Option::is_none), "{changes:?}");
        let answers: Vec<_> =
            changes[1].iter().map(|change| change.as_ref().map(|change| change.answer)).collect();
        assert_eq!(answers, [None, Some(Answer::Higher), Some(Answer::NoDifference)]);
    }

    #[test]
    fn names_of_recordings() {
        assert_eq!(file_name("ridata, wal-normal", 2), "ridata--wal-normal-2");
        assert_eq!(file_name(".", 1), "here-1");
        assert_eq!(file_name("raid0:internal_2010+ridata", 1), "raid0-internal_2010-ridata-1");
    }
}
