//! The amounts and times of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

macro_rules! amounts {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// Amounts that the app itself asked for. A recording, not this type, has the amounts that reach the device.
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
    /// Files made.
    files_created
    /// Files deleted.
    files_deleted
    /// Bytes written to files, without SQLite's own.
    file_bytes_written
    /// Bytes read from files, without SQLite's own.
    file_bytes_read
    /// Write calls on files.
    file_writes
    /// Read calls on files.
    file_reads
    /// `fsync` and `fdatasync` calls on files and directories.
    syncs
    /// Syncs left out because an override says so.
    syncs_skipped
    /// SQL statements run, `BEGIN` and `COMMIT` not counted.
    statements
    /// SQLite transactions that wrote and committed, including those of single statements (autocommit).
    transactions
    /// Rows that statements returned.
    rows_read
    /// Bytes of text and blobs bound to statements.
    sql_bytes_bound
    /// HTTP requests answered.
    http_requests
    /// Bytes of HTTP bodies received.
    bytes_fetched
    /// Bytes of HTTP bodies sent.
    bytes_sent
    /// Nanoseconds asked to pause, summed over threads.
    think_ns
    /// Bytes that went through processor work.
    bytes_worked
    /// System calls replayed from a trace.
    calls_replayed
    /// Calls of a trace that were not replayed because they are not for a file on the device, such as a call on
    /// `/proc`.
    calls_left_out
}

/// One phase's time and amounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseOutcome {
    /// The phase's name.
    pub name: String,
    /// Monotonic nanoseconds at its start.
    pub start_ns: u64,
    /// Nanoseconds it took.
    pub wall_ns: u64,
    /// The amounts of its operations.
    pub amounts: Amounts,
}

/// One step's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOutcome {
    /// Its path, such as `browse/ui/1.2`: phase, thread, then the step's number at each depth, from one.
    pub key: String,
    /// The kind of step, such as `sql`.
    pub kind: String,
    /// Operations done: files, requests, statements or objects, whichever its `count` counts.
    pub count: u64,
    /// Nanoseconds in it, summed.
    pub total_ns: u64,
    /// Nanoseconds of its longest single operation.
    pub longest_ns: u64,
}

/// A database file at the end of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseOutcome {
    /// The journal mode that was in force.
    pub journal: String,
    /// The synchronous setting that was in force.
    pub synchronous: String,
    /// Bytes of the main file.
    pub bytes: u64,
}

/// The files of one group at the end of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesOutcome {
    /// How many there are.
    pub count: u64,
    /// Their bytes together.
    pub bytes: u64,
}

/// The outcome of a complete run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The workload's name.
    pub workload: String,
    /// The share of the full amount that was run.
    pub scale: f64,
    /// The seed of all content and choices.
    pub seed: u64,
    /// The SQLite that ran, such as `3.50.4`.
    pub sqlite_version: String,
    /// Monotonic nanoseconds at the start.
    pub start_ns: u64,
    /// Nanoseconds from start to end, including closing the databases.
    pub wall_ns: u64,
    /// The sum of all phases.
    pub amounts: Amounts,
    /// By phase, in order.
    pub phases: Vec<PhaseOutcome>,
    /// By step, in the order of the definition.
    pub steps: Vec<StepOutcome>,
    /// By database.
    pub databases: BTreeMap<String, DatabaseOutcome>,
    /// By group of files.
    pub files: BTreeMap<String, FilesOutcome>,
}
