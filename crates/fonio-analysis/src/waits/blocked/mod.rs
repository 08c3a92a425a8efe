//! The threads that were blocked on storage: in which operation, on which file, and behind whose requests.
//!
//! The recorder sees every thread that the kernel puts to sleep uninterruptibly. Long waits have rows of
//! their own; short ones are counted. A program is judged by the thread that was blocked for longest: if
//! several threads wait at the same time, the user does not wait longer.
//!
//! A thread can also wait for another one that is blocked: for a lock that it holds, or for its answer. This
//! wait counts for the time for which the other thread was blocked.
//!
//! "Behind whom" is a share of request time. While a thread waits, requests are outstanding on the device for
//! which it waits. Each request is counted from its queueing to its completion, as far as it lies within the
//! wait. The share of a process is the sum of its requests divided by the sum of all requests. This is
//! computed for the longest waits only.

mod behind;
mod chain;
mod count;
mod figures;
mod program;
mod tally;
#[cfg(test)]
mod tests;

use fonio_core::BlockedIn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::waits::outstanding::TimeShare;
pub use figures::doing;
pub(crate) use tally::BlockedTally;

/// The threads that were blocked on storage. Present if the recording has the waits of all threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Blocked {
    /// Each program by name and unit: those of interest first, then others, bulk work and kernel threads; among these, the one
    /// with the thread that was blocked for longest first.
    pub programs: Vec<BlockedProgram>,
    /// Programs beyond the cap of 1024, which are not listed.
    pub programs_beyond_cap: u64,
    /// Each file for which threads of programs waited in waits that have rows; the longest time first.
    pub files: Vec<BlockedFile>,
    /// Single long waits of programs of interest.
    pub long: LongWaits,
    /// The longest waits of programs that are not kernel threads, in the order of time; at most 4096, and 16 of a thread.
    pub intervals: Vec<Interval>,
    /// Waits with a row of their own beyond these.
    pub intervals_beyond_cap: u64,
    /// Threads beyond the most that are followed at once; their waits are missing.
    pub threads_beyond_cap: u64,
    /// The recording was made without BPF: waits for another thread of a program, and for asynchronous I/O, are missing.
    pub is_partial: bool,
    /// The waits were sampled from procfs: times are estimates, and there are no requests.
    #[serde(default)]
    pub is_sampled: bool,
}

/// The role of a program in the verdict.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A program for which somebody may wait: the recorded command and its descendants, bulk work or not; without a
    /// command, every program that is not bulk work.
    #[default]
    OfInterest,
    /// A program that is not part of the recorded command.
    Other,
    /// A thread that moves much data in large requests, such as a copy or a backup: it waits for storage by its nature.
    BulkWork,
    /// A thread of the kernel, which works for others.
    Kernel,
}

/// The waits of the threads with one name in one unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockedProgram {
    /// The threads' name.
    pub name: String,
    /// The systemd unit or container, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Its role in the verdict.
    pub role: Role,
    /// The number of threads that were blocked.
    pub threads: u64,
    /// The number of waits.
    pub waits: u64,
    /// The time for which its threads were blocked, summed over them, in nanoseconds. Threads wait at the same time, so it
    /// can exceed the span.
    pub time_ns: u64,
    /// The thread that was blocked for longest.
    pub worst_tid: u32,
    /// The time for which that thread was blocked.
    pub worst: TimeShare,
    /// The longest wait in nanoseconds; absent if all waits were short.
    pub longest_ns: Option<u64>,
    /// The number of waits of 100 ms and more in operations for which people wait.
    pub long: u64,
    /// The waits by operation, the longest time first.
    pub operations: Vec<OperationTime>,
    /// The file for which it waited longest, and the share of the time of waits whose file is known.
    pub file: Option<FileShare>,
    /// Whose requests were outstanding during its longest waits; the largest share first.
    pub behind: Vec<Behind>,
    /// Where the thread was blocked for which it waited most, if it spent at least half of its time in such waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<Through>,
}

