//! Finds the paths of existing files by inode number.
//!
//! The trace shows only inode numbers. At each wake-up, the recorder opens new files by number
//! (`open_by_handle_at`), which gives the path if the kernel still caches the name. A look-up by number is
//! cheap, because it searches no directory and reads nothing from disk. For a file deleted before its
//! look-up, the path comes from the kernel's name events (`fanotify.rs`, `assign.rs`), or from the call by
//! which a followed process opened the file ([`Files::opened`]).
//!
//! Later files can have the same inode number. Names are stored with the time at which they were valid. At
//! the end of the capture, [`Lives`] determines to which of the files each name belongs.

mod assign;
mod content;
mod fanotify;
mod find;
mod folders;
mod handle;
mod names;
mod overlay;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fonio_core::lives::{Generation, Life, Lives, Told};
use fonio_core::{Content, DeviceId, FileLife, Inode, Timestamp};
use fonio_machine::Machine;
use fonio_tracefs::ring_buffer::{FileDecoder, FileEvent, PageLayout};
use fonio_tracefs::whose::FileKey;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::attribution::threads::Threads;
use crate::clock::now;
use crate::options::CommandSetting;
use assign::Between;
pub(crate) use content::content;
use content::{begins_as_sqlite, beside};
use fanotify::Watch;
pub(crate) use find::{NotFound, Roots, subvolume};
pub(crate) use folders::FolderId;
use folders::Folders;
pub(crate) use handle::numbers_at;
use names::Names;
use overlay::Overlay;

/// Maximum number of files whose names are kept.
const KNOWN_MAX: usize = 100_000;
/// Maximum number of look-ups per wake-up, and their maximum total time. The remaining files are looked up at
/// the next wake-up. A look-up takes a few microseconds.
const LOOKUPS_PER_WAKE: usize = 512;
const TIME_PER_WAKE: Duration = Duration::from_millis(5);
/// Maximum time at the end for looking up the remaining new files. While the disk is busy, a look-up can take long,
/// because it reads the begin of the file.
const TIME_FOR_NEW_AT_END: Duration = Duration::from_secs(1);
/// Maximum time for looking up all files again at the end, which finds renamed files.
const TIME_AT_END: Duration = Duration::from_millis(200);
/// Maximum number of names kept for one inode number. A program that repeatedly deletes
/// and creates a file, such as SQLite with its journal, usually gets the same inode number.
const NAMES_MAX: usize = 16_384;
/// Maximum total number of names: 40 MB at 160 bytes each.
const NAMES_IN_ALL: usize = 1 << 18;
/// Maximum number of deletions of files without a use that are kept per wake-up.
const UNSEEN_MAX: usize = 1 << 18;
/// Maximum number of diskless file systems that are classified as overlay or other.
const OVERLAYS_MAX: usize = 4096;

/// The name of a file at the time of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// When the name was looked up.
    pub at: Timestamp,
    /// The file's path in the recorder's mounts.
    pub path: String,
    /// The kind of data in the file, according to its name and content.
    pub content: Content,
}

#[derive(Debug, Default)]
struct Known {
    /// Whether the file waits for a look-up.
    is_due: bool,
    /// The time of the last look-up that found no file.
    free: Option<Between>,
    /// The names of the files with this number, in order of time.
    names: Vec<Named>,
}

/// The files that the trace has shown so far.
#[derive(Default)]
pub(crate) struct Files {
    known: FxHashMap<Inode, Known>,
    lives: Lives<Inode>,
    /// The names of each file, in order of time; empty until [`Files::look_again`].
    named: FxHashMap<FileLife, Vec<Named>>,
    due: VecDeque<Inode>,
    last: Option<Inode>,
    /// The total number of stored names.
    count: usize,
    /// The paths of folders in which files were opened.
    folders: Folders,
    /// The overlays by device number; `None` for other diskless file systems.
    overlays: FxHashMap<DeviceId, Option<Overlay>>,
    /// Folders with copies, each with the folder that the user knows ([`CommandSetting::copies`]).
    copies: Vec<(PathBuf, PathBuf)>,
    names: Option<Names>,
    /// Opened files whose name is not known yet.
    opened: Vec<Opened>,
    /// Deletions for which no event has shown a use of the file yet: deletions since the last wake-up, and
    /// deletions in the interval before that wake-up.
    freed_unseen: [Vec<(Inode, Timestamp)>; 2],
    /// Deletions up to this time have been forgotten if no event had shown a use of the file.
    forgotten: Timestamp,
    /// The file systems whose events have shown a deletion.
    shows_ends: FxHashSet<DeviceId>,
    /// The file systems in which a later file never has the number of a deleted one: btrfs.
    never_reuses: FxHashSet<DeviceId>,
    /// All events up to this time have been read.
    read_until: Timestamp,
}

