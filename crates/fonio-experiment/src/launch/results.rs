//! What came of launches: each, and each place's means with their intervals.

use std::path::PathBuf;

use fonio_analysis::interval::compare_rounds;
use fonio_analysis::launch::Parts;
use fonio_analysis::{Analysis, Change};
use fonio_host::CpuShare;
use fonio_record::{RecordSummary, StopReason};
use serde::Serialize;

use super::{CacheState, Dropped, LaunchOptions, PlaceToLaunch};

/// The figures of one launch. Its parts are of the critical path and sum to the run time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaunchFigures {
    /// From when the command was made to its end, or to when it became quiet, in seconds.
    pub wall_s: f64,
    /// On a processor, in user mode; `None` where the kernel did not say how to divide the time.
    pub user_s: Option<f64>,
    /// On a processor, in the kernel.
    pub system_s: Option<f64>,
    /// On a processor: both together.
    pub running_s: f64,
    /// Blocked on storage.
    pub storage_s: f64,
    /// Blocked on the network.
    pub network_s: f64,
    /// Blocked on times that the command set itself.
    pub timer_s: f64,
    /// Blocked on processes that are none of the launch, and on locks that they held.
    pub others_s: f64,
    /// Ready to run, without a processor.
    pub cpu_wait_s: f64,
    /// Blocked, it was not seen on what.
    pub unknown_s: f64,
    /// Threads of the launch.
    pub threads: u64,
    /// How often its critical path waited for storage.
    pub storage_waits: u64,
    /// Requests to all devices meanwhile.
    pub requests: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Bytes that they wrote.
    pub write_bytes: u64,
    /// The command's exit code; `None` where it was ended, because it had become quiet or by a signal.
    pub exit: Option<i32>,
    /// The number of the signal that ended it.
    pub signal: Option<i32>,
    /// It was ended because it had become quiet.
    pub became_quiet: bool,
    /// What was dropped from the cache before; `None` for a warm launch.
    pub dropped: Option<Dropped>,
    /// In a sentence.
    pub verdict: String,
    /// Whether the measurement holds.
    pub valid: bool,
    /// Where the recording is.
    pub recording: PathBuf,
}

impl LaunchFigures {
    /// `None` where the recording does not hold the launch.
    pub(super) fn of(
        analysis: &Analysis,
        summary: &RecordSummary,
        dropped: Option<Dropped>,
    ) -> Option<LaunchFigures> {
        let launch = analysis.launch.as_ref()?;
        let s = |ns: u64| ns as f64 / 1e9;
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
            read_bytes: analysis.totals.read_bytes,
            write_bytes: analysis.totals.write_bytes,
            exit: summary.command_exit,
            signal: summary.command_signal,
            became_quiet: summary.stopped_by == StopReason::Idle,
            dropped,
            verdict: launch.verdict.clone(),
            valid: summary.lost.is_nothing() && summary.stopped_by != StopReason::BufferFull,
            recording: summary.out.clone(),
        })
    }
}

/// A part of a launch over its repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaunchPart {
    /// `user`, `system`, `storage`, `network`, `timer`, `others`, `cpu_wait`, `unknown`; `running` where user and system
    /// cannot be told apart.
    pub name: &'static str,
    /// Mean in seconds.
    pub mean_s: f64,
    /// The least of the launches, in seconds.
    pub min_s: f64,
    /// The most of the launches, in seconds.
    pub max_s: f64,
    /// The mean over the mean run time.
    pub share: f64,
}

/// What came of the launches in one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaunchResult {
    /// The place's name.
    pub name: String,
    /// The first place, where this is another.
    pub compared_with: Option<String>,
    /// In a sentence.
    pub verdict: String,
    /// Mean run time in seconds.
    pub wall_s: f64,
    /// The shortest launch in seconds.
    pub wall_s_min: f64,
    /// The longest launch in seconds.
    pub wall_s_max: f64,
    /// Its parts. Their means sum to the mean run time.
    pub parts: Vec<LaunchPart>,
    /// How many times as fast as in the first place: the geometric mean of the rounds' ratios. `None` for the first.
    pub speedup: Option<f64>,
    /// Its run time over that in the first place, with the interval by rounds.
    pub change: Option<Change>,
    /// Each launch.
    pub runs: Vec<LaunchFigures>,
}

