//! Finds the paths of files by their inode numbers, while they exist.
//!
//! The trace shows only inode numbers. At each wake-up the recorder asks the file system for the new ones
//! (`open_by_handle_at`), which gives the path as long as the kernel has the name in its cache. That is cheap: no
//! directory is searched, and nothing is read from a disk. A file that was deleted before the look-up has no path.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fonio_core::{Content, DeviceId, Timestamp};
use fonio_system::{MountPoint, device};
use fonio_tracefs::ring_buffer::{FileDecoder, FileEvent, Inode, PageLayout};
use fonio_tracefs::whose::FileKey;
use rustc_hash::FxHashMap;
use rustix::fs::{FileType, Mode, OFlags};

use crate::capture::now;
use crate::machine::Machine;
use crate::threads::Threads;

/// Largest number of known files.
const KNOWN_MAX: usize = 100_000;
/// Largest number of look-ups in one wake-up, and the time after which the rest waits for the next one. A look-up takes
/// a few microseconds.
const LOOKUPS_PER_WAKE: usize = 512;
const TIME_PER_WAKE: Duration = Duration::from_millis(5);
/// The time for looking up all files once more at the end, because some were renamed.
const TIME_AT_END: Duration = Duration::from_millis(200);
/// The most names, and the most deletions, that are kept for one inode number.
const NAMES_MAX: usize = 64;

/// `FILEID_INO32_GEN` of `include/linux/exportfs.h`: inode number and generation, 32 bits each.
const HANDLE: i32 = 1;
/// The same with xfs's `XFS_FILEID_TYPE_64FLAG`: the inode number has 64 bits.
const HANDLE_64: i32 = 0x81;
/// `FILEID_BTRFS_WITHOUT_PARENT`: inode number and subvolume, 64 bits each, and generation (`fs/btrfs/export.h`).
const HANDLE_BTRFS: i32 = 0x4d;
/// The beginning of every SQLite database (`https://sqlite.org/fileformat.html`, section 1.3).
const SQLITE_HEADER: &[u8; 16] = b"SQLite format 3\0";

/// The name of a file at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// When it was looked up.
    pub at: Timestamp,
    /// Its path in the recorder's mounts.
    pub path: String,
    /// The kind of data, as far as name and content show it.
    pub content: Content,
}

#[derive(Debug, Default)]
struct Known {
    /// Waits for a look-up.
    is_due: bool,
    /// The names, in order of time.
    names: Vec<Named>,
    /// When files with this number were deleted.
    freed: Vec<Timestamp>,
}

/// The files seen so far.
#[derive(Debug, Default)]
pub(crate) struct Files {
    known: FxHashMap<Inode, Known>,
    due: Vec<Inode>,
    last: Option<Inode>,
}

impl Files {
    /// Notes the files in the records of this page, and in `threads` the threads that can have caused their I/O.
    pub(crate) fn note(
        &mut self,
        layout: &PageLayout,
        page: &[u8],
        decoder: &FileDecoder,
        threads: &mut Threads,
    ) {
        let Ok((_, mut cursor)) = layout.open(page) else { return };
        while let Some(Ok(record)) = cursor.next(page) {
            let Some(file) = decoder.decode(record.data) else { continue };
            if is_cause(&file.event) && !file.in_interrupt {
                threads.add_if_new(file.tid, Timestamp(record.time));
            }
            match file.event {
                FileEvent::Cached { inode, .. }
                | FileEvent::WriteBegan { inode }
                | FileEvent::Writes { inode }
                | FileEvent::SyncBegan { inode }
                | FileEvent::DirectBegan { inode } => self.see(inode),
                FileEvent::Freed { inode } => self.free(inode, Timestamp(record.time)),
                FileEvent::Exited { tid, .. } => threads.ended(tid, Timestamp(record.time)),
                _ => {}
            }
        }
    }

