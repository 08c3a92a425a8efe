//! Defines the flags with which files are opened.

use std::ops::{BitOr, BitOrAssign};

use serde::{Deserialize, Serialize};

/// A set of `open(2)` flags of an open file.
///
/// fonio defines its own bits, because kernel bits differ between architectures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileFlags(pub u32);

impl FileFlags {
    /// A set without any flag.
    pub const NONE: FileFlags = FileFlags(0);
    /// Writes go to the end of the file (`O_APPEND`).
    pub const APPEND: FileFlags = FileFlags(1);
    /// Reads and writes bypass the page cache (`O_DIRECT`).
    pub const DIRECT: FileFlags = FileFlags(1 << 1);
    /// Written data is durable when the write returns (`O_DSYNC`).
    pub const DSYNC: FileFlags = FileFlags(1 << 2);
    /// Written data and all its metadata are durable when the write returns (`O_SYNC`).
    pub const SYNC: FileFlags = FileFlags(1 << 3);
    /// The `open` call created the file. Later calls on the file do not have this flag.
    pub const MADE: FileFlags = FileFlags(1 << 4);
    /// The opened file is a folder.
    pub const FOLDER: FileFlags = FileFlags(1 << 5);

    /// The name of each flag, starting with the lowest bit.
    pub const NAMES: [(FileFlags, &'static str); 6] = [
        (FileFlags::APPEND, "append"),
        (FileFlags::DIRECT, "direct"),
        (FileFlags::DSYNC, "dsync"),
        (FileFlags::SYNC, "sync"),
        (FileFlags::MADE, "made"),
        (FileFlags::FOLDER, "folder"),
    ];

    /// Whether this set contains every flag of `other`.
    pub fn contains(self, other: FileFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for FileFlags {
    type Output = FileFlags;
    fn bitor(self, other: FileFlags) -> FileFlags {
        FileFlags(self.0 | other.0)
    }
}

impl BitOrAssign for FileFlags {
    fn bitor_assign(&mut self, other: FileFlags) {
        self.0 |= other.0;
    }
}
