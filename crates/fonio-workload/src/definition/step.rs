//! The steps of a thread. In TOML, each step is a table with `do` and the step's own keys.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::param::Param;
use super::quantity::{Bytes, Sizes};
use crate::content::Content;

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Runs steps several times. `--scale` shrinks `times` first, then the counts inside.
    Repeat {
        /// How often.
        #[serde(default = "one")]
        times: u64,
        /// The name of the mark that each round gets.
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
        /// When to sync.
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
        /// When to sync.
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
        /// Bytes of each call; random offsets are multiples of it.
        size: Sizes,
        /// The files and offsets to write.
        #[serde(default)]
        order: Order,
        /// When to sync.
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
    /// Writes a new version next to a file and renames it over the old one, as Android does with preferences.
    Replace {
        /// The group.
        files: String,
        /// Number of files, one after the other.
        #[serde(default = "one")]
        count: u64,
        /// Length of each new version.
        size: Sizes,
        /// When to sync.
        #[serde(default)]
        sync: SyncPolicy,
    },
    /// Moves the oldest files to another group.
    Rename {
        /// The group that the files are in.
        files: String,
        /// The group that the files move to; it must have the same place.
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
        /// Deletes until this many files are left, as a cache does. The number is scaled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<u64>,
    },
    /// Asks the kernel to drop a group's pages from the page cache, so that reads are cold again.
    Evict {
        /// The group.
        files: String,
    },
    /// Runs a statement.
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
        /// Statements in one transaction; if absent, each statement is a transaction.
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
        /// Bytes of each write call when an object is stored.
        #[serde(default = "request_default")]
        request: Bytes,
        /// When to sync stored objects.
        #[serde(default)]
        sync: SyncPolicy,
    },
    /// Pauses, as a user or a timer does.
    Think {
        /// Seconds; the pace of the run multiplies them.
        seconds: f64,
    },
    /// Keeps the processor busy with real work.
    Work {
        /// The kind of work.
        kind: Work,
        /// Bytes to process. If absent, the bytes that the thread fetched or read last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<Bytes>,
        /// Number of repetitions.
        #[serde(default = "one")]
        count: u64,
    },
    /// Replays a trace of system calls in the format of Mobigen, with all its threads.
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

/// The buffer of Java's stream classes, which most Android apps write through.
fn request_default() -> Bytes {
    Bytes(8192)
}

/// When a file is made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncPolicy {
    /// The kernel's write-back writes the data later.
    #[default]
    None,
    /// `fsync` after a file is written; for calls on open files, after the last call of the step.
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
    /// Each call continues where the group's last sequential call ended, file after file, and starts again after the
    /// last file.
    #[default]
    Sequential,
    /// Any file, at any offset.
    Random,
    /// Any file, from its start to its end.
    Whole,
}

/// Kinds of work for the processor.
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
    /// Returns the steps inside this one.
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

    /// Returns how often the step runs in one round of the step around it.
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
