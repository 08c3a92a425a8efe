//! Several setups, each run several times in turn, and how those with a fix differ from those without.
//!
//! Rounds are interleaved (every setup once, then every setup again), so that what changes on the machine meanwhile falls
//! on all of them alike. Each round has a seed of its own, the same for all setups. So runs are compared within rounds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fonio_analysis::Change;
use fonio_analysis::interval::{compare_rounds, rounds_needed};
use fonio_host::CpuShare;
use fonio_workload::{FilesOutcome, Mark};
use serde::Serialize;

use crate::error::ExperimentError;
use crate::fix::Loss;
use crate::run::{Run, RunOptions, check, run_once};
use crate::setup::Setup;

/// A setup with a name.
#[derive(Clone, Debug)]
pub struct Variation {
    /// Its name, which is also that of its recordings' folder.
    pub name: String,
    /// The place of what it is compared with among the variations; `None` for the first.
    pub compared_with: Option<usize>,
    /// What a power cut can lose with it; `None` for a setup without a fix.
    pub loses: Option<Loss>,
    /// The setup.
    pub setup: Setup,
}

/// How many rounds are run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rounds {
    /// This many, at least 1.
    Fixed(u32),
    /// As many as bring the interval of every fix's gain within `factor` of the gain, judging from a pilot of
    /// three rounds, which count as well; fewer where they would not fit into `budget`.
    Pilot {
        /// Above 1: 1.25 is within 25 percent.
        factor: f64,
        /// For all rounds together.
        budget: Duration,
    },
}

/// Rounds of a pilot: the least that have a spread.
pub const PILOT_ROUNDS: u32 = fonio_analysis::interval::RUNS_MIN as u32;

/// The results of a series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The workload's name.
    pub workload: String,
    /// The share of its full amount that was run.
    pub scale: f64,
    /// The seed of content and device model in the first round; each further round's is one higher.
    pub seed: u64,
    /// The share of one processor that the workload's process could use; `None` where it was not confined.
    pub cpu_share: Option<CpuShare>,
    /// Each setup.
    pub variations: Vec<VariationResult>,
}

/// What came of one setup.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VariationResult {
    /// Its name.
    pub name: String,
    /// The name of what it is compared with: the same without a fix, or the first setup.
    pub compared_with: Option<String>,
    /// What a power cut can lose with it, a sentence; `None` without a fix.
    pub power_cut: Option<String>,
    /// Whether what was promised to be durable stays so, or is lost as a recent piece only.
    pub safe: bool,
    /// Each run.
    pub runs: Vec<RunFigures>,
    /// Mean run time in seconds.
    pub wall_s: f64,
    /// The shortest run in seconds.
    pub wall_s_min: f64,
    /// The longest run in seconds.
    pub wall_s_max: f64,
    /// How many times as fast as what it is compared with: the geometric mean of the rounds' ratios. Above 1 is faster;
    /// `None` for what all others are compared with.
    pub speedup: Option<f64>,
    /// Its run time over that of what it is compared with, with the interval by rounds.
    pub change: Option<Change>,
}

/// The figures of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunFigures {
    /// Run time in seconds.
    pub wall_s: f64,
    /// Seconds of it that the workload paused on purpose, summed over its threads.
    pub think_s: f64,
    /// Requests to the devices under test.
    pub requests: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Bytes that they wrote.
    pub write_bytes: u64,
    /// Bytes written that continue an earlier write.
    pub sequential_write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Share of the summed latency that sync writes make up.
    pub sync_write_share: Option<f64>,
    /// Time with a request in flight, over the run time.
    pub busy_share: Option<f64>,
    /// The report's verdict.
    pub verdict: String,
    /// Seconds of each phase.
    pub phases_s: BTreeMap<String, f64>,
    /// Seconds of each marked span, summed over its rounds.
    pub spans_s: BTreeMap<String, f64>,
    /// The workload's files at the end, by group.
    pub files: BTreeMap<String, FilesOutcome>,
    /// Bytes of its databases at the end.
    pub database_bytes: BTreeMap<String, u64>,
    /// Bytes of HTTP bodies received.
    pub fetched_bytes: u64,
    /// Whether the measurement holds.
    pub valid: bool,
    /// Where the recording is.
    pub recording: PathBuf,
}

