//! The rows of the tables in a recording. `None` means that the source did not show the value; unknown values
//! are never stored as 0.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::file_flags::FileFlags;
use crate::names::named;
use crate::op::{Flags, Op};
use crate::units::{ByteCount, DeviceId, Nanos, Sector, Timestamp};

named! {
    /// The kind of data in a request or bio.
    #[derive(Default)]
    #[allow(missing_docs)]
    Content {
        #[default]
        Unknown = "unknown",
        Data = "data",
        FsMetadata = "fs_metadata",
        FsJournal = "fs_journal",
        SqliteDb = "sqlite_db",
        SqliteJournal = "sqlite_journal",
        SqliteWal = "sqlite_wal",
        Swap = "swap",
    }
}

/// `requests.parquet`: one block request after merging, on the lowest device that the source shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of the request, unique in the recording. The assembler numbers requests as it detects them.
    pub request_id: u64,
    /// The device of the request.
    pub device: DeviceId,
    /// The operation of the request.
    pub op: Op,
    /// The flags that are set on the request.
    pub flags: Flags,
    /// The flags that the source can show.
    pub flags_known: Flags,
    /// The request's first sector; `None` for a flush without data.
    pub sector: Option<Sector>,
    /// Size at issue, including merged bios; if the request was not issued, its last known size.
    pub bytes: ByteCount,
    /// When the first bio of the request was queued.
    pub queued: Option<Timestamp>,
    /// When the request entered the scheduler.
    pub inserted: Option<Timestamp>,
    /// When the request was first issued to the driver.
    pub issued: Option<Timestamp>,
    /// When the request was last issued, if it was issued more than once.
    pub reissued: Option<Timestamp>,
    /// When the last part of the request completed; `None` if the completion was not recorded.
    pub completed: Option<Timestamp>,
    /// How often the driver requeued the request; `None` if the source does not show requeues.
    pub requeues: Option<u32>,
    /// The processor that issued the request; if this processor is unknown, the processor that queued the
    /// request.
    pub cpu: Option<u32>,
    /// The thread that queued the first bio of the request; if this thread is unknown, the thread that
    /// inserted the request or, if that thread is also unknown, the thread that issued the request.
    pub tid: Option<u32>,
    /// The thread that dirtied the page, if this thread is known and can differ from `tid`.
    pub cause_tid: Option<u32>,
    /// The row of the request's file in `files.parquet`.
    pub file_id: Option<u32>,
    /// The kind of data, such as file data or metadata.
    pub content: Content,
    /// The I/O priority of the request, encoded as the kernel's `ioprio`.
    pub ioprio: Option<u16>,
    /// The error of the request: 0 or a negative errno; `None` if the request did not complete or the source
    /// does not show errors.
    pub error: Option<i32>,
}

impl Request {
    /// Creates a request of which only the device, operation and size are known.
    pub fn new(device: DeviceId, op: Op, bytes: ByteCount) -> Request {
        Request {
            request_id: 0,
            device,
            op,
            flags: Flags::NONE,
            flags_known: Flags::NONE,
            sector: None,
            bytes,
            queued: None,
            inserted: None,
            issued: None,
            reissued: None,
            completed: None,
            requeues: None,
            cpu: None,
            tid: None,
            cause_tid: None,
            file_id: None,
            content: Content::Unknown,
            ioprio: None,
            error: None,
        }
    }

    /// Returns the time by which `requests` is sorted: the first of these times that is known: issued,
    /// queued, inserted, completed.
    pub fn order_time(&self) -> Timestamp {
        self.issued.or(self.queued).or(self.inserted).or(self.completed).unwrap_or_default()
    }

    /// Compares two requests by [`order_time`](Request::order_time), and then by `request_id`. The table
    /// `requests` is in this order.
    pub fn order(&self, other: &Request) -> Ordering {
        (self.order_time(), self.request_id).cmp(&(other.order_time(), other.request_id))
    }

    /// Returns the service time: from first issue to completion. Studies call the service time latency.
    pub fn service(&self) -> Option<Nanos> {
        self.completed?.since(self.issued?)
    }

    /// Returns the queue time: from queueing to first issue.
    pub fn queue(&self) -> Option<Nanos> {
        self.issued?.since(self.queued?)
    }

    /// Returns the response time: from queueing to completion.
    pub fn response(&self) -> Option<Nanos> {
        self.completed?.since(self.queued?)
    }
}