    /// Notes a file, which is then looked up.
    pub(crate) fn see(&mut self, inode: Inode) {
        // Mostly it is the same file as before.
        if self.last == Some(inode) {
            return;
        }
        self.last = Some(inode);
        if !self.known.contains_key(&inode) && self.known.len() >= KNOWN_MAX {
            return;
        }
        let known = self.known.entry(inode).or_default();
        let freed = known.freed.last();
        let is_named = known.names.last().is_some_and(|named| freed.is_none_or(|freed| named.at > *freed));
        if !known.is_due && !is_named {
            known.is_due = true;
            self.due.push(inode);
        }
    }

    fn free(&mut self, inode: Inode, at: Timestamp) {
        self.last = None;
        if let Some(known) = self.known.get_mut(&inode) {
            if known.freed.len() == NAMES_MAX {
                known.freed.remove(0);
            }
            known.freed.push(at);
            known.freed.sort_unstable();
        }
    }

    /// Looks up some of the new files.
    pub(crate) fn look_up(&mut self, machine: &Machine) {
        if self.due.is_empty() {
            return;
        }
        let mut roots = Roots::new(machine);
        let began = Instant::now();
        // The newest first: they are the most likely to exist still.
        for _ in 0..LOOKUPS_PER_WAKE {
            let Some(inode) = self.due.pop() else { break };
            self.look_at(inode, &mut roots);
            if began.elapsed() > TIME_PER_WAKE {
                break;
            }
        }
    }

    /// Looks up the remaining files, and all others once more.
    pub(crate) fn look_again(&mut self, machine: &Machine) {
        let mut roots = Roots::new(machine);
        let began = Instant::now();
        let mut all: Vec<Inode> = std::mem::take(&mut self.due);
        all.reverse();
        let rest = self.known.iter().filter(|(_, known)| !known.is_due).map(|(inode, _)| *inode);
        let mut rest: Vec<Inode> = rest.collect();
        rest.sort_unstable();
        all.extend(rest);
        for inode in all {
            self.look_at(inode, &mut roots);
            if began.elapsed() > TIME_AT_END {
                break;
            }
        }
    }

    fn look_at(&mut self, inode: Inode, roots: &mut Roots<'_>) {
        let Some(known) = self.known.get_mut(&inode) else { return };
        known.is_due = false;
        let Some((path, file)) = roots.find(inode) else { return };
        let content = content(&path, &file);
        let path = path.to_string_lossy().into_owned();
        let is_same = known.names.last().is_some_and(|named| {
            let freed_since = known.freed.last().is_some_and(|freed| *freed > named.at);
            named.path == path && named.content == content && !freed_since
        });
        if !is_same && known.names.len() < NAMES_MAX {
            known.names.push(Named { at: now(), path, content });
        }
    }

    /// When a file with this number was deleted last before `at`; 0 if that was not seen.
    pub(crate) fn freed_before(&self, inode: Inode, at: Timestamp) -> Timestamp {
        let freed = self.known.get(&inode).map_or(&[][..], |known| &known.freed);
        freed.iter().rev().find(|freed| **freed <= at).copied().unwrap_or_default()
    }

    /// The names of a file, in order of time.
    pub(crate) fn names(&self, file: &FileKey) -> &[Named] {
        let Some(known) = self.known.get(&file.inode) else { return &[] };
        let until = known.freed.iter().find(|freed| **freed > file.after);
        let first = known.names.partition_point(|named| named.at <= file.after);
        let last = known.names.partition_point(|named| until.is_none_or(|until| named.at <= *until));
        &known.names[first..last.max(first)]
    }
}

/// Whether the thread of this event can be the cause of I/O that another thread carries out.
pub(crate) fn is_cause(event: &FileEvent<'_>) -> bool {
    matches!(
        event,
        FileEvent::Dirtied { .. }
            | FileEvent::Changed { .. }
            | FileEvent::SyncBegan { .. }
            | FileEvent::DirectBegan { .. }
    )
}

/// A folder of each file system, opened when it is needed. They are closed after each round of look-ups: an open folder
/// prevents that its file system is unmounted.
struct Roots<'a> {
    machine: &'a Machine,
    folders: FxHashMap<u32, Option<Root>>,
}

struct Root {
    folder: OwnedFd,
    /// `st_dev` of its files. That of a subvolume of btrfs is not the number that the mount table shows.
    device: DeviceId,
    numbers: Numbers,
}

