//! The machine, as sysfs and procfs describe it.
//!
//! A fact that does not exist or is not readable is `None`.

use std::path::{Path, PathBuf};

use fonio_system::{MountTable, Task};

/// The machine whose files are below a folder: `/`, or a copy in tests.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// This machine.
    pub fn here() -> Machine {
        Machine::at(Path::new("/"))
    }

    /// A machine whose files (`sys`, `proc`, `etc`, …) are below `root`.
    pub fn at(root: &Path) -> Machine {
        Machine { root: root.to_owned() }
    }

    /// A file of the machine, by its path from the root.
    pub fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A file of sysfs.
    pub fn sys(&self, below: impl AsRef<Path>) -> PathBuf {
        self.root.join("sys").join(below)
    }

    /// A file of procfs.
    pub fn proc(&self, below: impl AsRef<Path>) -> PathBuf {
        self.root.join("proc").join(below)
    }

    /// The kernel's modules.
    pub(crate) fn modules(&self) -> PathBuf {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        self.root.join("lib/modules").join(release)
    }

    /// The mount table; empty if procfs cannot be read.
    pub fn mounts(&self) -> MountTable {
        MountTable::read_below(&self.proc("")).unwrap_or_default()
    }

    /// The process or thread with this number.
    pub fn task(&self, number: u32) -> Task {
        Task::below(&self.proc(""), number)
    }
}
