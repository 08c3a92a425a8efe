//! Locks the memory of the serving process.
//!
//! If the kernel swapped out memory of the server to the device that it serves, the server would wait for
//! itself, and no signal could end it. Everything that a request uses is therefore allocated and locked
//! before the device appears:
//!
//! 1. `mlockall` locks the program, the stacks and the heap, now and in future.
//! 2. The data of a device in memory are mapped and locked ([`crate::image`]).
//! 3. The heap keeps a reserve, so that a request does not ask the kernel for memory.
//! 4. `PR_SET_IO_FLUSHER` makes the kernel serve allocations of this process without waiting for write-back.
//!
//! For a block device, the server refuses to serve if memory cannot be locked. An NBD server has no block
//! device on this machine, and may run without the permission to lock memory. A failure of step 4 is only
//! reported, because it needs CAP_SYS_RESOURCE, and requests need no new memory after the other steps.

use std::ffi::c_void;
use std::io;

use fonio_core::ByteCount;
use fonio_system::procfs;
use rustix::mm::{MlockAllFlags, MlockFlags};
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use crate::error::EmulatorError;

/// If this variable is set, memory is allocated only for written data.
pub const SPARSE_VARIABLE: &str = "FONIO_SPARSE_MEMORY";

/// Memory that an emulated device leaves to other programs.
const LEFT_BYTES: u64 = 128 << 20;

/// Number and size of the blocks with which the heap's reserve is allocated.
const RESERVE_BLOCKS: usize = 512;
const RESERVE_BLOCK_BYTES: usize = 64 << 10;

/// The time at which the data of a device in memory get their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocation {
    /// All memory is allocated and locked before the device appears.
    Complete,
    /// Memory is allocated and locked when data are first written.
    AsWritten,
    /// Memory is allocated when data are first written, and can be swapped out.
    NotLocked,
}

/// The locked memory of the serving process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// Number of bytes that are locked, so that the kernel cannot swap them out.
    pub locked_bytes: ByteCount,
    /// Whether the data of the device get their memory only when they are first written. Such a device must
    /// not hold swap space.
    pub is_sparse: bool,
    /// The reason why the memory is not locked; `None` if it is locked.
    pub not_locked: Option<String>,
    /// The reason why the kernel may make an allocation of the server wait for write-back
    /// (`PR_SET_IO_FLUSHER`); `None` if allocations do not wait.
    pub may_wait: Option<String>,
}

/// The state of the process's memory, after [`ProcessMemory::lock`].
#[derive(Debug)]
pub(crate) struct ProcessMemory {
    pub(crate) allocation: Allocation,
    not_locked: Option<String>,
    may_wait: Option<String>,
}

impl ProcessMemory {
    /// Locks the memory of this process, now and in future, and fills the heap's reserve. Fails with
    /// [`EmulatorError::NotLocked`] if this is not possible. If the lock is not `required`, a failure is only
    /// reported.
    pub(crate) fn lock(required: bool, is_sparse: bool) -> Result<ProcessMemory, EmulatorError> {
        let is_sparse = is_sparse || std::env::var_os(SPARSE_VARIABLE).is_some_and(|value| !value.is_empty());
        let allocation = if is_sparse { Allocation::AsWritten } else { Allocation::Complete };
        let flushes = rustix::process::configure_io_flusher_behavior(true);
        let may_wait = flushes.err().map(|error| format!("PR_SET_IO_FLUSHER failed: {error}"));
        match lock_process() {
            Ok(()) => Ok(ProcessMemory { allocation, not_locked: None, may_wait }),
            Err(error) if required => Err(error),
            Err(error) => {
                let not_locked = Some(fonio_system::chain(&error));
                Ok(ProcessMemory { allocation: Allocation::NotLocked, not_locked, may_wait })
            }
        }
    }

    pub(crate) fn report(&self) -> MemoryReport {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        MemoryReport {
            locked_bytes: procfs::memory(&status, "VmLck").unwrap_or_default(),
            is_sparse: self.allocation != Allocation::Complete,
            not_locked: self.not_locked.clone(),
            may_wait: self.may_wait.clone(),
        }
    }
}

