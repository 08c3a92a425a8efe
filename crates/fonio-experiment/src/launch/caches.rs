//! Drops the page-cache pages of the files that a command opens.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fonio_host::{cached_bytes, drop_file_cache};
use serde::{Deserialize, Serialize};

/// Maximum number of listed files that stayed in the cache. Files with the most bytes come first.
const NAMED: usize = 5;

/// The pages that were dropped before a cold launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Number of files that the command opens.
    pub files: usize,
    /// Cached bytes of these files before the drop; `None` if the kernel cannot report them (before Linux
    /// 6.5).
    pub held_bytes: Option<u64>,
    /// Cached bytes of these files after the drop, in pages that other processes map or use.
    pub kept_bytes: Option<u64>,
    /// The files with the most bytes that are still cached.
    pub kept: Vec<Kept>,
    /// Files whose pages could not be dropped, and why.
    pub failed: Vec<String>,
}

/// A file that stayed in the cache, completely or partly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The path of the file.
    pub path: PathBuf,
    /// Number of bytes of the file that are still cached.
    pub bytes: u64,
}

impl Dropped {
    /// Drops the cached pages of `files`. Files that no longer exist are skipped.
    pub(super) fn files(files: &BTreeSet<PathBuf>) -> Dropped {
        let mut all = Dropped { held_bytes: Some(0), kept_bytes: Some(0), ..Dropped::default() };
        for path in files.iter().filter(|path| path.exists()) {
            all.files += 1;
            if let Err(reason) = all.file(path) {
                all.failed.push(format!("{}: {reason}", path.display()));
            }
        }
        all.kept.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
        all.kept.truncate(NAMED);
        all
    }

    fn file(&mut self, path: &Path) -> Result<(), fonio_host::HostError> {
        let add = |sum: &mut Option<u64>, bytes: Option<fonio_core::ByteCount>| {
            *sum = sum.zip(bytes).map(|(sum, bytes)| sum + bytes.0);
        };
        add(&mut self.held_bytes, cached_bytes(path)?);
        drop_file_cache(path)?;
        let kept = cached_bytes(path)?;
        add(&mut self.kept_bytes, kept);
        if let Some(bytes) = kept.filter(|bytes| bytes.0 > 0) {
            self.kept.push(Kept { path: path.to_owned(), bytes: bytes.0 });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_uses_goes() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder on a disk");
        let file = dir.path().join("file");
        std::fs::write(&file, vec![1; 100_000]).expect("write");
        let dropped = Dropped::files(&[file.clone(), dir.path().join("gone")].into());
        assert_eq!((dropped.files, dropped.failed.len()), (1, 0));
        if let Some(held) = dropped.held_bytes {
            assert!(held >= 100_000);
            assert_eq!((dropped.kept_bytes, &dropped.kept[..]), (Some(0), &[][..]));
        }
    }
}
