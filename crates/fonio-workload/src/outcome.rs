//! The amounts and times of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Amounts that the app itself asked for. A recording, not this type, has the amounts that reach the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amounts {
    /// Files made.
    pub files_created: u64,
    /// Files deleted.
    pub files_deleted: u64,
    /// Bytes written to files, without SQLite's own.
    pub file_bytes_written: u64,
    /// Bytes read from files, without SQLite's own.
    pub file_bytes_read: u64,
    /// Write calls on files.
    pub file_writes: u64,
    /// Read calls on files.
    pub file_reads: u64,
    /// `fsync` and `fdatasync` calls on files and directories.
    pub syncs: u64,
    /// Syncs left out because an override says so.
    pub syncs_skipped: u64,
    /// SQL statements run, `BEGIN` and `COMMIT` not counted.
    pub statements: u64,
    /// SQLite transactions that wrote and committed, including those of single statements (autocommit).
    pub transactions: u64,
    /// Rows that statements returned.
    pub rows_read: u64,
    /// Bytes of text and blobs bound to statements.
    pub sql_bytes_bound: u64,
    /// HTTP requests answered.
    pub http_requests: u64,
    /// Bytes of HTTP bodies received.
    pub bytes_fetched: u64,
    /// Bytes of HTTP bodies sent.
    pub bytes_sent: u64,
    /// Nanoseconds asked to pause, summed over threads.
    pub think_ns: u64,
    /// Bytes that went through processor work.
    pub bytes_worked: u64,
    /// System calls replayed from a trace.
    pub calls_replayed: u64,
    /// Calls of a trace that were not replayed because they are not for a file on the device, such as a call on
    /// `/proc`.
    pub calls_left_out: u64,
}

impl Amounts {
    /// Each amount with its name, in the order of the struct.
    pub fn named(&self) -> [(&'static str, u64); 19] {
        [
            ("files_created", self.files_created),
            ("files_deleted", self.files_deleted),
            ("file_bytes_written", self.file_bytes_written),
            ("file_bytes_read", self.file_bytes_read),
            ("file_writes", self.file_writes),
            ("file_reads", self.file_reads),
            ("syncs", self.syncs),
            ("syncs_skipped", self.syncs_skipped),
            ("statements", self.statements),
            ("transactions", self.transactions),
            ("rows_read", self.rows_read),
            ("sql_bytes_bound", self.sql_bytes_bound),
            ("http_requests", self.http_requests),
            ("bytes_fetched", self.bytes_fetched),
            ("bytes_sent", self.bytes_sent),
            ("think_ns", self.think_ns),
            ("bytes_worked", self.bytes_worked),
            ("calls_replayed", self.calls_replayed),
            ("calls_left_out", self.calls_left_out),
        ]
    }
}

impl std::ops::AddAssign for Amounts {
    fn add_assign(&mut self, other: Amounts) {
        self.files_created += other.files_created;
        self.files_deleted += other.files_deleted;
        self.file_bytes_written += other.file_bytes_written;
        self.file_bytes_read += other.file_bytes_read;
        self.file_writes += other.file_writes;
        self.file_reads += other.file_reads;
        self.syncs += other.syncs;
        self.syncs_skipped += other.syncs_skipped;
        self.statements += other.statements;
        self.transactions += other.transactions;
        self.rows_read += other.rows_read;
        self.sql_bytes_bound += other.sql_bytes_bound;
        self.http_requests += other.http_requests;
        self.bytes_fetched += other.bytes_fetched;
        self.bytes_sent += other.bytes_sent;
        self.think_ns += other.think_ns;
        self.bytes_worked += other.bytes_worked;
        self.calls_replayed += other.calls_replayed;
        self.calls_left_out += other.calls_left_out;
    }
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
