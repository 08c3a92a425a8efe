//! Analyses the threads that were blocked on storage: by operation, by file, and by the process whose
//! requests delayed the threads.
//!
//! The recorder sees every thread that the kernel puts to sleep uninterruptibly. Long waits have rows of
//! their own; short waits are only counted. A program is judged by its working time ([`Working`]). If the
//! recording does not show the working time, the program is judged by its longest blocked thread. Threads
//! that waited one after the other, such as the processes of a script, then count as one thread.
//!
//! A thread can also wait for a blocked thread: for a lock that the blocked thread holds, or for the blocked
//! thread's reply. Only the part of the wait during which the other thread was blocked is counted.
//!
//! The delay by another process is measured as a share of request time. While a thread waits for a device,
//! requests are outstanding on that device. The request time is the time from queueing to completion within
//! the wait. A process's share is the request time of its requests divided by the request time of all
//! requests. These shares are computed only for the longest waits.

mod behind;
mod bulk;
mod chain;
mod count;
mod delayed;
mod drawn;
mod elsewhere;
mod figures;
mod files;
mod program;
mod sequence;
mod servers;
mod tally;
#[cfg(test)]
mod tests;
mod timeline;
mod unfounded;
mod working;

use fonio_core::{BlockedIn, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::waits::outstanding::TimeShare;
pub use figures::doing;
pub(crate) use figures::{OWN_FROM, is_kernel, shown_file};
pub(crate) use servers::{is_fuse as is_fuse_server, is_own as is_own_server};
pub(crate) use tally::BlockedTally;
pub(crate) use working::PROBLEM_FROM;
pub use working::{ProgramWork, Working};

/// The threads that were blocked on storage. Present if the recording has the waits of all threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Blocked {
    /// Programs by name and unit: programs of interest, then others, bulk work, servers and kernel
    /// threads. Within a
    /// role, programs are sorted by the time of their longest blocked thread.
    pub programs: Vec<BlockedProgram>,
    /// Number of programs beyond the maximum of 1024; these programs are not listed.
    pub programs_beyond_cap: u64,
    /// Files for which threads of programs waited, in waits with rows, by descending time. Files with one path
    /// count together.
    pub files: Vec<BlockedFile>,
    /// Number of waits that are not in `files`, because there are too many files.
    #[serde(default)]
    pub file_waits_beyond_cap: u64,
    /// Individual long waits of programs of interest.
    pub long: LongWaits,
    /// When programs except kernel threads were blocked, in time order; at most 4096 rows. A program has one
    /// row for each wait or, if one of its threads had more than 16 waits, sums (`is_sum`).
    pub intervals: Vec<Interval>,
    /// Number of waits with rows that are not in `intervals`.
    pub intervals_beyond_cap: u64,
    /// Number of threads beyond the maximum that fonio follows; the waits of these threads are missing.
    pub threads_beyond_cap: u64,
    /// If only some devices were recorded: the program of interest that waited longest for other storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Elsewhere>,
    /// Programs by processor time and waits for locks and child processes, the largest sum first; at most 32.
    /// Empty if the recording has no times of processes.
    #[serde(default)]
    pub work: Vec<ProgramWork>,
    /// Whether the recording was made without BPF, or comes from a trace of the scheduler. Then waits for other threads
    /// and for asynchronous I/O are missing.
    pub is_partial: bool,
    /// Whether waits were sampled from procfs. In this case, times are estimates, and there are no requests.
    #[serde(default)]
    pub is_sampled: bool,
}

/// Waits for storage that was not recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Elsewhere {
    /// The program's name, with its unit if known.
    pub program: String,
    /// The time for which the program's longest blocked thread was blocked on this storage.
    pub worst: TimeShare,
}

