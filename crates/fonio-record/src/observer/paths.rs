//! Finds the paths of files, mostly while the files still exist.
//!
//! A file can be deleted long before its name is needed, and another file can get its inode number. Therefore the
//! new files with the most bytes are looked up each time that the observer is read, and each path belongs to a
//! number with its generation.

use std::time::{Duration, Instant};

use fonio_core::{Content, SeenFile};
use fonio_machine::Machine;
use rustc_hash::FxHashMap;

use crate::attribution::files::{NotFound, Roots, content};

/// Maximum number of kept look-ups. At this number, the older half is dropped.
const KNOWN_MAX: usize = 2048;
/// The time after which an existing file is looked up again, because it may have been renamed.
const PATH_HOLDS: Duration = Duration::from_secs(600);
/// Maximum number of new files that are noted and that are looked up each time. A look-up takes some 20 µs, so a
/// reading each second costs at most 0.03 % of one processor.
const NEW_MAX: usize = 1024;
const LOOKUPS_MAX: usize = 16;

/// A path, and the kind of data in the file.
pub(super) type Path = (String, Content);

/// The look-up of a file.
#[derive(Clone, Debug)]
struct Known {
    at: Instant,
    /// The last known path; `None` for a file that no longer existed.
    path: Option<Path>,
}

/// The paths of the files that were seen.
#[derive(Debug, Default)]
pub(super) struct Paths {
    newest: FxHashMap<SeenFile, Known>,
    older: FxHashMap<SeenFile, Known>,
    /// New files, with the number of their bytes.
    new: FxHashMap<SeenFile, u64>,
}

impl Paths {
    /// Notes a file with this number of bytes for the next look-up.
    pub(super) fn note(&mut self, file: Option<SeenFile>, bytes: u64) {
        let Some(file) = file.filter(|file| self.known(file).is_none()) else { return };
        if self.new.len() < NEW_MAX || self.new.contains_key(&file) {
            let sum = self.new.entry(file).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }

    /// Looks up the new files with the most bytes.
    pub(super) fn look_up_new(&mut self, machine: &Machine) {
        if self.new.is_empty() {
            return;
        }
        let mut new: Vec<(SeenFile, u64)> = self.new.drain().collect();
        new.sort_unstable_by_key(|(file, bytes)| (std::cmp::Reverse(*bytes), *file));
        let mut roots = Roots::new(machine);
        for (file, _) in new.into_iter().take(LOOKUPS_MAX) {
            self.look_up(file, &mut roots);
        }
    }

    /// Returns the path of each file; `None` if it is unknown.
    pub(super) fn of(&mut self, files: &[SeenFile], machine: &Machine) -> Vec<Option<Path>> {
        let mut roots = Roots::new(machine);
        let of = |file: &SeenFile| {
            // A file that no longer existed never exists again.
            let is_fresh = |known: &Known| known.path.is_none() || known.at.elapsed() < PATH_HOLDS;
            if !self.known(file).is_some_and(is_fresh) {
                self.look_up(*file, &mut roots);
            }
            self.known(file)?.path.clone()
        };
        files.iter().map(of).collect()
    }

    /// Returns the path of a file if it is known without a look-up.
    pub(super) fn known_path(&self, file: &SeenFile) -> Option<&Path> {
        self.known(file)?.path.as_ref()
    }

    fn known(&self, file: &SeenFile) -> Option<&Known> {
        self.newest.get(file).or_else(|| self.older.get(file))
    }

    fn look_up(&mut self, file: SeenFile, roots: &mut Roots<'_>) {
        let path = match roots.look(file.inode, file.generation) {
            // Without a generation, only a file that has none either is the same file.
            Ok(found) if found.generation == file.generation => {
                let Some(path) = found.path else { return };
                let content = content(&path, &found.file);
                Some((path.to_string_lossy().into_owned(), content))
            }
            Ok(_) | Err(NotFound::NoFile) => None,
            Err(NotFound::Unknown) => return,
        };
        // A deleted file keeps its last name.
        let path = path.or_else(|| self.known(&file)?.path.clone());
        self.insert(file, path);
    }

    fn insert(&mut self, file: SeenFile, path: Option<Path>) {
        if self.newest.len() >= KNOWN_MAX / 2 {
            self.older = std::mem::take(&mut self.newest);
        }
        self.newest.insert(file, Known { at: Instant::now(), path });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use fonio_core::Inode;
    use fonio_system::device;
    use fonio_testing::{Need, has, skip};

    use super::*;
    use crate::attribution::files::numbers_at;

    #[test]
    fn a_deleted_file_keeps_its_path_and_gives_it_to_no_other_file() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("earlier");
        fs::write(&path, "x").unwrap();
        let metadata = path.metadata().unwrap();
        let inode = Inode { fs: device::from_dev(metadata.dev()), number: metadata.ino() };
        let generation = numbers_at(&path).and_then(|numbers| numbers.generation);
        let earlier = SeenFile { inode, generation };
        let machine = Machine::here();
        if !has(&[Need::Root]) {
            return;
        }
        let (Some(generation), Ok(_)) = (generation, Roots::new(&machine).look(inode, generation)) else {
            return skip(Need::Disk, "this file system cannot find files by number");
        };
        let later = generation.checked_add(1).unwrap_or(generation);
        let later = SeenFile { inode, generation: Some(later) };
        let unknown = SeenFile { inode, generation: None };
        let mut paths = Paths::default();
        paths.note(Some(earlier), 1);
        paths.look_up_new(&machine);
        fs::remove_file(&path).unwrap();
        let text = path.to_string_lossy().into_owned();
        assert_eq!(paths.known_path(&earlier), Some(&(text.clone(), Content::Data)));
        let found = paths.of(&[earlier, later, unknown], &machine);
        assert_eq!(found, [Some((text, Content::Data)), None, None]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut paths = Paths::default();
        let file = |number| {
            let inode = Inode { fs: fonio_core::DeviceId::new(0, 0), number };
            SeenFile { inode, generation: None }
        };
        for number in 0..3 * KNOWN_MAX as u64 {
            paths.note(Some(file(number)), number);
            paths.insert(file(number), None);
        }
        assert_eq!(paths.new.len(), NEW_MAX);
        assert!(paths.newest.len() + paths.older.len() <= KNOWN_MAX);
        assert!(paths.known(&file(3 * KNOWN_MAX as u64 - 1)).is_some() && paths.known(&file(0)).is_none());
    }
}