/// `bios.parquet`: one bio on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Bio {
    pub bio_id: u64,
    pub device: DeviceId,
    pub op: Op,
    pub flags: Flags,
    pub flags_known: Flags,
    pub sector: Option<Sector>,
    pub bytes: ByteCount,
    pub queued: Timestamp,
    /// When the bio completed, if the device is bio-based. On other devices, a bio completes with its
    /// request.
    pub completed: Option<Timestamp>,
    /// The thread that queued the bio.
    pub tid: Option<u32>,
    /// The thread that dirtied the data, if this thread is known.
    pub cause_tid: Option<u32>,
    pub file_id: Option<u32>,
    /// The request that carried the bio; `None` for a bio of a stacked device, see [`LinkKind::Remap`].
    pub request_id: Option<u64>,
}

named! {
    /// How a child in `links.parquet` came from its parent.
    LinkKind {
        /// A bio or request (parent) was merged into an existing request (child).
        Merge = "merge",
        /// A bio (parent) was split; the child is the remainder.
        Split = "split",
        /// A bio (parent) on a stacked device or partition became a bio (child) on the device below.
        Remap = "remap",
        /// The driver requeued a request (parent), which was issued again with another id (child).
        Requeue = "requeue",
        /// A data request with preflush or FUA (parent) needed this flush request (child).
        Flush = "flush",
        /// The child came from the parent in another way.
        Cause = "cause",
    }
}

named! {
    /// The table of a parent or child in a [`Link`].
    #[allow(missing_docs)]
    LinkEnd {
        Request = "request",
        Bio = "bio",
    }
}

/// `links.parquet`: how one bio or request came from another bio or request, in order of detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub struct Link {
    pub kind: LinkKind,
    pub parent_table: LinkEnd,
    pub parent: u64,
    pub child_table: LinkEnd,
    pub child: u64,
}

named! {
    /// The content at the beginning of a write to an SQLite journal or WAL
    /// (`https://sqlite.org/fileformat.html`, sections 3 and 4).
    SqliteWrite {
        /// The header of a rollback journal.
        JournalHeader = "journal_header",
        /// Zeros over the header of a rollback journal, which invalidate the journal.
        JournalEnd = "journal_end",
        /// The header of a write-ahead log (WAL).
        WalHeader = "wal_header",
        /// A frame in a WAL, except the last frame of a transaction.
        WalFrame = "wal_frame",
        /// The last frame of a transaction in a WAL.
        WalCommit = "wal_commit",
    }
}

/// `calls.parquet`: one file-system call or page fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Call {
    pub call_id: u64,
    /// The name of the system call, such as `pwrite64` or `fsync`; or `page_fault`.
    pub name: String,
    pub tid: u32,
    /// The file of the call; for a call on two files, the first file.
    pub file_id: Option<u32>,
    /// The offset in the file; for `ftruncate`, the new file length; for `open`, the file length after the
    /// call.
    pub offset: Option<u64>,
    pub bytes: Option<ByteCount>,
    pub entered: Timestamp,
    pub exited: Option<Timestamp>,
    /// The return value of the call: a count or a negative errno.
    pub result: Option<i64>,
    /// The content at the beginning of the write, if the call writes to an SQLite journal or WAL.
    pub sqlite_write: Option<SqliteWrite>,
    /// The open flags of the file, for calls on an open file.
    pub file_flags: Option<FileFlags>,
}

/// `statements.parquet`: consecutive steps (`sqlite3_step`) of one thread with one SQL statement on one
/// connection of SQLite.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Statement {
    pub tid: u32,
    /// The number that fonio assigned to the connection in this recording.
    pub connection: Option<u32>,
    /// When the first step of the statement began.
    pub entered: Timestamp,
    /// When the last step of the statement ended; `None` if it had not ended when the recording ended.
    pub exited: Option<Timestamp>,
    /// The number of steps of the statement. A query takes one step for each row.
    pub steps: u64,
    /// The total duration of all steps.
    pub stepping: Nanos,
    /// The statement with `?` instead of its values ([`sql::normalised`](crate::sql::normalised)); `None` if
    /// the statement could not be read, or if the recording has too many different statements.
    pub text: Option<String>,
}