/// The role of a program in the verdict.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A program for which a user may wait: the recorded command and its descendants, including bulk work. If
    /// no command was recorded, this role includes every program except bulk work.
    #[default]
    OfInterest,
    /// A program that is not part of the recorded command.
    Other,
    /// The workload that ran in the background of the measured program, because the user asked for it.
    Background,
    /// A thread that transfers much data in large requests, such as a copy or a backup. Such a thread is
    /// expected to wait for storage.
    BulkWork,
    /// A server of a FUSE file system or of an emulated device, which waits for storage on behalf of other
    /// programs.
    Server,
    /// A kernel thread, which works for other threads.
    Kernel,
}

/// The waits of the programs with one name in one unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockedProgram {
    /// The program's name: the name of the process, or of the thread if the process's name is unknown.
    pub name: String,
    /// The systemd unit or container, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The program's role in the verdict.
    pub role: Role,
    /// The number of threads that were blocked.
    pub threads: u64,
    /// The number of waits.
    pub waits: u64,
    /// Blocked time summed over the program's threads, in nanoseconds. Threads wait in parallel, so the sum
    /// can exceed the span.
    pub time_ns: Nanos,
    /// Thread that was blocked longest.
    pub worst_tid: u32,
    /// The blocked time of this thread, or of several threads that waited one after the other, if it is longer.
    pub worst: TimeShare,
    /// The program's working time; absent if the recording has no times of processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working: Option<Working>,
    /// Whether storage is a problem for the program: it was blocked for a tenth of its working time, or, if
    /// its working time is unknown, the time in `worst` is a tenth of the recording.
    #[serde(default)]
    pub is_problem: bool,
    /// The longest wait in nanoseconds; absent if all waits were short.
    pub longest_ns: Option<Nanos>,
    /// The number of waits of 100 ms or more in operations for which people wait.
    pub long: u64,
    /// Waits by operation, longest time first.
    pub operations: Vec<OperationTime>,
    /// The file for which the program waited longest, with the file's share of the waits whose file is known.
    pub file: Option<FileShare>,
    /// The journal mode of the SQLite databases for which the program waited; absent if fewer than half of
    /// the program's waits with a known file were for SQLite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sqlite: Option<SqliteMode>,
    /// The device for which the program waited longest, as an index into `devices` of the analysis; absent if
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// Processes whose requests were outstanding during the program's longest waits, largest share first.
    pub behind: Vec<Behind>,
    /// The blocked thread for which the program waited most, if the program spent at least half of its time
    /// waiting for threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<Through>,
}

/// A thread that was blocked on storage while another thread waited for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Through {
    /// The name of the thread's program.
    pub name: String,
    /// The thread's own name, if the thread belongs to the waiting program and if this name differs from the
    /// program's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_thread: Option<String>,
    /// Its unit, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The operation in which the thread was blocked, as in the recording.
    pub blocked_in: String,
    /// The file, if its path is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl Through {
    /// Returns the program's name, with its unit if known; for a thread of the waiting program, the thread's
    /// name.
    pub fn full_name(&self) -> String {
        match &self.own_thread {
            Some(thread) => format!("its thread {thread}"),
            None => named(&self.name, self.unit.as_deref()),
        }
    }
}

impl BlockedProgram {
    /// Returns the program's name, with its unit if known: `python3 (notes.service)`.
    pub fn full_name(&self) -> String {
        named(&self.name, self.unit.as_deref())
    }
}

/// The kind of journal of SQLite databases, as far as the waits show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SqliteMode {
    /// A rollback journal.
    Rollback,
    /// A write-ahead log.
    Wal,
    /// Both, or neither.
    Unknown,
}

/// The waits in one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperationTime {
    /// The operation, as in the recording: `fsync`, `read`, `page_fault`, …
    pub blocked_in: String,
    /// The number of waits.
    pub waits: u64,
    /// Total time of the waits in nanoseconds.
    pub time_ns: Nanos,
}

/// A file's share of the waits of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileShare {
    /// The file's path, or its inode number if the path is unknown. If no file has half of the waits: the
    /// deepest folder whose files have half of them, with a final `/`.
    pub path: String,
    /// The file's share of the waits. For an SQLite database, the share includes the journal and the WAL.
    pub share: f64,
    /// The database's rollback journal, if the program also waited for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<String>,
    /// The database's write-ahead log, if the program also waited for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal: Option<String>,
    /// The kind of data in the file, as in the recording; `unknown` if the recording does not show it.
    #[serde(default)]
    pub content: String,
}