/// How a file system finds a file by its number.
#[derive(Clone, Copy)]
enum Numbers {
    /// By the number alone: ext2, ext3, ext4, f2fs.
    Alone,
    /// By the number and its generation, which the file system tells.
    WithGeneration,
    /// By the number and that of its subvolume: btrfs. The trace shows only the first, so all mounts of the file system
    /// must be of the same subvolume.
    InSubvolume(u64),
}

impl Numbers {
    /// `None` for a file system that cannot do it. `mounts` are all of this file system.
    fn of(filesystem: &str, mounts: &[&MountPoint]) -> Option<Numbers> {
        match filesystem {
            "ext2" | "ext3" | "ext4" | "f2fs" => Some(Numbers::Alone),
            "xfs" => Some(Numbers::WithGeneration),
            "btrfs" => {
                let mut subvolumes = mounts.iter().map(|mount| subvolume(mount));
                let first = subvolumes.next()??;
                subvolumes.all(|other| other == Some(first)).then_some(Numbers::InSubvolume(first))
            }
            _ => None,
        }
    }
}

impl Roots<'_> {
    fn new(machine: &Machine) -> Roots<'_> {
        Roots { machine, folders: FxHashMap::default() }
    }

    /// The path of the file, and a descriptor of it (`O_PATH`).
    fn find(&mut self, inode: Inode) -> Option<(PathBuf, OwnedFd)> {
        let machine = self.machine;
        let root = self.folders.entry(inode.fs.0).or_insert_with(|| {
            let mounts = machine.mounts();
            let of_fs: Vec<&MountPoint> = mounts.iter().filter(|mount| mount.device == inode.fs).collect();
            of_fs.iter().find_map(|mount| {
                let numbers = Numbers::of(&mount.filesystem, &of_fs)?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let folder = rustix::fs::open(&mount.dir, flags, Mode::empty()).ok()?;
                let device = device::from_dev(rustix::fs::fstat(&folder).ok()?.st_dev);
                Some(Root { folder, device, numbers })
            })
        });
        let root = root.as_ref()?;
        located(root.open(inode.number)?, Inode { fs: root.device, ..inode })
    }
}

impl Root {
    /// Opens a file by its number; `None` if it does not exist.
    fn open(&self, number: u64) -> Option<OwnedFd> {
        match self.numbers {
            // A generation of 0 matches every generation.
            Numbers::Alone => open_by_handle(&self.folder, HANDLE, [u32::try_from(number).ok()?, 0]),
            Numbers::WithGeneration => {
                let generation = xfs_generation(&self.folder, number)?;
                let [first, second] = words(number);
                open_by_handle(&self.folder, HANDLE_64, [first, second, generation])
            }
            // A generation of 0 matches every generation.
            Numbers::InSubvolume(subvolume) => {
                let ([first, second], [third, fourth]) = (words(number), words(subvolume));
                open_by_handle(&self.folder, HANDLE_BTRFS, [first, second, third, fourth, 0])
            }
        }
    }
}

/// The two halves of a number, as they lie in memory.
fn words(number: u64) -> [u32; 2] {
    let bytes = number.to_ne_bytes();
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [word(0), word(4)]
}

/// The subvolume of a mount of btrfs.
pub(crate) fn subvolume(mount: &MountPoint) -> Option<u64> {
    let mut options = mount.filesystem_options.iter();
    options.find_map(|option| option.strip_prefix("subvolid=")?.parse().ok())
}

