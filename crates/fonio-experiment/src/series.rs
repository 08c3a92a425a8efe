//! Runs a workload in several setups in interleaved rounds, and compares the setups with and without fixes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fonio_analysis::Analysis;
use fonio_host::Loss;
use fonio_system::{private, say};
use fonio_workload::{FilesOutcome, Mark, Outcome, PhaseOutcome, ResponseOutcome, StepOutcome, ThreadTimes};
use serde::{Deserialize, Serialize};

use crate::analysed::Analysed;
use crate::background::{BackgroundFigures, OwnFigures};
use crate::error::ExperimentError;
use crate::fix::{Candidate, Measured};
use crate::held::Held;
use crate::proof::transactions::Joinable;
use crate::rounds::{Arm, Design, Measurement, Rounds, RunTimes, Timed, run_times};
use crate::run::{Run, RunOptions, run_once};
use crate::setup::{Conditions, Setup};
use crate::work::Work;

/// A setup of a series, unchanged or with a fix.
#[derive(Clone, Debug)]
pub struct Variation {
    /// The data that a power cut can lose with the fix; `None` for a setup without a fix.
    pub loses: Option<Loss>,
    /// The setup, with the fix applied.
    pub setup: Setup,
    /// A sentence or commands that tell how to keep the fix; `None` if the series does not tell this.
    pub keep: Option<String>,
}

/// Returns the arms of a comparison: each of `setups`, unchanged and with each of `candidates`. A candidate
/// changes the setup, and with it the measured program. A setup with a fix is compared
/// with the same setup without the fix. Any other setup is compared with the first setup on the same storage
/// or, if there is none, with the first setup. `possible` checks whether this machine supports a setup, as
/// [`Setup::check_kernel`] does. `refused` is called for a fix that does not apply to a setup, is not
/// supported, or results in one of `setups`. If `refused` returns an error, planning ends; `Ok` leaves out
/// the fix. Returns the error of `possible` for one of `setups`, or the error of `refused`.
pub fn variations(
    setups: &[(String, Setup)],
    candidates: &[Candidate],
    measured: Measured<'_>,
    possible: &dyn Fn(&Setup) -> Result<(), ExperimentError>,
    refused: &mut dyn FnMut(ExperimentError) -> Result<(), ExperimentError>,
) -> Result<Vec<Arm<Variation>>, ExperimentError> {
    setups.iter().try_for_each(|(_, plain)| possible(plain))?;
    let mut arms: Vec<Arm<Variation>> = Vec::new();
    for (name, plain) in setups {
        let base = arms.len();
        let plain_there =
            |arm: &Arm<Variation>| arm.setup.loses.is_none() && arm.setup.setup.storage == plain.storage;
        let first_there = arms.iter().position(plain_there);
        arms.push(Arm {
            name: name.clone(),
            compared_with: first_there.or((base > 0).then_some(0)),
            setup: Variation { loses: None, setup: plain.clone(), keep: None },
        });
        for candidate in candidates {
            let mut setup = plain.clone();
            let applied = candidate.apply(&mut setup, measured).and_then(|()| {
                if setups.iter().any(|(_, plain)| *plain == setup) {
                    let reason = "the plan already has this setup".to_owned();
                    return Err(ExperimentError::NotApplicable { fix: candidate.name(), reason });
                }
                possible(&setup)
            });
            match applied {
                Ok(()) => arms.push(Arm {
                    name: format!("{name}, {}", candidate.name()),
                    compared_with: Some(base),
                    setup: Variation { loses: Some(candidate.loses()), setup, keep: None },
                }),
                Err(error) => refused(error)?,
            }
        }
    }
    Ok(arms)
}

