//! What the daemon asks of its process: open files, memory that stays, no recursion into itself; and of the kernel, that it
//! write now.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// `PR_SET_IO_FLUSHER`, since Linux 5.6.
const SET_IO_FLUSHER: libc::c_int = 57;

/// What the process has used since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessUse {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    /// It waited for something.
    pub(crate) switches_voluntary: u64,
    /// The kernel took the processor from it.
    pub(crate) switches_involuntary: u64,
}

/// What this process has used, all threads together.
pub(crate) fn process_use() -> ProcessUse {
    // SAFETY: `rusage` is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage` through the pointer.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return ProcessUse::default();
    }
    let time = |value: libc::timeval| {
        Duration::new(value.tv_sec.unsigned_abs(), u32::try_from(value.tv_usec).unwrap_or(0) * 1000)
    };
    ProcessUse {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        switches_voluntary: usage.ru_nvcsw.unsigned_abs(),
        switches_involuntary: usage.ru_nivcsw.unsigned_abs(),
    }
}

/// Allows `wanted` open files, or as many as the kernel lets a process have, and returns how many it is: each file that
/// the kernel remembers holds one, each open file another.
pub(crate) fn raise_open_files(wanted: Option<u64>) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let system = std::fs::read_to_string("/proc/sys/fs/nr_open").ok();
    let most = system.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(1 << 20);
    let all = Rlimit { current: Some(most), maximum: Some(most) };
    if setrlimit(Resource::Nofile, all).is_err() {
        let found = getrlimit(Resource::Nofile);
        let within = Rlimit { current: found.maximum, maximum: found.maximum };
        // A user keeps what they have when even that is refused.
        let _ = setrlimit(Resource::Nofile, within);
    }
    let found = getrlimit(Resource::Nofile);
    let all = found.current.unwrap_or(most);
    match wanted.filter(|wanted| *wanted < all) {
        Some(wanted) => {
            // Less than what it has it may always take.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..found });
            wanted
        }
        None => all,
    }
}

/// Has the kernel write what is dirty of `length` bytes from `offset` on, and does not wait until it is written: only until
/// the device has taken the requests.
///
/// # Errors
/// Where the file cannot be written back. What fails later is told to whoever syncs the file.
pub(crate) fn start_writing(file: impl AsFd, offset: u64, length: u64) -> io::Result<()> {
    let signed = |value: u64| i64::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let (descriptor, flags) = (file.as_fd().as_raw_fd(), libc::SYNC_FILE_RANGE_WRITE);
    // SAFETY: it takes a descriptor, which is open meanwhile, and numbers.
    match unsafe { libc::sync_file_range(descriptor, signed(offset)?, signed(length)?, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// How a thread shares a CPU with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// As all do.
    Other,
    /// Only when nobody else wants it.
    Idle,
}

/// Gives thread number `thread` of this process a policy.
///
/// # Errors
/// The kernel's, where the thread is no more or an unprivileged user may not go back.
pub(crate) fn set_policy(thread: i32, policy: Policy) -> io::Result<()> {
    let number = match policy {
        Policy::Other => libc::SCHED_OTHER,
        Policy::Idle => libc::SCHED_IDLE,
    };
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one `sched_param` through the pointer, which lives across the call.
    if unsafe { libc::sched_setscheduler(thread, number, &raw const parameter) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Tells the kernel that memory for this process must not be made by writing back through a FUSE mount: that could
/// be ours, and we would wait for ourselves.
///
/// # Errors
/// `EPERM` without `CAP_SYS_RESOURCE`.
pub(crate) fn forbid_io_recursion() -> io::Result<()> {
    // SAFETY: no memory is passed.
    if unsafe { libc::prctl(SET_IO_FLUSHER, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Keeps `memory` in memory for as long as the process runs: swapping it out could go through our own mount.
///
/// # Errors
/// `ENOMEM` or `EPERM` where the user's limit of locked memory is lower.
pub(crate) fn lock_memory(memory: &[u8]) -> io::Result<()> {
    // SAFETY: the range is that of a live slice; locking changes nothing of its content.
    if unsafe { libc::mlock(memory.as_ptr().cast(), memory.len()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Asks for large pages behind `memory`, which begins and ends at one's boundaries.
///
/// # Errors
/// The kernel's, where it has none.
pub(crate) fn ask_for_huge_pages(memory: &[u8]) -> io::Result<()> {
    let start = memory.as_ptr().cast_mut().cast();
    // SAFETY: the range is that of a live slice; which pages lie behind it changes nothing of its content.
    if unsafe { libc::madvise(start, memory.len(), libc::MADV_HUGEPAGE) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
