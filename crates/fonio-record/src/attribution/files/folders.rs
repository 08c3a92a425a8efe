//! Finds the paths of folders, which are part of the paths of their files.

use std::path::{Path, PathBuf};

use fonio_core::Inode;
use fonio_core::lives::Generation;
use rustc_hash::FxHashMap;

use super::find::Roots;

/// Maximum number of folders whose path is kept.
const FOLDERS_MAX: usize = 4096;

/// A folder. Without a generation, it is the folder that has the number at the look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FolderId {
    pub inode: Inode,
    pub generation: Option<Generation>,
}

/// The paths of folders that were looked up.
#[derive(Debug, Default)]
pub(super) struct Folders(FxHashMap<FolderId, PathBuf>);

impl Folders {
    /// Returns the path of a folder; `None` if the folder does not exist.
    pub(super) fn path(&mut self, folder: FolderId, roots: &mut Roots<'_>) -> Option<&Path> {
        if !self.0.contains_key(&folder) {
            let (found, _) = roots.find(folder.inode, folder.generation)?;
            if self.0.len() >= FOLDERS_MAX {
                self.0.clear();
            }
            self.0.insert(folder, found);
        }
        self.0.get(&folder).map(PathBuf::as_path)
    }

    /// Forgets all paths, because a folder was moved or deleted.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
