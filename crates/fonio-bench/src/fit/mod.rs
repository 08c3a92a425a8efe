//! Turns a benchmark of a device into a profile of the simulator, treating the device as a black box.
//!
//! 1. The [`shape`] of random writes against their range says which translation layers come into question.
//! 2. `structure` lists the devices of those layers that the shape leaves open: page, erase block, log blocks.
//! 3. `solve` finds the times and rates of each with which the model gives what was measured; the structure whose
//!    model comes nearest is taken.
//! 4. [`bootstrap`] says how far the numbers are from certain.
//!
//! The tests of [`Set::HeldBack`] take no part in this; [`predict`] holds a profile against them.

pub mod bootstrap;
mod error;
pub mod shape;
mod solve;
mod structure;

use fonio_core::ByteCount;
use fonio_sim::profile::{Profile, ProfileError, Source};
use serde::Serialize;

pub use error::FitError;
pub use shape::Shape;

use crate::plan::{Access, Set, Test};
use crate::result::{Benchmark, Run, TestResult};
use crate::{model, stable};
use bootstrap::Interval;
use solve::Knob;

/// Seed of the model's runs.
const SEED: u64 = 1;

/// Structures that are solved thoroughly, of all that were solved roughly.
const FINALISTS: usize = 3;

/// What a fit found.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The profile; numbers are `fitted`, what could not be found out is `assumed`.
    pub profile: Profile,
    /// The shape that the choice of the translation layer rests on.
    pub shape: Shape,
    /// How many structures were tried.
    pub structures: usize,
    /// Every test that the fit used, with what the profile gives.
    pub used: Vec<Prediction>,
    /// 90 % intervals of the fitted numbers; empty without resampling.
    pub intervals: Vec<Interval>,
    /// What the profile does not hold, and why.
    pub notes: Vec<String>,
}

/// A test with what was measured and what a profile gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The test's name.
    pub test: String,
    /// What was measured, in 10⁶ bytes a second.
    pub measured_mb_s: f64,
    /// What the model gives.
    pub predicted_mb_s: f64,
}

impl Prediction {
    /// Predicted over measured, less one.
    pub fn error(&self) -> f64 {
        self.predicted_mb_s / self.measured_mb_s - 1.0
    }
}

/// A test as the fit sees it: so many requests took so long each.
#[derive(Clone, Debug)]
struct Observation {
    test: Test,
    requests: u64,
    micros: f64,
    /// The same, run by run, with the standard error of a run's own mean.
    runs: Vec<(f64, f64)>,
}

impl Observation {
    fn new(result: &TestResult) -> Observation {
        let kept: Vec<&Run> = result.runs.iter().filter(|run| !run.outlier).collect();
        let runs: Vec<(f64, f64)> = kept
            .iter()
            .map(|run| {
                let error = run.response_sigma_ns as f64 / 1e3 / (run.requests as f64).sqrt();
                (run.micros_each(), error)
            })
            .collect();
        let micros: Vec<f64> = runs.iter().map(|(micros, _)| *micros).collect();
        Observation {
            test: result.test.clone(),
            requests: result.requests_each(),
            micros: stable::median(&micros),
            runs,
        }
    }

    /// What the model gives for it, in microseconds for each request.
    fn modelled(&self, profile: &Profile) -> Result<f64, ProfileError> {
        let mut device = profile.device(None, SEED)?;
        Ok(model::measure_used(device.as_mut(), &self.test, self.requests, SEED).micros_each())
    }

    fn mb_s(&self, micros: f64) -> f64 {
        self.test.request_bytes as f64 * f64::from(self.test.processes) / micros
    }
}

