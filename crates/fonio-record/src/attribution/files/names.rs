//! Keeps the names that the kernel reports, and assigns them to files at the end.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fonio_core::{Content, Inode, Timestamp};
use fonio_machine::Machine;
use rustc_hash::FxHashMap;

use super::assign::{Between, NamedFile, assign};
use super::fanotify::{Change, NameEvent, Watch};
use super::find::Roots;
use super::folders::Folders;
use super::{Files, NAMES_IN_ALL, Named};
use crate::clock::now;

/// Maximum number of files kept from the kernel's name events: 32 MB at 250 bytes each.
const FILES_MAX: usize = 1 << 17;
/// Maximum number of names kept per file. Even a rotated log has only a few.
const NAMES_OF_FILE_MAX: usize = 64;

/// Collects the kernel's name events.
pub(super) struct Names {
    watch: Watch,
    /// All unread events happened after this time.
    read: Timestamp,
    /// The successive files with each inode number, in order of time.
    files: FxHashMap<Inode, Vec<NamedFile>>,
    /// The number of files in `files`.
    count: usize,
}

impl Files {
    /// Reads the name changes since the previous call.
    pub(super) fn take_names(&mut self, machine: &Machine) {
        let Some(names) = &mut self.names else { return };
        // An event that arrives during the call to `take` is returned by this call or by the next call.
        let asked = now();
        let (events, are_all) = names.watch.take();
        let between = Between { since: names.read, until: now() };
        if are_all {
            names.read = asked;
        }
        let mut roots = Roots::new(machine);
        for event in events {
            if event.is_folder {
                // The paths of the folder and of all files below it have changed.
                if event.changes != [Change::Created] {
                    self.folders.clear();
                }
                continue;
            }
            if names.count >= FILES_MAX {
                // A file that never had pages in the page cache causes no I/O.
                names.files.retain(|inode, _| self.known.contains_key(inode));
                names.count = names.files.values().map(Vec::len).sum();
            }
            names.note(&event, between, &mut self.folders, &mut roots);
        }
    }

    /// Assigns the names in the kernel's events to the files, and stops reading events.
    pub(super) fn use_names(&mut self) {
        let Some(names) = self.names.take() else { return };
        let mut files: Vec<(Inode, Vec<NamedFile>)> = names.files.into_iter().collect();
        files.sort_unstable_by_key(|(inode, _)| *inode);
        for (inode, files) in files {
            let Some(free) = self.known.get(&inode).map(|known| known.free) else { continue };
            self.note_lives(inode, &files);
            for (life, at, path) in assign(&files, &self.lives.pieces(inode), free) {
                if self.count < NAMES_IN_ALL {
                    self.count += 1;
                    self.named.entry(life).or_default().push(Named { at, path, content: Content::Data });
                }
            }
        }
    }

    /// Notes what the name events show about the lives of a number.
    fn note_lives(&mut self, inode: Inode, files: &[NamedFile]) {
        for file in files {
            if let (Some(generation), Some((first, last))) = (file.generation, file.lived()) {
                self.lives.is(inode, first, generation);
                self.lives.is(inode, last, generation);
            }
            // If the trace does not show when files end, a creation and a deletion show that the number now
            // belongs to another file.
            let is_reused = !self.never_reuses.contains(&inode.fs) && !self.shows_ends.contains(&inode.fs);
            if is_reused && (files.len() > 1 || file.deleted.is_some()) {
                for change in [file.created, file.deleted].into_iter().flatten() {
                    self.lives.lost_of(inode, change.since, change.until);
                }
            }
        }
    }

    /// Returns the numbers whose files the name events show.
    pub(super) fn told_numbers(&self) -> Vec<Inode> {
        let numbers = self.names.iter().flat_map(|names| names.files.keys());
        numbers.copied().filter(|inode| self.known.contains_key(inode)).collect()
    }
}

impl Names {
    pub(super) fn new(watch: Watch) -> Names {
        Names { watch, read: now(), files: FxHashMap::default(), count: 0 }
    }

    fn note(&mut self, event: &NameEvent, between: Between, folders: &mut Folders, roots: &mut Roots<'_>) {
        // Without a generation, the files of a number cannot be told apart.
        if event.generation.is_none() {
            return;
        }
        let is_new = self.files.get(&event.inode).and_then(|files| files.last());
        let is_new = is_new.is_none_or(|file| file.generation != event.generation);
        if is_new && self.count >= FILES_MAX {
            return;
        }
        let files = self.files.entry(event.inode).or_default();
        if is_new {
            self.count += 1;
            files.push(NamedFile {
                generation: event.generation,
                names: Vec::new(),
                created: None,
                deleted: None,
                first: between,
                last: between,
            });
        }
        let Some(file) = files.last_mut() else { return };
        file.last = between;
        for change in &event.changes {
            // A file with several hard links can lose one name and continue to exist.
            file.deleted = (*change == Change::Deleted).then_some(between);
            if is_new && *change == Change::Created {
                file.created = Some(between);
            }
        }
        let is_named = |file: &NamedFile| file.names.last().is_some_and(|(_, path)| is_in(path, &event.name));
        if (event.changes == [Change::Deleted] && is_named(file)) || file.names.len() >= NAMES_OF_FILE_MAX {
            return;
        }
        if let Some(folder) = folders.path(event.folder, roots) {
            let path = folder.join(OsStr::from_bytes(&event.name)).to_string_lossy().into_owned();
            if file.names.last().is_none_or(|(_, last)| *last != path) {
                file.names.push((between, path));
            }
        }
    }
}

/// Returns whether a path ends with this file name.
fn is_in(path: &str, name: &[u8]) -> bool {
    Path::new(path).file_name().is_some_and(|last| last.as_bytes() == name)
}
