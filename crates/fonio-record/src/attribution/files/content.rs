//! Recognises the kind of data in a file from its name and first bytes.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fonio_core::Content;
use rustix::fs::{FileType, Mode, OFlags};

use super::find::own_link;

/// The first bytes of every SQLite database (`https://sqlite.org/fileformat.html`, section 1.3).
pub(super) const SQLITE_HEADER: &[u8; 16] = b"SQLite format 3\0";

/// Returns the kind of data in a file: part of an SQLite database, or other data.
pub(crate) fn content(path: &Path, file: &OwnedFd) -> Content {
    if let Some((database, content)) = beside(path)
        && begins_as_sqlite(database).unwrap_or(false)
    {
        return content;
    }
    if begins_as_sqlite(&own_link(file)).unwrap_or(false) { Content::SqliteDb } else { Content::Data }
}

/// For a file named like a journal or WAL, returns the path of its database and the file's kind.
pub(super) fn beside(path: &Path) -> Option<(&Path, Content)> {
    let name = path.as_os_str().as_bytes();
    let database = |suffix: &[u8]| Some(Path::new(OsStr::from_bytes(name.strip_suffix(suffix)?)));
    let wal = database(b"-wal").map(|database| (database, Content::SqliteWal));
    wal.or_else(|| Some((database(b"-journal")?, Content::SqliteJournal)))
}

/// Returns whether the file begins like an SQLite database. Reads only from the page cache, because the
/// recorder must cause no I/O.
pub(super) fn begins_as_sqlite(path: &Path) -> io::Result<bool> {
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

/// Returns whether the first page of a file is in the page cache. A read with `RWF_NOWAIT` cannot be used: it
/// starts reading missing pages from the device.
fn begin_is_cached(file: &File) -> io::Result<bool> {
    let length = SQLITE_HEADER.len();
    let fd = file.as_raw_fd();
    // SAFETY: this is a new mapping that is never accessed; mincore looks at the page cache only.
    let mapped =
        unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mut resident = 0_u8;
    // SAFETY: the mapping made above has one page, and `resident` has room for one page.
    let asked = unsafe { libc::mincore(mapped, length, (&raw mut resident).cast()) };
    // SAFETY: unmaps the mapping created above, which no other code uses.
    unsafe { libc::munmap(mapped, length) };
    Ok(asked == 0 && resident & 1 == 1)
}