named! {
    /// The reason why a thread did not run.
    WaitReason {
        /// The thread waited for a read, a write, a flush, a page fault, swap, or the file system's journal.
        Storage = "storage",
        /// The thread waited for a network socket, to this or another machine.
        Network = "network",
        /// The thread waited for its own timer.
        Timer = "timer",
        /// The thread waited for a lock in the kernel or in the program (futex).
        Lock = "lock",
        /// The thread waited for another thread or process, through a pipe, a local socket or a child's exit.
        Thread = "thread",
        /// The thread was ready to run and waited for a processor.
        Cpu = "cpu",
        /// The thread was blocked for an unknown reason.
        Unknown = "unknown",
    }
}

named! {
    /// The operation in which a thread was blocked by storage, a kernel lock or another thread.
    BlockedIn {
        /// A call that reads a file. In a trace of the scheduler: such a call, or a page fault that reads a file.
        Read = "read",
        /// A call that writes a file.
        Write = "write",
        /// A call that syncs: fsync, fdatasync, msync, sync_file_range, sync, syncfs.
        Fsync = "fsync",
        /// A call that looks up or changes names and attributes of files: open, stat, getdents, rename,
        /// unlink, …
        Metadata = "metadata",
        /// A page fault on a mapped file or on other absent memory, except swap.
        PageFault = "page_fault",
        /// A page fault on memory that was swapped out.
        SwapIn = "swap_in",
        /// A write that the kernel throttles because too much memory is dirty (`balance_dirty_pages`).
        DirtyLimit = "dirty_limit",
        /// A wait for the file system's journal in a call other than fsync.
        Journal = "journal",
        /// A call (futex, pipe, socket) that waits for another thread or process, which is itself blocked.
        OtherThread = "other_thread",
        /// A call that waits for asynchronous I/O: io_getevents, io_uring_enter. The kind of I/O is unknown, or
        /// the recording is older than the values for reads
        /// and writes.
        AsyncIo = "async_io",
        /// The work of a kernel thread: write-back, journal commits, swap-out.
        KernelThread = "kernel_thread",
        /// Any other system call.
        Other = "other",
        /// The operation is unknown.
        Unknown = "unknown",
        // Files of the watch (`.stall`) store the position in this list, so new values come last.
        /// A call that waits for asynchronous reads.
        AsyncRead = "async_read",
        /// A call that waits for asynchronous writes.
        AsyncWrite = "async_write",
    }
}

impl BlockedIn {
    /// Returns whether a thread that waits in this operation waits for storage. The kernel does not count
    /// waits for a journal commit as I/O, so such a wait can have a different [`WaitReason`].
    pub fn is_for_storage(self, reason: WaitReason) -> bool {
        reason == WaitReason::Storage
            || matches!(self, BlockedIn::Fsync | BlockedIn::DirtyLimit | BlockedIn::Journal)
    }
}

named! {
    /// The kernel's account of a wait in uninterruptible sleep (state D), from a trace of the scheduler.
    IoWait {
        /// The kernel counted the wait as I/O (`io_schedule`).
        Yes = "yes",
        /// The kernel did not count the wait as I/O. The thread can still have waited for storage: for a commit of the
        /// journal, or for a lock that a thread held during I/O.
        No = "no",
        /// The trace does not show the account: it lacks the event `sched_blocked_reason`.
        Unknown = "unknown",
    }
}

/// `waits.parquet`: one interval in which a thread was blocked or waited for a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Wait {
    pub tid: u32,
    pub began: Timestamp,
    pub ended: Option<Timestamp>,
    pub reason: WaitReason,
    /// The request whose completion ended the wait, if any.
    pub request_id: Option<u64>,
    /// The thread that ended the wait; `None` for an interrupt. In a thread's first interval (reason
    /// [`Cpu`](WaitReason::Cpu)), this is the thread that created the waiting thread.
    pub waker_tid: Option<u32>,
    /// The operation in which the thread was blocked; `None` for waits of a launch. In a trace of the scheduler, the
    /// operation is often unknown.
    pub blocked_in: Option<BlockedIn>,
    /// The file of the operation in which the thread was blocked.
    pub file_id: Option<u32>,
    /// The kernel's account of the wait, if the row comes from a trace of the scheduler and the thread was in state D.
    /// The kernel does not count all waits for storage, so `reason` can be [`Storage`](WaitReason::Storage) without
    /// [`Yes`](IoWait::Yes).
    pub io_wait: Option<IoWait>,
    /// The function of the kernel in which the thread slept, if a trace of the scheduler names it.
    pub function: Option<String>,
}

