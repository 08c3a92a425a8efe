//! Defines the contents of `meta.json`: the source of a recording, and the machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::LostEvents;
use crate::units::{ByteCount, DeviceId, Timestamp};

/// The version of the recording format. Readers reject recordings with a higher version.
pub const SCHEMA_VERSION: u32 = 1;

/// The contents of `meta.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The [`SCHEMA_VERSION`] of the program that wrote the recording.
    pub schema_version: u32,
    /// The program that wrote the recording, such as `fonio 0.1.0`.
    pub writer: String,
    /// The source of the recorded events.
    pub source: Source,
    /// The clock of all timestamps in the recording.
    pub clock: Clock,
    /// Start of the capture; `ended` is its end. If the times of the capture are unknown, `began` and `ended`
    /// are the times of the source's first and last event, including events of other tracepoints.
    pub began: Option<Timestamp>,
    /// End of the capture; see `began`.
    pub ended: Option<Timestamp>,
    /// The seed of the generator or simulator that created the rows, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The command that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The process id of the recorded command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_pid: Option<u32>,
    /// The command's exit code; `None` if it is unknown or if a signal killed the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_exit: Option<i32>,
    /// User CPU time of the command and of the children it waited for, in nanoseconds. The kernel measures
    /// this CPU time; on many machines, the kernel only samples it at each timer tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_user_ns: Option<u64>,
    /// System CPU time of the command and of the children it waited for, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_system_ns: Option<u64>,
    /// The machine on which the events were recorded.
    #[serde(default)]
    pub host: Host,
    /// All devices that have requests or bios in the recording.
    #[serde(default)]
    pub devices: Vec<Device>,
    /// The devices to which the recording is limited; empty if all devices were recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<DeviceId>,
    /// Gaps in the recording, and the number of lost events.
    #[serde(default)]
    pub lost: Lost,
    /// The assembler's counters by name, such as ambiguous pairs and completions without an issue.
    #[serde(default)]
    pub assembly: BTreeMap<String, u64>,
    /// The number of rows in each table of the recording.
    #[serde(default)]
    pub rows: BTreeMap<String, u64>,
}

/// In [`Source::shows`]: the recording has the waits of all blocked threads.
pub const SHOWS_BLOCKED: &str = "blocked";

/// In [`Source::shows`], in addition to [`SHOWS_BLOCKED`]: the recording was made without BPF, or it comes from a trace
/// of the scheduler, so it lacks waits for another thread of a program and for asynchronous I/O.
pub const BLOCKED_PARTLY: &str = "blocked_partly";

/// In [`Source::shows`], in addition to [`SHOWS_BLOCKED`]: the waits were sampled from procfs. The times of
/// these waits are estimates, and the recording contains no requests.
pub const BLOCKED_SAMPLED: &str = "blocked_sampled";

/// The value of [`Source::format`] in a recording sampled from procfs.
pub const SOURCE_PROCFS: &str = "procfs";

/// The value of [`Source::format`] in the recording of a stall that `fonio watch` saved.
pub const SOURCE_WATCH: &str = "watch";

/// The value of [`Source::format`] in a recording of file-system calls by `ptrace`, which has no requests.
pub const SOURCE_PTRACE: &str = "ptrace";

/// The code of the diagnostic that counts rings of io_uring, whose reads and writes are not recorded.
pub const UNSEEN_RINGS: &str = "unseen-rings";

/// The code of the diagnostic that counts files mapped for shared writing; writes through a mapping are not recorded.
pub const MAPPED_WRITES: &str = "mapped-writes";

/// In [`Source::shows`]: the recording has the file-system calls of the followed processes.
pub const SHOWS_CALLS: &str = "calls";

/// The code of the diagnostic that counts missing file-system calls.
pub const LOST_CALLS: &str = "lost-calls";

/// In [`Source::shows`]: the trace has the events of the scheduler, so it shows which threads were blocked.
pub const SHOWS_SCHEDULER: &str = "scheduler";

/// An entry of [`Source::shows`]: the source has totals of devices and no requests.
pub const SHOWS_TOTALS: &str = "totals";

/// In [`Source::shows`]: the trace has calls of a file system that took longer than a limit, without requests. Other calls are
/// missing, so it is not [`SHOWS_CALLS`].
pub const SHOWS_SLOW_CALLS: &str = "slow_calls";

