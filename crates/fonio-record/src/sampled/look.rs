//! Takes one sample of procfs: the threads that are blocked uninterruptibly, and their operations.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use fonio_core::lives::Generation;
use fonio_core::{BlockedIn, DeviceId, WaitReason};
use fonio_machine::{Machine, read_text};
use fonio_system::{Task, device};

use crate::attribution::files::numbers_at;
use crate::probes::blocked::judged_in_procfs;

/// A thread that was blocked when procfs was sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub tid: u32,
    pub pid: u32,
    /// How often the thread has left a processor. Samples with the same number show the same wait. `None` if
    /// the kernel does not count this (`CONFIG_SCHED_INFO`).
    pub switches: Option<u64>,
    pub blocked_in: BlockedIn,
    pub reason: WaitReason,
    pub file: Option<OpenFile>,
}

/// The open file on which a system call operates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OpenFile {
    pub device: DeviceId,
    pub inode: u64,
    pub generation: Option<Generation>,
    pub path: PathBuf,
}

/// Samples the threads of the machine in procfs.
#[derive(Debug)]
pub(crate) struct Looker {
    machine: Machine,
    own_pid: u32,
}

impl Looker {
    pub(crate) fn new(machine: &Machine) -> Looker {
        Looker { machine: machine.clone(), own_pid: std::process::id() }
    }

    /// Returns the number of threads that wait for I/O now, by the kernel's count (`procs_blocked`). This
    /// count excludes threads that wait for other threads, for example for a journal commit. `None` if the
    /// kernel does not show the count.
    fn waiting_for_io(&self) -> Option<u64> {
        let text = read_text(&self.machine.proc("stat"))?;
        text.lines().rev().find_map(|line| line.strip_prefix("procs_blocked "))?.trim().parse().ok()
    }

    /// Returns the threads of other processes that are blocked now.
    ///
    /// A prior check whether any thread is blocked would miss most short waits, because the state of a
    /// blocked thread changes before the recorder reaches this thread.
    pub(crate) fn blocked(&self) -> Vec<Blocked> {
        let mut found = Vec::new();
        for pid in Task::all_below(&self.machine.proc("")) {
            if pid == self.own_pid {
                continue;
            }
            let threads = std::fs::read_dir(self.machine.proc(format!("{pid}/task")));
            let numbers = threads.into_iter().flatten().flatten();
            for tid in numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
                if self.is_blocked(pid, tid) {
                    found.push(self.describe(pid, tid));
                }
            }
        }
        found
    }

    /// Returns whether a thread is blocked. A thread that has ended is not blocked.
    fn is_blocked(&self, pid: u32, tid: u32) -> bool {
        let Ok(stat) = std::fs::read(self.machine.proc(format!("{pid}/task/{tid}/stat"))) else {
            return false;
        };
        // The name of the thread can contain any byte; the state is the first letter after the name.
        let after_name = stat.iter().rposition(|byte| *byte == b')');
        after_name.is_some_and(|at| stat.get(at + 2) == Some(&b'D'))
    }

    fn describe(&self, pid: u32, tid: u32) -> Blocked {
        let text = |name: &str| read_text(&self.machine.proc(format!("{pid}/task/{tid}/{name}")));
        let switches =
            || text("schedstat").and_then(|text| text.split_ascii_whitespace().nth(2)?.parse().ok());
        let (began, judgement) = (switches(), judged_in_procfs(&self.machine, tid));
        let descriptor = text("syscall").filter(|_| judgement.is_of_file);
        let descriptor = descriptor.and_then(|text| {
            let word = text.split_ascii_whitespace().nth(1)?;
            u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
        });
        let file = descriptor.and_then(|descriptor| self.open_file(pid, descriptor));
        let blocked = Blocked {
            tid,
            pid,
            switches: began,
            blocked_in: judgement.blocked_in,
            reason: judgement.reason,
            file,
        };
        if !self.is_blocked(pid, tid) || switches() != began {
            // The wait ended before all files were read, so the files show the thread's next activity. Most
            // waits of this length are for I/O.
            return Blocked {
                blocked_in: BlockedIn::Unknown,
                reason: WaitReason::Storage,
                file: None,
                ..blocked
            };
        }
        // Only root can see the causes of other users' waits. All users can see whether any thread waits for
        // I/O.
        let is_hidden = judgement.reason == WaitReason::Unknown && judgement.blocked_in == BlockedIn::Unknown;
        let is_io = is_hidden && self.waiting_for_io().is_some_and(|threads| threads > 0);
        Blocked { reason: if is_io { WaitReason::Storage } else { judgement.reason }, ..blocked }
    }

    fn open_file(&self, pid: u32, descriptor: u64) -> Option<OpenFile> {
        let link = self.machine.proc(format!("{pid}/fd/{descriptor}"));
        let path = std::fs::read_link(&link).ok()?;
        let metadata = std::fs::metadata(&link).ok().filter(std::fs::Metadata::is_file)?;
        let (device, inode) = (device::from_dev(metadata.dev()), metadata.ino());
        // The descriptor may have been closed and opened again between these calls.
        let numbers = numbers_at(&link).filter(|numbers| numbers.inode == inode);
        let generation = numbers.and_then(|numbers| numbers.generation);
        Some(OpenFile { device, inode, generation, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_threads_are_found_with_what_may_be_read() {
        let root = tempfile::tempdir().unwrap();
        let thread = |pid: u32, tid: u32, state: &str, more: &[(&str, &str)]| {
            let dir = root.path().join(format!("proc/{pid}/task/{tid}"));
            let own = root.path().join(format!("proc/{tid}"));
            let stat = format!("{tid} (a ) D b) {state} 1 1 0 0 -1 0 0 0");
            for dir in [&dir, &own] {
                std::fs::create_dir_all(dir).unwrap();
                std::fs::write(dir.join("stat"), &stat).unwrap();
                more.iter().for_each(|(name, text)| std::fs::write(dir.join(name), text).unwrap());
            }
        };
        thread(5, 5, "S", &[]);
        thread(5, 6, "D", &[("schedstat", "100 200 17"), ("wchan", "0")]);
        thread(8, 8, "D", &[("schedstat", "1 2 3"), ("wchan", "wait_for_vfork_done")]);
        std::fs::write(
            root.path().join("proc/stat"),
            "cpu 1 2\nprocs_running 1\nprocs_blocked 2\nsoftirq 1\n",
        )
        .unwrap();
        let looker = Looker::new(&Machine::at(root.path()));
        let mut found = looker.blocked();
        found.sort_unstable_by_key(|blocked| blocked.tid);
        let told: Vec<_> = found
            .iter()
            .map(|blocked| (blocked.pid, blocked.tid, blocked.switches, blocked.reason))
            .collect();
        let storage = (5, 6, Some(17), WaitReason::Storage);
        assert_eq!(told, [storage, (8, 8, Some(3), WaitReason::Thread)]);
        std::fs::write(root.path().join("proc/stat"), "procs_blocked 0\n").unwrap();
        let nobody = looker.blocked();
        let hidden = nobody.iter().find(|blocked| blocked.tid == 6).unwrap();
        assert_eq!(hidden.reason, WaitReason::Unknown, "nobody waits for I/O");
    }
}
