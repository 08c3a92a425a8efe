//! Tries the ways of recording a phone, the best first, and says why a way is not taken.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::adb::Adb;
use crate::atrace;
use crate::capture::{capture, remove_left};
use crate::counters::{self, AppIo};
use crate::error::AndroidError;
use crate::phone::Phone;
use crate::recorder::{self, NoRecording, Order};
use crate::root::Root;

/// A line that succeeds if the kernel has block events in tracefs.
const HAS_EVENTS: &str = "ls -d /sys/kernel/tracing/events/block/block_rq_issue \
    /sys/kernel/debug/tracing/events/block/block_rq_issue 2>/dev/null | grep -q .";

/// A way of recording a phone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// fonio's own recorder, as root.
    Recorder,
    /// The phone's own Perfetto.
    Perfetto,
    /// The phone's own atrace.
    Atrace,
    /// Counters in `/proc`.
    Counters,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Recorder => "fonio's recorder",
            Way::Perfetto => "perfetto",
            Way::Atrace => "atrace",
            Way::Counters => "counters",
        })
    }
}

/// A step of the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The phone does not allow this way.
    Refused(Way, String),
    /// The phone is recorded in this way. The text says what the recording shows.
    Taken(Way, &'static str),
    /// The recording begins now, or within some seconds.
    Begins,
}

/// The wish of the user.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The length of the recording.
    pub duration: Duration,
    /// How fonio may be root, or the reason why it may not.
    pub root: &'a Result<Root, String>,
    /// An empty folder of this machine, for what is read from the phone.
    pub folder: &'a Path,
    /// Finds the recorder for a kind of processor. The error says why it cannot be found.
    pub recorder: &'a dyn Fn(&str) -> Result<PathBuf, String>,
    /// Ends the recording when it becomes true.
    pub stop: &'a AtomicBool,
}

impl fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted").field("duration", &self.duration).finish_non_exhaustive()
    }
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The way in which it was recorded.
    pub way: Way,
    /// A recording (a folder) or a trace (a file) in the folder of [`Wanted`]; `None` if there are only counters of apps.
    pub input: Option<PathBuf>,
    /// Whether the user ended the recording before its time.
    pub was_stopped: bool,
    /// Whether the recording ended early, because its memory was full.
    pub is_short: bool,
    /// What apps did, by the phone's counters.
    pub apps: Vec<AppIo>,
}

/// Records the phone in the best way that it allows. `tell` hears of each step.
///
/// # Errors
/// Fails if the phone allows no way, or if the connection is lost.
pub fn record(
    adb: &Adb,
    phone: &Phone,
    wanted: &Wanted<'_>,
    tell: &mut dyn FnMut(Step),
) -> Result<Recorded, AndroidError> {
    let recorded = |way, input: PathBuf, was_stopped| Recorded {
        way,
        input: Some(input),
        was_stopped,
        is_short: false,
        apps: Vec::new(),
    };
    // Whatever the way of this recording: an earlier one can have used perfetto.
    remove_left(adb)?;
    let mut reasons = Vec::new();
    let mut refuse = |way: Way, reason: String, tell: &mut dyn FnMut(Step)| {
        reasons.push(format!("{way}: {reason}"));
        tell(Step::Refused(way, reason));
    };
    match by_recorder(adb, phone, wanted, tell) {
        Ok(taken) => return Ok(taken),
        Err(NoRecording::Refused(reason)) => refuse(Way::Recorder, reason, tell),
        Err(NoRecording::Failed(error)) => return Err(error),
    }
    stopped(wanted)?;
    match phone.check() {
        Ok(()) => {
            tell(Step::Taken(Way::Perfetto, of_perfetto(phone)));
            tell(Step::Begins);
            let to = wanted.folder.join("phone.pftrace");
            match capture(adb, phone, wanted.duration, &to, wanted.stop) {
                Ok(captured) => return Ok(recorded(Way::Perfetto, to, captured.was_stopped)),
                // Perfetto itself refused.
                Err(error @ AndroidError::Perfetto { .. }) => refuse(Way::Perfetto, error.to_string(), tell),
                Err(error) => return Err(error),
            }
        }
        Err(reason) => refuse(Way::Perfetto, reason, tell),
    }
    stopped(wanted)?;
    match atrace::categories(adb, phone)? {
        Ok(categories) => {
            let shows = match (categories.contains(&"disk"), categories.contains(&"sched")) {
                (true, true) => "It records requests from issue to completion, blocked threads and syncs.",
                (true, false) => {
                    "It records requests from issue to completion and syncs, but no blocked threads."
                }
                (false, _) => "It records blocked threads, but no requests: the phone does not allow disk.",
            };
            tell(Step::Taken(Way::Atrace, shows));
            tell(Step::Begins);
            let to = wanted.folder.join("phone.atrace");
            let (_, was_stopped) = atrace::record(adb, &categories, wanted.duration, &to, wanted.stop)?;
            return Ok(recorded(Way::Atrace, to, was_stopped));
        }
        Err(reason) => refuse(Way::Atrace, reason, tell),
    }
    stopped(wanted)?;
    let root = wanted.root.as_ref().ok().copied();
    match counters::readable(adb, root)? {
        Ok(readable) => {
            tell(Step::Taken(Way::Counters, "They are totals of devices or of apps, without requests."));
            tell(Step::Begins);
            let to = wanted.folder.join("phone.diskstats");
            let (apps, was_stopped) =
                counters::record(adb, root, readable, wanted.duration, &to, wanted.stop)?;
            Ok(Recorded {
                way: Way::Counters,
                input: readable.disks.then_some(to),
                was_stopped,
                is_short: false,
                apps,
            })
        }
        Err(reason) => {
            refuse(Way::Counters, reason, tell);
            Err(AndroidError::CannotRecord { reason: reasons.join("; ") })
        }
    }
}

fn stopped(wanted: &Wanted<'_>) -> Result<(), AndroidError> {
    if wanted.stop.load(Ordering::Relaxed) { Err(AndroidError::Stopped) } else { Ok(()) }
}

fn by_recorder(
    adb: &Adb,
    phone: &Phone,
    wanted: &Wanted<'_>,
    tell: &mut dyn FnMut(Step),
) -> Result<Recorded, NoRecording> {
    let root = wanted.root.clone().map_err(NoRecording::Refused)?;
    if adb.shell(&root.line(HAS_EVENTS))?.code != 0 {
        return Err(NoRecording::Refused(
            "its kernel shows no block events in tracefs, even to root".to_owned(),
        ));
    }
    let program = (wanted.recorder)(&phone.abi).map_err(NoRecording::Refused)?;
    tell(Step::Taken(
        Way::Recorder,
        "As on this machine, it records requests with their queue time, files and causes.",
    ));
    let to = wanted.folder.join("recording");
    let order = Order { root, program: &program, duration: wanted.duration, to: &to, stop: wanted.stop };
    let taken = recorder::record(adb, &order, &mut || tell(Step::Begins))?;
    Ok(Recorded {
        way: Way::Recorder,
        input: Some(to),
        was_stopped: taken.was_stopped,
        is_short: taken.is_short,
        apps: Vec::new(),
    })
}

fn of_perfetto(phone: &Phone) -> &'static str {
    if phone.shows_everything() {
        "It records block requests, blocked threads and syncs."
    } else {
        "It records requests from issue to completion, blocked threads and syncs. Without root, Android does not show how \
         long a request was queued, nor who caused write-back."
    }
}
