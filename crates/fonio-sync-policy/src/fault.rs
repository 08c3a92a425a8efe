//! The reasons why a file or folder is not used, without memory on the heap.

use std::fmt::{self, Display, Formatter};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;

/// Why a file is not used. A `length` is the length of the path of the folder that causes the refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A system call failed.
    System {
        /// The failed action, as a verb.
        action: &'static str,
        /// The kernel's error.
        error: Errno,
    },
    /// A part of the path is a symbolic link or not a folder.
    Link {
        /// The length of this part of the path.
        length: usize,
    },
    /// Others than its owner can write to a folder.
    FolderWritable {
        /// The length of the folder's path.
        length: usize,
        /// The permissions of the folder.
        mode: u32,
    },
    /// A folder belongs to a user who is neither root nor the owner of the file.
    FolderOwner {
        /// The length of the folder's path.
        length: usize,
        /// The folder's owner.
        uid: u32,
    },
    /// The path is not a regular file.
    NotAFile,
    /// The file belongs to a user who is neither root nor the user of this process.
    FileOwner {
        /// The file's owner.
        uid: u32,
    },
    /// Others than its owner can write to the file.
    FileWritable {
        /// The permissions of the file.
        mode: u32,
    },
    /// The file is too large.
    TooLarge {
        /// The maximum number of bytes.
        most: u64,
    },
    /// The marker of the database is not a regular file.
    MarkerKind,
    /// The marker and its database belong to different users.
    MarkerOwner {
        /// The marker's owner.
        uid: u32,
        /// The database's owner.
        of_database: u32,
    },
    /// Others than its owner can write to the marker.
    MarkerWritable {
        /// The permissions of the marker.
        mode: u32,
    },
    /// The database belongs to another user than the one of this process, and only its owner can mark it.
    NotOwner {
        /// The database's owner.
        uid: u32,
    },
    /// The file is not a database of SQLite.
    NotADatabase,
    /// The database is a cache of a boot that did not end cleanly.
    Stale,
    /// Another process holds the lock of the marker.
    Locked,
}

impl Fault {
    pub(crate) fn system(action: &'static str) -> impl FnOnce(Errno) -> Fault {
        move |error| Fault::System { action, error }
    }

    /// Returns the fault as a sentence about the file at `path`, without a full stop.
    pub fn about(self, path: &Path) -> impl Display {
        About { fault: self, path }
    }
}

struct About<'p> {
    fault: Fault,
    path: &'p Path,
}

impl Display for About<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let shown = self.path.display();
        let part = |length: usize| {
            let bytes = self.path.as_os_str().as_bytes();
            let part = &bytes[..length.min(bytes.len())];
            Path::new(std::ffi::OsStr::from_bytes(if part.is_empty() { b"/" } else { part })).display()
        };
        match self.fault {
            Fault::System { action, error } => {
                write!(out, "cannot {action} {shown}: error {}", error.raw_os_error())
            }
            Fault::Link { length } => {
                write!(out, "{shown} is refused: {} is a symbolic link or not a folder", part(length))
            }
            Fault::FolderWritable { length, mode } => write!(
                out,
                "{shown} is refused: others than its owner can write to the folder {} (mode {mode:o})",
                part(length)
            ),
            Fault::FolderOwner { length, uid } => write!(
                out,
                "{shown} is refused: the folder {} belongs to the user {uid}, who could replace the file; only the owner of the file and root may own this folder",
                part(length)
            ),
            Fault::NotAFile => write!(out, "{shown} is refused: it is not a regular file"),
            Fault::FileOwner { uid } => write!(
                out,
                "{shown} is refused: it belongs to the user {uid}, who is neither root nor the user of this process"
            ),
            Fault::FileWritable { mode } => {
                write!(out, "{shown} is refused: others than its owner can write to it (mode {mode:o})")
            }
            Fault::TooLarge { most } => write!(out, "{shown} is refused: it is larger than {most} bytes"),
            Fault::MarkerKind => write!(out, "the marker of {shown} is refused: it is not a regular file"),
            Fault::MarkerOwner { uid, of_database } => write!(
                out,
                "the marker of {shown} is refused: it belongs to the user {uid}, but the database belongs to the user {of_database}"
            ),
            Fault::MarkerWritable { mode } => write!(
                out,
                "the marker of {shown} is refused: others than its owner can write to it (mode {mode:o})"
            ),
            Fault::NotOwner { uid } => write!(
                out,
                "{shown} belongs to the user {uid}, and only this user's programs can stop syncing it"
            ),
            Fault::NotADatabase => {
                write!(out, "{shown} has the marker of a cache, but is not a database of SQLite")
            }
            Fault::Stale => write!(
                out,
                "{shown} is a cache from a boot that did not end cleanly: stop the program, remove the database, and enable fonio-sync-policy.service, which removes such databases before programs start"
            ),
            Fault::Locked => write!(
                out,
                "{shown} is a cache from a boot that did not end cleanly, and another process holds the lock of its marker"
            ),
        }
    }
}
