//! Describes the object to which a setting applies.

use std::path::{Path, PathBuf};

use fonio_system::ProcessId;

/// The kind of object that a setting applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The setting applies to a disk, which the user names by its device or by a path on it.
    Disk,
    /// The setting applies to a mount, which the user names by a path in it.
    Mount,
    /// The setting applies to the complete machine.
    Machine,
    /// The setting applies to a systemd unit, to a control group that the user names by its path, or to a
    /// process, which the user names by its folder in `/proc`.
    Unit,
    /// The setting applies to an SQLite database, which the user names by its file.
    Database,
    /// The setting applies to a folder.
    Folder,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Object {
    /// A disk, by its name in `/sys/block`.
    Disk(String),
    /// A mount, by its mount point.
    Mount(PathBuf),
    /// The complete machine.
    Machine,
    /// A systemd unit, by its name.
    Unit(String),
    /// A control group that is not a unit, by its folder.
    Group(PathBuf),
    /// A process with its descendants.
    Process(ProcessId),
    /// An SQLite database, by its file.
    Database(PathBuf),
    /// A folder, by its path.
    Folder {
        dir: PathBuf,
        /// The other folder or the image that has the folder's content.
        content: Option<PathBuf>,
    },
}

impl Object {
    pub(super) fn scope(&self) -> Scope {
        match self {
            Object::Disk(_) => Scope::Disk,
            Object::Mount(_) => Scope::Mount,
            Object::Machine => Scope::Machine,
            Object::Unit(_) | Object::Group(_) | Object::Process(_) => Scope::Unit,
            Object::Database(_) => Scope::Database,
            Object::Folder { .. } => Scope::Folder,
        }
    }

    // Each target's object matches the scope of the target's kind, so these methods never panic.

    pub(super) fn disk(&self) -> &str {
        match self {
            Object::Disk(device) => device,
            other => panic!("{other:?} is not a disk"),
        }
    }

    pub(super) fn unit(&self) -> &str {
        match self {
            Object::Unit(unit) => unit,
            other => panic!("{other:?} is not a unit"),
        }
    }

    /// Returns the path of the object: a mount point, folder or database file.
    pub(super) fn path(&self) -> &Path {
        match self {
            Object::Mount(dir) | Object::Group(dir) | Object::Folder { dir, .. } => dir,
            Object::Database(path) => path,
            other => panic!("{other:?} has no path"),
        }
    }

    /// Returns the folder, and the other folder or image that has its content.
    pub(super) fn with_content(&self) -> (&Path, &Path) {
        match self {
            Object::Folder { dir, content: Some(content) } => (dir, content),
            other => panic!("{other:?} has no separate content"),
        }
    }
}
