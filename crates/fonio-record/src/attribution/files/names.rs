//! Keeps the names that the kernel reports, and assigns them to files at the end.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fonio_core::{Content, Inode, Timestamp};
use fonio_machine::Machine;
use rustc_hash::FxHashMap;

use super::fanotify::{Change, NameEvent, Watch};
use super::find::Roots;
use super::lives::{self, Between, Life};
use super::{Files, Known, NAMES_IN_ALL, NAMES_MAX, Named, folder_path};
use crate::clock::now;

/// Maximum number of files kept from the kernel's name events: 32 MB at 250 bytes each.
const LIVES_MAX: usize = 1 << 17;
/// Maximum number of names kept per file. Even a rotated log has only a few.
const NAMES_OF_LIFE_MAX: usize = 64;

/// Collects the kernel's name events.
pub(super) struct Names {
    watch: Watch,
    /// All unread events happened after this time.
    read: Timestamp,
    /// The successive files with each inode number, in order of time.
    lives: FxHashMap<Inode, Vec<Life>>,
    /// The number of files in `lives`.
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
            if names.count >= LIVES_MAX {
                // A file that never had pages in the page cache causes no I/O.
                names.lives.retain(|inode, _| self.known.contains_key(inode));
                names.count = names.lives.values().map(Vec::len).sum();
            }
            names.note(&event, between, &mut self.folders, &mut roots);
        }
    }

    /// Assigns the names in the kernel's events to the files, and stops reading events.
    pub(super) fn use_names(&mut self) {
        let Some(names) = self.names.take() else { return };
        let mut lives: Vec<(Inode, Vec<Life>)> = names.lives.into_iter().collect();
        lives.sort_unstable_by_key(|(inode, _)| *inode);
        for (inode, lives) in lives {
            let Some(known) = self.known.get_mut(&inode) else { continue };
            let room = NAMES_IN_ALL.saturating_sub(self.count);
            let before = known.names.len();
            known.add_names(lives::timed(&lives, &known.freed), room);
            self.count = (self.count + known.names.len()).saturating_sub(before);
        }
    }
}

impl Names {
    pub(super) fn new(watch: Watch) -> Names {
        Names { watch, read: now(), lives: FxHashMap::default(), count: 0 }
    }

    fn note(
        &mut self,
        event: &NameEvent,
        between: Between,
        folders: &mut FxHashMap<Inode, PathBuf>,
        roots: &mut Roots<'_>,
    ) {
        let is_new = self.lives.get(&event.inode).and_then(|lives| lives.last());
        let is_new = is_new.is_none_or(|life| life.generation != event.generation);
        if is_new && self.count >= LIVES_MAX {
            return;
        }
        let lives = self.lives.entry(event.inode).or_default();
        if is_new {
            self.count += 1;
            lives.push(Life {
                generation: event.generation,
                names: Vec::new(),
                created: None,
                deleted: None,
            });
        }
        let Some(life) = lives.last_mut() else { return };
        for change in &event.changes {
            // A file with several hard links can lose one name and continue to exist.
            life.deleted = (*change == Change::Deleted).then_some(between);
            if is_new && *change == Change::Created {
                life.created = Some(between);
            }
        }
        let is_named = |life: &Life| life.names.last().is_some_and(|(_, path)| is_in(path, &event.name));
        if (event.changes == [Change::Deleted] && is_named(life)) || life.names.len() >= NAMES_OF_LIFE_MAX {
            return;
        }
        if let Some(folder) = folder_path(event.folder, folders, roots) {
            let path = folder.join(OsStr::from_bytes(&event.name)).to_string_lossy().into_owned();
            if life.names.last().is_none_or(|(_, last)| *last != path) {
                life.names.push((between, path));
            }
        }
    }
}

/// Returns whether a path ends with this file name.
fn is_in(path: &str, name: &[u8]) -> bool {
    Path::new(path).file_name().is_some_and(|last| last.as_bytes() == name)
}

impl Known {
    /// Adds at most `room` names; each name is valid until the next name or the deletion of the file.
    fn add_names(&mut self, names: Vec<(Timestamp, String)>, room: usize) {
        let room = room.min(NAMES_MAX.saturating_sub(self.names.len()));
        let named = names.into_iter().take(room);
        self.names.extend(named.map(|(at, path)| Named { at, path, content: Content::Data }));
        self.names.sort_by_key(|named| named.at);
        let freed = &self.freed;
        let deletions_before = |named: &Named| freed.partition_point(|freed| *freed < named.at);
        self.names.dedup_by(|later, earlier| {
            let is_same = later.path == earlier.path && deletions_before(later) == deletions_before(earlier);
            if is_same && later.content != Content::Data {
                earlier.content = later.content;
            }
            is_same
        });
    }
}
