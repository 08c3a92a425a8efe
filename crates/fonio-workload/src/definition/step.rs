//! The steps of a thread. In TOML, each step is a table with `do` and its own keys.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::param::Param;
use super::quantity::{Bytes, Sizes};
use crate::content::Content;

/// A step of a thread: an operation on files, databases, objects or the CPU, or a repeat of other steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Repeats nested steps. `--scale` reduces `times` first, then the counts of the nested steps.
    Repeat {
        /// Number of repeats.
        #[serde(default = "one")]
        times: u64,
        /// Time in seconds from the beginning of a round to the beginning of the next one, as in a program with a
        /// timer; multiplied by the pace of the run. The first round begins after a random part of this time,
        /// because such a timer does not start with the measured program. Absent: no pauses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        every: Option<f64>,
        /// The name of the mark that each round sets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mark: Option<String>,
        /// The steps to repeat.
        steps: Vec<Step>,
    },
    /// Executes nested steps between `BEGIN IMMEDIATE` and `COMMIT`.
    Transaction {
        /// The name of the database.
        database: String,
        /// Number of transactions.
        #[serde(default = "one")]
        times: u64,
        /// The steps executed in each transaction.
        steps: Vec<Step>,
    },
    /// Creates new files.
    Write {
        /// The name of the file group.
        files: String,
        /// Number of files to create.
        #[serde(default = "one")]
        count: u64,
        /// Length of each file in bytes.
        size: Sizes,
        /// Bytes of each `write` call.
        #[serde(default = "request_default")]
        request: Bytes,
        /// The points at which the new files are synced.
        #[serde(default)]
        sync: SyncPolicy,
    },
    /// Appends to the group's newest file; creates a file if the group is empty.
    Append {
        /// The name of the file group.
        files: String,
        /// Number of `write` calls.
        #[serde(default = "one")]
        count: u64,
        /// Bytes of each `write` call.
        size: Sizes,
        /// The points at which the file is synced.
        #[serde(default)]
        sync: SyncPolicy,
        /// Whether to bypass the page cache (`O_DIRECT`); sizes must be multiples of 4096.
        #[serde(default)]
        direct: bool,
    },
    /// Overwrites data in existing files of a group.
    Overwrite {
        /// The name of the file group.
        files: String,
        /// Number of `write` calls.
        #[serde(default = "one")]
        count: u64,
        /// Bytes of each `write` call; random offsets are multiples of this size.
        size: Sizes,
        /// The order in which files and offsets are written.
        #[serde(default)]
        order: Order,
        /// The points at which the files are synced.
        #[serde(default)]
        sync: SyncPolicy,
        /// Whether to bypass the page cache (`O_DIRECT`); sizes must be multiples of 4096.
        #[serde(default)]
        direct: bool,
    },
    /// Reads existing files of a group.
    Read {
        /// The name of the file group.
        files: String,
        /// Number of `read` calls; with `order = "whole"`, number of files.
        #[serde(default = "one")]
        count: u64,
        /// Bytes of each `read` call.
        #[serde(default = "request_default")]
        size: Bytes,
        /// The order in which files and offsets are read.
        #[serde(default)]
        order: Order,
        /// Whether to bypass the page cache (`O_DIRECT`); sizes must be multiples of 4096.
        #[serde(default)]
        direct: bool,
    },
    /// Writes a new version of a file and renames it over the old one, as Android does with preferences.
    Replace {
        /// The name of the file group.
        files: String,
        /// Number of files to replace, one after the other.
        #[serde(default = "one")]
        count: u64,
        /// Length of each new version in bytes.
        size: Sizes,
        /// The points at which the new versions are synced.
        #[serde(default)]
        sync: SyncPolicy,
    },
    /// Moves a group's oldest files to another group.
    Rename {
        /// The name of the source group.
        files: String,
        /// The name of the destination group; it must have the same place as the source group.
        to: String,
        /// Number of files to move.
        #[serde(default = "one")]
        count: u64,
    },
    /// Deletes a group's oldest files.
    Delete {
        /// The name of the file group.
        files: String,
        /// Number of files to delete; with `keep`, number of checks.
        #[serde(default = "one")]
        count: u64,
        /// If given, each check deletes files until this number of files is left. `--scale` also scales this
        /// number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<u64>,
    },
    /// Drops a group's pages from the page cache, so the next reads are cold.
    Evict {
        /// The name of the file group.
        files: String,
    },
    /// Executes an SQL statement.
    Sql {
        /// The name of the database.
        database: String,
        /// One SQL statement with `?` for each parameter.
        statement: String,
        /// The values bound to the statement's parameters.
        #[serde(default)]
        params: Vec<Param>,
        /// Number of executions of the statement.
        #[serde(default = "one")]
        count: u64,
        /// Number of statements per transaction; if absent, each statement is a transaction.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<u64>,
    },
    /// Fetches objects over HTTP.
    Get {
        /// Number of objects to fetch.
        #[serde(default = "one")]
        count: u64,
        /// Length of each fetched object in bytes.
        size: Sizes,
        /// The kind of content of the fetched objects.
        #[serde(default)]
        content: Content,
        /// Bytes sent in the body of each request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        send: Option<Sizes>,
        /// The file group in which the fetched objects are stored; if absent, objects are not stored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        store: Option<String>,
        /// Bytes of each `write` call that stores an object.
        #[serde(default = "request_default")]
        request: Bytes,
        /// The points at which the stored objects are synced.
        #[serde(default)]
        sync: SyncPolicy,
    },
    /// Pauses the thread, like a user or a timer.
    Think {
        /// Length of the pause in seconds, multiplied by the pace of the run.
        seconds: f64,
    },
    /// Keeps the CPU busy with work on real data.
    Work {
        /// The kind of CPU work.
        kind: Work,
        /// Bytes to process. If absent, the step processes the bytes that the thread last fetched or read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<Bytes>,
        /// Number of repetitions of the work.
        #[serde(default = "one")]
        count: u64,
    },
    /// Replays a trace of system calls in Mobigen's format, with all its threads.
    Replay {
        /// Path of the trace, relative to the workload's file.
        trace: PathBuf,
        /// The name of the place that contains the trace's files.
        place: String,
    },
}

