//! Which process is meant, also after its number was given to another.

use std::fs;

use serde::{Deserialize, Serialize};

/// A process: its number and when it was started. A number alone is used again after a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The process's number.
    pub pid: u32,
    /// When it was started, in clock ticks since the machine was (`/proc/PID/stat`, field 22).
    pub started_ticks: u64,
}

impl ProcessId {
    /// This process.
    ///
    /// # Panics
    ///
    /// Where `/proc` is not mounted.
    pub fn own() -> ProcessId {
        ProcessId::of(std::process::id()).expect("/proc shows this process")
    }

    /// The process that has the number `pid` now; `None` where there is none, or only a dead one that nobody has
    /// waited for.
    pub fn of(pid: u32) -> Option<ProcessId> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, started_ticks) = parse_stat(&stat)?;
        (state != 'Z' && state != 'X').then_some(ProcessId { pid, started_ticks })
    }

    /// Whether it still runs.
    pub fn runs(self) -> bool {
        ProcessId::of(self.pid) == Some(self)
    }

    /// Ends it with SIGKILL, if it still runs, and waits up to two seconds until it has gone.
    pub fn kill(self) {
        if !self.runs() {
            return;
        }
        let Some(pid) = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw) else {
            return;
        };
        // A process that ended by itself in between is what is wanted.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        for _ in 0..200 {
            if !self.runs() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// The state and the start time. The command's name, in parentheses, may hold blanks and parentheses itself.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    let started = fields.nth(18)?.parse().ok()?;
    Some((state, started))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_blanks_is_skipped() {
        let stat = "7 (a) S (b) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(parse_stat(stat), Some(('R', 4711)));
        assert_eq!(parse_stat("7 (a"), None);
    }

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
        child.wait().expect("it can be waited for");
    }
}
