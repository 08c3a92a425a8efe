//! Several setups, each run several times in turn, and how those with a fix differ from those without.
//!
//! Rounds are interleaved (every setup once, then every setup again), so that what changes on the machine meanwhile falls
//! on all of them alike.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fonio_analysis::{Difference, Estimate};
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

/// The results of a series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The workload's name.
    pub workload: String,
    /// The share of its full amount that was run.
    pub scale: f64,
    /// The seed of content and device model.
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
    /// Half of its 95 percent interval; `None` for a single run.
    pub wall_s_half: Option<f64>,
    /// The mean run time of what it is compared with over its own: above 1 is faster.
    pub speedup: f64,
    /// How its run time in seconds differs from that.
    pub difference: Option<Difference>,
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

/// Runs every setup `repeat` times and compares. `say` hears which run begins: round, rounds, setup.
///
/// # Errors
///
/// [`ExperimentError`] of the first run that failed.
///
/// # Panics
///
/// Without a setup, with a repeat of 0, or where one is compared with what is not there.
pub fn run_series(
    variations: &[Variation],
    repeat: u32,
    options: &RunOptions<'_>,
    out: &Path,
    say: &mut dyn FnMut(u32, u32, &str),
) -> Result<Series, ExperimentError> {
    assert!(!variations.is_empty() && repeat > 0, "there is something to run");
    std::fs::create_dir_all(out).map_err(ExperimentError::system("make", out))?;
    let mut runs: Vec<Vec<RunFigures>> = vec![Vec::new(); variations.len()];
    for round in 1..=repeat {
        for (variation, runs) in variations.iter().zip(&mut runs) {
            check(options.stop)?;
            say(round, repeat, &variation.name);
            let dir = out.join(file_name(&variation.name, round));
            runs.push(RunFigures::of(&run_once(&variation.setup, options, &dir)?));
        }
    }
    let times = |runs: &[RunFigures]| {
        let times: Vec<f64> = runs.iter().map(|run| run.wall_s).collect();
        Estimate::of_repeats(&times).expect("each ran once at least")
    };
    let estimates: Vec<Estimate> = runs.iter().map(|runs| times(runs)).collect();
    let results = variations.iter().zip(runs).zip(&estimates).map(|((variation, runs), own)| {
        let base = variation.compared_with.map(|at| estimates[at]);
        VariationResult {
            name: variation.name.clone(),
            compared_with: variation.compared_with.map(|at| variations[at].name.clone()),
            power_cut: variation.loses.map(|loss| loss.sentence().to_owned()),
            safe: variation.loses.is_none_or(Loss::is_safe),
            runs,
            wall_s: own.value,
            wall_s_half: own.half_interval(),
            speedup: base.map_or(1.0, |base| base.value / own.value),
            difference: base.map(|base| Difference::between(Some(base), Some(*own))),
        }
    });
    Ok(Series {
        workload: options.workload.name.clone(),
        scale: options.scale,
        seed: options.seed,
        cpu_share: variations[0].setup.cpu,
        variations: results.collect(),
    })
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
            wall_s_half: None,
            speedup: 1.0,
            difference: None,
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
