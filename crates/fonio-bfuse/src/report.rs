//! What a running mount tells about itself: over a socket as JSON, and to Prometheus as text.

mod prometheus;
mod server;

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::MountError;
use crate::filesystem::FileSystem;
use crate::kernel::process_use;
use crate::modes::Serving;
use crate::our_mounts;
use crate::protocol::Opcode;
use crate::statistics::{BufferStatistics, Histogram};

pub(crate) use server::{Server, is_served, sweep};

/// What a mount has done since it was mounted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The mode in force.
    pub mode: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// The most bytes of one request.
    pub io_bytes: u32,
    /// By opcode: those that came at least once.
    pub requests: Vec<OpcodeReport>,
    /// Write requests by their bytes.
    pub write_bytes: Distribution,
    /// Read requests by their bytes.
    pub read_bytes: Distribution,
    /// Write calls to the file system below, the buffer's included.
    pub write_calls_below: u64,
    /// The buffer.
    pub buffer: BufferReport,
    /// Opens by how the file was served: `through`, `buffered`, `writeback`, `passthrough`.
    pub opened: Vec<(String, u64)>,
    /// Files that the kernel would not serve alone.
    pub passthrough_refused: u64,
    /// Why not: the last error number, 0 for none.
    pub passthrough_errno: u64,
    /// Bytes of streams that were passed through and handed to the device while they came.
    #[serde(default)]
    pub written_behind_bytes: u64,
    /// Inodes that the kernel remembers.
    pub inodes: u64,
    /// Open files.
    pub open_files: u64,
    /// Descriptors that inodes and open files hold.
    pub descriptors: u64,
    /// How many the daemon may have.
    pub descriptors_max: u64,
    /// How often the kernel was asked to forget inodes, because descriptors were short.
    pub prunes: u64,
    /// Threads that serve requests.
    pub threads: u64,
    /// CPU time of the daemon in user mode, nanoseconds.
    pub cpu_user_ns: u64,
    /// CPU time of the daemon in the kernel, nanoseconds.
    pub cpu_system_ns: u64,
    /// Context switches because the daemon waited.
    pub switches_voluntary: u64,
    /// Context switches because its time was up.
    pub switches_involuntary: u64,
}

/// One opcode.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpcodeReport {
    /// Its name: `lookup`, `write`, …
    pub name: String,
    /// How many were answered with an error. A name that does not exist is one.
    pub errors: u64,
    /// Time to answer, in nanoseconds.
    pub time_ns: Distribution,
}

/// Values by powers of two.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Of all of them.
    pub sum: u64,
    /// An upper bound of the median; nothing was counted: none.
    pub median: Option<u64>,
    /// An upper bound of what 99 of 100 stay below.
    pub p99: Option<u64>,
    /// Exclusive upper bound, and how many lay below it and not below the one before.
    pub buckets: Vec<(u64, u64)>,
}

impl From<&Histogram> for Distribution {
    fn from(histogram: &Histogram) -> Self {
        Self {
            count: histogram.count(),
            sum: histogram.sum(),
            median: histogram.quantile(0.5),
            p99: histogram.quantile(0.99),
            buckets: histogram.buckets(),
        }
    }
}

/// The write buffer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BufferReport {
    /// How many entries it has.
    pub entries: u64,
    /// The size of one.
    pub entry_bytes: u64,
    /// Whether its memory can never be swapped out.
    pub is_locked: bool,
    /// Held now.
    pub fill_bytes: u64,
    /// Writes that went into it.
    pub writes: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Writes that went past it, because they continued nothing.
    pub through: u64,
    /// Writes that did not continue what was held, which was therefore flushed.
    pub interrupted: u64,
    /// Reads that had to wait for a flush.
    pub read_drains: u64,
    /// Waits for a free entry.
    pub waits: u64,
    /// Write calls below, by their bytes. Coalescing is `writes` over its count.
    pub flush_bytes: Distribution,
    /// Time of a flush, in nanoseconds.
    pub flush_ns: Distribution,
    /// Flushes that failed.
    pub errors: u64,
    /// Acknowledged, and then refused below; the applications were told.
    pub lost_bytes: u64,
}

impl Report {
    pub(crate) fn of(file_system: &FileSystem, buffer: &BufferStatistics) -> Self {
        let statistics = &file_system.statistics;
        let used = process_use();
        let nanoseconds = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let requests = Opcode::all().map(|(opcode, name)| OpcodeReport {
            name: name.to_owned(),
            errors: statistics.of(opcode).errors.get(),
            time_ns: Distribution::from(&statistics.of(opcode).time),
        });
        Self {
            mode: file_system.plan.mode.name().to_owned(),
            pid: std::process::id(),
            io_bytes: file_system.plan.io_bytes,
            requests: requests.filter(|request| request.time_ns.count > 0).collect(),
            write_bytes: Distribution::from(&statistics.write_bytes),
            read_bytes: Distribution::from(&statistics.read_bytes),
            write_calls_below: statistics.direct_writes.get()
                + buffer.through.get()
                + buffer.flush_bytes.count(),
            buffer: BufferReport {
                entries: buffer.entries.get(),
                entry_bytes: buffer.entry_bytes.get(),
                is_locked: buffer.locked.get() == 1,
                fill_bytes: buffer.fill_bytes.get(),
                writes: buffer.writes.get(),
                bytes_in: buffer.bytes_in.get(),
                through: buffer.through.get(),
                interrupted: buffer.interrupted.get(),
                read_drains: buffer.read_drains.get(),
                waits: buffer.waits.get(),
                flush_bytes: Distribution::from(&buffer.flush_bytes),
                flush_ns: Distribution::from(&buffer.flush_time),
                errors: buffer.errors.get(),
                lost_bytes: buffer.lost_bytes.get(),
            },
            opened: Serving::ALL
                .map(|(serving, name)| (name.to_owned(), statistics.opened[serving as usize].get()))
                .to_vec(),
            passthrough_refused: statistics.passthrough_refused.get(),
            passthrough_errno: statistics.passthrough_errno.get(),
            written_behind_bytes: file_system.behind.bytes.get(),
            inodes: file_system.nodes.count(),
            open_files: statistics.handles.get(),
            descriptors: file_system.descriptors_used(),
            descriptors_max: file_system.descriptors.limit,
            prunes: statistics.prunes.get(),
            threads: statistics.threads.get(),
            cpu_user_ns: nanoseconds(used.user),
            cpu_system_ns: nanoseconds(used.system),
            switches_voluntary: used.switches_voluntary,
            switches_involuntary: used.switches_involuntary,
        }
    }
}

/// Asks the mount at `dir` what it has done.
///
/// # Errors
/// Where nothing of ours is mounted there, its daemon does not answer, or is another user's.
pub fn report(dir: &Path) -> Result<Report, MountError> {
    sweep();
    // Only the parent is looked at: looking at the mount itself could hang where its daemon does.
    let dir = match (dir.parent().map(Path::canonicalize), dir.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => dir.canonicalize().map_err(MountError::system("find", dir))?,
    };
    let mount = our_mounts::at(&dir).ok_or_else(|| MountError::NotMounted { path: dir.clone() })?;
    let path = server::socket_of(&mount);
    let mut text = Vec::new();
    UnixStream::connect(&path)
        .and_then(|mut stream| stream.read_to_end(&mut text))
        .map_err(MountError::system("ask the daemon at", path))?;
    serde_json::from_slice(&text).map_err(|source| MountError::Answer { path: dir, source })
}