fn lock_process() -> Result<(), EmulatorError> {
    rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
        .map_err(|error| not_locked(None, error))?;
    // The kernel's out-of-memory killer prefers processes with much memory. If it ended the server, the data
    // of the device would be lost. Without permission, the server remains a candidate.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    fill_reserve();
    Ok(())
}

/// Makes the heap keep freed memory, and fills it with freed memory.
///
/// With musl, which has no such settings, only the buffers of requests are reserved ([`crate::buffers`]).
fn fill_reserve() {
    // SAFETY: the calls only set parameters of the allocator, under the allocator's own lock.
    #[cfg(target_env = "gnu")]
    unsafe {
        // All threads share one heap, which serves every size and never shrinks.
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
    }
    let reserve: Vec<Vec<u8>> = (0..RESERVE_BLOCKS).map(|_| vec![1; RESERVE_BLOCK_BYTES]).collect();
    drop(std::hint::black_box(reserve));
}

/// Fails with [`EmulatorError::NoMemory`] if this machine does not have `wanted` bytes available.
pub(crate) fn check_available(wanted: ByteCount) -> Result<(), EmulatorError> {
    let meminfo =
        std::fs::read_to_string("/proc/meminfo").map_err(EmulatorError::system("read", "/proc/meminfo"))?;
    let available = procfs::memory(&meminfo, "MemAvailable").unwrap_or_default();
    if wanted.0.saturating_add(LEFT_BYTES) > available.0 {
        let available = ByteCount(available.0.saturating_sub(LEFT_BYTES));
        return Err(EmulatorError::NoMemory { wanted, available });
    }
    Ok(())
}

/// Calls `map`, which maps memory. With [`Allocation::AsWritten`], this memory is locked page by page, when
/// it is first used.
pub(crate) fn while_mapping<T>(allocation: Allocation, map: impl FnOnce() -> T) -> Result<T, EmulatorError> {
    let future =
        |flags| rustix::mm::mlockall(MlockAllFlags::FUTURE | flags).map_err(|error| not_locked(None, error));
    if allocation != Allocation::AsWritten {
        return Ok(map());
    }
    future(MlockAllFlags::ONFAULT)?;
    let mapped = map();
    future(MlockAllFlags::empty())?;
    Ok(mapped)
}

/// Locks mapped memory of `bytes` at `start`, which need not belong to Rust. Fails with
/// [`EmulatorError::NotLocked`].
pub(crate) fn lock(start: *mut c_void, bytes: usize, allocation: Allocation) -> Result<(), EmulatorError> {
    // SAFETY: locking does not change the content of memory; the kernel checks that the range is mapped.
    let locked = unsafe {
        match allocation {
            Allocation::Complete => rustix::mm::mlock(start, bytes),
            Allocation::AsWritten => rustix::mm::mlock_with(start, bytes, MlockFlags::ONFAULT),
            Allocation::NotLocked => Ok(()),
        }
    };
    locked.map_err(|error| not_locked(Some(ByteCount(bytes as u64)), error))
}

fn not_locked(wanted: Option<ByteCount>, error: rustix::io::Errno) -> EmulatorError {
    let of_data = wanted.map_or_else(
        || "the serving process".to_owned(),
        |bytes| format!("{} MiB for the device's data", bytes.0 >> 20),
    );
    let limit = getrlimit(Resource::Memlock).current;
    let limit = limit.map_or_else(|| "unlimited".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
    EmulatorError::NotLocked { memory: of_data, limit, source: io::Error::from(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_limit_and_the_way_out() {
        let text = not_locked(Some(ByteCount(3 << 20)), rustix::io::Errno::NOMEM).to_string();
        for part in ["3 MiB for the device's data", "RLIMIT_MEMLOCK", "ulimit -l"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn more_memory_than_the_machine_has_is_not_available() {
        check_available(ByteCount(0)).expect("no memory is always available");
        assert!(matches!(check_available(ByteCount(u64::MAX)), Err(EmulatorError::NoMemory { .. })));
    }
}