/// The beginning of the name of a mark at the first of these calls. Which calls the trace has follows, such as
/// `ext4 operations slower than 10 ms`.
pub const SLOW_CALLS: &str = "slow calls: ";

/// The beginning of the name of a mark that spans a frame of an Android app that was shown late. The reasons follow,
/// such as `App Deadline Missed`. The mark's thread is the app's main thread.
pub const LATE_FRAME: &str = "late frame: ";

/// In [`Source::shows`]: the recording has the SQL statements of those followed processes in which the SQLite
/// library has symbols.
pub const SHOWS_STATEMENTS: &str = "statements";

/// The code of the diagnostic that counts missing executions and texts of SQL statements.
pub const LOST_STATEMENTS: &str = "lost-statements";

/// The source of the recorded events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The format of the source: `tracefs`, `blktrace`, `blkparse`, `ftrace`, `systrace`, `perfetto`,
    /// `csv`, …
    pub format: String,
    /// The input files, with the paths that the user gave.
    pub files: Vec<String>,
    /// Kinds of events that the source can show (`queue`, `insert`, `issue`, `complete`, …). Counts of other
    /// event kinds are unknown, not 0.
    pub shows: Vec<String>,
}

/// The clock of a recording's timestamps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// The name of the clock: `mono`, `boot`, `local`, `unknown`, …
    pub name: String,
    /// The wall-clock time (Unix time in ns) at timestamp 0, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix_ns_at_zero: Option<i64>,
}

/// The machine on which the events were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Host {
    pub name: Option<String>,
    pub model: Option<String>,
    pub kernel: Option<String>,
    pub architecture: Option<String>,
    pub processors: Option<u32>,
    pub memory_bytes: Option<ByteCount>,
}

/// A block device and its queue, as described by sysfs. Values that the source does not show are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Device {
    pub id: DeviceId,
    /// The kernel's name for the device, such as `mmcblk0` or `dm-0`.
    pub name: Option<String>,
    pub model: Option<String>,
    pub size_bytes: Option<ByteCount>,
    pub rotational: Option<bool>,
    pub removable: Option<bool>,
    pub scheduler: Option<String>,
    /// The schedulers available in the kernel, built in or as modules. The list is empty if the schedulers
    /// are unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedulers: Vec<String>,
    /// The maximum number of requests in the driver (`nr_requests` and the driver's own depth).
    pub depth: Option<u32>,
    pub max_sectors_kb: Option<u32>,
    pub read_ahead_kb: Option<u32>,
    pub logical_block_bytes: Option<u32>,
    pub physical_block_bytes: Option<u32>,
    pub discard_granularity_bytes: Option<u64>,
    pub fua: Option<bool>,
    /// The mode of the device's write cache: `write back` or `write through`.
    pub write_cache: Option<String>,
    pub encrypted: Option<bool>,
    /// The file systems mounted from the device or from its partitions.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// The underlying devices of a stacked device (`dm`, `md`, `loop`).
    #[serde(default)]
    pub below: Vec<DeviceId>,
}

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Mount {
    pub device: DeviceId,
    pub at: String,
    pub fs: String,
    pub options: Vec<String>,
    pub size_bytes: Option<ByteCount>,
    pub available_bytes: Option<ByteCount>,
}

/// Maximum number of gaps listed in `gaps`; further gaps are only counted.
const GAPS_MAX: usize = 1000;

/// Events that were lost during the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The number of events known to be lost. The number is a lower bound unless `uncounted` is 0.
    pub events: u64,
    /// The number of gaps in which an unknown number of events was lost, at least one in each gap. These
    /// events are not included in `events`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncounted: u64,
    /// The first 1,000 gaps.
    pub gaps: Vec<LostEvents>,
    /// Number of gaps that are not listed in `gaps`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gaps_beyond: u64,
}

impl Lost {
    /// Adds a gap.
    pub fn add(&mut self, gap: LostEvents) {
        match gap.count {
            Some(count) => self.events = self.events.saturating_add(count),
            None => self.uncounted += 1,
        }
        if self.gaps.len() < GAPS_MAX {
            self.gaps.push(gap);
        } else {
            self.gaps_beyond += 1;
        }
    }

    /// Returns whether no lost events are known.
    pub fn is_nothing(&self) -> bool {
        self.events == 0 && self.uncounted == 0
    }

    /// Returns the number of lost events, or `None` if it is unknown.
    pub fn total(&self) -> Option<u64> {
        (self.uncounted == 0).then_some(self.events)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
