//! Fits a simulator profile to the benchmark of a device; the fit treats the device as a black box.
//!
//! 1. The [`shape`] of random writes over growing ranges determines the possible translation layers.
//! 2. `structure` lists the possible devices for these layers: their sizes of page and erase block, and their
//!    numbers of log blocks.
//! 3. `solve` finds the times and rates of each model that reproduce the measured numbers. The structure
//!    whose model comes closest to all measurements is chosen.
//! 4. [`bootstrap`] computes confidence intervals of the fitted numbers.
//!
//! The fit does not use the tests of [`Set::HeldBack`]; [`predict`] compares the predictions of a profile
//! with these tests.

pub mod bootstrap;
mod error;
pub mod shape;
mod solve;
mod structure;

use fonio_core::statistics::sample::median;
use fonio_core::{Access, ByteCount};
use fonio_sim::profile::{Profile, ProfileError, Source};
use serde::Serialize;

use crate::model;
use crate::plan::{Set, Test};
use crate::result::{Benchmark, Run, TestResult};
use bootstrap::Interval;
pub use error::FitError;
pub use shape::Shape;
use solve::Knob;

const SEED: u64 = 1;

/// All structures are solved roughly; then this number of the best structures is solved precisely.
const FINALISTS: usize = 3;

/// The result of a fit.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The fitted profile. The origin of its numbers is `fitted`, or `assumed` for numbers that the benchmark
    /// cannot determine.
    pub profile: Profile,
    /// The shape of the random-write curve; this shape determined the possible translation layers.
    pub shape: Shape,
    /// Number of device structures that the fit tried.
    pub structures: usize,
    /// The tests used for the fit, with the profile's predictions.
    pub used: Vec<Prediction>,
    /// 90 % confidence intervals of the fitted numbers; empty if there was no resampling.
    pub intervals: Vec<Interval>,
    /// Properties of the device that the profile does not model, with reasons.
    pub notes: Vec<String>,
}

/// A test with its measured value and the prediction of a profile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The name of the test.
    pub test: String,
    /// The measured throughput in 10⁶ bytes per second.
    pub measured_mb_s: f64,
    /// The throughput that the profile's model predicts, in 10⁶ bytes per second.
    pub predicted_mb_s: f64,
}

impl Prediction {
    /// Returns the relative error: predicted divided by measured throughput, minus one.
    pub fn error(&self) -> f64 {
        self.predicted_mb_s / self.measured_mb_s - 1.0
    }
}

/// A measured value for the fit: the time per request of a test.
#[derive(Clone, Debug)]
struct Observation {
    test: Test,
    requests: u64,
    micros: f64,
    /// The time per request of each run, with its standard error.
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
            micros: median(&micros).expect("a test was run"),
            runs,
        }
    }

    fn modelled(&self, profile: &Profile) -> Result<f64, ProfileError> {
        let mut device = profile.device(None, SEED)?;
        Ok(model::measure_used(device.as_mut(), &self.test, self.requests, SEED).micros_each())
    }

    fn mb_s(&self, micros: f64) -> f64 {
        self.test.request_bytes as f64 * f64::from(self.test.processes) / micros
    }
}

/// Fits a profile named `name`. `resamples` is the number of resamples for the intervals; 0 omits them.
/// `progress` is called with a description of each step. Fails with [`FitError::NotMeasured`] if the
/// benchmark lacks a required measurement.
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

/// Compares `profile` with the held-back tests of `benchmark`, or with all its tests if no tests were held
/// back.
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

/// Returns whether the fit uses a test: it has only one process, and starts from a state that a new model can
/// have.
fn is_used(test: &Test) -> bool {
    let simple = test.processes == 1 && test.beside.is_none();
    simple && !matches!(test.set, Set::HeldBack | Set::Sustained | Set::NearFull)
}

/// Returns ranges in bytes, each with the time per 4 KiB random write in microseconds.
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
        "The fit separates the times of commands, the interface and flash only by how they depend on request size: \
         each time is less certain than the throughput that they predict together."
            .to_owned(),
    ];
    if benchmark.of(Set::Concurrency).next().is_some() {
        notes.push("The model serves one request at a time; concurrency tests were not used.".to_owned());
    }
    if benchmark.place.as_ref().is_some_and(|place| !place.raw_device) {
        notes.push("Measured through a file system: every number includes its work.".to_owned());
    }
    notes
}