fn open_by_handle<const WORDS: usize>(folder: &OwnedFd, kind: i32, words: [u32; WORDS]) -> Option<OwnedFd> {
    #[repr(C)]
    #[allow(dead_code, reason = "only the kernel reads the fields")]
    struct Handle<const WORDS: usize> {
        bytes: u32,
        kind: i32,
        words: [u32; WORDS],
    }
    let mut handle = Handle { bytes: size_of_val(&words) as u32, kind, words };
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    // SAFETY: `handle` has the layout of `struct file_handle` with the bytes that it announces, and lives until the call
    // returns.
    let fd =
        unsafe { libc::syscall(libc::SYS_open_by_handle_at, folder.as_raw_fd(), &raw mut handle, flags) };
    // SAFETY: the kernel returned a new descriptor, which nobody else has.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Asks xfs for the generation of an inode number (`XFS_IOC_FSBULKSTAT_SINGLE` of `fs/xfs/libxfs/xfs_fs.h`).
#[cfg(target_pointer_width = "64")]
fn xfs_generation(folder: &OwnedFd, number: u64) -> Option<u32> {
    /// `struct xfs_fsop_bulkreq`.
    #[repr(C)]
    struct Request {
        number: *mut u64,
        count: i32,
        answer: *mut u64,
        answered: *mut i32,
    }
    /// `_IOWR('X', 102, struct xfs_fsop_bulkreq)`.
    const BULKSTAT_SINGLE: u32 = 3 << 30 | (size_of::<Request>() as u32) << 16 | 0x58 << 8 | 102;
    // `struct xfs_bstat` has 136 bytes. The number is its first field; the generation is at byte 108.
    let mut answer = [0_u64; 32];
    let (mut asked, mut answered) = (number, 0_i32);
    let mut request = Request {
        number: &raw mut asked,
        count: 1,
        answer: answer.as_mut_ptr(),
        answered: &raw mut answered,
    };
    // SAFETY: every pointer leads to memory of the expected size, which lives until the call returns.
    let done = unsafe { libc::ioctl(folder.as_raw_fd(), BULKSTAT_SINGLE as libc::Ioctl, &raw mut request) };
    let bytes = answer[13].to_ne_bytes();
    let generation = u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    (done == 0 && answer[0] == number).then_some(generation)
}

/// On 32-bit machines the structures differ.
#[cfg(not(target_pointer_width = "64"))]
fn xfs_generation(_folder: &OwnedFd, _number: u64) -> Option<u32> {
    None
}

/// The path of an open file, if it has one. `inode` is what `stat` shows of it.
fn located(file: OwnedFd, inode: Inode) -> Option<(PathBuf, OwnedFd)> {
    let link = rustix::fs::readlink(own_link(&file), Vec::new()).ok()?;
    let link = link.as_bytes();
    if let Some(path) = link.strip_suffix(b" (deleted)") {
        // The kernel shows `/` or `#NUMBER` for a file that never had a name.
        let path = Path::new(OsStr::from_bytes(path));
        let is_name = path.file_name().is_some_and(|name| !name.as_bytes().starts_with(b"#"));
        return is_name.then(|| (path.to_owned(), file));
    }
    let path = Path::new(OsStr::from_bytes(link));
    // Without a cached name, the kernel makes up a path that leads elsewhere.
    let stat = rustix::fs::lstat(path).ok()?;
    let is_it = stat.st_ino == inode.number && device::from_dev(stat.st_dev) == inode.fs;
    is_it.then(|| (path.to_owned(), file))
}

fn own_link(file: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// The kind of data in a file: part of an SQLite database, or other data.
fn content(path: &Path, file: &OwnedFd) -> Content {
    let name = path.as_os_str().as_bytes();
    let beside = |suffix: &[u8]| {
        let database = Path::new(OsStr::from_bytes(name.strip_suffix(suffix)?));
        begins_as_sqlite(database).ok().filter(|is_sqlite| *is_sqlite)
    };
    if beside(b"-wal").is_some() {
        Content::SqliteWal
    } else if beside(b"-journal").is_some() {
        Content::SqliteJournal
    } else if begins_as_sqlite(&own_link(file)).unwrap_or(false) {
        Content::SqliteDb
    } else {
        Content::Data
    }
}

/// Whether the file begins as an SQLite database does. Reads from the page cache only: the recorder must cause no I/O.
fn begins_as_sqlite(path: &Path) -> io::Result<bool> {
    let stat = rustix::fs::stat(path)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(false);
    }
    let flags = OFlags::RDONLY | OFlags::NOATIME | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !begin_is_cached(&file)? {
        return Ok(false);
    }
    let mut begin = [0; SQLITE_HEADER.len()];
    let read = file.read_at(&mut begin, 0)?;
    Ok(read == begin.len() && begin == *SQLITE_HEADER)
}

/// Whether the first page of a file is in the page cache. A read with `RWF_NOWAIT` cannot tell that, because it begins
/// to read what is missing.
fn begin_is_cached(file: &File) -> io::Result<bool> {
    let length = SQLITE_HEADER.len();
    let fd = file.as_raw_fd();
    // SAFETY: a new mapping, which is not accessed: mincore looks at the page cache only.
    let mapped =
        unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mut resident = 0_u8;
    // SAFETY: the mapping made above has one page, and `resident` has room for one.
    let asked = unsafe { libc::mincore(mapped, length, (&raw mut resident).cast()) };
    // SAFETY: the mapping made above, which nobody else uses.
    unsafe { libc::munmap(mapped, length) };
    Ok(asked == 0 && resident & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use fonio_testing::{Need, has, skip};

    use super::*;

    fn inode_of(path: &Path) -> Inode {
        let metadata = path.metadata().unwrap();
        Inode { fs: device::from_dev(metadata.dev()), number: metadata.ino() }
    }

    #[test]
    fn a_file_has_its_path_and_its_kind() {
        if !has(&[Need::Root]) {
            return;
        }
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let machine = Machine::here();
        if Roots::new(&machine).find(inode_of(dir.path())).is_none() {
            return skip(Need::Root, "the file system of this folder does not find files by their numbers");
        }
        let database = dir.path().join("notes.db");
        for (name, head, expected) in [
            ("notes.db", SQLITE_HEADER.as_slice(), Content::SqliteDb),
            ("notes.db-wal", b"\x37\x7f\x06\x82", Content::SqliteWal),
            ("notes.db-journal", b"\xd9\xd5\x05\xf9", Content::SqliteJournal),
            ("other-wal", b"text", Content::Data),
        ] {
            let path = dir.path().join(name);
            std::fs::write(&path, head).unwrap();
            let mut files = Files::default();
            let inode = inode_of(&path);
            files.see(inode);
            files.look_up(&machine);
            let key = FileKey { inode, after: Timestamp(0) };
            let [named] = files.names(&key) else { panic!("{name} was not found") };
            assert_eq!((Path::new(&named.path), named.content), (path.as_path(), expected));
            // A renamed file gets a second name.
            let renamed = dir.path().join("renamed");
            std::fs::rename(&path, &renamed).unwrap();
            files.look_again(&machine);
            let names: Vec<&Path> = files.names(&key).iter().map(|named| Path::new(&named.path)).collect();
            assert_eq!(names, [path.as_path(), renamed.as_path()]);
            std::fs::rename(&renamed, &path).unwrap();
            assert!(database.exists());
        }
    }

    #[test]
    fn a_later_file_with_the_same_number_has_its_own_names() {
        let inode = Inode { fs: DeviceId::new(8, 1), number: 12 };
        let named =
            |at, path: &str| Named { at: Timestamp(at), path: path.to_owned(), content: Content::Data };
        let mut files = Files::default();
        files.see(inode);
        files.known.get_mut(&inode).unwrap().names = vec![named(10, "a"), named(30, "b"), named(50, "c")];
        files.free(inode, Timestamp(20));
        files.free(inode, Timestamp(25));
        files.free(inode, Timestamp(60));
        let names = |after| {
            let key = FileKey { inode, after: Timestamp(after) };
            files.names(&key).iter().map(|named| named.path.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            (names(0), names(20), names(25), names(60)),
            ("a".into(), "".into(), "b c".into(), "".into())
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut files = Files::default();
        for number in 0..KNOWN_MAX as u64 + 10 {
            files.see(Inode { fs: DeviceId::new(8, 1), number });
        }
        assert_eq!(files.known.len(), KNOWN_MAX);
        let inode = Inode { fs: DeviceId::new(8, 1), number: 1 };
        (0..1000).for_each(|at| files.free(inode, Timestamp(at)));
        assert_eq!(files.known[&inode].freed.len(), NAMES_MAX);
    }
}
