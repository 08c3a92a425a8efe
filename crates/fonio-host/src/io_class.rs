//! Sets and restores I/O classes of threads by the kernel's system calls.

use std::fs;
use std::io;
use std::path::Path;

use fonio_system::{ProcessId, Task};
use serde::{Deserialize, Serialize};

/// Gives this thread, and the threads that it starts later, an I/O class. Fails with the kernel's error.
pub fn set_own_io_class(class: &str) -> io::Result<()> {
    set(0, Encoded::of_class(class))
}

/// Restores the class of a process and of its descendants, unless another program has changed it since.
pub(crate) fn restore(id: ProcessId, was: Encoded, set_to: Encoded) {
    if !id.runs() {
        return;
    }
    for thread in threads_of_tree(id.pid) {
        if get(thread) == Some(set_to) {
            let _ = set(thread, was);
        }
    }
}

/// An I/O class and the priority in it, as the kernel encodes them (include/uapi/linux/ioprio.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Encoded(libc::c_int);

impl Encoded {
    const CLASS_SHIFT: u32 = 13;
    const REALTIME: libc::c_int = 1;

    pub(crate) fn of_class(class: &str) -> Encoded {
        Encoded(match class {
            "idle" => 3 << Encoded::CLASS_SHIFT,
            "best-effort" => (2 << Encoded::CLASS_SHIFT) | 4,
            _ => panic!("`{class}` is not an I/O class"),
        })
    }

    /// Returns whether any user may set it.
    pub(crate) fn is_unprivileged(self) -> bool {
        (0..4 << Encoded::CLASS_SHIFT).contains(&self.0)
            && self.0 >> Encoded::CLASS_SHIFT != Encoded::REALTIME
    }
}

const IOPRIO_WHO_PROCESS: libc::c_int = 1;

/// Returns the class of a thread; `None` if it has ended.
pub(crate) fn get(thread: u32) -> Option<Encoded> {
    // SAFETY: the call takes two numbers.
    let value = unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, thread) };
    libc::c_int::try_from(value).ok().filter(|value| *value >= 0).map(Encoded)
}

/// Sets the class of a thread; 0 is this thread.
pub(crate) fn set(thread: u32, to: Encoded) -> io::Result<()> {
    // SAFETY: the call takes three numbers.
    match unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, thread, to.0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns a process and its descendants, each after its parent. The process itself may have ended.
pub(crate) fn processes_of_tree(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = Task::all_below(Path::new("/proc"))
        .filter_map(|process| Some((process, Task::of(process).stat()?.parent)))
        .collect();
    let mut processes = vec![pid];
    let mut at = 0;
    while at < processes.len() {
        let children = parents.iter().filter(|(_, parent)| *parent == processes[at]).map(|(child, _)| *child);
        let children: Vec<u32> = children.filter(|child| !processes.contains(child)).collect();
        processes.extend(children);
        at += 1;
    }
    processes
}

/// Returns the threads of a process and of its descendants, sorted; empty if the process has ended.
pub(crate) fn threads_of_tree(pid: u32) -> Vec<u32> {
    let threads = |process: &u32| {
        let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect::<Vec<u32>>()
    };
    let mut all: Vec<u32> = processes_of_tree(pid).iter().flat_map(threads).collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::run;

    #[test]
    fn a_thread_gets_a_class_of_its_own() {
        let (of_thread, of_test) = std::thread::spawn(|| {
            set_own_io_class("idle").expect("any user may have it");
            let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            let said =
                |id: u32| run("ionice", "util-linux", &["-p".to_owned(), id.to_string()]).expect("ionice");
            (said(own), said(std::process::id()))
        })
        .join()
        .expect("it ends");
        assert_eq!(of_thread.trim(), "idle");
        assert_ne!(of_test.trim(), "idle", "the first thread of the process keeps its class");
    }
}
