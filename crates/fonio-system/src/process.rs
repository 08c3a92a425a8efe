//! Identifies a process in a way that remains unique after its id is reused.

use serde::{Deserialize, Serialize};

use crate::procfs::Task;

/// A process, identified by its id and its start time. The id alone is not enough, because the kernel reuses
/// ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The process id.
    pub pid: u32,
    /// Start time in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub started_ticks: u64,
}

impl ProcessId {
    /// Returns the identity of this process. Panics if `/proc` is not mounted.
    pub fn own() -> ProcessId {
        ProcessId::of(std::process::id()).expect("/proc shows this process")
    }

    /// Returns the process that now has the id `pid`; `None` if there is no such process, or if it is a
    /// zombie.
    pub fn of(pid: u32) -> Option<ProcessId> {
        let stat = Task::of(pid).stat().filter(|stat| !stat.is_dead())?;
        Some(ProcessId { pid, started_ticks: stat.started_ticks })
    }

    /// Returns whether the process still runs.
    pub fn runs(self) -> bool {
        ProcessId::of(self.pid) == Some(self)
    }

    /// Kills the process with SIGKILL if it still runs, and waits up to two seconds until it has ended.
    pub fn kill(self) {
        if !self.runs() {
            return;
        }
        let Some(pid) = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw) else {
            return;
        };
        // The system call fails if the process has already ended.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        for _ in 0..200 {
            if !self.runs() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_another_start_is_another_process() {
        let own = ProcessId::own();
        assert!(own.runs());
        assert!(!ProcessId { started_ticks: own.started_ticks + 1, ..own }.runs());
    }

    #[test]
    fn a_killed_process_no_longer_runs() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let id = ProcessId::of(child.id()).expect("it runs");
        id.kill();
        assert!(!id.runs());
        child.wait().expect("the killed child can be waited for");
    }
}