/// Fits a profile called `name`. `resamples` of the measurement give the intervals; 0 leaves them out. `progress` is told
/// what is done.
///
/// # Errors
///
/// [`FitError::NotMeasured`] where the benchmark lacks what the fit needs.
pub fn fit(
    benchmark: &Benchmark,
    name: &str,
    resamples: u32,
    mut progress: impl FnMut(&str),
) -> Result<Fitted, FitError> {
    let observations: Vec<Observation> = benchmark
        .tests
        .iter()
        .filter(|result| is_used(&result.test))
        .map(Observation::new)
        .filter(|observation| !observation.runs.is_empty())
        .collect();
    let shape = Shape::of(&curve(&observations)?);
    let structures = structure::candidates(&shape);
    let mut rough = Vec::new();
    for (at, structure) in structures.iter().enumerate() {
        progress(&format!("structure {} of {}", at + 1, structures.len()));
        let (profile, knobs) = structure.profile(name, ByteCount(benchmark.capacity_bytes), &observations)?;
        let Some(profile) = profile else { continue };
        let solved = solve::by_targets(profile, &knobs, &observations)?;
        rough.push((solve::loss(&solved, &observations)?, solved, knobs));
    }
    rough.sort_by(|left, right| left.0.total_cmp(&right.0));
    rough.truncate(FINALISTS);
    let mut best: Option<(f64, Profile, Vec<Knob>)> = None;
    for (at, (_, profile, knobs)) in rough.into_iter().enumerate() {
        progress(&format!("finalist {} of {FINALISTS}", at + 1));
        let (loss, profile) = solve::by_descent(profile, &knobs, &observations, solve::THOROUGH)?;
        if best.as_ref().is_none_or(|(least, ..)| loss < *least) {
            best = Some((loss, profile, knobs));
        }
    }
    let (_, mut profile, knobs) =
        best.ok_or(FitError::NoStructure { capacity_bytes: benchmark.capacity_bytes })?;
    let intervals = bootstrap::intervals(&profile, &knobs, &observations, resamples, &mut progress)?;
    note_intervals(&mut profile, &intervals, &benchmark.tool)?;
    let used =
        observations.iter().map(|observation| prediction(observation, &profile)).collect::<Result<_, _>>()?;
    Ok(Fitted { used, notes: notes(benchmark), profile, shape, structures: structures.len(), intervals })
}

/// Holds `profile` against the tests of `benchmark` that no fit used; where it has none of these, against all.
///
/// # Errors
///
/// Where the profile gives no device of that capacity.
pub fn predict(profile: &Profile, benchmark: &Benchmark) -> Result<Vec<Prediction>, FitError> {
    let held_back = benchmark.tests.iter().any(|result| result.test.set == Set::HeldBack);
    benchmark
        .tests
        .iter()
        .filter(|result| result.test.set == Set::HeldBack || !held_back)
        .map(|result| prediction(&Observation::new(result), profile))
        .collect()
}

fn prediction(observation: &Observation, profile: &Profile) -> Result<Prediction, FitError> {
    Ok(Prediction {
        test: observation.test.name.clone(),
        measured_mb_s: observation.mb_s(observation.micros),
        predicted_mb_s: observation.mb_s(observation.modelled(profile)?),
    })
}

/// One process alone, and no test whose state the model's fresh device does not have.
fn is_used(test: &Test) -> bool {
    let simple = test.processes == 1 && test.beside.is_none();
    simple && !matches!(test.set, Set::HeldBack | Set::Sustained | Set::NearFull)
}

/// Range in bytes and microseconds for each 4 KiB random write, by range.
fn curve(observations: &[Observation]) -> Result<Vec<(u64, f64)>, FitError> {
    let mut curve: Vec<(u64, f64)> = observations
        .iter()
        .filter(|one| one.test.access == Access::RandWrite && one.test.request_bytes == 4096)
        .map(|one| (one.test.range_bytes, one.micros))
        .collect();
    curve.sort_by_key(|(range, _)| *range);
    curve.dedup_by_key(|(range, _)| *range);
    if curve.len() < shape::POINTS_MIN {
        return Err(FitError::NotMeasured {
            what: "random writes over at least four ranges".to_owned(),
            set: "address-range",
        });
    }
    Ok(curve)
}

fn note_intervals(profile: &mut Profile, intervals: &[Interval], tool: &str) -> Result<(), ProfileError> {
    for interval in intervals {
        if let Some(number) = profile.number(interval.key) {
            let to = format!("{}, 90 % of resamples between {} and {}", tool, interval.low, interval.high);
            profile.set(interval.key, number, Source::Fitted, &to)?;
        }
    }
    Ok(())
}

fn notes(benchmark: &Benchmark) -> Vec<String> {
    let mut notes = vec![
        "The times of a command, of the interface and of flash are told apart only as far as sizes tell them apart: \
         single numbers are less certain than the throughput that they give together."
            .to_owned(),
    ];
    if benchmark.of(Set::Concurrency).next().is_some() {
        notes.push("The model takes one request at a time; the concurrency tests were not used.".to_owned());
    }
    if benchmark.place.as_ref().is_some_and(|place| !place.raw_device) {
        notes.push("Measured through a file system: its work is in every number.".to_owned());
    }
    notes
}