/// The results of a series of runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The name of the workload.
    pub workload: String,
    /// The share of the workload's full amount that each run executed.
    pub scale: f64,
    /// The seed of content and device model in the first round; the seed increases by one with each round.
    pub seed: u64,
    /// The conditions that all setups have in common.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The packages of an app with the versions that ran, such as `redis-server 5:8.0.2-3`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// The results of each setup.
    pub variations: Vec<VariationResult>,
    /// The databases of the command that each run got as fresh copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<PathBuf>,
    /// The transactions of the command that could be one transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joinable: Option<Joinable>,
    /// What the runs do not show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The results of one setup of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariationResult {
    /// The name of the setup.
    pub name: String,
    /// The directory, device or profile of the setup without its fix.
    pub place: String,
    /// The name of the setup with which this setup is compared: the same setup without the fix, the first
    /// setup on the same storage, or the first setup.
    pub compared_with: Option<String>,
    /// A sentence that names the data that a power cut can lose with the fix; `None` without a fix.
    pub power_cut: Option<String>,
    /// Whether a power cut loses at most the most recent writes and leaves older data intact.
    pub safe: bool,
    /// How to keep the fix, if the series tells this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<String>,
    /// The run times of the setup.
    #[serde(flatten)]
    pub times: RunTimes,
    /// The figures of each run of the setup.
    pub runs: Vec<RunFigures>,
}

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFigures {
    /// Run time of the workload in seconds.
    pub wall_s: f64,
    /// Intended pauses of the workload in seconds, summed over its threads.
    pub think_s: f64,
    /// Number of requests to the devices under test during the run.
    pub requests: u64,
    /// Bytes that all requests read.
    pub read_bytes: u64,
    /// Bytes that all requests wrote.
    pub write_bytes: u64,
    /// Bytes written by requests that continue an earlier write.
    pub sequential_write_bytes: u64,
    /// Number of flushes of the devices under test.
    pub flushes: u64,
    /// Share of synchronous writes in the summed latency of all requests.
    pub sync_write_share: Option<f64>,
    /// Share of the run time with at least one request in flight.
    pub busy_share: Option<f64>,
    /// Processor time used to serve the emulated devices during the run, in seconds.
    pub server_cpu_s: f64,
    /// The processor that the run got; `None` if it did not have the processor of another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<Held>,
    /// The verdict of the report on the run.
    pub verdict: String,
    /// Duration of each phase of the workload in seconds.
    pub phases_s: BTreeMap<String, f64>,
    /// Duration in seconds of each marked span, summed over the workload's rounds.
    pub spans_s: BTreeMap<String, f64>,
    /// Where the time of each phase's threads went, in the order of the phases; empty for an app, and if the kernel
    /// does not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phase_times: Vec<TimesFigures>,
    /// Where the time of each marked span went, summed over the workload's rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub span_times: Vec<TimesFigures>,
    /// The steps of an app, in their order; empty for a workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepFigures>,
    /// The workload's files at the end of the run, by group.
    pub files: BTreeMap<String, FilesOutcome>,
    /// Size of each of the workload's databases at the end of the run, in bytes.
    pub database_bytes: BTreeMap<String, u64>,
    /// Number of bytes that files could use on the run's new, empty file system; `None` in a directory.
    pub usable_bytes: Option<u64>,
    /// Number of bytes received in HTTP bodies.
    pub fetched_bytes: u64,
    /// The measured workload's own I/O if a concurrent workload ran. All other figures include the I/O of
    /// both workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<OwnFigures>,
    /// The figures of the concurrent workload.
    #[serde(default, rename = "beside", skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundFigures>,
    /// Whether the measurement of the run is valid.
    pub valid: bool,
    /// The directory of the run's recording.
    pub recording: PathBuf,
}

/// Where the time of threads went, in seconds. The parts add up to `thread_s`, up to the error of the kernel's
/// clocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimesFigures {
    /// The name of the phase or of the mark.
    pub name: String,
    /// Number of threads of the phase, or of spans.
    pub count: u64,
    /// The time of all threads or spans together.
    pub thread_s: f64,
    /// Processor time in user mode.
    pub user_s: f64,
    /// Processor time in the kernel.
    pub system_s: f64,
    /// The threads could run, and waited for a processor.
    pub queued_s: f64,
    /// The threads slept in HTTP requests.
    pub network_s: f64,
    /// The threads slept in pauses that the workload defines.
    pub paused_s: f64,
    /// The threads slept otherwise: for storage, or for a lock that another thread held.
    pub blocked_s: f64,
}

