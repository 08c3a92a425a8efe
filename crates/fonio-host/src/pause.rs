//! Stops running processes for some time.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use fonio_system::{ProcessId, Task};
use rustix::process::{Pid, Signal, kill_process};

use crate::error::HostError;
use crate::io_class::processes_of_tree;

/// A shell that continues the stopped processes when its input ends: when fonio ends, in whatever way.
const GUARD: &str = "all=; while read -r pid; do all=\"$all $pid\"; done; kill -CONT $all 2>/dev/null";

/// Processes that are stopped. They are continued when this value is dropped, and when this process is killed.
#[derive(Debug)]
pub struct Paused {
    guard: Child,
    input: Option<ChildStdin>,
}

/// Stops these processes and their descendants. Processes that are stopped already are left alone. Fails with
/// [`HostError::System`].
pub fn pause(pids: &[u32]) -> Result<Paused, HostError> {
    let mut guard = Command::new("/bin/sh");
    guard.args(["-c", GUARD]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C on the terminal must not end the guard before fonio.
    guard.process_group(0);
    let mut guard = guard.spawn().map_err(HostError::system("start", "/bin/sh"))?;
    let input = guard.stdin.take();
    let mut paused = Paused { guard, input };
    let mut known: Vec<u32> = Vec::new();
    // A process may have started another one before it was stopped.
    loop {
        let all = pids.iter().flat_map(|pid| processes_of_tree(*pid));
        let mut left: Vec<u32> = all.filter(|pid| !known.contains(pid)).collect();
        left.dedup();
        if left.is_empty() {
            return Ok(paused);
        }
        for pid in left {
            known.push(pid);
            let is_stopped = Task::of(pid).stat().is_none_or(|stat| stat.state == 'T');
            if let Some(id) = ProcessId::of(pid).filter(|_| !is_stopped) {
                let input = paused.input.as_mut().expect("it is open until the end");
                writeln!(input, "{pid}").map_err(HostError::system("write to", "/bin/sh"))?;
                send(id, Signal::STOP);
            }
        }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.guard.wait();
    }
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
        let mut script = Command::new("sh").args(["-c", "sleep 60 & sleep 60"]).spawn().expect("sh");
        let began = Instant::now();
        while processes_of_tree(script.id()).len() < 3 && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let tree = processes_of_tree(script.id());
        assert_eq!(tree.len(), 3);
        let paused = pause(&[script.id()]).expect("they are stopped");
        tree.iter().for_each(|pid| becomes(*pid, "T"));
        drop(pause(&[script.id()]).expect("nothing to do"));
        tree.iter().for_each(|pid| becomes(*pid, "T"));
        drop(paused);
        tree.iter().for_each(|pid| becomes(*pid, "SR"));
        // The script ends with its second program.
        tree.into_iter().filter_map(ProcessId::of).for_each(|id| send(id, Signal::KILL));
        script.wait().expect("it ends");
    }

    const STOPPED: &str = "FONIO_TEST_STOPPED";

    /// In the process that the next test starts: stops a process and then waits.
    #[test]
    fn as_the_process_that_is_killed() {
        let Ok(pid) = std::env::var(STOPPED) else { return };
        let _paused = pause(&[pid.parse().expect("a number")]).expect("it is stopped");
        std::thread::sleep(Duration::from_secs(60));
    }

    #[test]
    fn kill_9_continues_what_was_stopped() {
        let mut copy = Command::new("sh").args(["-c", "sleep 60; true"]).spawn().expect("sh");
        let name = "pause::tests::as_the_process_that_is_killed";
        let mut test = Command::new(std::env::current_exe().expect("this test"));
        test.args(["--exact", name]).env(STOPPED, copy.id().to_string()).stdout(Stdio::null());
        let mut test = test.spawn().expect("it starts");
        becomes(copy.id(), "T");
        test.kill().expect("it is killed");
        test.wait().expect("it ends");
        becomes(copy.id(), "SR");
        processes_of_tree(copy.id())
            .into_iter()
            .filter_map(ProcessId::of)
            .for_each(|id| send(id, Signal::KILL));
        copy.wait().expect("it ends");
    }
}
