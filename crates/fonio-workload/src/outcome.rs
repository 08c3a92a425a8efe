//! The I/O amounts and times of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

macro_rules! amounts {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// I/O amounts requested by the app. Recordings show the amounts that reach the device.
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
    /// Number of files created.
    files_created
    /// Number of files deleted.
    files_deleted
    /// Bytes written to files other than SQLite's files.
    file_bytes_written
    /// Bytes read from files other than SQLite's files.
    file_bytes_read
    /// Number of `write` calls on files.
    file_writes
    /// Number of `read` calls on files.
    file_reads
    /// Number of `fsync` and `fdatasync` calls on files and directories.
    syncs
    /// Number of syncs skipped because of an override.
    syncs_skipped
    /// Number of SQL statements executed, without `BEGIN` and `COMMIT`.
    statements
    /// Number of committed SQLite write transactions, including single statements (autocommit).
    transactions
    /// Number of rows returned by SQL statements.
    rows_read
    /// Bytes of text and blobs bound to SQL statements.
    sql_bytes_bound
    /// Number of HTTP requests that received a response.
    http_requests
    /// Bytes received in the bodies of HTTP responses.
    bytes_fetched
    /// Bytes sent in the bodies of HTTP requests.
    bytes_sent
    /// Total length of the requested pauses in nanoseconds, summed over threads.
    think_ns
    /// Bytes processed by CPU work.
    bytes_worked
    /// Number of system calls replayed from a trace.
    calls_replayed
    /// Number of trace calls not replayed because their file is not on the device, such as in `/proc`.
    calls_left_out
}

/// Where the time of threads went. The parts add up to the time of the spans, up to the error of the kernel's
/// clocks: the kernel samples how a thread's processor time divides into user and system time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTimes {
    /// Number of spans: of the rounds with a mark, or of the threads of a phase.
    pub count: u64,
    /// Total time of the spans in nanoseconds.
    pub wall_ns: u64,
    /// Processor time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// Processor time in the kernel, in nanoseconds.
    pub system_ns: u64,
    /// Time in nanoseconds for which the threads could run and waited for a processor.
    pub queued_ns: u64,
    /// Time in nanoseconds for which the threads slept in HTTP requests.
    pub network_ns: u64,
    /// Time in nanoseconds for which the threads slept in pauses that the workload defines.
    pub paused_ns: u64,
    /// Time in nanoseconds for which the threads slept otherwise: for storage, or for a lock that another thread
    /// held.
    pub blocked_ns: u64,
}

impl std::ops::AddAssign for ThreadTimes {
    fn add_assign(&mut self, other: ThreadTimes) {
        self.count += other.count;
        self.wall_ns += other.wall_ns;
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.queued_ns += other.queued_ns;
        self.network_ns += other.network_ns;
        self.paused_ns += other.paused_ns;
        self.blocked_ns += other.blocked_ns;
    }
}

/// The run time and I/O amounts of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseOutcome {
    /// The phase's name.
    pub name: String,
    /// Start of the phase, in nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// Duration of the phase in nanoseconds.
    pub wall_ns: u64,
    /// The I/O amounts of the phase's operations.
    pub amounts: Amounts,
    /// Where the time of the phase's threads went; `None` if the kernel does not say, and for apps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<ThreadTimes>,
}

/// The time that a step took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOutcome {
    /// The path of the step in the workload, such as `browse/ui/1.2`: the phase, the thread, then the step's
    /// number at each depth, from 1.
    pub key: String,
    /// The kind of step, such as `sql`.
    pub kind: String,
    /// Number of completed operations, in the unit of the step's `count`: files, requests, statements or
    /// objects.
    pub count: u64,
    /// Total time of the step's operations in nanoseconds.
    pub total_ns: u64,
    /// Time of the step's longest operation in nanoseconds.
    pub longest_ns: u64,
    /// The times of answers that the command of an app measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub responses: Vec<ResponseOutcome>,
}

/// The times of answers of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseOutcome {
    /// The kind of answer, such as `toggle`.
    pub kind: String,
    /// Number of answers.
    pub count: u64,
    /// The median, in nanoseconds.
    pub median_ns: u64,
    /// The time that 99 % of the answers do not exceed, in nanoseconds.
    pub p99_ns: u64,
    /// The longest time in nanoseconds.
    pub longest_ns: u64,
}

/// The settings and size of a database at the end of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseOutcome {
    /// The effective journal mode of the database.
    pub journal: String,
    /// The effective synchronous setting of the database.
    pub synchronous: String,
    /// Size of the database's main file in bytes.
    pub bytes: u64,
}

/// Number and size of the files in one group at the end of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesOutcome {
    /// Number of files in the group.
    pub count: u64,
    /// Total size of the files in bytes.
    pub bytes: u64,
}

/// The outcome of a complete run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The workload's name.
    pub workload: String,
    /// The scale of the run, relative to the full amount of I/O.
    pub scale: f64,
    /// The seed of all content and random choices.
    pub seed: u64,
    /// The version of SQLite that was used, such as `3.50.4`.
    pub sqlite_version: String,
    /// Start of the run, in nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// Nanoseconds from start to end of the run, including closing the databases.
    pub wall_ns: u64,
    /// The I/O amounts, summed over all phases.
    pub amounts: Amounts,
    /// Outcomes of the phases, in order.
    pub phases: Vec<PhaseOutcome>,
    /// Where the time of the spans with a mark went, by the name of the mark; empty if the kernel does not say, and
    /// for apps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spans: BTreeMap<String, ThreadTimes>,
    /// Outcomes of the steps, in the order of the definition.
    pub steps: Vec<StepOutcome>,
    /// Outcomes of the databases, by database name.
    pub databases: BTreeMap<String, DatabaseOutcome>,
    /// Outcomes of the groups of files, by group name.
    pub files: BTreeMap<String, FilesOutcome>,
}
