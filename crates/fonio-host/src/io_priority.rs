//! Reads and sets the I/O class of running processes or of a command. Each thread has its own class. A new thread or
//! process inherits the class of the thread that started it.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use fonio_system::ProcessId;

use crate::error::HostError;
use crate::io_class::{Encoded, get, set, threads_of_tree};
use crate::ledger::{Entry, Ledger, Step};
use crate::program::{find_in_system, run};

/// Names of the I/O classes that fonio sets, as in `ionice`.
const CLASSES: [&str; 3] = ["idle", "best-effort", "none"];

/// The threads and I/O class of a running process and its descendants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoPriority {
    /// The ids of the threads of the process and of its descendants.
    pub threads: Vec<u32>,
    /// I/O class and priority of the process's first thread, such as `none: prio 4` or `idle`.
    pub now: String,
}

impl IoPriority {
    /// Reads the threads and the I/O class of a process. Fails with [`HostError::System`] if the process does
    /// not exist, or with an error of running `ionice`.
    pub fn of(pid: u32) -> Result<IoPriority, HostError> {
        let folder = format!("/proc/{pid}/task");
        fs::read_dir(&folder).map_err(HostError::system("find the process in", folder))?;
        let threads = threads_of_tree(pid);
        let now = run("ionice", "util-linux", &["-p".to_owned(), pid.to_string()])?.trim().to_owned();
        Ok(IoPriority { threads, now })
    }

    /// Sets the I/O class of all threads. A new thread inherits the class of its parent. Returns the error of
    /// `ionice`, for example if the process has ended or belongs to another user.
    pub fn set(&self, class: &str) -> Result<(), HostError> {
        assert!(CLASSES.contains(&class), "`{class}` is not an I/O class");
        // `-t` ignores threads that have ended.
        let words = ["-t", "-c", class, "-p"].map(str::to_owned).into_iter();
        let threads = self.threads.iter().map(u32::to_string);
        run("ionice", "util-linux", &words.chain(threads).collect::<Vec<_>>()).map(drop)
    }
}

/// Gives processes and their descendants an I/O class until the ledger restores the former classes. Processes that
/// have ended, or that have the class already, are left out.
pub fn borrow_io_class(pids: &[u32], class: &str, ledger: &mut Ledger) -> Result<Vec<Entry>, HostError> {
    let set_to = Encoded::of_class(class);
    let mut entries = Vec::new();
    for pid in pids {
        let Some(id) = ProcessId::of(*pid) else { continue };
        let Some(was) = get(id.pid).filter(|was| *was != set_to) else { continue };
        entries.push(ledger.begin(Step::IoClass { id, was, set_to })?);
        for thread in threads_of_tree(id.pid) {
            // A thread may have ended.
            let _ = set(thread, set_to);
        }
    }
    Ok(entries)
}

/// Returns the command that runs `words` with this I/O class.
pub fn with_io_class(class: &str, words: &[OsString]) -> Command {
    assert!(CLASSES.contains(&class), "`{class}` is not an I/O class");
    let mut command = Command::new("ionice");
    find_in_system(&mut command);
    command.args(["-c", class]).args(words);
    command
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_tree_of_processes_gets_the_class_until_the_ledger_ends() {
        let dir = tempfile::tempdir().expect("dir");
        let mut shell = Command::new("sh").args(["-c", "sleep 60; true"]).spawn().expect("sh starts");
        let classes =
            || -> Vec<Option<Encoded>> { threads_of_tree(shell.id()).into_iter().map(get).collect() };
        while classes().len() < 2 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let before = classes();
        let mut ledger = Ledger::open(&dir.path().join("state")).expect("ledger");
        let entries = borrow_io_class(&[shell.id()], "idle", &mut ledger).expect("they are ours");
        assert_eq!(classes(), [Some(Encoded::of_class("idle")); 2]);
        assert_eq!(entries.len(), 1);
        ledger.close().expect("it is undone");
        assert_eq!(classes(), before);
        for thread in threads_of_tree(shell.id()).into_iter().rev() {
            let pid = rustix::process::Pid::from_raw(thread.cast_signed()).expect("not zero");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        shell.wait().expect("it ends");
    }

    #[test]
    fn a_process_gets_the_class_and_gives_it_to_its_children() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep starts");
        let before = IoPriority::of(child.id()).expect("it runs");
        assert_eq!(before.threads, [child.id()]);
        before.set("idle").expect("it is ours");
        assert_eq!(IoPriority::of(child.id()).expect("it runs").now, "idle");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(IoPriority::of(child.id()).is_err());
        let words = ["ionice"].map(OsString::from);
        let said = with_io_class("idle", &words).output().expect("ionice starts");
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "idle");
    }
}
