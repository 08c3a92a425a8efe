//! Stops running processes for some time.

use fonio_system::{ProcessId, Task};
use rustix::process::{Pid, Signal, kill_process};

use crate::error::HostError;
use crate::io_class::processes_of_tree;
use crate::ledger::{Entry, Ledger, Step};

/// Stops these processes and their descendants, until the returned entries of the ledger are undone. Processes that
/// are stopped already are left alone. Fails with [`HostError::System`].
pub fn pause(pids: &[u32], ledger: &mut Ledger) -> Result<Vec<Entry>, HostError> {
    let mut entries = Vec::new();
    let mut paused: Vec<u32> = Vec::new();
    // A process may have started another one before it was stopped.
    loop {
        let all = pids.iter().flat_map(|pid| processes_of_tree(*pid));
        let left: Vec<u32> = all.filter(|pid| !paused.contains(pid)).collect();
        if left.is_empty() {
            return Ok(entries);
        }
        for pid in left {
            if paused.contains(&pid) {
                continue;
            }
            paused.push(pid);
            let is_stopped = Task::of(pid).stat().is_none_or(|stat| stat.state == 'T');
            let Some(id) = ProcessId::of(pid).filter(|_| !is_stopped) else { continue };
            entries.push(ledger.begin(Step::Paused { id })?);
            send(id, Signal::STOP);
        }
    }
}

/// Continues a process, if it still exists.
pub(crate) fn resume(id: ProcessId) {
    send(id, Signal::CONT);
}

/// Sends a signal to a process, if it still exists.
fn send(id: ProcessId, signal: Signal) {
    if let Some(pid) = Pid::from_raw(id.pid.cast_signed()).filter(|_| id.runs()) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    /// Waits until the state of a process is one of these.
    fn becomes(pid: u32, states: &str) {
        let began = Instant::now();
        while !Task::of(pid).stat().is_some_and(|stat| states.contains(stat.state)) {
            assert!(began.elapsed() < Duration::from_secs(30), "the process does not become {states}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_script_is_stopped_with_its_programs_and_continued() {
        let state = tempfile::tempdir().expect("dir");
        let mut ledger = Ledger::open(state.path()).expect("ledger");
        let mut script = Command::new("sh").args(["-c", "sleep 60 & sleep 60"]).spawn().expect("sh");
        let began = Instant::now();
        while processes_of_tree(script.id()).len() < 3 && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let tree = processes_of_tree(script.id());
        assert_eq!(tree.len(), 3);
        let entries = pause(&[script.id()], &mut ledger).expect("they are stopped");
        assert_eq!(entries.len(), 3);
        tree.iter().for_each(|pid| becomes(*pid, "T"));
        assert_eq!(pause(&[script.id()], &mut ledger).expect("nothing to do").len(), 0);
        entries.into_iter().for_each(|entry| ledger.undo(entry).expect("they go on"));
        tree.iter().for_each(|pid| becomes(*pid, "SR"));
        tree.into_iter().rev().for_each(|pid| send(ProcessId::of(pid).expect("it runs"), Signal::KILL));
        script.wait().expect("it ends");
        ledger.close().expect("nothing is left");
    }
}