/// The results of launches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaunchSeries {
    /// The command.
    pub command: Vec<String>,
    /// What the page cache held when each began.
    pub cache: CacheState,
    /// The share of one processor that the command could use; `None` where it was not confined.
    pub cpu_share: Option<CpuShare>,
    /// The seed of the device model.
    pub seed: u64,
    /// Each place.
    pub places: Vec<LaunchResult>,
}

/// A part's name, and where it stands.
type Named = (&'static str, fn(&LaunchFigures) -> f64);

pub(super) fn series(
    places: &[PlaceToLaunch],
    runs: Vec<Vec<LaunchFigures>>,
    options: &LaunchOptions<'_>,
) -> LaunchSeries {
    let times = |runs: &[LaunchFigures]| runs.iter().map(|run| run.wall_s).collect::<Vec<f64>>();
    let all: Vec<Vec<f64>> = runs.iter().map(|runs| times(runs)).collect();
    let pairs: Vec<(&[f64], &[f64])> =
        all[1..].iter().map(|own| (all[0].as_slice(), own.as_slice())).collect();
    let mut changes = compare_rounds(&pairs).into_iter();
    let results = places.iter().zip(runs).enumerate().map(|(at, (place, runs))| {
        let wall = Spread::of(&runs, &|run| run.wall_s);
        let change = if at > 0 { changes.next() } else { None };
        let divided = runs.iter().all(|run| run.user_s.is_some());
        let named: &[Named] = if divided {
            &[("user", |run| run.user_s.unwrap_or(0.0)), ("system", |run| run.system_s.unwrap_or(0.0))]
        } else {
            &[("running", |run| run.running_s)]
        };
        let waits: &[Named] = &[
            ("storage", |run| run.storage_s),
            ("network", |run| run.network_s),
            ("timer", |run| run.timer_s),
            ("others", |run| run.others_s),
            ("cpu_wait", |run| run.cpu_wait_s),
            ("unknown", |run| run.unknown_s),
        ];
        let parts = named.iter().chain(waits).map(|(name, of)| {
            let part = Spread::of(&runs, of);
            LaunchPart {
                name,
                mean_s: part.mean,
                min_s: part.min,
                max_s: part.max,
                share: part.mean / wall.mean,
            }
        });
        LaunchResult {
            name: place.name.clone(),
            compared_with: (at > 0).then(|| places[0].name.clone()),
            verdict: verdict(&runs),
            wall_s: wall.mean,
            wall_s_min: wall.min,
            wall_s_max: wall.max,
            parts: parts.collect(),
            speedup: change.as_ref().and_then(|change| Some(1.0 / change.ratio?)),
            change,
            runs,
        }
    });
    LaunchSeries {
        command: options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        cache: options.cache,
        cpu_share: places[0].setup.cpu,
        seed: options.seed,
        places: results.collect(),
    }
}

/// A figure over launches.
struct Spread {
    mean: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(runs: &[LaunchFigures], of: &dyn Fn(&LaunchFigures) -> f64) -> Spread {
        let values = || runs.iter().map(of);
        Spread {
            mean: values().sum::<f64>() / runs.len() as f64,
            min: values().fold(f64::INFINITY, f64::min),
            max: values().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// The sentence on the means of several launches.
fn verdict(runs: &[LaunchFigures]) -> String {
    let ns = |of: fn(&LaunchFigures) -> f64| (runs.iter().map(of).sum::<f64>() * 1e9).round() as u64;
    let parts = Parts {
        running_ns: ns(|run| run.running_s),
        storage_ns: ns(|run| run.storage_s),
        network_ns: ns(|run| run.network_s),
        timer_ns: ns(|run| run.timer_s),
        lock_ns: 0,
        thread_ns: ns(|run| run.others_s),
        cpu_ns: ns(|run| run.cpu_wait_s),
        unknown_ns: ns(|run| run.unknown_s),
    };
    parts.verdict()
}