/// Requests that were outstanding while threads waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Behind {
    /// The process that caused the requests.
    pub process: String,
    /// Its unit, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The file, if at least half of the requests belong to it and its path is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The kind of data of at least half of the requests, as in the recording; otherwise `unknown`.
    pub content: String,
    /// Whether the waiting process itself caused the requests.
    pub is_own: bool,
    /// The share of the request time.
    pub share: f64,
    /// The part of this share in requests that another process issued for it, such as write-back by the kernel. The I/O
    /// class of the process has no effect on them.
    #[serde(default)]
    pub issued_for_it: f64,
}

impl Behind {
    /// Returns the name of the process, with its unit if known.
    pub fn full_name(&self) -> String {
        named(&self.process, self.unit.as_deref())
    }
}

/// The waits for one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockedFile {
    /// The file's path; absent if the path is unknown.
    pub path: Option<String>,
    /// The number of waits.
    pub waits: u64,
    /// Time of the waits in nanoseconds, summed over all threads of programs.
    pub time_ns: Nanos,
    /// Longest wait in nanoseconds.
    pub longest_ns: Nanos,
    /// The program that waited longest for the file.
    pub program: String,
}

/// Waits of 100 ms or more of programs of interest, in operations for which people wait: reads, page faults,
/// look-ups of names, fsync, the journal, and reading back memory that was swapped out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LongWaits {
    /// Minimum length of a long wait, in nanoseconds.
    pub threshold_ns: Nanos,
    /// Number of long waits.
    pub count: u64,
    /// Longest waits, longest first; at most ten.
    pub longest: Vec<LongWait>,
}

/// One long wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LongWait {
    /// Begin time, in nanoseconds since the span began.
    pub at_ns: Nanos,
    /// Length of the wait.
    pub time_ns: Nanos,
    /// The thread.
    pub tid: u32,
    /// The program's name, with its unit if it is known.
    pub program: String,
    /// The operation, as in the recording.
    pub blocked_in: String,
    /// The file's path, if known.
    pub file: Option<String>,
    /// The device for which the thread waited, as an index into `devices` of the analysis; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// Processes whose requests were outstanding during the wait, largest share first; empty if unknown.
    pub behind: Vec<Behind>,
    /// For a wait for another thread: where the other thread was blocked. Only the time for which the other
    /// thread was blocked is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<Through>,
}

/// An interval in which a thread was blocked, or the blocked time in a part of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Begin time, in nanoseconds since the span began.
    pub at_ns: Nanos,
    /// Length of the wait.
    pub time_ns: Nanos,
    /// Index into the list of programs.
    pub program: u32,
    /// The operation, as in the recording.
    pub blocked_in: String,
    /// Whether this is not one wait. The recording then has at most 256 parts of equal length, and the row is
    /// as long as the program was blocked in the operation during one part, or several parts in a row. It
    /// begins at the beginning of the part, or where the row of another operation ends.
    #[serde(default)]
    pub is_sum: bool,
}

fn named(name: &str, unit: Option<&str>) -> String {
    match unit {
        Some(unit) => format!("{name} ({unit})"),
        None => name.to_owned(),
    }
}

/// Whether a user may wait for this operation. Throttled writes are excluded, because a copy has many
/// throttled writes, and nobody waits for them.
pub(crate) fn is_felt(operation: BlockedIn) -> bool {
    use BlockedIn::{
        AsyncIo, AsyncRead, AsyncWrite, Fsync, Journal, Metadata, OtherThread, PageFault, Read, SwapIn,
    };
    matches!(
        operation,
        Fsync
            | Read
            | PageFault
            | SwapIn
            | Metadata
            | Journal
            | OtherThread
            | AsyncIo
            | AsyncRead
            | AsyncWrite
    )
}
