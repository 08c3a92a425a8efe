//! The steps of a thread. In TOML, each step is a table with `do` and its own keys.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::param::Param;
use super::quantity::{Bytes, Sizes};
use crate::content::Content;

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Repeats steps. `--scale` reduces `times` first, then the inner counts.
    Repeat {
        /// Number of repeats.
        #[serde(default = "one")]
        times: u64,
        /// The name of each round's mark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mark: Option<String>,
        /// The steps to repeat.
        steps: Vec<Step>,
    },
    /// Runs steps between `BEGIN IMMEDIATE` and `COMMIT`.
    Transaction {
        /// The database.
        database: String,
        /// Number of transactions.
        #[serde(default = "one")]
        times: u64,
        /// The steps of each transaction.
        steps: Vec<Step>,
    },
    /// Creates new files.
    Write {
        /// The group.
        files: String,
        /// Number of files.
        #[serde(default = "one")]
        count: u64,
        /// Length of each file.
        size: Sizes,
        /// Bytes of each write call.
        #[serde(default = "request_default")]
        request: Bytes,
        /// The sync policy.
        #[serde(default)]
        sync: SyncPolicy,
    },
    /// Appends to the newest file; creates a file if there is none.
    Append {
        /// The group.
        files: String,
        /// Number of write calls.
        #[serde(default = "one")]
        count: u64,
        /// Bytes of each call.
        size: Sizes,
        /// The sync policy.
        #[serde(default)]
        sync: SyncPolicy,
        /// Whether to bypass the page cache (`O_DIRECT`); sizes must be multiples of 4096.
        #[serde(default)]
        direct: bool,
    },
    /// Writes within existing files.
    Overwrite {
        /// The group.
        files: String,
        /// Number of write calls.
        #[serde(default = "one")]
        count: u64,
        /// Bytes of each call; random offsets are multiples of this size.
        size: Sizes,
        /// The files and offsets to write.
        #[serde(default)]
        order: Order,
        /// The sync policy.
        #[serde(default)]
        sync: SyncPolicy,
        /// Whether to bypass the page cache (`O_DIRECT`); sizes must be multiples of 4096.
        #[serde(default)]
        direct: bool,
    },
    /// Reads from existing files.
    Read {
        /// The group.
        files: String,
        /// Number of read calls; with `order = "whole"`, number of files.
        #[serde(default = "one")]
        count: u64,
        /// Bytes of each read call.
        #[serde(default = "request_default")]
        size: Bytes,
        /// The files and offsets to read.
        #[serde(default)]
        order: Order,
        /// Whether to bypass the page cache (`O_DIRECT`); sizes must be multiples of 4096.
        #[serde(default)]
        direct: bool,
    },
    /// Writes a new version of a file and renames it over the old one, as Android does with preferences.
    Replace {
        /// The group.
        files: String,
        /// Number of files, one after the other.
        #[serde(default = "one")]
        count: u64,
        /// Length of each new version.
        size: Sizes,
        /// The sync policy.
        #[serde(default)]
        sync: SyncPolicy,
    },
    /// Moves the oldest files to another group.
    Rename {
        /// The source group.
        files: String,
        /// The destination group; it must have the same place.
        to: String,
        /// Number of files.
        #[serde(default = "one")]
        count: u64,
    },
    /// Deletes the oldest files.
    Delete {
        /// The group.
        files: String,
        /// Number of files; with `keep`, number of checks.
        #[serde(default = "one")]
        count: u64,
        /// Deletes files until this number is left, like a cache. The number is scaled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<u64>,
    },
    /// Drops a group's pages from the page cache, so the next reads are cold.
    Evict {
        /// The group.
        files: String,
    },
    /// Executes a statement.
    Sql {
        /// The database.
        database: String,
        /// One statement with `?` for each parameter.
        statement: String,
        /// The values of the parameters.
        #[serde(default)]
        params: Vec<Param>,
        /// Number of executions.
        #[serde(default = "one")]
        count: u64,
        /// Statements per transaction; if absent, each statement is a transaction.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<u64>,
    },
    /// Fetches objects over HTTP.
    Get {
        /// Number of objects.
        #[serde(default = "one")]
        count: u64,
        /// Length of each object's body.
        size: Sizes,
        /// The content of the objects.
        #[serde(default)]
        content: Content,
        /// Bytes sent with each request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        send: Option<Sizes>,
        /// The group of files in which the objects are stored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        store: Option<String>,
        /// Bytes of each write call for storing an object.
        #[serde(default = "request_default")]
        request: Bytes,
        /// The sync policy for stored objects.
        #[serde(default)]
        sync: SyncPolicy,
    },
    /// Pauses, like a user or a timer.
    Think {
        /// Seconds, multiplied by the pace of the run.
        seconds: f64,
    },
    /// Keeps the CPU busy with real work.
    Work {
        /// The kind of work.
        kind: Work,
        /// Bytes to process. If absent, the step processes the bytes that the thread last fetched or read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<Bytes>,
        /// Number of repetitions.
        #[serde(default = "one")]
        count: u64,
    },
    /// Replays a trace of system calls in Mobigen's format, with all its threads.
    Replay {
        /// The trace, relative to the workload's file.
        trace: PathBuf,
        /// The place of the trace's files.
        place: String,
    },
}

pub(super) fn one() -> u64 {
    1
}

/// Returns the buffer size of Java's stream classes, which most Android apps use.
fn request_default() -> Bytes {
    Bytes(8192)
}

/// The points at which files are synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncPolicy {
    /// Never; the kernel writes the data back later.
    #[default]
    None,
    /// `fsync` after each file that the step writes. For calls on open files: `fsync` after the last call of
    /// the step.
    End,
    /// `fsync` after each write call.
    Each,
    /// Like `end`, with `fdatasync`.
    DataEnd,
    /// `fdatasync` after each write call.
    DataEach,
    /// Files are opened with `O_SYNC`.
    Open,
}

/// The files and offsets that the calls of a step use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Each call starts where the group's last sequential call ended. Calls go through the files in order,
    /// and start again at the first file after the last.
    #[default]
    Sequential,
    /// A random file, at a random offset.
    Random,
    /// A random file, from start to end.
    Whole,
}

/// Kinds of CPU work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Inflates.
    Decode,
    /// Scans markup: tags and words.
    Parse,
    /// Deflates.
    Compress,
}

impl Step {
    /// Returns the inner steps.
    #[must_use]
    pub fn inner(&self) -> &[Step] {
        match self {
            Step::Repeat { steps, .. } | Step::Transaction { steps, .. } => steps,
            _ => &[],
        }
    }

    /// Returns the word for `do` in TOML.
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