#[derive(Clone, Debug)]
pub(crate) struct Opened {
    /// When the call that opened the file returned.
    pub at: Timestamp,
    pub inode: Inode,
    /// The file's folder; `None` if unknown.
    pub folder: Option<FolderId>,
    /// The path that the process passed to the kernel.
    pub path: Vec<u8>,
}

impl Files {
    /// Creates an empty table that also reads the kernel's name events on the mounted file systems that
    /// `is_followed` accepts.
    pub(crate) fn watching(machine: &Machine, is_followed: impl Fn(DeviceId) -> bool) -> Files {
        let mounts = machine.mounts();
        let found = mounts.iter().filter(|mount| find::can_find(mount) && is_followed(mount.device));
        let names = Watch::over(found).map(Names::new);
        let never_reuses = mounts.of_kind("btrfs").map(|mount| mount.device).collect();
        Files { names, never_reuses, ..Files::default() }
    }

    /// Adds overlays that this process does not see, and the folders with copies.
    pub(crate) fn with_setting(mut self, setting: &CommandSetting, machine: &Machine) -> Files {
        for (id, upper) in &setting.overlays {
            self.overlays.insert(*id, Overlay::with_upper(&machine.mounts(), upper.clone()));
        }
        self.copies.clone_from(&setting.copies);
        self
    }

    /// Notes the files in the records of this page. Adds the threads that may have caused I/O of these files
    /// to `threads`.
    pub(crate) fn note(
        &mut self,
        layout: &PageLayout,
        page: &[u8],
        decoder: &FileDecoder,
        threads: &mut Threads,
    ) {
        let Ok((header, mut cursor)) = layout.open(page) else { return };
        if header.lost.is_some() {
            // The page before this one was read completely at the last wake-up.
            self.lives.lost(self.read_until, header.time);
        }
        while let Some(Ok(record)) = cursor.next(page) {
            let Some(file) = decoder.decode(record.data) else { continue };
            if is_cause(&file.event) && !file.in_interrupt {
                threads.add_if_new(file.tid, record.time);
            }
            match file.event {
                FileEvent::Cached { inode, .. }
                | FileEvent::WriteBegan { inode }
                | FileEvent::Writes { inode }
                | FileEvent::SyncBegan { inode }
                | FileEvent::DirectBegan { inode }
                | FileEvent::Placed { inode, is_metadata: false, .. } => self.see(inode),
                FileEvent::Freed { inode } => self.free(inode, record.time),
                FileEvent::Exited { tid, .. } => threads.ended(tid, record.time),
                _ => {}
            }
        }
    }

    /// Queues a file for look-up.
    pub(crate) fn see(&mut self, inode: Inode) {
        // Consecutive records are mostly about the same file.
        if self.last == Some(inode) {
            return;
        }
        self.last = Some(inode);
        if !self.known.contains_key(&inode) {
            if self.known.len() >= KNOWN_MAX {
                return;
            }
            self.lives.lost_of(inode, Timestamp(0), self.forgotten);
        }
        let known = self.known.entry(inode).or_default();
        let life_at = |at| self.lives.at(inode, at);
        let is_named = |named: &Named| {
            let life = life_at(named.at);
            life.is_some() && life == life_at(Timestamp::MAX)
        };
        if !known.is_due && !known.names.last().is_some_and(is_named) {
            known.is_due = true;
            self.due.push_back(inode);
        }
    }

    /// Notes that a file had this generation at `at`, after [`Files::see`].
    pub(crate) fn sighted(&mut self, inode: Inode, at: Timestamp, generation: Generation) {
        if self.known.contains_key(&inode) {
            self.lives.is(inode, at, generation);
        }
    }

