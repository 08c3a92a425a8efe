//! Waits for the lock on a file or folder, but not forever and not in silence.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock, fstat, major, minor};
use rustix::io::Errno;

use crate::error::SystemError;
use crate::procfs::Task;
use crate::progress::say;
use crate::signals::{ENDING, Listener};

const PAUSE: Duration = Duration::from_millis(20);
/// Time after which a message names the process that holds the lock.
const SILENCE: Duration = Duration::from_secs(1);

/// Waits at most `patience` for the exclusive lock (`flock`) on an open file or folder. After one second, a
/// message names the process that holds the lock. The lock ends when the file is closed.
///
/// Fails with [`SystemError`], which names `path` and the process: the kind of its source is
/// [`ErrorKind::TimedOut`], or [`ErrorKind::Interrupted`] after Ctrl-C or SIGTERM.
pub fn wait(file: impl AsFd, path: &Path, patience: Duration) -> Result<(), SystemError> {
    let taken = |file: &dyn AsFd| match flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(error) => Err(SystemError::on("lock", path)(error)),
    };
    if taken(&file)? {
        return Ok(());
    }
    let signals =
        Listener::begin(&ENDING).map_err(SystemError::on("watch for Ctrl-C while locking", path))?;
    let refused = |kind, why: String| SystemError::on("lock", path)(io::Error::new(kind, why));
    let began = Instant::now();
    let mut has_told = false;
    loop {
        if taken(&file)? {
            return Ok(());
        }
        if ENDING.iter().any(|signal| signals.count(*signal) > 0) {
            return Err(refused(ErrorKind::Interrupted, format!("interrupted while {}", holder(&file))));
        }
        let waited = began.elapsed();
        if waited >= patience {
            let why = format!("{} for more than {} s", holder(&file), patience.as_secs());
            return Err(refused(ErrorKind::TimedOut, format!("{why}; wait until it ends, or stop it")));
        }
        if waited >= SILENCE && !has_told {
            has_told = true;
            let left = (patience - waited).as_secs().max(1);
            let (shown, holder) = (path.display(), holder(&file));
            say(format_args!("Waiting up to {left} s for {shown}: {holder} (Ctrl-C ends this wait)."));
        }
        thread::sleep(PAUSE.min(patience - waited));
    }
}

/// Returns a clause that names the process with the lock on a file.
fn holder(file: impl AsFd) -> String {
    let stat = fstat(file).ok();
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let held = stat.and_then(|stat| process_in(&locks, major(stat.st_dev), minor(stat.st_dev), stat.st_ino));
    match held {
        Some(pid) => {
            let name = Task::of(pid).name().unwrap_or_default();
            let name = if name.is_empty() { String::new() } else { format!(" ({})", name.escape_debug()) };
            format!("process {pid}{name} has held its lock")
        }
        None => "another process has held its lock".to_owned(),
    }
}

/// Returns the process that holds an `flock` on a file, from `/proc/locks`. The kernel shows the device
/// numbers in hexadecimal. A line with an arrow is a process that waits.
fn process_in(locks: &str, major: u32, minor: u32, inode: u64) -> Option<u32> {
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, _, pid, found, ..] if found == file => pid.parse().ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn the_holder_is_in_the_kernels_list() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 fe:00:131 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 8 fe:00:131 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 9 fe:00:131 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE -1 00:1a:5 0 EOF\nbroken\n";
        for (major, minor, inode, expected) in
            [(254, 0, 131, Some(8)), (254, 1, 131, None), (0, 26, 5, None), (254, 0, 13, None)]
        {
            assert_eq!(process_in(locks, major, minor, inode), expected, "{major}:{minor}:{inode}");
        }
    }

    #[test]
    fn a_held_lock_is_waited_for_only_so_long() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("file");
        let (first, second) = (File::create(&path).expect("a file"), File::open(&path).expect("a file"));
        wait(&first, &path, Duration::ZERO).expect("it is free");
        let error = wait(&second, &path, Duration::from_millis(100)).expect_err("it is held");
        assert_eq!(error.source.kind(), ErrorKind::TimedOut);
        let text = crate::chain(&error);
        assert!(text.contains(&format!("process {} (", std::process::id())), "{text}");
        drop(first);
        wait(&second, &path, Duration::ZERO).expect("it is free again");
    }
}
