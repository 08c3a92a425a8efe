//! Gives access to a machine's sysfs, procfs and other files.
//!
//! If a file is missing or unreadable, its value is `None`.

use std::path::{Path, PathBuf};

use fonio_system::{MountTable, ProcessId, Task};

/// A machine, given by the root folder of its files. This folder is `/`, or a copy in tests.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// Returns the machine on which this process runs.
    pub fn here() -> Machine {
        Machine::at(Path::new("/"))
    }

    /// Returns a machine whose files (`sys`, `proc`, `etc`, …) are below `root`.
    pub fn at(root: &Path) -> Machine {
        Machine { root: root.to_owned() }
    }

    /// Returns whether this is the machine on which this process runs, and not a copy of another machine's files.
    pub(crate) fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Returns the path of a file that is given relative to the root folder.
    pub fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns the path of a file below `/sys`.
    pub fn sys(&self, below: impl AsRef<Path>) -> PathBuf {
        self.root.join("sys").join(below)
    }

    /// Returns the path of a file below `/proc`.
    pub fn proc(&self, below: impl AsRef<Path>) -> PathBuf {
        self.root.join("proc").join(below)
    }

    pub(crate) fn modules(&self) -> PathBuf {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        self.root.join("lib/modules").join(release)
    }

    /// Returns the mount table; empty if procfs cannot be read.
    pub fn mounts(&self) -> MountTable {
        MountTable::read_below(&self.proc("")).unwrap_or_default()
    }

    /// Returns the process or thread with the id `number`.
    pub fn task(&self, number: u32) -> Task {
        Task::below(&self.proc(""), number)
    }

    /// Returns the process that now has this id; `None` if there is none.
    pub fn process(&self, pid: u32) -> Option<ProcessId> {
        Some(ProcessId { pid, started_ticks: self.task(pid).stat()?.started_ticks })
    }
}
