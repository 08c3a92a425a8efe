//! The amounts and times of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

macro_rules! amounts {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// Amounts requested by the app. The amounts that reach the device are in recordings.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Amounts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl std::ops::AddAssign for Amounts {
            fn add_assign(&mut self, other: Amounts) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

amounts! {
    /// Files created.
    files_created
    /// Files deleted.
    files_deleted
    /// Bytes written to files, without SQLite's files.
    file_bytes_written
    /// Bytes read from files, without SQLite's files.
    file_bytes_read
    /// Write calls on files.
    file_writes
    /// Read calls on files.
    file_reads
    /// `fsync` and `fdatasync` calls on files and directories.
    syncs
    /// Syncs skipped because of an override.
    syncs_skipped
    /// SQL statements executed, without `BEGIN` and `COMMIT`.
    statements
    /// Committed SQLite write transactions, including single statements (autocommit).
    transactions
    /// Rows returned by statements.
    rows_read
    /// Bytes of text and blobs bound to statements.
    sql_bytes_bound
    /// HTTP requests with a response.
    http_requests
    /// Bytes of HTTP bodies received.
    bytes_fetched
    /// Bytes of HTTP bodies sent.
    bytes_sent
    /// Nanoseconds of requested pauses, summed over threads.
    think_ns
    /// Bytes processed by CPU work.
    bytes_worked
    /// System calls replayed from a trace.
    calls_replayed
    /// Trace calls that were not replayed because their file is not on the device, such as in `/proc`.
    calls_left_out
}

/// A phase's time and amounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseOutcome {
    /// The phase's name.
    pub name: String,
    /// Start, in monotonic nanoseconds.
    pub start_ns: u64,
    /// Duration in nanoseconds.
    pub wall_ns: u64,
    /// The amounts of its operations.
    pub amounts: Amounts,
}

/// A step's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOutcome {
    /// The path of the step, such as `browse/ui/1.2`: the phase, the thread, then the step's number at each
    /// depth, from 1.
    pub key: String,
    /// The kind of step, such as `sql`.
    pub kind: String,
    /// Number of completed operations, in the unit of the step's `count`: files, requests, statements or
    /// objects.
    pub count: u64,
    /// Total nanoseconds.
    pub total_ns: u64,
    /// Nanoseconds of its longest single operation.
    pub longest_ns: u64,
}

/// A database file at the end of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseOutcome {
    /// The effective journal mode.
    pub journal: String,
    /// The effective synchronous setting.
    pub synchronous: String,
    /// Bytes of the main file.
    pub bytes: u64,
}

/// The files of one group at the end of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesOutcome {
    /// Number of files.
    pub count: u64,
    /// Their total size in bytes.
    pub bytes: u64,
}

/// The outcome of a complete run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The workload's name.
    pub workload: String,
    /// The scale of the run, relative to the full amount.
    pub scale: f64,
    /// The seed of all content and choices.
    pub seed: u64,
    /// The SQLite version, such as `3.50.4`.
    pub sqlite_version: String,
    /// Start, in monotonic nanoseconds.
    pub start_ns: u64,
    /// Nanoseconds from start to end, including closing the databases.
    pub wall_ns: u64,
    /// The sum of all phases.
    pub amounts: Amounts,
    /// Phases, in order.
    pub phases: Vec<PhaseOutcome>,
    /// Steps, in the order of the definition.
    pub steps: Vec<StepOutcome>,
    /// Databases, by name.
    pub databases: BTreeMap<String, DatabaseOutcome>,
    /// Groups of files, by name.
    pub files: BTreeMap<String, FilesOutcome>,
}
