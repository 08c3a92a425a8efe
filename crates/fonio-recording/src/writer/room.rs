//! Keeps room for a recording in its file system.
//!
//! A table is useless without its footer, and the footer is written last. Therefore, the writer must stop
//! before the file system is full, while there is still room for the accepted rows and the footers of all
//! tables.
//!
//! The system does not say how much a process can still write: quotas limit it too, and other programs write
//! at the same time. So the writer holds the room: unlinked files of its own have as many allocated blocks as the
//! rest of the recording may need. If no more blocks can be allocated, the writer closes tables. If a write fails
//! nevertheless, some of the files are closed, and the write is repeated. There are many files, because btrfs
//! does not shrink a file when its quota is used up, but frees a closed one. On file systems that cannot allocate
//! blocks in advance, such as VFAT, the free space decides.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, fsync, open, syncfs};
use rustix::io::Errno;

use crate::error::RecordingError;

/// Space for the footers of the event tables, and for everything written after them.
const EVENTS_MARGIN: u64 = 256 << 10;
/// Space for the footers of other tables (a few KiB each), `meta.json` and diagnostics.
const REST_MARGIN: u64 = 128 << 10;
/// Room that is held before the recorded programs start, if there is so much. They may fill the file system.
const AT_START: u64 = 4 << 20;
/// Sizes of the files: the first ones are small, to give up little at a time.
const STEP: u64 = 32 << 10;
const LARGE_STEP: u64 = 1 << 20;

/// btrfs may count the blocks of a closed file towards a quota until a thread of the kernel has freed them, which takes
/// longer on a busy machine.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSES: u32 = 10;

/// Room for a recording in a file system. Dropping the last clone gives it up.
#[derive(Clone, Debug)]
pub struct Room(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    dir: PathBuf,
    /// The files with the allocated blocks, and their sizes; `None` if the file system cannot allocate blocks
    /// in advance.
    files: Option<Vec<(File, u64)>>,
}

/// Kinds of rows that still fit into the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Takes {
    /// No more rows fit.
    Nothing,
    /// Only threads, files, marks and samples fit.
    NoEvents,
    /// All kinds of rows fit.
    All,
}

impl Room {
    /// Holds room for a recording in the folder `dir`. Fails with [`RecordingError::NoRoom`] if not even a small
    /// recording fits, or [`RecordingError::Io`].
    pub fn hold(dir: &Path) -> Result<Room, RecordingError> {
        let failed = RecordingError::io("check space in", dir);
        let mut held = Held { dir: dir.to_owned(), files: Some(Vec::new()) };
        let fits = match held.grow(EVENTS_MARGIN) {
            Ok(true) => {
                held.grow(AT_START)
                    .and_then(|_| {
                        // So the file system does not write its journal later, while I/O is recorded.
                        held.files.iter().flatten().try_for_each(|(file, _)| Ok(fsync(file)?))
                    })
                    .map(|()| true)
            }
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::OPNOTSUPP | Errno::NOSYS)) => {
                held.files = None;
                free(dir).map(|free| free >= EVENTS_MARGIN)
            }
            fits => fits,
        };
        match fits {
            Ok(true) => Ok(Room(Arc::new(Mutex::new(held)))),
            Ok(false) => Err(RecordingError::NoRoom { dir: dir.to_owned(), kib: EVENTS_MARGIN >> 10 }),
            Err(error) => Err(failed(error)),
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns which kinds of rows still fit in addition to `unwritten` bytes of accepted rows.
    pub(super) fn takes(&self, unwritten: u64) -> Result<Takes, RecordingError> {
        let mut held = self.held();
        // The size of the unwritten rows is an estimate, so increase the estimate by an eighth.
        let needs = |margin: u64| margin.saturating_add(unwritten).saturating_add(unwritten / 8);
        for (margin, takes) in [(EVENTS_MARGIN, Takes::All), (REST_MARGIN, Takes::NoEvents)] {
            let fits = if held.files.is_some() {
                held.grow(needs(margin))
            } else {
                free(&held.dir).map(|free| free >= needs(margin))
            };
            if fits.map_err(RecordingError::io("check space in", &held.dir))? {
                return Ok(takes);
            }
        }
        Ok(Takes::Nothing)
    }

    /// Gives up some of the room for a write of `bytes`. Returns whether there was any.
    fn give_up(&self, bytes: u64) -> bool {
        let mut held = self.held();
        let left = held.bytes().saturating_sub(bytes.max(1));
        held.shrink(left)
    }

    /// Gives up all room. From now on, the free space alone decides.
    pub(super) fn give_up_all(&self) {
        self.held().shrink(0);
    }
}

impl Held {
    fn bytes(&self) -> u64 {
        self.files.iter().flatten().map(|(_, bytes)| bytes).sum()
    }