impl TimesFigures {
    /// Returns the sum of parts; `None` if there are none.
    pub(crate) fn sum(name: &str, parts: &[TimesFigures]) -> Option<TimesFigures> {
        let sum = parts.iter().cloned().reduce(|sum, part| TimesFigures {
            count: sum.count + part.count,
            thread_s: sum.thread_s + part.thread_s,
            user_s: sum.user_s + part.user_s,
            system_s: sum.system_s + part.system_s,
            queued_s: sum.queued_s + part.queued_s,
            network_s: sum.network_s + part.network_s,
            paused_s: sum.paused_s + part.paused_s,
            blocked_s: sum.blocked_s + part.blocked_s,
            ..sum
        })?;
        Some(TimesFigures { name: name.to_owned(), ..sum })
    }

    fn of(name: &str, times: &ThreadTimes) -> TimesFigures {
        let seconds = |ns: u64| ns as f64 / 1e9;
        TimesFigures {
            name: name.to_owned(),
            count: times.count,
            thread_s: seconds(times.wall_ns),
            user_s: seconds(times.user_ns),
            system_s: seconds(times.system_ns),
            queued_s: seconds(times.queued_ns),
            network_s: seconds(times.network_ns),
            paused_s: seconds(times.paused_ns),
            blocked_s: seconds(times.blocked_ns),
        }
    }
}

/// The figures of one step of an app.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepFigures {
    /// The name of the step.
    pub name: String,
    /// The time that the step took, in seconds.
    pub took_s: f64,
    /// The units of work that the step did; `None` if the step has no units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u64>,
    /// What a unit of work is, in the singular.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The times of answers that the step's command measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub responses: Vec<ResponseFigures>,
}

/// The times of answers of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResponseFigures {
    /// The kind of answer, such as `toggle`.
    pub kind: String,
    /// Number of answers.
    pub count: u64,
    /// The median in seconds.
    pub median_s: f64,
    /// The time in seconds that 99 % of the answers do not exceed.
    pub p99_s: f64,
    /// The longest time in seconds.
    pub longest_s: f64,
}

impl ResponseFigures {
    fn of(outcome: &ResponseOutcome) -> ResponseFigures {
        ResponseFigures {
            kind: outcome.kind.clone(),
            count: outcome.count,
            median_s: outcome.median_ns as f64 / 1e9,
            p99_s: outcome.p99_ns as f64 / 1e9,
            longest_s: outcome.longest_ns as f64 / 1e9,
        }
    }
}

impl StepFigures {
    fn of(outcome: &Outcome) -> Vec<StepFigures> {
        // Each step of an app is a phase of its own.
        let step = |(phase, step): (&PhaseOutcome, &StepOutcome)| StepFigures {
            name: phase.name.clone(),
            took_s: phase.wall_ns as f64 / 1e9,
            units: (step.count > 0).then_some(step.count),
            unit: (step.count > 0).then(|| step.kind.clone()),
            responses: step.responses.iter().map(ResponseFigures::of).collect(),
        };
        outcome.phases.iter().zip(&outcome.steps).map(step).collect()
    }
}

impl Timed for RunFigures {
    fn wall_s(&self) -> f64 {
        self.wall_s
    }
}

impl RunFigures {
    fn of(run: &Run, work: Work<'_>) -> RunFigures {
        let of_recording = RunFigures::of_recording(
            &run.analysed.analysis,
            run.outcome.wall_ns as f64 / 1e9,
            &run.recording,
        );
        RunFigures {
            think_s: run.outcome.amounts.think_ns as f64 / 1e9,
            server_cpu_s: run.server_cpu.as_secs_f64(),
            processor: run.held,
            phases_s: seconds(run.marks.iter().filter(|mark| mark.thread.is_none())),
            spans_s: seconds(run.marks.iter().filter(|mark| mark.thread.is_some())),
            phase_times: run
                .outcome
                .phases
                .iter()
                .filter_map(|phase| Some(TimesFigures::of(&phase.name, phase.times.as_ref()?)))
                .collect(),
            span_times: run.outcome.spans.iter().map(|(name, times)| TimesFigures::of(name, times)).collect(),
            steps: if matches!(work, Work::App(_)) { StepFigures::of(&run.outcome) } else { Vec::new() },
            files: run.outcome.files.clone(),
            database_bytes: run
                .outcome
                .databases
                .iter()
                .map(|(name, database)| (name.clone(), database.bytes))
                .collect(),
            usable_bytes: run.usable.map(|bytes| bytes.0),
            fetched_bytes: run.outcome.amounts.bytes_fetched,
            own: run.background.as_ref().map(|(own, _)| *own),
            background: run.background.as_ref().map(|(_, background)| background.clone()),
            ..of_recording
        }
    }

