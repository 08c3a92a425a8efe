//! Reads and sets the I/O class of a running process or of a command. Each thread has its own class, which
//! `ionice` of util-linux sets.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use crate::error::HostError;
use crate::program::{find_in_system, run};

/// Names of the I/O classes that fonio sets, as in `ionice`.
const CLASSES: [&str; 2] = ["idle", "best-effort"];

/// The threads and I/O class of a running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoPriority {
    /// The ids of the process's threads.
    pub threads: Vec<u32>,
    /// I/O class and priority of the process's first thread, such as `none: prio 4` or `idle`.
    pub now: String,
}

impl IoPriority {
    /// Reads the threads and the I/O class of a process. Fails with [`HostError::System`] if the process does
    /// not exist, or with an error of running `ionice`.
    pub fn of(pid: u32) -> Result<IoPriority, HostError> {
        let folder = format!("/proc/{pid}/task");
        let entries = fs::read_dir(&folder).map_err(HostError::system("find the process in", folder))?;
        let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut threads: Vec<u32> = ids.collect();
        threads.sort_unstable();
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
