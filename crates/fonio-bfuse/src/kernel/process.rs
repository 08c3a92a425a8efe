//! Wraps system calls for the process: open-file limit, locked memory, I/O recursion, scheduling, and early
//! write-back.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// `PR_SET_IO_FLUSHER`, since Linux 5.6.
const SET_IO_FLUSHER: libc::c_int = 57;

/// Returns the system call's error if the result is not 0.
pub(super) fn checked<T: PartialEq + Default>(outcome: T) -> io::Result<()> {
    if outcome == T::default() { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Resources that the process has used since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessUse {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    /// Number of voluntary context switches, in which the process waited.
    pub(crate) switches_voluntary: u64,
    /// Number of involuntary context switches, in which the kernel preempted the process.
    pub(crate) switches_involuntary: u64,
}

/// Returns the resources used by all threads of this process.
pub(crate) fn process_use() -> ProcessUse {
    // SAFETY: `rusage` consists of integers, for which zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage` through the pointer, which is valid during the call.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return ProcessUse::default();
    }
    // The numbers in a `rusage` are not negative; the width of their types depends on the processor
    // architecture.
    let time = |value: libc::timeval| {
        Duration::new(value.tv_sec as u64, u32::try_from(value.tv_usec).unwrap_or(0) * 1000)
    };
    ProcessUse {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        switches_voluntary: usage.ru_nvcsw as u64,
        switches_involuntary: usage.ru_nivcsw as u64,
    }
}

/// Raises the open-file limit to `wanted` or, without `wanted`, to the kernel's maximum, and returns the
/// limit.
pub(crate) fn raise_open_files(wanted: Option<u64>) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let system = std::fs::read_to_string("/proc/sys/fs/nr_open").ok();
    let most = system.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(1 << 20);
    let all = Rlimit { current: Some(most), maximum: Some(most) };
    if setrlimit(Resource::Nofile, all).is_err() {
        let found = getrlimit(Resource::Nofile);
        let within = Rlimit { current: found.maximum, maximum: found.maximum };
        // If raising the limit fails here too, the current limit stays.
        let _ = setrlimit(Resource::Nofile, within);
    }
    let found = getrlimit(Resource::Nofile);
    let all = found.current.unwrap_or(most);
    match wanted.filter(|wanted| *wanted < all) {
        Some(wanted) => {
            // A process is always allowed to lower its limit.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..found });
            wanted
        }
        None => all,
    }
}

/// Starts the write-back of dirty pages in the `length` bytes from `offset`. Returns when the requests have
/// been issued, without waiting for their completion. Fails if write-back of the file cannot be started.
/// Errors of the write-back itself are returned when the file is synced.
pub(crate) fn start_writing(file: impl AsFd, offset: u64, length: u64) -> io::Result<()> {
    let signed = |value: u64| i64::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let (descriptor, flags) = (file.as_fd().as_raw_fd(), libc::SYNC_FILE_RANGE_WRITE);
    // SAFETY: the arguments are numbers and a descriptor, which is open during the call.
    checked(unsafe { libc::sync_file_range(descriptor, signed(offset)?, signed(length)?, flags) })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// `SCHED_OTHER`, the default.
    Other,
    /// `SCHED_IDLE`: the thread runs only if no other thread needs the CPU.
    Idle,
}

/// Sets the scheduling policy of the thread with ID `thread`. Fails if the thread has ended, or if this
/// unprivileged user may not return to the default policy.
pub(crate) fn set_policy(thread: i32, policy: Policy) -> io::Result<()> {
    let number = match policy {
        Policy::Other => libc::SCHED_OTHER,
        Policy::Idle => libc::SCHED_IDLE,
    };
    // The kernel's `sched_param`. musl does not implement `sched_setscheduler`, and defines `sched_param`
    // differently.
    let priority: libc::c_int = 0;
    // SAFETY: the kernel reads one `int` through the pointer, which is valid during the call.
    checked(unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, number, &raw const priority) })
}

/// Stops the kernel from reclaiming memory for this thread through a FUSE file system. If this file system
/// were fonio's own mount, the thread would wait for itself. Fails with `EPERM` without `CAP_SYS_RESOURCE`.
pub(crate) fn forbid_io_recursion() -> io::Result<()> {
    // SAFETY: no memory is passed.
    checked(unsafe { libc::prctl(SET_IO_FLUSHER, 1, 0, 0, 0) })
}

/// Locks `memory` until the process ends, because the swap file could be on fonio's own mount. Fails with
/// `ENOMEM` or `EPERM` if the user's limit of locked memory is lower.
pub(crate) fn lock_memory(memory: &[u8]) -> io::Result<()> {
    // SAFETY: the range is a valid slice; locking does not change its content.
    checked(unsafe { libc::mlock(memory.as_ptr().cast(), memory.len()) })
}

/// Requests huge pages for `memory`, which must be aligned to huge pages. Fails if the kernel does not
/// support huge pages.
pub(crate) fn ask_for_huge_pages(memory: &[u8]) -> io::Result<()> {
    let start = memory.as_ptr().cast_mut().cast();
    // SAFETY: the range is a valid slice; the page size does not change its content.
    checked(unsafe { libc::madvise(start, memory.len(), libc::MADV_HUGEPAGE) })
}
