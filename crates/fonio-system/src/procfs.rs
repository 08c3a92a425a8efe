//! Reads facts about processes, threads and memory from `/proc`.
//!
//! A process may end at any moment, so a fact that cannot be read is `None`, not an error.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fonio_core::ByteCount;

use crate::cgroups::Cgroups;

/// A process or thread, given by its folder in procfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    dir: PathBuf,
}

impl Task {
    /// Returns the process or thread with this id, whether or not it exists.
    pub fn of(number: u32) -> Task {
        Task::below(Path::new("/proc"), number)
    }

    /// Returns the process or thread with this id in the procfs mounted at `proc`.
    pub fn below(proc: &Path, number: u32) -> Task {
        Task { dir: proc.join(number.to_string()) }
    }

    /// Returns the ids of all processes.
    pub fn all_below(proc: &Path) -> impl Iterator<Item = u32> {
        let entries = fs::read_dir(proc).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    /// Returns whether the process or thread exists, possibly as a zombie.
    pub fn exists(&self) -> bool {
        self.dir.exists()
    }

    /// Returns the path of the procfs file `name` of the process or thread.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns the name of the process or thread, cut to 15 bytes.
    pub fn name(&self) -> Option<String> {
        Some(self.read("comm")?.trim_end().to_owned())
    }

    /// Returns the state, processor time and start time of the process or thread.
    pub fn stat(&self) -> Option<Stat> {
        Stat::parse(&self.read("stat")?)
    }

    /// Returns the time for which the thread ran, and the time for which it waited for a processor. Also
    /// returns `None` if the kernel does not count these times.
    pub fn schedule(&self) -> Option<Schedule> {
        Schedule::parse(&self.read("schedstat")?)
    }

    /// Returns the process to which the task belongs, its user and its parent.
    pub fn owner(&self) -> Option<Owner> {
        Owner::parse(&self.read("status")?)
    }

    /// Returns the control groups of the process.
    pub fn cgroups(&self) -> Option<Cgroups> {
        Some(Cgroups::parse(&self.read("cgroup")?))
    }

    /// Returns the number of bytes that the process caused to be written to storage: pages that it dirtied,
    /// minus pages dropped before write-back. Fails with `PermissionDenied` if only root may read the number;
    /// `NotFound` if the process has ended or the kernel does not count these bytes.
    pub fn written_bytes(&self) -> io::Result<ByteCount> {
        Ok(written_bytes(&fs::read_to_string(self.dir.join("io"))?))
    }

    fn read(&self, name: &str) -> Option<String> {
        // A program can give itself a name that is not valid UTF-8.
        fs::read(self.dir.join(name)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Facts about a process or thread from `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// `R` runs, `S` sleeps, `D` usually waits for storage, `Z` is a zombie, …
    pub state: char,
    /// The id of the parent process.
    pub parent: u32,
    /// Processor time in user mode, in clock ticks.
    pub user_ticks: u64,
    /// Processor time in the kernel, in clock ticks.
    pub system_ticks: u64,
    /// Processor time of the children that ended and that the process waited for, in clock ticks.
    pub children_ticks: u64,
    /// Start time in clock ticks since boot.
    pub started_ticks: u64,
}

impl Stat {
    /// Parses the line of a `stat` file. The command name is in parentheses, and may contain blanks and
    /// parentheses.
    pub fn parse(text: &str) -> Option<Stat> {
        let (_, rest) = text.rsplit_once(") ")?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        // The first word is field 3 of proc_pid_stat(5).
        let number = |field: usize| -> Option<u64> { words.get(field - 3)?.parse().ok() };
        Some(Stat {
            state: words.first()?.chars().next()?,
            parent: words.get(1)?.parse().ok()?,
            user_ticks: number(14)?,
            system_ticks: number(15)?,
            children_ticks: number(16)?.saturating_add(number(17)?),
            started_ticks: number(22)?,
        })
    }

    /// Returns whether the process has ended and only its entry in the process table remains.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Facts about a thread from `/proc/PID/schedstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Time for which the thread ran.
    pub ran: Duration,
    /// Time for which the thread was runnable and waited for a processor.
    pub waited: Duration,
}

impl Schedule {
    /// Parses the line of a `schedstat` file.
    pub fn parse(text: &str) -> Option<Schedule> {
        let mut words = text.split_whitespace();
        let mut next = || words.next()?.parse().ok().map(Duration::from_nanos);
        Some(Schedule { ran: next()?, waited: next()? })
    }
}

/// Facts about a process, or about the process to which a thread belongs, from `/proc/PID/status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The process id, even if the file belongs to a thread.
    pub pid: Option<u32>,
    /// The real user id of the process.
    pub user: Option<u32>,
    /// The id of the parent process, or of the process that adopted this process.
    pub parent: Option<u32>,
}

impl Owner {
    fn parse(status: &str) -> Option<Owner> {
        let number = |name: &str| field(status, name)?.split_whitespace().next()?.parse().ok();
        Some(Owner { pid: number("Tgid"), user: number("Uid"), parent: number("PPid") })
    }
}

fn written_bytes(io: &str) -> ByteCount {
    let number = |name: &str| field(io, name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    ByteCount(number("write_bytes").saturating_sub(number("cancelled_write_bytes")))
}

/// Returns the value in the line `NAME: VALUE` of a text such as `/proc/meminfo` or `/proc/PID/status`.
pub fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Parses an amount of memory in `/proc/meminfo`. The text states it in KiB.
pub fn memory(meminfo: &str, name: &str) -> Option<ByteCount> {
    let kib: u64 = field(meminfo, name)?.trim_end_matches("kB").trim_end().parse().ok()?;
    Some(ByteCount(kib.saturating_mul(1024)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_blanks_is_skipped() {
        let text = "7 (a) S (b) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20\n";
        let expected = Stat {
            state: 'R',
            parent: 1,
            user_ticks: 11,
            system_ticks: 12,
            children_ticks: 27,
            started_ticks: 4711,
        };
        assert_eq!(Stat::parse(text), Some(expected));
        assert!(!expected.is_dead());
        assert_eq!(Stat::parse(&text.replace(") R", ") Z")).map(|stat| stat.is_dead()), Some(true));
        for damaged in ["", "7 (a", "7 (a) R 1 2 3"] {
            assert_eq!(Stat::parse(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn times_of_the_scheduler() {
        let expected = Schedule { ran: Duration::from_nanos(12), waited: Duration::from_nanos(34) };
        assert_eq!(Schedule::parse("12 34 5\n"), Some(expected));
        assert_eq!(Schedule::parse("12"), None);
        assert_eq!(Schedule::parse(""), None);
    }

    #[test]
    fn what_a_process_wrote() {
        let text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 4096\n\
            cancelled_write_bytes: 96\n";
        assert_eq!(written_bytes(text), ByteCount(4000));
        assert_eq!(written_bytes("write_bytes: 1\ncancelled_write_bytes: 2\n"), ByteCount(0));
        assert_eq!(written_bytes(""), ByteCount(0));
    }

    #[test]
    fn amounts_of_memory() {
        let text = "MemTotal:        1000 kB\nMemFree:          10 kB\nHugePages_Total:       0\n";
        assert_eq!(memory(text, "MemTotal"), Some(ByteCount(1_024_000)));
        assert_eq!(memory(text, "MemFree"), Some(ByteCount(10_240)));
        assert_eq!(memory(text, "Mem"), None);
        assert_eq!(memory(text, "MemAvailable"), None);
    }

    #[test]
    fn this_thread() {
        let thread = Task::of(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
        let user = Some(rustix::process::getuid().as_raw());
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32);
        assert_eq!(thread.owner(), Some(Owner { pid: Some(std::process::id()), user, parent }));
        assert_eq!(thread.stat().map(|stat| stat.state), Some('R'));
        assert!(thread.cgroups().is_some() && thread.name().is_some() && thread.exists());
        assert!(Task::all_below(Path::new("/proc")).any(|pid| pid == std::process::id()));
        let nobody = Task::of(u32::MAX);
        assert_eq!((nobody.owner(), nobody.stat(), nobody.exists()), (None, None, false));
    }
}