impl RunFigures {
    fn of(run: &Run) -> RunFigures {
        let analysis = &run.analysis;
        RunFigures {
            wall_s: run.outcome.wall_ns as f64 / 1e9,
            think_s: run.outcome.amounts.think_ns as f64 / 1e9,
            requests: analysis.totals.requests,
            read_bytes: analysis.totals.read_bytes,
            write_bytes: analysis.totals.write_bytes,
            sequential_write_bytes: analysis.sequentiality.write.sequential_bytes,
            flushes: analysis.flushes.flushes,
            sync_write_share: analysis.latency.shares.as_ref().map(|shares| shares.write_sync),
            busy_share: analysis.io_share.all.as_ref().map(|share| share.busy_union_share),
            verdict: analysis.verdict.clone(),
            phases_s: seconds(run.marks.iter().filter(|mark| mark.thread.is_none())),
            spans_s: seconds(run.marks.iter().filter(|mark| mark.thread.is_some())),
            files: run.outcome.files.clone(),
            database_bytes: run
                .outcome
                .databases
                .iter()
                .map(|(name, database)| (name.clone(), database.bytes))
                .collect(),
            fetched_bytes: run.outcome.amounts.bytes_fetched,
            valid: analysis.validity.ok,
            recording: run.recording.clone(),
        }
    }
}

fn seconds<'a>(marks: impl Iterator<Item = &'a Mark>) -> BTreeMap<String, f64> {
    let mut seconds = BTreeMap::new();
    for mark in marks {
        *seconds.entry(mark.name.clone()).or_insert(0.0) += (mark.end_ns - mark.start_ns) as f64 / 1e9;
    }
    seconds
}

/// Runs every setup in rounds and compares. `say` hears which run begins: round, rounds as far as known, setup.
///
/// # Errors
///
/// [`ExperimentError`] of the first run that failed.
///
/// # Panics
///
/// Without a setup or a round, or where one is compared with what is not there.
pub fn run_series(
    variations: &[Variation],
    rounds: Rounds,
    options: &RunOptions<'_>,
    out: &Path,
    say: &mut dyn FnMut(u32, u32, &str),
) -> Result<Series, ExperimentError> {
    let mut count = match rounds {
        Rounds::Fixed(count) => count,
        Rounds::Pilot { .. } => PILOT_ROUNDS,
    };
    assert!(!variations.is_empty() && count > 0, "there is something to run");
    std::fs::create_dir_all(out).map_err(ExperimentError::system("make", out))?;
    let mut runs: Vec<Vec<RunFigures>> = vec![Vec::new(); variations.len()];
    let began = Instant::now();
    let mut round = 0;
    while round < count {
        round += 1;
        // Equal within a round, so that only the setup differs; another in the next, so that one lucky seed decides nothing.
        let of_round =
            RunOptions { seed: options.seed.wrapping_add(u64::from(round - 1)), ..options.clone() };
        for (variation, runs) in variations.iter().zip(&mut runs) {
            check(options.stop)?;
            say(round, count, &variation.name);
            let dir = out.join(file_name(&variation.name, round));
            runs.push(RunFigures::of(&run_once(&variation.setup, &of_round, &dir)?));
        }
        if let Rounds::Pilot { factor, budget } = rounds
            && round == PILOT_ROUNDS
        {
            count = rounds_after_pilot(variations, &runs, factor, budget, began.elapsed());
        }
    }
    Ok(Series {
        workload: options.workload.name.clone(),
        scale: options.scale,
        seed: options.seed,
        cpu_share: variations[0].setup.cpu,
        variations: results(variations, runs),
    })
}

fn times(runs: &[RunFigures]) -> Vec<f64> {
    runs.iter().map(|run| run.wall_s).collect()
}

/// The rounds in all: what every fix's interval needs, as far as the budget allows.
fn rounds_after_pilot(
    variations: &[Variation],
    runs: &[Vec<RunFigures>],
    factor: f64,
    budget: Duration,
    pilot: Duration,
) -> u32 {
    let fit = PILOT_ROUNDS as f64 * budget.as_secs_f64() / pilot.as_secs_f64().max(f64::MIN_POSITIVE);
    // A budget of a year would not be meant.
    let most = fit.clamp(f64::from(PILOT_ROUNDS), 1000.0) as usize;
    let needed = variations.iter().zip(runs).filter_map(|(variation, own)| {
        rounds_needed(&times(&runs[variation.compared_with?]), &times(own), factor, most)
    });
    needed.max().map_or(PILOT_ROUNDS, |needed| needed as u32)
}

