//! System calls that concern the process: limits of open files, locked memory, no recursion of I/O, scheduling; and early
//! write-back.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// `PR_SET_IO_FLUSHER`, since Linux 5.6.
const SET_IO_FLUSHER: libc::c_int = 57;

/// The error of a system call that returned something other than 0.
pub(super) fn checked<T: PartialEq + Default>(outcome: T) -> io::Result<()> {
    if outcome == T::default() { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Resources used since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessUse {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    /// Context switches because the process waited.
    pub(crate) switches_voluntary: u64,
    /// Context switches because the kernel took the processor away.
    pub(crate) switches_involuntary: u64,
}

/// The resources used by this process, all threads together.
pub(crate) fn process_use() -> ProcessUse {
    // SAFETY: `rusage` is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage` through the pointer.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return ProcessUse::default();
    }
    // These numbers are not negative; their widths depend on the processor.
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

/// Raises the limit of open files to `wanted`, or else to the kernel's maximum, and returns the limit.
pub(crate) fn raise_open_files(wanted: Option<u64>) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let system = std::fs::read_to_string("/proc/sys/fs/nr_open").ok();
    let most = system.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(1 << 20);
    let all = Rlimit { current: Some(most), maximum: Some(most) };
    if setrlimit(Resource::Nofile, all).is_err() {
        let found = getrlimit(Resource::Nofile);
        let within = Rlimit { current: found.maximum, maximum: found.maximum };
        // If even this fails, a user keeps the current limit.
        let _ = setrlimit(Resource::Nofile, within);
    }
    let found = getrlimit(Resource::Nofile);
    let all = found.current.unwrap_or(most);
    match wanted.filter(|wanted| *wanted < all) {
        Some(wanted) => {
            // A process may always lower its limit.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..found });
            wanted
        }
        None => all,
    }
}

/// Starts the write-back of dirty pages in the `length` bytes from `offset`. Waits until the device has accepted the
/// requests, not until they are complete.
///
/// # Errors
/// If the file cannot be written back. Later errors are returned when the file is synced.
pub(crate) fn start_writing(file: impl AsFd, offset: u64, length: u64) -> io::Result<()> {
    let signed = |value: u64| i64::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let (descriptor, flags) = (file.as_fd().as_raw_fd(), libc::SYNC_FILE_RANGE_WRITE);
    // SAFETY: it takes a descriptor, which is open meanwhile, and numbers.
    checked(unsafe { libc::sync_file_range(descriptor, signed(offset)?, signed(length)?, flags) })
}

/// A scheduling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// `SCHED_OTHER`, the default.
    Other,
    /// `SCHED_IDLE`: the thread runs only if no other thread wants the CPU.
    Idle,
}

/// Sets the policy of thread number `thread` of this process.
///
/// # Errors
/// Errors of the kernel, if the thread has ended, or if an unprivileged user may not return to the default.
pub(crate) fn set_policy(thread: i32, policy: Policy) -> io::Result<()> {
    let number = match policy {
        Policy::Other => libc::SCHED_OTHER,
        Policy::Idle => libc::SCHED_IDLE,
    };
    // The kernel's `sched_param`. musl has no `sched_setscheduler`, and another `sched_param`.
    let priority: libc::c_int = 0;
    // SAFETY: the kernel reads one `int` through the pointer, which lives across the call.
    checked(unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, number, &raw const priority) })
}

/// Forbids the kernel to free memory for this thread by writing back through a FUSE file system: this could be our own
/// mount, and the thread would wait for itself.
///
/// # Errors
/// `EPERM` without `CAP_SYS_RESOURCE`.
pub(crate) fn forbid_io_recursion() -> io::Result<()> {
    // SAFETY: no memory is passed.
    checked(unsafe { libc::prctl(SET_IO_FLUSHER, 1, 0, 0, 0) })
}

/// Locks `memory` until the process ends, because swapping it out could go through our own mount.
///
/// # Errors
/// `ENOMEM` or `EPERM` if the user's limit of locked memory is lower.
pub(crate) fn lock_memory(memory: &[u8]) -> io::Result<()> {
    // SAFETY: the range is that of a live slice; locking changes nothing of its content.
    checked(unsafe { libc::mlock(memory.as_ptr().cast(), memory.len()) })
}

/// Requests large pages for `memory`, which begins and ends at boundaries of large pages.
///
/// # Errors
/// Errors of the kernel, if it has no large pages.
pub(crate) fn ask_for_huge_pages(memory: &[u8]) -> io::Result<()> {
    let start = memory.as_ptr().cast_mut().cast();
    // SAFETY: the range is that of a live slice; which pages lie behind it changes nothing of its content.
    checked(unsafe { libc::madvise(start, memory.len(), libc::MADV_HUGEPAGE) })
}