    /// Returns the figures that every recording has, for a run of `wall_s` seconds.
    pub(crate) fn of_recording(analysis: &Analysis, wall_s: f64, recording: &Path) -> RunFigures {
        RunFigures {
            wall_s,
            requests: analysis.totals.requests,
            read_bytes: analysis.totals.read_bytes.0,
            write_bytes: analysis.totals.write_bytes.0,
            sequential_write_bytes: analysis.sequentiality.write.sequential_bytes.0,
            flushes: analysis.flushes.flushes,
            sync_write_share: analysis.latency.shares.as_ref().map(|shares| shares.write_sync),
            busy_share: analysis.io_share.all.as_ref().map(|share| share.busy_union_share),
            verdict: analysis.verdict.clone(),
            valid: analysis.validity.ok,
            recording: recording.to_owned(),
            ..RunFigures::default()
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

/// Runs every setup in rounds, records and analyses each run once, and compares the setups. Also returns the
/// analysis of the first run. Calls `begins` before each run, and writes recordings to folders in `out`.
/// Panics in the same cases as [`Design::run`].
pub fn run_series(
    arms: &[Arm<Variation>],
    rounds: Rounds,
    options: &RunOptions<'_>,
    out: &Path,
    begins: &mut dyn FnMut(&Measurement<'_, Variation>),
) -> Result<(Series, Analysed), ExperimentError> {
    private::create_folders(out).map_err(ExperimentError::system("make", out))?;
    let design = Design { arms, rounds, seed: options.seed, stop: options.stop };
    if matches!(options.work, Work::App(work) if work.has_warm_up()) {
        // The first run reads the programs' own files from this machine's disk, the later ones from the page cache.
        say!("Running {} once without measuring it …", options.work.name());
        let unmeasured = out.join("unmeasured");
        let run = run_once(&arms[0].setup.setup, options, &unmeasured);
        let removed = std::fs::remove_dir_all(&unmeasured);
        run?;
        removed.map_err(ExperimentError::system("remove", &unmeasured))?;
    }
    let mut first = None;
    let runs = design.run(begins, &mut |measurement| {
        let of_round = RunOptions { seed: measurement.seed, ..options.clone() };
        let run = run_once(&measurement.setup.setup, &of_round, &measurement.recording(out))?;
        let figures = RunFigures::of(&run, options.work);
        first.get_or_insert(run.analysed);
        Ok(figures)
    })?;
    let series = Series {
        workload: options.work.name(),
        scale: options.scale,
        seed: options.seed,
        conditions: Conditions::of(&arms[0].setup.setup),
        packages: options.work.packages(),
        variations: results(arms, runs),
        databases: Vec::new(),
        joinable: None,
        notes: Vec::new(),
    };
    Ok((series, first.expect("a design has at least one measurement")))
}

pub(crate) fn results(arms: &[Arm<Variation>], runs: Vec<Vec<RunFigures>>) -> Vec<VariationResult> {
    let times = run_times(arms, &runs);
    let result = |((arm, runs), times): ((&Arm<Variation>, Vec<RunFigures>), RunTimes)| VariationResult {
        name: arm.name.clone(),
        place: place(arms, arm),
        compared_with: arm.compared_with.map(|at| arms[at].name.clone()),
        power_cut: arm.setup.loses.map(|loss| loss.sentence().to_owned()),
        safe: arm.setup.loses.is_none_or(Loss::is_safe),
        keep: arm.setup.keep.clone(),
        times,
        runs,
    };
    arms.iter().zip(runs).zip(times).map(result).collect()
}

/// Returns the storage of a setup without its fix, because the fix may have replaced the device.
fn place(arms: &[Arm<Variation>], arm: &Arm<Variation>) -> String {
    let base = arm.compared_with.filter(|_| arm.setup.loses.is_some());
    base.map_or(arm, |at| &arms[at]).setup.setup.storage.to_string()
}

/// Returns the `arms` to repeat after a first run of each arm: every setup without a fix, and the `count`
/// fastest fixes of each setup. Panics if `once` is the result of other arms.
pub fn fastest(arms: &[Arm<Variation>], once: &Series, count: usize) -> Vec<Arm<Variation>> {
    assert_eq!(arms.len(), once.variations.len(), "each was run");
    let mut kept: Vec<usize> = Vec::new();
    for (base, _) in arms.iter().enumerate().filter(|(_, arm)| arm.setup.loses.is_none()) {
        let of_base = |at: &usize| arms[*at].setup.loses.is_some() && arms[*at].compared_with == Some(base);
        let mut fixes: Vec<usize> = (0..arms.len()).filter(of_base).collect();
        let wall_s = |at: usize| once.variations[at].times.wall_s;
        fixes.sort_by(|a, b| wall_s(*a).total_cmp(&wall_s(*b)));
        kept.push(base);
        kept.extend(fixes.into_iter().take(count));
    }
    let moved = |from: usize| kept.iter().position(|at| *at == from);
    kept.iter()
        .map(|at| {
            let arm = arms[*at].clone();
            Arm { compared_with: arm.compared_with.and_then(moved), ..arm }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use fonio_host::{Filesystem, HostError};
    use fonio_workload::definition::Workload;

    use super::*;
    use crate::setup::Storage;

    fn result(wall_s: f64) -> VariationResult {
        VariationResult {
            name: String::new(),
            place: String::new(),
            compared_with: None,
            power_cut: None,
            safe: true,
            keep: None,
            times: RunTimes { wall_s, wall_s_min: wall_s, wall_s_max: wall_s, speedup: None, change: None },
            runs: Vec::new(),
        }
    }

    #[test]
    fn the_fastest_fixes_of_each_setup_stay() {
        let setup = Setup::on(Storage::Directory(PathBuf::from("/")));
        let arm = |name: &str, compared_with, loses| Arm {
            name: name.to_owned(),
            compared_with,
            setup: Variation { loses, setup: setup.clone(), keep: None },
        };
        let fix = Some(Loss::Nothing);
        let arms = [
            arm("a", None, None),
            arm("a, slow", Some(0), fix),
            arm("a, fast", Some(0), fix),
            arm("b", Some(0), None),
            arm("b, slow", Some(3), fix),
            arm("b, fast", Some(3), fix),
        ];
        let once = Series {
            workload: String::new(),
            scale: 1.0,
            seed: 1,
            conditions: Conditions::of(&setup),
            variations: [5.0, 4.0, 1.0, 9.0, 8.0, 7.0].map(result).into(),
            packages: Vec::new(),
            databases: Vec::new(),
            joinable: None,
            notes: Vec::new(),
        };
        let kept = fastest(&arms, &once, 1);
        let kept: Vec<_> = kept.iter().map(|arm| (arm.name.as_str(), arm.compared_with)).collect();
        assert_eq!(kept, [("a", None), ("a, fast", Some(0)), ("b", Some(0)), ("b, fast", Some(2))]);
    }

    /// Plans fixes on setups as on a kernel without NILFS2. Returns the names of each arm and its compared
    /// arm, and the fixes that were left out.
    fn planned(
        setups: &[(&str, Setup)],
        fixes: &[&str],
    ) -> Result<(Vec<String>, Vec<String>), ExperimentError> {
        let workload = Workload::load("webbench").expect("it is shipped");
        let setups: Vec<_> = setups.iter().map(|(name, setup)| ((*name).to_owned(), setup.clone())).collect();
        let candidates: Vec<_> = fixes.iter().map(|name| Candidate::parse(name).expect("listed")).collect();
        let has = |setup: &Setup| match setup.filesystem {
            Filesystem::Nilfs2 => {
                let (release, what) = ("6.18.0".to_owned(), "nilfs2".to_owned());
                Err(HostError::NotInKernel { release, what }.into())
            }
            _ => Ok(()),
        };
        let mut left_out = Vec::new();
        let arms = variations(&setups, &candidates, Measured::Workload(&workload), &has, &mut |error| {
            left_out.push(error.to_string());
            Ok(())
        })?;
        let strict = variations(&setups, &candidates, Measured::Workload(&workload), &has, &mut Err);
        assert_eq!(strict.is_err(), !left_out.is_empty());
        let with = |arm: &Arm<Variation>| arm.compared_with.map_or("", |with| arms[with].name.as_str());
        Ok((arms.iter().map(|arm| format!("{} / {}", arm.name, with(arm))).collect(), left_out))
    }

    #[test]
    fn setups_are_varied_compared_and_left_out_if_they_mean_nothing() {
        use Filesystem::{Ext4, F2fs, Nilfs2};
        let on = |profile: &str, filesystem| Setup {
            filesystem,
            ..Setup::on(Storage::Profile(profile.to_owned()))
        };
        let folder = Setup::on(Storage::Directory(PathBuf::from("/")));
        let twice = "the fix f2fs cannot be tried here: the plan already has this setup";
        let no_reformat =
            "the fix f2fs cannot be tried here: fonio does not format the device of a directory";
        for (setups, fixes, expected, left_out) in [
            (
                &[("card", on("ridata", Ext4)), (".", folder)][..],
                &["wal-full", "f2fs"][..],
                &["card / ", "card, wal-full / card", "card, f2fs / card", ". / card", "., wal-full / ."][..],
                &[no_reformat][..],
            ),
            // This setup is compared with the first setup on its storage.
            (
                &[
                    ("a", on("a", Ext4)),
                    ("a, f2fs", on("a", F2fs)),
                    ("b", on("b", Ext4)),
                    ("b, f2fs", on("b", F2fs)),
                ],
                &[],
                &["a / ", "a, f2fs / a", "b / a", "b, f2fs / b"],
                &[],
            ),
            (
                &[("ext4", on("ridata", Ext4))],
                &["f2fs", "nilfs2"],
                &["ext4 / ", "ext4, f2fs / ext4"],
                &["this kernel (6.18.0) has no nilfs2"],
            ),
            (
                &[("ext4", on("ridata", Ext4)), ("f2fs", on("ridata", F2fs))],
                &["f2fs"],
                &["ext4 / ", "f2fs / ext4"],
                &[twice, twice],
            ),
        ] {
            let (arms, refused) = planned(setups, fixes).expect("fixes that cannot be tried are left out");
            assert_eq!(arms, expected);
            assert_eq!(refused, left_out);
        }
        let refused = planned(&[("ext4", on("ridata", Ext4)), ("nilfs2", on("ridata", Nilfs2))], &[]);
        let refused = refused.expect_err("a setup that cannot run is an error");
        assert_eq!(refused.to_string(), "this kernel (6.18.0) has no nilfs2");
    }

    #[test]
    fn a_series_comes_back_from_its_json() {
        let series = Series {
            workload: "web".to_owned(),
            scale: 0.5,
            seed: 7,
            conditions: Conditions {
                cpu_share: None,
                processor: None,
                memory_bytes: None,
                dilate: 2.5,
                full: Some(0.9),
            },
            variations: vec![result(2.0)],
            packages: Vec::new(),
            databases: Vec::new(),
            joinable: None,
            notes: vec!["The replay has no flushes.".to_owned()],
        };
        let text = serde_json::to_string(&series).expect("it can be written");
        assert!(text.contains(r#""wall_s":2.0"#), "the run times are missing: {text}");
        assert!(text.contains(r#""full":0.9"#), "the conditions are missing: {text}");
        assert_eq!(serde_json::from_str::<Series>(&text).expect("it can be read"), series);
    }
}
