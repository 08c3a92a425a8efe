//! What a thread can do. In TOML each step is a table with `do` and its own keys.

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
        /// Gives each round a mark of this name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mark: Option<String>,
        /// What is repeated.
        steps: Vec<Step>,
    },
    /// Runs steps between `BEGIN IMMEDIATE` and `COMMIT`.
    Transaction {
        /// The database.
        database: String,
        /// How many such transactions.
        #[serde(default = "one")]
        times: u64,
        /// What is done in each.
        steps: Vec<Step>,
    },
    /// Makes new files.
    Write {
        /// The group.
        files: String,
        /// How many.
        #[serde(default = "one")]
        count: u64,
        /// Each one's length.
        size: Sizes,
        /// Bytes of each write call.
        #[serde(default = "request_default")]
        request: Bytes,
        /// When to sync.
        #[serde(default)]
        sync: SyncPolicy,
    },
    /// Writes at the end of the newest file; makes one where there is none.
    Append {
        /// The group.
        files: String,
        /// How many write calls.
        #[serde(default = "one")]
        count: u64,
        /// Bytes of each.
        size: Sizes,
        /// When to sync.
        #[serde(default)]
        sync: SyncPolicy,
        /// Goes round the page cache (`O_DIRECT`); sizes must be multiples of 4096.
        #[serde(default)]
        direct: bool,
    },
    /// Writes within existing files.
    Overwrite {
        /// The group.
        files: String,
        /// How many write calls.
        #[serde(default = "one")]
        count: u64,
        /// Bytes of each; random offsets are multiples of it.
        size: Sizes,
        /// Where.
        #[serde(default)]
        order: Order,
        /// When to sync.
        #[serde(default)]
        sync: SyncPolicy,
        /// Goes round the page cache (`O_DIRECT`); sizes must be multiples of 4096.
        #[serde(default)]
        direct: bool,
    },
    /// Reads from existing files.
    Read {
        /// The group.
        files: String,
        /// How many read calls; with `order = "whole"`, how many files.
        #[serde(default = "one")]
        count: u64,
        /// Bytes of each read call.
        #[serde(default = "request_default")]
        size: Bytes,
        /// Where.
        #[serde(default)]
        order: Order,
        /// Goes round the page cache (`O_DIRECT`); sizes must be multiples of 4096.
        #[serde(default)]
        direct: bool,
    },
    /// Writes a new version beside a file and renames it over the old one, as Android keeps preferences.
    Replace {
        /// The group.
        files: String,
        /// How many files, one after the other.
        #[serde(default = "one")]
        count: u64,
        /// Each new version's length.
        size: Sizes,
        /// When to sync.
        #[serde(default)]
        sync: SyncPolicy,
    },
    /// Moves the oldest files to another group.
    Rename {
        /// The group they are in.
        files: String,
        /// The group they come to; of the same place.
        to: String,
        /// How many.
        #[serde(default = "one")]
        count: u64,
    },
    /// Deletes the oldest files.
    Delete {
        /// The group.
        files: String,
        /// How many; with `keep`, how often to look.
        #[serde(default = "one")]
        count: u64,
        /// Deletes until this many are left, as a cache does. It is scaled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<u64>,
    },
    /// Asks the kernel to drop a group's pages, so that reading is cold again.
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
        /// What is bound.
        #[serde(default)]
        params: Vec<Param>,
        /// How often.
        #[serde(default = "one")]
        count: u64,
        /// Statements in one transaction; each is its own where this is absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<u64>,
    },
    /// Fetches objects over HTTP.
    Get {
        /// How many.
        #[serde(default = "one")]
        count: u64,
        /// Each one's body.
        size: Sizes,
        /// What they hold.
        #[serde(default)]
        content: Content,
        /// Bytes sent with each request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        send: Option<Sizes>,
        /// Group of files that each object is written to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        store: Option<String>,
        /// Bytes of each write call when it is stored.
        #[serde(default = "request_default")]
        request: Bytes,
        /// When to sync what is stored.
        #[serde(default)]
        sync: SyncPolicy,
    },
    /// Pauses, as a user or a timer does.
    Think {
        /// Seconds, at the run's pace.
        seconds: f64,
    },
    /// Keeps the processor busy with real work.
    Work {
        /// Which.
        kind: Work,
        /// Bytes that go through it. Where it is absent, what the thread fetched or read last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<Bytes>,
        /// How often.
        #[serde(default = "one")]
        count: u64,
    },
    /// Replays a trace of system calls in the format of Mobigen, all its threads.
    Replay {
        /// The trace, relative to the workload's file.
        trace: PathBuf,
        /// The place its files lie in.
        place: String,
    },
}

fn one() -> u64 {
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
    /// Left to the kernel's write-back.
    #[default]
    None,
    /// `fsync` once a file is written; for calls on open files, once the step's calls are done.
    End,
    /// `fsync` after each write call.
    Each,
    /// `fdatasync` once, as `end`.
    DataEnd,
    /// `fdatasync` after each write call.
    DataEach,
    /// Opened with `O_SYNC`.
    Open,
}

/// Where calls go in a group's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// On from where the group's last sequential call ended, file after file, and round again.
    #[default]
    Sequential,
    /// Any file, any offset.
    Random,
    /// Any file, from its start to its end.
    Whole,
}

/// Work for the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Inflates.
    Decode,
    /// Scans mark-up: tags and words.
    Parse,
    /// Deflates.
    Compress,
}

impl Step {
    /// The steps inside this one.
    #[must_use]
    pub fn inner(&self) -> &[Step] {
        match self {
            Step::Repeat { steps, .. } | Step::Transaction { steps, .. } => steps,
            _ => &[],
        }
    }

    /// The word that `do` has in TOML.
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

    /// How often it is done in one round of what is around it.
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