/// `blocked_counts.parquet`: the number and total time of a thread's uninterruptible waits that were too
/// short or too many for a row in `waits`. Each wait is counted in exactly one of the tables `waits` and
/// `blocked_counts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct BlockedCount {
    pub tid: u32,
    pub blocked_in: BlockedIn,
    /// [`Storage`](WaitReason::Storage) if the kernel counted the waits as I/O, else `Unknown`.
    pub reason: WaitReason,
    /// All waits of the row ended at this time or later.
    pub from: Timestamp,
    /// All waits of the row ended before this time.
    pub until: Timestamp,
    /// Upper bound of each wait, a power of two in microseconds. Each wait was at least half as long as this
    /// bound. The class of the shortest waits, with the bound 1 µs, begins at 0.
    pub below: Nanos,
    /// The number of waits that the row counts.
    pub count: u64,
    /// The total duration of the waits.
    pub total: Nanos,
}

/// `files.parquet`: a file's name from a given time on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct File {
    pub file_id: u32,
    pub from: Timestamp,
    pub device: Option<DeviceId>,
    pub inode: Option<u64>,
    pub path: Option<String>,
    pub content: Content,
}

/// `threads.parquet`: a thread's identity from a given time on. At a given time, the last row with the `tid`
/// and with `from` at or before this time applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Thread {
    pub tid: u32,
    pub from: Timestamp,
    /// The process of the thread: its thread group (the kernel's `tgid`).
    pub pid: Option<u32>,
    pub comm: Option<String>,
    /// The path of the thread's control group below the cgroup mount. It can contain the name of a systemd
    /// unit.
    pub cgroup: Option<String>,
    pub uid: Option<u32>,
    /// The parent of the thread's process.
    pub parent_pid: Option<u32>,
    /// The familiar name of the control group or user: a systemd unit, container, Home Assistant add-on or
    /// Android package. `None` if the recorder did not look this name up; the cgroup path may still contain a
    /// name.
    pub unit: Option<String>,
}

named! {
    /// A quantity that the monitor samples; the unit is part of the name. Ticks, bytes, busy time and stall
    /// time are counters with an arbitrary start: only differences of a counter's values are meaningful.
    /// The times of processes are totals. The other quantities are gauges.
    #[allow(missing_docs)]
    Metric {
        /// Active time of all processors, a counter, in `USER_HZ` ticks (100 per second for each processor).
        CpuActiveTicks = "cpu_active_ticks",
        CpuIdleTicks = "cpu_idle_ticks",
        CpuIowaitTicks = "cpu_iowait_ticks",
        CpuStealTicks = "cpu_steal_ticks",
        MemoryTotalBytes = "memory_total_bytes",
        MemoryAvailableBytes = "memory_available_bytes",
        MemoryDirtyBytes = "memory_dirty_bytes",
        MemoryWritebackBytes = "memory_writeback_bytes",
        SwapInPages = "swap_in_pages",
        SwapOutPages = "swap_out_pages",
        MajorFaults = "major_faults",
        /// Time for which the device `subject` was busy.
        DiskBusyMs = "disk_busy_ms",
        DiskReadBytes = "disk_read_bytes",
        DiskWriteBytes = "disk_write_bytes",
        /// Number of requests that the device `subject` completed. Only totals of other tools have it, and the next.
        DiskRequests = "disk_requests",
        /// The response times of these requests together.
        DiskWaitMs = "disk_wait_ms",
        /// Number of requests whose latency was in a range; only histograms of other tools have it. `subject` is the shortest
        /// latency in nanoseconds, a space, the latency below which all were, a space, and the name of the histogram, which can
        /// be empty: a disk, flags of requests, or both. Samples with the same subject are added.
        LatencyRequests = "latency_requests",
        /// Bytes that the network interface `subject` received.
        NetReceiveBytes = "net_receive_bytes",
        NetTransmitBytes = "net_transmit_bytes",
        /// Pressure stall information of the `subject` (`cpu`, `io` or `memory`) in microseconds.
        PressureSomeUs = "pressure_some_us",
        PressureFullUs = "pressure_full_us",
        /// Temperature of the thermal zone `subject`.
        TemperatureMillicelsius = "temperature_millicelsius",
        /// Clock frequency of the processor `subject`.
        CpuFrequencyKhz = "cpu_frequency_khz",
        CpuFrequencyMaxKhz = "cpu_frequency_max_khz",
        /// Active time of the processor `subject` (such as `cpu0`), a counter in `USER_HZ` ticks (100 a
        /// second).
        ProcessorActiveTicks = "processor_active_ticks",
        /// Link speed of the network interface `subject` in one direction, if the driver reports it.
        NetLinkBytesPerS = "net_link_bytes_per_s",
        /// Number of file pages that were read again after the kernel had evicted them, a counter.
        FileRefaultPages = "file_refault_pages",
        /// Number of these pages that were read again so soon that the kernel counts them as used, a counter.
        FileReactivatedPages = "file_reactivated_pages",
        /// Processor time that the process with the id `subject` used during the recording. A process has at
        /// most one sample of each of these metrics, at the end. Without BPF, the time includes children that
        /// ended and that the process waited for.
        ProcessCpuNs = "process_cpu_ns",
        /// Sleeps of 1 ms or more of the threads of the process: while another thread held a lock.
        ProcessLockNs = "process_lock_ns",
        /// Sleeps until a child process ended.
        ProcessChildNs = "process_child_ns",
        /// Sleeps for a fixed time.
        ProcessTimerNs = "process_timer_ns",
        /// Sleeps until a peer sent data or accepted a connection.
        ProcessPeerNs = "process_peer_ns",
        /// Time for which the control group of the process had to wait, because it had used up its quota of
        /// processor time. Of the processes of a group, the one with the most processor time has the sample.
        ProcessQuotaNs = "process_quota_ns",
        /// Time for which a process kept a write-ahead log of SQLite from being emptied, because it read the
        /// log from the same place on. `subject` is the process id, a space, and the path of the log.
        WalHeldNs = "wal_held_ns",
        /// Length of the part of the log that could not be emptied, at the end of that time.
        WalHeldBytes = "wal_held_bytes",
    }
}

