//! `meta.json`: the source of a recording, and the machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::LostEvents;
use crate::units::{ByteCount, DeviceId, Timestamp};

/// The version of the recording's schema. A reader refuses a higher one.
pub const SCHEMA_VERSION: u32 = 1;

/// The contents of `meta.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The writer's [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The program that wrote it: `fonio 0.1.0`.
    pub writer: String,
    /// The source of the events.
    pub source: Source,
    /// The clock of every timestamp.
    pub clock: Clock,
    /// First and last instant covered: of the capture if they are known, else of all events in the source, those of
    /// other tracepoints included.
    pub began: Option<Timestamp>,
    /// See `began`.
    pub ended: Option<Timestamp>,
    /// The seed, if a generator or simulator made the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The command that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The process of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_pid: Option<u32>,
    /// Its exit code; `None` while it is unknown, or if a signal killed the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_exit: Option<i32>,
    /// Processor time of the command in user mode, in nanoseconds, including the children for which it waited. The
    /// kernel accounts it, on many machines by sampling at each timer tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_user_ns: Option<u64>,
    /// The same in kernel mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_system_ns: Option<u64>,
    /// The machine.
    #[serde(default)]
    pub host: Host,
    /// Each device that has requests or bios.
    #[serde(default)]
    pub devices: Vec<Device>,
    /// Gaps, and the total number of lost events.
    #[serde(default)]
    pub lost: Lost,
    /// The assembler's counters by name: ambiguous pairs, completions without issue, and others.
    #[serde(default)]
    pub assembly: BTreeMap<String, u64>,
    /// The number of rows in each table.
    #[serde(default)]
    pub rows: BTreeMap<String, u64>,
}

/// In [`Source::shows`]: the recording has the waits of all threads that were blocked.
pub const SHOWS_BLOCKED: &str = "blocked";

/// In [`Source::shows`], in addition to [`SHOWS_BLOCKED`]: the recording lacks waits for another thread of a
/// program and for asynchronous I/O, because it was made without BPF.
pub const BLOCKED_PARTLY: &str = "blocked_partly";

/// In [`Source::shows`], in addition to [`SHOWS_BLOCKED`]: the waits were sampled from procfs. Their times
/// are estimates, and there are no requests.
pub const BLOCKED_SAMPLED: &str = "blocked_sampled";

/// The [`Source::format`] of a recording that was sampled from procfs.
pub const SOURCE_PROCFS: &str = "procfs";

/// In [`Source::shows`]: the recording has the file-system calls of the followed processes.
pub const SHOWS_CALLS: &str = "calls";

/// The code of the diagnostic that counts the calls that are missing.
pub const LOST_CALLS: &str = "lost-calls";

/// In [`Source::shows`]: the recording has the SQL statements of the followed processes, as far as their SQLite has symbols.
pub const SHOWS_STATEMENTS: &str = "statements";

/// The code of the diagnostic that counts the runs of SQL statements, and the texts, that are missing.
pub const LOST_STATEMENTS: &str = "lost-statements";

/// The source of the events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// `tracefs`, `blktrace`, `blkparse`, `ftrace`, `systrace`, `csv`, …
    pub format: String,
    /// The files read, as they were named.
    pub files: Vec<String>,
    /// Event kinds that the source can show (`queue`, `insert`, `issue`, `complete`, …); a missing kind is unknown, not
    /// 0.
    pub shows: Vec<String>,
}

/// The clock of the timestamps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// `mono`, `boot`, `local`, `unknown`, …
    pub name: String,
    /// The wall clock (Unix time in ns) at timestamp 0, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix_ns_at_zero: Option<i64>,
}

/// The machine.
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

/// A block device and its queue, as sysfs shows them. A value that the source does not show is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Device {
    pub id: DeviceId,
    /// `mmcblk0`, `dm-0`.
    pub name: Option<String>,
    pub model: Option<String>,
    pub size_bytes: Option<ByteCount>,
    pub rotational: Option<bool>,
    pub removable: Option<bool>,
    pub scheduler: Option<String>,
    /// The schedulers that it can have: those that the kernel has, built in or as modules. Empty if that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedulers: Vec<String>,
    /// The number of requests that the driver takes at once (`nr_requests` and the driver's own depth).
    pub depth: Option<u32>,
    pub max_sectors_kb: Option<u32>,
    pub read_ahead_kb: Option<u32>,
    pub logical_block_bytes: Option<u32>,
    pub physical_block_bytes: Option<u32>,
    pub discard_granularity_bytes: Option<u64>,
    pub fua: Option<bool>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    pub encrypted: Option<bool>,
    /// The file systems mounted from it or from its partitions.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// The devices it is stacked on (`dm`, `md`, `loop` backing).
    #[serde(default)]
    pub below: Vec<DeviceId>,
}

/// One mounted file system.
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

/// Maximum number of gaps listed one by one; further gaps are only counted.
const GAPS_MAX: usize = 1000;

/// Events that were lost while recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The number of events known to be lost. If `uncounted` is 0, it is the true number; else the true number is
    /// greater.
    pub events: u64,
    /// Gaps that lost an unknown number of events, at least one each. They add nothing to `events`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncounted: u64,
    /// The first thousand gaps.
    pub gaps: Vec<LostEvents>,
    /// Gaps beyond those listed.
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

    /// Whether no event is known to be lost.
    pub fn is_nothing(&self) -> bool {
        self.events == 0 && self.uncounted == 0
    }

    /// The number of lost events; `None` if it is unknown.
    pub fn total(&self) -> Option<u64> {
        (self.uncounted == 0).then_some(self.events)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
