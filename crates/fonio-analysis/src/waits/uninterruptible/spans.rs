//! Finds the launches of Android apps and the late frames among the marks of a trace.
//!
//! | Android | marks of the system server |
//! |---|---|
//! | 13 and later | the span `launchingActivity#ID`, and the instant `launchingActivity#ID:completed-KIND:PACKAGE` |
//! | 10 to 12 | `MetricsLogger:launchObserverNotifyIntentStarted` just before the span `launching: PACKAGE` |
//! | before | the span `launching: PACKAGE` |
//!
//! On the app's main thread, `bindApplication` shows that the process is new, `activityStart` that the activity is,
//! and `activityResume` that it came to the front. Source: the module `android.startup` of Perfetto's
//! `trace_processor`.

use std::cmp::Reverse;

use fonio_core::meta::LATE_FRAME;
use fonio_core::{Mark, Timestamp};
use rustc_hash::FxHashMap;

use super::threads::Threads;
use super::{AppLaunch, LateFrame, LaunchKind};

/// Maximum number of marks of each kind that are kept.
const MARKS_MAX: usize = 1 << 14;

const LAUNCHING_ACTIVITY: &str = "launchingActivity#";
const COMPLETED: &str = ":completed-";
const LAUNCHING: &str = "launching: ";
const INTENT_STARTED: &str = "MetricsLogger:launchObserverNotifyIntentStarted";
const BIND_APPLICATION: &str = "bindApplication";
const ACTIVITY_START: &str = "activityStart";
const ACTIVITY_RESUME: &str = "activityResume";

/// A step of an app on its main thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Bind,
    Start,
    Resume,
}

/// The marks that were kept.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// The span of each launch by its number, since Android 13.
    numbered: FxHashMap<u64, (Timestamp, Timestamp)>,
    /// The kind and package of each completed launch.
    completed: FxHashMap<u64, (LaunchKind, String)>,
    /// Launches with their package.
    launching: Vec<(Timestamp, Timestamp, String)>,
    intents: Vec<Timestamp>,
    steps: Vec<(Timestamp, u32, Step)>,
    frames: Vec<(Timestamp, Timestamp, u32, String)>,
}

impl Spans {
    pub fn mark(&mut self, row: &Mark) {
        let name = row.name.as_str();
        if let Some(rest) = name.strip_prefix(LAUNCHING_ACTIVITY) {
            self.launching_activity(row, rest);
        } else if let (Some(package), Some(until)) = (name.strip_prefix(LAUNCHING), row.until) {
            if self.launching.len() < MARKS_MAX {
                self.launching.push((row.at, until, package.to_owned()));
            }
        } else if name == INTENT_STARTED {
            if self.intents.len() < MARKS_MAX {
                self.intents.push(row.at);
            }
        } else if let (Some(reason), Some(until), Some(tid)) =
            (name.strip_prefix(LATE_FRAME), row.until, row.tid)
        {
            if self.frames.len() < MARKS_MAX {
                self.frames.push((row.at, until, tid, reason.to_owned()));
            }
        } else if let Some(tid) = row.tid
            && self.steps.len() < MARKS_MAX
        {
            let step = match name {
                BIND_APPLICATION => Step::Bind,
                ACTIVITY_START => Step::Start,
                ACTIVITY_RESUME => Step::Resume,
                _ => return,
            };
            self.steps.push((row.at, tid, step));
        }
    }

    fn launching_activity(&mut self, row: &Mark, rest: &str) {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let Ok(number) = rest[..digits].parse() else { return };
        let after = &rest[digits..];
        if let Some((kind, package)) = after.strip_prefix(COMPLETED).and_then(|rest| rest.split_once(':')) {
            let kind = match kind {
                "cold" => LaunchKind::Cold,
                "warm" => LaunchKind::Warm,
                "hot" => LaunchKind::Hot,
                _ => LaunchKind::Unknown,
            };
            if self.completed.len() < MARKS_MAX {
                self.completed.insert(number, (kind, package.to_owned()));
            }
        } else if let (true, Some(until)) = (after.is_empty() && self.numbered.len() < MARKS_MAX, row.until) {
            self.numbered.insert(number, (row.at, until));
        }
    }

    /// Returns the first completed launches in time order, at most `listed`.
    pub fn launches(&self, tally: &impl Threads, began: Timestamp, listed: usize) -> Vec<AppLaunch> {
        let mut found: Vec<(Timestamp, Timestamp, LaunchKind, &str)> = (self.completed.iter())
            .filter_map(|(number, (kind, package))| {
                let (from, until) = self.numbered.get(number)?;
                Some((*from, *until, *kind, package.as_str()))
            })
            .collect();
        // Android 13 writes both kinds of spans.
        if found.is_empty() {
            let mut intents = self.intents.clone();
            intents.sort_unstable();
            let mut launching: Vec<_> = self.launching.iter().collect();
            launching.sort();
            let mut previous = Timestamp(0);
            for (from, until, package) in launching {
                // The intent of this launch came after the launch before.
                let before = intents.partition_point(|at| at <= from);
                let intent = before.checked_sub(1).map(|place| intents[place]);
                let intent = intent.filter(|at| *at >= previous);
                found.push((intent.unwrap_or(*from), *until, LaunchKind::Unknown, package));
                previous = *until;
            }
        }
        found.sort_by_key(|(from, until, _, package)| (*from, *until, *package));
        found.truncate(listed);
        let launch = |(from, until, kind, package): (Timestamp, Timestamp, LaunchKind, &str)| {
            let steps = (self.steps.iter())
                .filter(|(at, tid, _)| (from..=until).contains(at) && tally.is_of_package(*tid, package));
            let has = |wanted| steps.clone().any(|(.., step)| *step == wanted);
            let by_steps = match () {
                () if has(Step::Bind) => LaunchKind::Cold,
                () if has(Step::Start) => LaunchKind::Warm,
                () if has(Step::Resume) => LaunchKind::Hot,
                () => LaunchKind::Unknown,
            };
            // Without its steps, the process is known if only one has the package's name.
            let pid = steps.clone().next().map(|(_, tid, _)| tally.pid(*tid));
            let pid = pid.or_else(|| match tally.pids_of(package).as_slice() {
                [only] => Some(*only),
                _ => None,
            });
            AppLaunch {
                package: package.to_owned(),
                kind: if kind == LaunchKind::Unknown { by_steps } else { kind },
                at_ns: from - began,
                duration_ns: until - from,
                threads: pid.map(|pid| tally.drawing(pid, from, until)).unwrap_or_default(),
                path: None,
            }
        };
        found.into_iter().map(launch).collect()
    }

    /// Returns the late frames with the longest blocked time, and the number of frames left out.
    pub fn late_frames(
        &self,
        tally: &impl Threads,
        began: Timestamp,
        listed: usize,
    ) -> (Vec<LateFrame>, u64) {
        let frame = |(from, until, tid, reason): &(Timestamp, Timestamp, u32, String)| LateFrame {
            owner: tally.owner(*tid),
            reason: reason.clone(),
            at_ns: *from - began,
            duration_ns: *until - *from,
            threads: tally.drawing(tally.pid(*tid), *from, *until),
        };
        let mut frames: Vec<LateFrame> = self.frames.iter().map(frame).collect();
        let blocked = |frame: &LateFrame| frame.threads.iter().map(|thread| thread.time.total_ns()).max();
        frames.sort_by_key(|frame| (Reverse(blocked(frame)), frame.at_ns));
        let beyond = frames.len().saturating_sub(listed) as u64;
        frames.truncate(listed);
        (frames, beyond)
    }
}
