//! Analyses the threads in uninterruptible sleep (state D), from a trace of the scheduler.
//!
//! Such a trace shows who was blocked in the kernel, and for how long. Android's kernels also record whether the
//! kernel counted a wait as I/O, and the function in which the thread slept. A wait for a commit of the journal, or
//! for a lock that a thread holds during its I/O, is not counted as I/O. So each sum consists of three times: counted
//! as I/O, not counted as I/O, and unknown. No sentence adds them up to a time of I/O.
//!
//! The trace shows no device, no queue and no other request. If it has the marks of Android's system server and of
//! its apps, the launches of apps are judged over their own span, and so are late frames.

mod figures;
mod judged;
mod spans;
mod tally;
#[cfg(test)]
pub(crate) mod tests;
mod threads;

use fonio_core::{IoWait, Nanos, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::launch::CriticalPath;
pub(crate) use tally::UninterruptibleTally;

/// The threads in uninterruptible sleep (state D). Present if the recording comes from a trace of the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Uninterruptible {
    /// Whether the trace has block events. If it has none, the device, its queue and the cause of a wait are unknown.
    pub has_block_events: bool,
    /// The waits of all threads.
    pub all: SleepTime,
    /// The threads, the longest time first; at most 64.
    pub threads: Vec<SleepingThread>,
    /// Number of blocked threads that are not in `threads`.
    pub threads_beyond_cap: u64,
    /// The functions of the kernel in which threads slept, the longest time first; at most 64. Empty if the trace
    /// names none.
    pub functions: Vec<FunctionTime>,
    /// The sync calls of file systems by thread, the longest time first; at most 64. Empty if the trace shows none.
    pub syncs: Vec<ThreadSyncs>,
    /// Launches of Android apps, in time order; at most 64.
    pub launches: Vec<AppLaunch>,
    /// Late frames of Android apps, the longest blocked time first; at most 64.
    pub late_frames: Vec<LateFrame>,
    /// Number of late frames that are not in `late_frames`.
    pub late_frames_beyond_cap: u64,
    /// Number of waits that count for threads and functions, but not for launches and frames, because there are too
    /// many.
    pub waits_beyond_cap: u64,
}

/// Time in uninterruptible sleep, in three parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SleepTime {
    /// The number of waits.
    pub waits: u64,
    /// Time in waits that the kernel counted as I/O.
    pub io_ns: Nanos,
    /// Time in waits that the kernel did not count as I/O.
    pub not_io_ns: Nanos,
    /// Time in waits of which the trace does not show whether the kernel counted them as I/O.
    pub unknown_ns: Nanos,
    /// The longest wait.
    pub longest_ns: Nanos,
}

impl SleepTime {
    fn add(&mut self, time: Nanos, io_wait: IoWait) {
        let part = match io_wait {
            IoWait::Yes => &mut self.io_ns,
            IoWait::No => &mut self.not_io_ns,
            IoWait::Unknown => &mut self.unknown_ns,
        };
        *part += time;
        self.waits += 1;
        self.longest_ns = self.longest_ns.max(time);
    }

    /// Returns the time in state D, whatever the thread waited for.
    pub fn total_ns(&self) -> Nanos {
        self.io_ns + self.not_io_ns + self.unknown_ns
    }

    /// Returns the three times in words: `30 ms counted as I/O, 5 ms not counted as I/O, none unknown`.
    pub fn in_words(&self) -> String {
        let time = |time: Nanos| if time == Nanos(0) { "none".to_owned() } else { time.to_string() };
        format!(
            "{} counted as I/O by the kernel, {} not counted, {} unknown",
            time(self.io_ns),
            time(self.not_io_ns),
            time(self.unknown_ns)
        )
    }
}

/// The waits of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SleepingThread {
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// The Android package or the process of the thread, if it is known and differs from the thread's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Whether it is a thread of the kernel, which works for other threads.
    pub is_kernel: bool,
    /// Its waits.
    pub time: SleepTime,
    /// The functions in which it slept longest, at most three.
    pub functions: Vec<FunctionTime>,
}

impl SleepingThread {
    /// Returns the name of the thread with its owner: `RenderThread (thread 3001 of com.example.app)`.
    pub fn full_name(&self) -> String {
        match &self.owner {
            Some(owner) => format!("{} (thread {} of {owner})", self.name, self.tid),
            None => format!("{} (thread {})", self.name, self.tid),
        }
    }
}

/// The waits in one function of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionTime {
    /// The function.
    pub function: String,
    /// The waits in it.
    pub time: SleepTime,
}

/// The sync calls of one thread that reached a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadSyncs {
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// The Android package or the process of the thread, if it is known and differs from the thread's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The number of calls.
    pub calls: u64,
    /// The total time of the calls.
    pub time_ns: Nanos,
    /// The longest call.
    pub longest_ns: Nanos,
    /// The thread's waits in state D during the calls.
    pub blocked: SleepTime,
}

/// The kind of a launch of an Android app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LaunchKind {
    /// The process of the app was started.
    Cold,
    /// The process was running, and the activity was created.
    Warm,
    /// The activity was only brought to the front.
    Hot,
    /// The trace does not show the kind.
    #[default]
    Unknown,
}

impl LaunchKind {
    /// Returns the kind before the word "launch"; empty if it is unknown.
    pub fn word(self) -> &'static str {
        match self {
            LaunchKind::Cold => "cold ",
            LaunchKind::Warm => "warm ",
            LaunchKind::Hot => "hot ",
            LaunchKind::Unknown => "",
        }
    }
}

/// A launch of an Android app.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppLaunch {
    /// The app's package.
    pub package: String,
    /// The kind of the launch.
    pub kind: LaunchKind,
    /// Start, in nanoseconds since the span began.
    pub at_ns: Nanos,
    /// Duration, by the marks of Android's system server.
    pub duration_ns: Nanos,
    /// The app's threads that draw, with their waits during the launch. Empty if the trace does not show the app's
    /// process.
    pub threads: Vec<DrawingThread>,
    /// The critical path, from the end of the launch backwards from the app's UI thread or RenderThread; absent if the
    /// trace does not show all states of these threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<CriticalPath>,
}

/// A frame of an Android app that was shown late.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LateFrame {
    /// The package or process.
    pub owner: String,
    /// The reasons that Android gives, such as `App Deadline Missed`.
    pub reason: String,
    /// Start, in nanoseconds since the span began.
    pub at_ns: Nanos,
    /// From the start of the work on the frame to its end.
    pub duration_ns: Nanos,
    /// The app's threads that draw, with their waits during the frame.
    pub threads: Vec<DrawingThread>,
}

/// A thread that draws an app, with its waits in a span.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrawingThread {
    /// Whether this is the app's UI thread; otherwise, it is its RenderThread.
    pub is_ui: bool,
    /// The thread.
    pub tid: u32,
    /// Its waits, as far as they lie within the span.
    pub time: SleepTime,
    /// The function in which it slept longest, if the trace names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
}

impl DrawingThread {
    /// Returns the role of the thread in words.
    pub fn role(&self) -> &'static str {
        if self.is_ui { "UI thread" } else { "RenderThread" }
    }
}

/// A wait that was kept.
#[derive(Clone, Copy, Debug)]
struct Kept {
    began: Timestamp,
    ended: Timestamp,
    io_wait: IoWait,
    /// The number of the function.
    function: Option<u32>,
}