pub(super) fn one() -> u64 {
    1
}

/// Returns the buffer size of Java's stream classes, which most Android apps use for files.
fn request_default() -> Bytes {
    Bytes(8192)
}

/// The points at which a step syncs the files that it writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncPolicy {
    /// Files are never synced; the kernel writes the data back later.
    #[default]
    None,
    /// `fsync` is called after each file that the step writes. For calls on open files, `fsync` is called
    /// after the last call of the step.
    End,
    /// `fsync` is called after each `write` call.
    Each,
    /// As with `end`, but `fdatasync` is called instead of `fsync`.
    DataEnd,
    /// `fdatasync` is called after each `write` call.
    DataEach,
    /// Files are opened with `O_SYNC`, so each `write` call is synchronous.
    Open,
}

/// The files and offsets that the calls of a step use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Each call starts where the group's last sequential call ended. Calls go through the files in order,
    /// and continue at the first file after the last file.
    #[default]
    Sequential,
    /// Each call uses a random file, at a random offset.
    Random,
    /// Each call uses a random file, from its start to its end.
    Whole,
}

/// Kinds of CPU work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Decompresses zlib streams.
    Decode,
    /// Scans text for tags and words.
    Parse,
    /// Compresses data with deflate.
    Compress,
}

impl Step {
    /// Returns the nested steps.
    #[must_use]
    pub fn inner(&self) -> &[Step] {
        match self {
            Step::Repeat { steps, .. } | Step::Transaction { steps, .. } => steps,
            _ => &[],
        }
    }

    /// Returns the step's keyword in TOML, the value of `do`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Step::Repeat { .. } => "repeat",
            Step::Transaction { .. } => "transaction",
            Step::Write { .. } => "write",
            Step::Append { .. } => "append",
            Step::Overwrite { .. } => "overwrite",
            Step::Read { .. } => "read",
            Step::Replace { .. } => "replace",
            Step::Rename { .. } => "rename",
            Step::Delete { .. } => "delete",
            Step::Evict { .. } => "evict",
            Step::Sql { .. } => "sql",
            Step::Get { .. } => "get",
            Step::Think { .. } => "think",
            Step::Work { .. } => "work",
            Step::Replay { .. } => "replay",
        }
    }

    /// Returns how many times the step is executed in one round of the enclosing step.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self {
            Step::Repeat { times, .. } | Step::Transaction { times, .. } => *times,
            Step::Write { count, .. }
            | Step::Append { count, .. }
            | Step::Overwrite { count, .. }
            | Step::Read { count, .. }
            | Step::Replace { count, .. }
            | Step::Rename { count, .. }
            | Step::Delete { count, .. }
            | Step::Sql { count, .. }
            | Step::Get { count, .. }
            | Step::Work { count, .. } => *count,
            Step::Evict { .. } | Step::Think { .. } | Step::Replay { .. } => 1,
        }
    }
}
