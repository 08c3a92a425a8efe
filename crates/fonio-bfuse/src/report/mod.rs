//! Reports the statistics of a running mount, as JSON over a socket and as text for Prometheus.

mod prometheus;
mod server;

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;

use fonio_system::{TrustedFolder, state};
use serde::{Deserialize, Serialize};

use crate::error::MountError;
use crate::filesystem::FileSystem;
use crate::kernel::process_use;
use crate::modes::Serving;
use crate::our_mounts;
use crate::protocol::Opcode;
use crate::statistics::{BufferReport, BufferStatistics, Distribution};

pub(crate) use server::{Server, is_served, sweep};

/// Statistics of a mount from mounting until now.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The mode of the mount.
    pub mode: String,
    /// Process ID of the mount's daemon.
    pub pid: u32,
    /// Maximum size of a request in bytes.
    pub io_bytes: u32,
    /// Statistics of each opcode that the kernel has sent.
    pub requests: Vec<OpcodeReport>,
    /// Distribution of the sizes of write requests.
    pub write_bytes: Distribution,
    /// Distribution of the sizes of read requests.
    pub read_bytes: Distribution,
    /// Number of write calls to the source file system, including those of the write buffer.
    pub write_calls_below: u64,
    /// Statistics of the write buffer.
    pub buffer: BufferReport,
    /// Number of opens by kind of serving: `through`, `buffered`, `writeback`, `passthrough`.
    pub opened: Vec<(String, u64)>,
    /// Number of opens for which the kernel refused passthrough.
    pub passthrough_refused: u64,
    /// Error number of the last refused passthrough; 0 if none was refused.
    pub passthrough_errno: u64,
    /// Bytes of passed-through streams whose write-back the daemon has started.
    #[serde(default)]
    pub written_behind_bytes: u64,
    /// Number of inodes that the kernel has cached.
    pub inodes: u64,
    /// Number of open files.
    pub open_files: u64,
    /// Number of descriptors that inodes and open files hold.
    pub descriptors: u64,
    /// Maximum number of descriptors that the daemon may have open.
    pub descriptors_max: u64,
    /// Number of times that the daemon asked the kernel to forget inodes, which frees descriptors.
    pub prunes: u64,
    /// Number of threads that serve requests.
    pub threads: u64,
    /// CPU time that the daemon has spent in user mode, in nanoseconds.
    pub cpu_user_ns: u64,
    /// CPU time that the daemon has spent in the kernel, in nanoseconds.
    pub cpu_system_ns: u64,
    /// Number of voluntary context switches, in which the daemon waited.
    pub switches_voluntary: u64,
    /// Number of involuntary context switches, in which the kernel preempted the daemon.
    pub switches_involuntary: u64,
}

/// Statistics of the requests with one opcode.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpcodeReport {
    /// The opcode's name, such as `lookup` or `write`.
    pub name: String,
    /// Number of requests with an error reply, including lookups of missing names.
    pub errors: u64,
    /// Distribution of the times from request to reply, in nanoseconds.
    pub time_ns: Distribution,
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
            mode: file_system.chosen.mode.name().to_owned(),
            pid: std::process::id(),
            io_bytes: file_system.chosen.io_bytes,
            requests: requests.filter(|request| request.time_ns.count > 0).collect(),
            write_bytes: Distribution::from(&statistics.write_bytes),
            read_bytes: Distribution::from(&statistics.read_bytes),
            write_calls_below: statistics.direct_writes.get()
                + buffer.through.get()
                + buffer.flush_bytes.count(),
            buffer: buffer.report(),
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

/// Reads the statistics of the mount at `dir`. Fails if there is no fonio mount at `dir`, or its daemon does
/// not reply or belongs to another user.
pub fn report(dir: &Path) -> Result<Report, MountError> {
    sweep();
    // Access only the parent directory, because access to the mount itself hangs if its daemon hangs.
    let dir = match (dir.parent().map(Path::canonicalize), dir.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => dir.canonicalize().map_err(MountError::system("find", dir))?,
    };
    let mount = our_mounts::at(&dir).ok_or_else(|| MountError::NotMounted { path: dir.clone() })?;
    let path = server::socket_of(&mount);
    // Another user's socket could keep this process waiting.
    let folder = TrustedFolder::open(&state::folder());
    folder.map_err(|error| MountError::system("ask the daemon at", &path)(io::Error::from(error)))?;
    let mut text = Vec::new();
    UnixStream::connect(&path)
        .and_then(|mut stream| stream.read_to_end(&mut text))
        .map_err(MountError::system("ask the daemon at", path))?;
    serde_json::from_slice(&text).map_err(|source| MountError::Answer { path: dir, source })
}