impl Metric {
    /// Returns whether this metric describes a reader of a write-ahead log.
    pub fn is_of_wal(self) -> bool {
        matches!(self, Metric::WalHeldNs | Metric::WalHeldBytes)
    }

    /// Returns whether this metric is a part of a histogram.
    pub fn is_of_histogram(self) -> bool {
        self == Metric::LatencyRequests
    }

    /// Returns whether this metric is a time of the process that `subject` identifies.
    pub fn is_of_process(self) -> bool {
        use Metric::{
            ProcessChildNs, ProcessCpuNs, ProcessLockNs, ProcessPeerNs, ProcessQuotaNs, ProcessTimerNs,
        };
        let sleeps = matches!(self, ProcessLockNs | ProcessChildNs | ProcessTimerNs | ProcessPeerNs);
        sleeps || matches!(self, ProcessCpuNs | ProcessQuotaNs)
    }
}

/// `samples.parquet`: one reading of one [`Metric`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Sample {
    pub time: Timestamp,
    pub metric: Metric,
    /// The measured device, interface, zone or resource; `None` if the machine has only one.
    pub subject: Option<String>,
    pub value: i64,
}

/// `marks.parquet`: a named point in time, or a span if `until` is present.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Mark {
    pub at: Timestamp,
    pub until: Option<Timestamp>,
    pub name: String,
    pub tid: Option<u32>,
}

named! {
    /// The severity of a [`Diagnostic`].
    #[allow(missing_docs)]
    Severity {
        /// The diagnostic is only information; no data were lost.
        Note = "note",
        /// Some input was skipped or is ambiguous; the rest of the input is valid.
        Warning = "warning",
        /// The reader stopped before the end of the input.
        Error = "error",
    }
}

/// `diagnostics.jsonl`: an error in the input, and how fonio handled it.
///
/// After a few diagnostics with the same `code`, producers merge the other diagnostics into one diagnostic
/// with a `count`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// The severity of the problem.
    pub severity: Severity,
    /// A stable name for the kind of problem, in kebab-case, for example `truncated-record`.
    pub code: String,
    /// A sentence that says what the problem is and how fonio handled it.
    pub message: String,
    /// The input file or stream with the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The number of the record (or line) in the input file, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<u64>,
    /// The byte offset in the input file, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// How often the problem occurred.
    pub count: u64,
}
