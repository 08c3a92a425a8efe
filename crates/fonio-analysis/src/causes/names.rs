//! Keeps the names of files over time.

use fonio_core::{Content, File};
use rustc_hash::FxHashMap;

/// Maximum number of files. With their paths and counts, they need about 200 MB.
pub(super) const FILES_MAX: usize = 1 << 18;

/// The last known name of each file, by the file's number in the recording.
#[derive(Debug, Default)]
pub(crate) struct FileNames {
    names: FxHashMap<u32, Name>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Name {
    pub(super) path: Option<String>,
    pub(super) device: Option<String>,
    pub(super) inode: Option<u64>,
    content: Content,
}

impl FileNames {
    /// Stores the name of a file, replacing an earlier name of that file. Returns false if there are too many
    /// files.
    pub(crate) fn add(&mut self, row: &File) -> bool {
        if self.names.len() >= FILES_MAX && !self.names.contains_key(&row.file_id) {
            return false;
        }
        let name = self.names.entry(row.file_id).or_default();
        name.path = row.path.clone().or_else(|| name.path.take());
        name.device = row.device.map(|device| device.to_string()).or_else(|| name.device.take());
        name.inode = row.inode.or(name.inode);
        if row.content != Content::Unknown {
            name.content = row.content;
        }
        true
    }

    /// The path of a file, or its inode number if the path is unknown.
    pub(crate) fn path(&self, file: u32) -> Option<String> {
        let name = self.names.get(&file)?;
        let numbered = || Some(format!("inode {} on {}", name.inode?, name.device.as_deref()?));
        name.path.clone().or_else(numbered)
    }

    /// Returns whether a file is on an anonymous device and, unless `may_have_path`, has no known path.
    pub(crate) fn is_without_device(&self, file: u32, may_have_path: bool) -> bool {
        let Some(name) = self.names.get(&file) else { return false };
        let is_anonymous = name.device.as_ref().is_some_and(|device| device.starts_with("0:"));
        is_anonymous && (may_have_path || name.path.is_none())
    }

    /// Returns the kind of data that a file contains, if it is known.
    pub(crate) fn content(&self, file: u32) -> Content {
        self.names.get(&file).map_or(Content::Unknown, |name| name.content)
    }

    /// Returns the known name, device and inode of a file; all are `None` for a file without rows.
    pub(super) fn of(&self, file: Option<u32>) -> Name {
        file.and_then(|file| self.names.get(&file).cloned()).unwrap_or_default()
    }
}