fn results(variations: &[Variation], runs: Vec<Vec<RunFigures>>) -> Vec<VariationResult> {
    let all: Vec<Vec<f64>> = runs.iter().map(|runs| times(runs)).collect();
    let pairs: Vec<(&[f64], &[f64])> = variations
        .iter()
        .zip(&all)
        .filter_map(|(variation, own)| Some((all[variation.compared_with?].as_slice(), own.as_slice())))
        .collect();
    // In the order of the variations that are compared.
    let mut changes = compare_rounds(&pairs).into_iter();
    let mut results = Vec::new();
    for ((variation, runs), times) in variations.iter().zip(runs).zip(&all) {
        let change = variation.compared_with.and_then(|_| changes.next());
        results.push(VariationResult {
            name: variation.name.clone(),
            compared_with: variation.compared_with.map(|at| variations[at].name.clone()),
            power_cut: variation.loses.map(|loss| loss.sentence().to_owned()),
            safe: variation.loses.is_none_or(Loss::is_safe),
            runs,
            wall_s: times.iter().sum::<f64>() / times.len() as f64,
            wall_s_min: times.iter().copied().fold(f64::INFINITY, f64::min),
            wall_s_max: times.iter().copied().fold(0.0, f64::max),
            speedup: change.as_ref().and_then(|change| Some(1.0 / change.ratio?)),
            change,
        });
    }
    results
}

/// Those of `variations` that are worth repeating after each was run once: every setup without a fix, and of each one's
/// fixes the `count` fastest.
///
/// # Panics
///
/// Where `once` is the series of other variations.
pub fn fastest(variations: &[Variation], once: &Series, count: usize) -> Vec<Variation> {
    assert_eq!(variations.len(), once.variations.len(), "each was run");
    let mut kept: Vec<usize> = Vec::new();
    for (base, _) in variations.iter().enumerate().filter(|(_, variation)| variation.loses.is_none()) {
        let of_base =
            |at: &usize| variations[*at].loses.is_some() && variations[*at].compared_with == Some(base);
        let mut fixes: Vec<usize> = (0..variations.len()).filter(of_base).collect();
        fixes.sort_by(|a, b| once.variations[*a].wall_s.total_cmp(&once.variations[*b].wall_s));
        kept.push(base);
        kept.extend(fixes.into_iter().take(count));
    }
    let moved = |from: usize| kept.iter().position(|at| *at == from);
    kept.iter()
        .map(|at| {
            let variation = variations[*at].clone();
            Variation { compared_with: variation.compared_with.and_then(moved), ..variation }
        })
        .collect()
}

/// A name that every file system takes, and that is not hidden.
pub(crate) fn file_name(variation: &str, round: u32) -> String {
    let variation = if variation == "." { "here" } else { variation };
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    format!("{}-{round}", variation.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Place;

    #[test]
    fn the_fastest_fixes_of_each_setup_stay() {
        let setup = Setup::on(Place::Directory(PathBuf::from("/")));
        let variation = |name: &str, compared_with, loses| Variation {
            name: name.to_owned(),
            compared_with,
            loses,
            setup: setup.clone(),
        };
        let fix = Some(Loss::Nothing);
        let variations = [
            variation("a", None, None),
            variation("a, slow", Some(0), fix),
            variation("a, fast", Some(0), fix),
            variation("b", Some(0), None),
            variation("b, slow", Some(3), fix),
            variation("b, fast", Some(3), fix),
        ];
        let result = |wall_s| VariationResult {
            name: String::new(),
            compared_with: None,
            power_cut: None,
            safe: true,
            runs: Vec::new(),
            wall_s,
            wall_s_min: wall_s,
            wall_s_max: wall_s,
            speedup: None,
            change: None,
        };
        let once = Series {
            workload: String::new(),
            scale: 1.0,
            seed: 1,
            cpu_share: None,
            variations: [5.0, 4.0, 1.0, 9.0, 8.0, 7.0].map(result).into(),
        };
        let kept = fastest(&variations, &once, 1);
        let told: Vec<_> =
            kept.iter().map(|variation| (variation.name.as_str(), variation.compared_with)).collect();
        assert_eq!(told, [("a", None), ("a, fast", Some(0)), ("b", Some(0)), ("b, fast", Some(2))]);
    }

    #[test]
    fn names_of_recordings() {
        assert_eq!(file_name("ridata, wal-normal", 2), "ridata--wal-normal-2");
        assert_eq!(file_name(".", 1), "here-1");
        assert_eq!(file_name("raid0:internal_2010+ridata", 1), "raid0-internal_2010-ridata-1");
    }
}