    fn free(&mut self, inode: Inode, at: Timestamp) {
        self.last = None;
        self.shows_ends.insert(inode.fs);
        let [newest, _] = &mut self.freed_unseen;
        if self.known.contains_key(&inode) {
            self.lives.ended(inode, at);
        } else if newest.len() < UNSEEN_MAX {
            newest.push((inode, at));
        } else {
            self.forgotten = self.forgotten.max(at);
        }
    }

    /// Notes deletions that were read before any event showed a use of the file. The processors' buffers are
    /// read one after the other, so a use may be read after the deletion, in the same wake-up or in the next
    /// wake-up.
    fn settle_freed(&mut self) {
        for at in 0..self.freed_unseen.len() {
            let unseen = std::mem::take(&mut self.freed_unseen[at]);
            let (seen, unseen) = unseen.into_iter().partition(|(inode, _)| self.known.contains_key(inode));
            self.freed_unseen[at] = unseen;
            let seen: Vec<(Inode, Timestamp)> = seen;
            seen.into_iter().for_each(|(inode, at)| self.free(inode, at));
        }
    }

    /// Notes the files that followed processes opened.
    pub(crate) fn opened(&mut self, opened: impl IntoIterator<Item = Opened>) {
        self.opened.extend(opened);
    }

    /// Names the files opened until `until`. All deletions up to `until` must have been noted; otherwise, a
    /// later file with the same inode number could get the wrong name. These files may already be deleted.
    pub(crate) fn name_opened(&mut self, until: Timestamp, machine: &Machine) {
        self.settle_freed();
        let mut roots = Roots::new(machine);
        let (opened, later) = std::mem::take(&mut self.opened).into_iter().partition(|file| file.at <= until);
        self.opened = later;
        let opened: Vec<Opened> = opened;
        for file in &opened {
            let Some(file) = &self.opened_below(file, machine, &mut roots) else { continue };
            self.see(file.inode);
            let Some(known) = self.known.get_mut(&file.inode) else { continue };
            let before = known.names.partition_point(|named| named.at <= file.at).checked_sub(1);
            let life_at = |at| self.lives.at(file.inode, at);
            let life = life_at(file.at);
            let is_named = before.is_some_and(|at| life_at(known.names[at].at) == life);
            let is_named = is_named && life.is_some();
            if is_named || known.names.len() >= NAMES_MAX || self.count >= NAMES_IN_ALL {
                continue;
            }
            let Some(path) = path_of(file, &mut self.folders, &mut roots) else { continue };
            // A symbolic link is not the file's own path; the look-up by inode number finds the file's own
            // path.
            if path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
                continue;
            }
            let path = path.to_string_lossy().into_owned();
            let place = known.names.partition_point(|named| named.at <= file.at);
            known.names.insert(place, Named { at: file.at, path, content: Content::Data });
            self.count += 1;
        }
    }

    /// Returns an opened file; for an overlayfs file, the underlying file. Returns `None` if the underlying
    /// file is in a lower layer.
    fn opened_below(&mut self, file: &Opened, machine: &Machine, roots: &mut Roots<'_>) -> Option<Opened> {
        let Some(overlay) = self.overlay(file.inode.fs, machine).cloned() else { return Some(file.clone()) };
        let of = |number| Inode { fs: overlay.fs, number };
        let mut is_here = true;
        let mut look = |number| {
            let found = roots.look(of(number), None).ok()?;
            is_here &= found.path.as_ref().is_none_or(|path| overlay.has(path));
            found.generation
        };
        look(file.inode.number);
        // The path of a folder is kept. When the folder is deleted, the folder of another container can get
        // its number. The overlay itself shows no generation.
        let folder = file.folder.map(|FolderId { inode: Inode { number, .. }, .. }| FolderId {
            inode: of(number),
            generation: look(number),
        });
        // The overlay file itself has no path, but the file below the overlay file has one.
        self.see(file.inode);
        is_here.then(|| Opened { inode: of(file.inode.number), folder, ..file.clone() })
    }

    /// Looks up some of the new files, within the limits of a wake-up. All events up to `read_until` have been
    /// read.
    pub(crate) fn look_up(&mut self, machine: &Machine, read_until: Timestamp) {
        self.settle_freed();
        let [newest, before] = &mut self.freed_unseen;
        let forgotten = std::mem::replace(before, std::mem::take(newest));
        let forgotten = forgotten.into_iter().map(|(_, at)| at).max();
        self.forgotten = self.forgotten.max(forgotten.unwrap_or_default());
        self.read_until = read_until;
        self.take_names(machine);
        if self.due.is_empty() {
            return;
        }
        let mut roots = Roots::new(machine);
        let began = Instant::now();
        // The newest files come first, because they are the most likely to still exist. One file of each wake-up is the
        // one that has waited longest: otherwise, a busy file never gets its name while new files appear all the time.
        for number in 0..LOOKUPS_PER_WAKE {
            let next = if number == 1 { self.due.pop_front() } else { self.due.pop_back() };
            let Some(inode) = next else { break };
            self.look_at(inode, &mut roots);
            if number > 0 && began.elapsed() > TIME_PER_WAKE {
                break;
            }
        }
    }

    /// Looks up the remaining new files, then all other files again.
    pub(crate) fn look_again(&mut self, machine: &Machine) {
        self.name_opened(Timestamp(u64::MAX), machine);
        self.take_names(machine);
        let mut roots = Roots::new(machine);
        let began = Instant::now();
        // The files that have waited longest were mostly used most.
        while began.elapsed() <= TIME_FOR_NEW_AT_END {
            let Some(inode) = self.due.pop_front() else { break };
            self.look_at(inode, &mut roots);
        }
        let mut all: Vec<Inode> = std::mem::take(&mut self.due).into();
        let began = Instant::now();
        // Look up the numbers of the files that the kernel named, because a file that has such a number now
        // helps to assign the names.
        let mut told = self.told_numbers();
        told.sort_unstable();
        all.extend(told);
        let rest = self.known.iter().filter(|(_, known)| !known.is_due).map(|(inode, _)| *inode);
        let mut rest: Vec<Inode> = rest.collect();
        rest.sort_unstable();
        all.extend(rest);
        let mut seen = FxHashSet::default();
        all.retain(|inode| seen.insert(*inode));
        for inode in all {
            self.look_at(inode, &mut roots);
            if began.elapsed() > TIME_AT_END {
                break;
            }
        }
        self.use_names();
        self.settle_names();
        self.look_beside();
    }

    /// Gives each name to the file that had this name. Names from times in which the owner of the number is
    /// unknown are dropped.
    fn settle_names(&mut self) {
        for (inode, known) in &mut self.known {
            for named in known.names.drain(..) {
                if let Some(life) = self.lives.at(*inode, named.at) {
                    self.named.entry(life).or_default().push(named);
                }
            }
        }
        for names in self.named.values_mut() {
            names.sort_by_key(|named| named.at);
            names.dedup_by(|later, earlier| {
                let is_same = later.path == earlier.path;
                if is_same && later.content != Content::Data {
                    earlier.content = later.content;
                }
                is_same
            });
        }
    }

    /// Finds which files named like a journal or WAL belong to a database. A file whose path came from the
    /// call that opened the file has no kind yet, and a new database gets its header only after the first
    /// transaction.
    fn look_beside(&mut self) {
        let mut databases: FxHashMap<PathBuf, bool> = FxHashMap::default();
        let names = self.named.values_mut().flatten();
        for named in names.filter(|named| named.content == Content::Data) {
            let Some((database, content)) = beside(Path::new(&named.path)) else { continue };
            let is_database = match databases.get(database) {
                Some(known) => *known,
                None => {
                    let is_database = begins_as_sqlite(database).unwrap_or(false);
                    databases.insert(database.to_owned(), is_database);
                    is_database
                }
            };
            if is_database {
                named.content = content;
            }
        }
    }

    /// Returns the overlay with this device number. The overlay is cached, because the overlay of a container
    /// may no longer exist at the end of the capture.
    fn overlay(&mut self, fs: DeviceId, machine: &Machine) -> Option<&Overlay> {
        if fs.major() != 0 || (self.overlays.len() >= OVERLAYS_MAX && !self.overlays.contains_key(&fs)) {
            return None;
        }
        self.overlays.entry(fs).or_insert_with(|| Overlay::of(machine, fs)).as_ref()
    }

    /// Returns the file below an overlay file, if the names of the lower file show that the lower file
    /// exists.
    pub(crate) fn below_overlay(&self, inode: Inode, at: Timestamp) -> Option<Inode> {
        let overlay = self.overlays.get(&inode.fs)?.as_ref()?;
        let below = Inode { fs: overlay.fs, ..inode };
        let names = self.life(below, at).map_or(&[][..], |life| self.names(&life));
        names.iter().any(|named| overlay.has(Path::new(&named.path))).then_some(below)
    }

    fn look_at(&mut self, inode: Inode, roots: &mut Roots<'_>) {
        let below = self.overlay(inode.fs, roots.machine()).map(|overlay| Inode { fs: overlay.fs, ..inode });
        let Some(known) = self.known.get_mut(&inode) else { return };
        known.is_due = false;
        if let Some(below) = below {
            self.see(below);
            self.look_at(below, roots);
            return;
        }
        let since = now();
        let found = match roots.look(inode, None) {
            Ok(found) => found,
            Err(NotFound::NoFile) => return known.free = Some(Between { since, until: now() }),
            Err(NotFound::Unknown) => return,
        };
        // The open descriptor keeps the file, so the file still has the number.
        let at = now();
        if let Some(generation) = found.generation {
            self.lives.is(inode, at, generation);
        }
        let Some(path) = found.path else { return };
        let content = content(&path, &found.file);
        let path = path.to_string_lossy().into_owned();
        let life_at = |at| self.lives.at(inode, at);
        let is_same = known.names.last().is_some_and(|named| {
            named.path == path && named.content == content && life_at(named.at) == life_at(at)
        });
        if !is_same && known.names.len() < NAMES_MAX && self.count < NAMES_IN_ALL {
            known.names.push(Named { at, path, content });
            self.count += 1;
        }
    }

    /// Returns the file that had the inode number at `at`; `None` if it is unknown.
    pub(crate) fn life(&self, inode: Inode, at: Timestamp) -> Option<FileLife> {
        self.lives.at(inode, at).filter(|_| self.known.contains_key(&inode))
    }

    /// Returns a file that the trace showed at `at`.
    pub(crate) fn life_of(&self, file: &FileKey, at: Timestamp) -> Option<FileLife> {
        if self.known.contains_key(&file.inode) {
            return self.lives.at(file.inode, at);
        }
        // Files beyond the maximum number have no names, but the trace distinguishes them.
        Some(Life { number: file.inode, told: Told::After(file.after) })
    }

    /// Returns the names of a file, in order of time.
    pub(crate) fn names(&self, file: &FileLife) -> &[Named] {
        self.named.get(file).map_or(&[], Vec::as_slice)
    }

    /// Returns the path of a file for the recording: the path that the user knows, if the file is a copy.
    pub(crate) fn told(&self, path: &str) -> String {
        let as_known = |(copies, known): &(PathBuf, PathBuf)| {
            Some(known.join(Path::new(path).strip_prefix(copies).ok()?).to_string_lossy().into_owned())
        };
        self.copies.iter().find_map(as_known).unwrap_or_else(|| path.to_owned())
    }
}

/// Returns the path of an opened file in the recorder's mounts: the path of its folder, plus the last
/// component of the path that the process passed. If the folder is unknown, an absolute path is the best
/// guess; such a path is wrong for a process in another mount namespace.
fn path_of(file: &Opened, folders: &mut Folders, roots: &mut Roots<'_>) -> Option<PathBuf> {
    // The root of a file system is its own folder, and so has no name in a folder.
    if file.folder.is_some_and(|folder| folder.inode.number == file.inode.number) {
        return None;
    }
    let path = Path::new(OsStr::from_bytes(&file.path));
    let name = path.file_name()?;
    let folder = file.folder.and_then(|folder| folders.path(folder, roots));
    folder.map(|folder| folder.join(name)).or_else(|| path.is_absolute().then(|| path.to_owned()))
}

/// Returns whether the thread of this event may have caused I/O that another thread issues.
pub(crate) fn is_cause(event: &FileEvent<'_>) -> bool {
    matches!(
        event,
        FileEvent::Dirtied { .. }
            | FileEvent::Changed { .. }
            | FileEvent::SyncBegan { .. }
            | FileEvent::DirectBegan { .. }
    )
}