    /// Allocates blocks until there are `bytes`. Returns whether they fit; otherwise changes nothing.
    fn grow(&mut self, bytes: u64) -> io::Result<bool> {
        let mut missing = bytes.saturating_sub(self.bytes());
        if missing > 0 && free(&self.dir)? < missing {
            return Ok(false);
        }
        let Held { dir, files: Some(files) } = self else { return Ok(false) };
        let before = files.len();
        while missing > 0 {
            let size = if files.len() < (EVENTS_MARGIN / STEP) as usize { STEP } else { LARGE_STEP };
            let size = size.min(missing.next_multiple_of(STEP));
            let allocated = unlinked(dir).and_then(|file| {
                fallocate(&file, FallocateFlags::empty(), 0, size)?;
                Ok(file)
            });
            match allocated {
                Ok(file) => files.push((file, size)),
                Err(error) => {
                    files.truncate(before);
                    return if is_full(&error) { Ok(false) } else { Err(error) };
                }
            }
            missing = missing.saturating_sub(size);
        }
        Ok(true)
    }

    /// Closes files until at most `bytes` are held. Returns whether a file was closed.
    fn shrink(&mut self, bytes: u64) -> bool {
        let mut last = None;
        while self.bytes() > bytes {
            last = self.files.as_mut().and_then(Vec::pop);
        }
        if last.take().is_none() {
            return false;
        }
        // btrfs counts the blocks as used until its next transaction.
        let _ = File::open(&self.dir).map(syncfs);
        true
    }
}

/// Returns the free bytes of a file system.
fn free(dir: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(dir)?;
    // Only root may use the file system's reserved blocks.
    let blocks = if rustix::process::geteuid().is_root() { stat.f_bfree } else { stat.f_bavail };
    Ok(blocks.saturating_mul(stat.f_frsize))
}

/// Creates a file without a name.
fn unlinked(dir: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match open(dir, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // The file system or the kernel has no files without names.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let path = dir.join(format!(".fonio-room-{}", std::process::id()));
            let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            fs::remove_file(&path)?;
            Ok(file)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Returns whether a call failed because the file system is full, or the quota is used up.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// A file of a recording. If the file system is full, it uses the room that is held.
#[derive(Debug)]
pub(super) struct RoomyFile {
    pub file: File,
    room: Option<Room>,
}

impl RoomyFile {
    /// Creates a file that only its user can read.
    pub(super) fn create_new(path: &Path, room: Option<&Room>) -> io::Result<RoomyFile> {
        let create = || File::options().write(true).create_new(true).mode(0o600).open(path);
        let file = with_room(room, STEP, create)?;
        Ok(RoomyFile { file, room: room.cloned() })
    }
}

/// Repeats a call while it fails because the file system is full and there is room to give up. When all room is given up,
/// waits a little for a quota.
fn with_room<T>(room: Option<&Room>, bytes: u64, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut pauses = 0;
    loop {
        match call() {
            Err(error) if is_full(&error) && room.is_some_and(|room| room.give_up(bytes)) => {}
            Err(error) if error.kind() == ErrorKind::QuotaExceeded && room.is_some() && pauses < PAUSES => {
                pauses += 1;
                thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

impl Write for RoomyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let RoomyFile { file, room } = self;
        with_room(room.as_ref(), bytes.len() as u64, || file.write(bytes))
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_that_is_held_decides() {
        let dir = tempfile::tempdir().unwrap();
        let room = Room::hold(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the file has no name");
        assert_eq!(room.held().bytes(), AT_START);
        assert_eq!(room.takes(0).unwrap(), Takes::All);
        // More than any file system has.
        assert_eq!(room.takes(u64::MAX / 4).unwrap(), Takes::Nothing);
        assert_eq!(room.held().bytes(), AT_START, "the room that was held stays");
        assert!(room.give_up(1));
        assert!((AT_START - LARGE_STEP..AT_START).contains(&room.held().bytes()));
        assert!(room.give_up(AT_START) && !room.give_up(1));
        assert_eq!(room.takes(0).unwrap(), Takes::All);
        assert_eq!(room.held().bytes(), EVENTS_MARGIN);
    }

    #[test]
    fn a_full_file_system_uses_the_room_once() {
        let dir = tempfile::tempdir().unwrap();
        let room = Room::hold(dir.path()).unwrap();
        let mut calls = 0;
        let full = |calls: &mut u32| -> io::Result<()> {
            *calls += 1;
            Err(Errno::NOSPC.into())
        };
        with_room(Some(&room), AT_START, || full(&mut calls)).unwrap_err();
        assert_eq!((calls, room.held().bytes()), (2, 0));
        with_room(None, 1, || full(&mut calls)).unwrap_err();
        assert_eq!(calls, 3);
    }

    #[test]
    fn a_quota_may_count_freed_blocks_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let room = Room::hold(dir.path()).unwrap();
        for (left, calls) in [(2, Some(3)), (1000, None)] {
            room.give_up_all();
            let mut made = 0;
            let done = with_room(Some(&room), 1, || -> io::Result<u32> {
                made += 1;
                if made > left { Ok(made) } else { Err(Errno::DQUOT.into()) }
            });
            assert_eq!(done.ok(), calls);
        }
    }
}
