//! The results of launches: the figures of each launch, and the means of each setup.

use std::path::PathBuf;

use fonio_analysis::Analysis;
use fonio_analysis::launch::Parts;
use fonio_core::Nanos;
use fonio_core::statistics::sample::Spread;
use fonio_record::{RecordSummary, StopReason};
use fonio_system::command::Failure;
use serde::{Deserialize, Serialize};

use super::{CacheState, Dropped, LaunchOptions};
use crate::held::Held;
use crate::rounds::{Arm, RunTimes, Timed, run_times};
use crate::setup::{Conditions, Setup};

/// The figures of one launch. The parts of the critical path sum to the run time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchFigures {
    /// Run time in seconds, from the command's start until the command ended or became quiet.
    pub wall_s: f64,
    /// Seconds of the critical path in user mode; `None` if the kernel did not report the mode.
    pub user_s: Option<f64>,
    /// Seconds of the critical path in the kernel, on a processor.
    pub system_s: Option<f64>,
    /// Seconds of the critical path on a processor, in user mode or in the kernel.
    pub running_s: f64,
    /// Seconds of the critical path blocked on storage.
    pub storage_s: f64,
    /// Seconds of the critical path blocked on the network.
    pub network_s: f64,
    /// Seconds of the critical path blocked on a timer that the command set itself.
    pub timer_s: f64,
    /// Seconds of the critical path blocked on processes outside the launch or on locks that they held.
    pub others_s: f64,
    /// Seconds of the critical path in which a thread was ready to run, but had no processor.
    pub cpu_wait_s: f64,
    /// Seconds of the critical path blocked on something that the recording does not show.
    pub unknown_s: f64,
    /// Number of threads that the launch started.
    pub threads: u64,
    /// Number of waits for storage on the critical path.
    pub storage_waits: u64,
    /// Number of requests to all devices during the launch.
    pub requests: u64,
    /// Bytes that all requests during the launch read.
    pub read_bytes: u64,
    /// Bytes that all requests during the launch wrote.
    pub write_bytes: u64,
    /// The command's exit code; `None` if fonio ended the command because it became quiet, or if a signal
    /// ended it.
    pub exit: Option<i32>,
    /// The number of the signal that ended the command; `None` if no signal ended it.
    pub signal: Option<i32>,
    /// Whether fonio ended the command because the command became quiet.
    pub became_quiet: bool,
    /// The pages dropped from the cache before the launch; `None` for a warm launch.
    pub dropped: Option<Dropped>,
    /// A sentence that says how the launch spent its time.
    pub verdict: String,
    /// The processor that the launch got; `None` if it did not have the processor of another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<Held>,
    /// Whether the measurement of the launch is valid.
    pub valid: bool,
    /// The directory of the launch's recording.
    pub recording: PathBuf,
}

impl Timed for LaunchFigures {
    fn wall_s(&self) -> f64 {
        self.wall_s
    }
}

impl LaunchFigures {
    /// Returns how the command failed; `None` if it succeeded. A command that fonio ended because it became
    /// quiet did not fail.
    pub fn failure(&self) -> Option<Failure> {
        Failure::of(self.exit, self.signal)
            .filter(|failure| matches!(failure, Failure::Code(_)) || !self.became_quiet)
    }

    /// Returns the figures of the launch in a recording; `None` if the recording does not contain the launch.
    pub(super) fn of(
        analysis: &Analysis,
        summary: &RecordSummary,
        dropped: Option<Dropped>,
    ) -> Option<LaunchFigures> {
        let launch = analysis.launch.as_ref()?;
        let s = Nanos::as_secs_f64;
        let Parts { running_ns, storage_ns, network_ns, timer_ns, lock_ns, thread_ns, cpu_ns, unknown_ns } =
            launch.path;
        Some(LaunchFigures {
            wall_s: s(launch.duration_ns),
            user_s: launch.user_share.map(|share| s(running_ns) * share),
            system_s: launch.user_share.map(|share| s(running_ns) * (1.0 - share)),
            running_s: s(running_ns),
            storage_s: s(storage_ns),
            network_s: s(network_ns),
            timer_s: s(timer_ns),
            others_s: s(thread_ns + lock_ns),
            cpu_wait_s: s(cpu_ns),
            unknown_s: s(unknown_ns),
            threads: launch.threads,
            storage_waits: launch.storage_waits,
            requests: analysis.totals.requests,
            read_bytes: analysis.totals.read_bytes.0,
            write_bytes: analysis.totals.write_bytes.0,
            exit: summary.command_exit,
            signal: summary.command_signal,
            became_quiet: summary.stopped_by == StopReason::Idle,
            dropped,
            verdict: launch.verdict.clone(),
            processor: None,
            valid: summary.lost.is_nothing() && summary.stopped_by != StopReason::BufferFull,
            recording: summary.out.clone(),
        })
    }
}