/// A thread that storage blocked while another one waited for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Through {
    /// Its name.
    pub name: String,
    /// Its unit, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The operation in which it was blocked, as in the recording.
    pub blocked_in: String,
    /// The file, if its path is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl Through {
    /// The name, with the unit if it is known.
    pub fn full_name(&self) -> String {
        named(&self.name, self.unit.as_deref())
    }
}

impl BlockedProgram {
    /// The name, with the unit if it is known: `python3 (notes.service)`.
    pub fn full_name(&self) -> String {
        named(&self.name, self.unit.as_deref())
    }
}

/// The waits in one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperationTime {
    /// The operation, as in the recording: `fsync`, `read`, `page_fault`, …
    pub blocked_in: String,
    /// The number of waits.
    pub waits: u64,
    /// Their time in nanoseconds.
    pub time_ns: u64,
}

/// A file's share of the waits of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileShare {
    /// Its path, or its inode number if the path is unknown.
    pub path: String,
    /// The share. That of a database of SQLite includes its journal and its WAL.
    pub share: f64,
    /// The rollback journal of the database, if that was waited for too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<String>,
}

/// Requests that were outstanding while threads waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Behind {
    /// The process that caused the requests.
    pub process: String,
    /// Its unit, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The file, if at least half of the requests belong to one whose path is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The kind of data of at least half of the requests, as in the recording; else `unknown`.
    pub content: String,
    /// Whether the waiting process caused them itself.
    pub is_own: bool,
    /// The share of the request time.
    pub share: f64,
}

impl Behind {
    /// The process, with its unit if it is known.
    pub fn full_name(&self) -> String {
        named(&self.process, self.unit.as_deref())
    }
}

/// The waits for one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockedFile {
    /// Its path; absent if it is unknown.
    pub path: Option<String>,
    /// The number of waits.
    pub waits: u64,
    /// Their time in nanoseconds, summed over all threads of programs.
    pub time_ns: u64,
    /// The longest in nanoseconds.
    pub longest_ns: u64,
    /// The program that waited longest for it.
    pub program: String,
}

/// Waits of 100 ms and more of programs of interest, in operations for which people wait: reads, page faults, look-ups of
/// names, fsync, the journal, and reading back memory that was swapped out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LongWaits {
    /// The least long wait, in nanoseconds.
    pub threshold_ns: u64,
    /// Their number.
    pub count: u64,
    /// The longest, the longest first; at most ten.
    pub longest: Vec<LongWait>,
}

/// One long wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LongWait {
    /// When it began, from the start of the span.
    pub at_ns: u64,
    /// Its length.
    pub time_ns: u64,
    /// The thread.
    pub tid: u32,
    /// The thread's name, with its unit if it is known.
    pub program: String,
    /// The operation, as in the recording.
    pub blocked_in: String,
    /// The file's path, if it is known.
    pub file: Option<String>,
    /// Whose requests were outstanding; the largest share first. Empty if that is unknown.
    pub behind: Vec<Behind>,
    /// In a wait for another thread: where that one was blocked. Only that time counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<Through>,
}

/// An interval in which a thread was blocked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// When it began, from the start of the span.
    pub at_ns: u64,
    /// Its length.
    pub time_ns: u64,
    /// Index into the list of programs.
    pub program: u32,
    /// The operation, as in the recording.
    pub blocked_in: String,
}

fn named(name: &str, unit: Option<&str>) -> String {
    match unit {
        Some(unit) => format!("{name} ({unit})"),
        None => name.to_owned(),
    }
}

/// Whether people wait for this operation: a program goes on only after it. Of writes that the kernel holds back, a copy
/// has many, for which nobody waits.
pub(crate) fn is_felt(operation: BlockedIn) -> bool {
    use BlockedIn::{AsyncIo, Fsync, Journal, Metadata, OtherThread, PageFault, Read, SwapIn};
    matches!(operation, Fsync | Read | PageFault | SwapIn | Metadata | Journal | OtherThread | AsyncIo)
}