/// The activity of a thread of a launch, or the cause of its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// The thread ran in user mode.
    User,
    /// The thread ran in the kernel.
    System,
    /// The thread ran in a mode that the kernel did not report.
    Running,
    /// The thread waited for storage.
    Storage,
    /// The thread waited for the network.
    Network,
    /// The thread waited for a timer that the command set itself.
    Timer,
    /// The thread waited for processes outside the launch.
    Others,
    /// The thread was ready to run, but had no processor.
    CpuWait,
    /// The thread waited for something that the recording does not show.
    Unknown,
}

/// A part of the run time, with its statistics over all launches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchPart {
    /// The activity or wait that this part counts.
    #[serde(rename = "name")]
    pub kind: PartKind,
    /// Mean length of the part in seconds.
    pub mean_s: f64,
    /// Minimum length of the part in seconds.
    pub min_s: f64,
    /// Maximum length of the part in seconds.
    pub max_s: f64,
    /// The part's mean divided by the mean run time.
    pub share: f64,
}

/// The results of the launches on one setup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchResult {
    /// The name of the setup.
    pub name: String,
    /// The name of the setup with which this setup is compared; `None` for the first setup.
    pub compared_with: Option<String>,
    /// A sentence that says how launches on this setup spend their time.
    pub verdict: String,
    /// The run times of the launches on this setup.
    #[serde(flatten)]
    pub times: RunTimes,
    /// The parts of the run time. The means of all parts sum to the mean run time.
    pub parts: Vec<LaunchPart>,
    /// The figures of each launch on this setup.
    pub runs: Vec<LaunchFigures>,
}

/// The results of a series of launches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchSeries {
    /// The launched program and its arguments.
    pub command: Vec<String>,
    /// The state of the page cache when each launch began.
    pub cache: CacheState,
    /// The conditions that all setups of the series have in common.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The seed of the device model.
    pub seed: u64,
    /// The results of each setup.
    pub places: Vec<LaunchResult>,
}

/// A kind of part, and a function that returns the seconds of this kind in a launch.
type Kind = (PartKind, fn(&LaunchFigures) -> f64);

const WAITS: [Kind; 6] = [
    (PartKind::Storage, |run| run.storage_s),
    (PartKind::Network, |run| run.network_s),
    (PartKind::Timer, |run| run.timer_s),
    (PartKind::Others, |run| run.others_s),
    (PartKind::CpuWait, |run| run.cpu_wait_s),
    (PartKind::Unknown, |run| run.unknown_s),
];

pub(super) fn series(
    places: &[Arm<Setup>],
    runs: Vec<Vec<LaunchFigures>>,
    options: &LaunchOptions<'_>,
) -> LaunchSeries {
    let times = run_times(places, &runs);
    let result = |((place, runs), times): ((&Arm<Setup>, Vec<LaunchFigures>), RunTimes)| LaunchResult {
        name: place.name.clone(),
        compared_with: place.compared_with.map(|at| places[at].name.clone()),
        verdict: verdict(&runs),
        parts: parts(&runs, times.wall_s),
        times,
        runs,
    };
    LaunchSeries {
        command: options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        cache: options.cache,
        conditions: Conditions::of(&places[0].setup),
        seed: options.seed,
        places: places.iter().zip(runs).zip(times).map(result).collect(),
    }
}

fn parts(runs: &[LaunchFigures], wall_s: f64) -> Vec<LaunchPart> {
    let divided = runs.iter().all(|run| run.user_s.is_some());
    let running: &[Kind] = if divided {
        &[
            (PartKind::User, |run| run.user_s.unwrap_or(0.0)),
            (PartKind::System, |run| run.system_s.unwrap_or(0.0)),
        ]
    } else {
        &[(PartKind::Running, |run| run.running_s)]
    };
    let part = |(kind, seconds): &Kind| {
        let times: Vec<f64> = runs.iter().map(seconds).collect();
        let Spread { mean, min, max, .. } = Spread::of(&times).expect("each place has launches");
        LaunchPart { kind: *kind, mean_s: mean, min_s: min, max_s: max, share: mean / wall_s }
    };
    running.iter().chain(&WAITS).map(part).collect()
}

fn verdict(runs: &[LaunchFigures]) -> String {
    let ns = |of: fn(&LaunchFigures) -> f64| Nanos((runs.iter().map(of).sum::<f64>() * 1e9).round() as u64);
    let parts = Parts {
        running_ns: ns(|run| run.running_s),
        storage_ns: ns(|run| run.storage_s),
        network_ns: ns(|run| run.network_s),
        timer_ns: ns(|run| run.timer_s),
        lock_ns: Nanos(0),
        thread_ns: ns(|run| run.others_s),
        cpu_ns: ns(|run| run.cpu_wait_s),
        unknown_ns: ns(|run| run.unknown_s),
    };
    parts.verdict()
}
