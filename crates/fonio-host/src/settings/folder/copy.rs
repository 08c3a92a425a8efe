//! Copies a single file system object: content, owner, mode, timestamps and extended attributes.
//!
//! Objects are given by descriptors (`O_PATH` suffices) or by a name in an open folder, never by a path. So a
//! symbolic link cannot redirect a copy outside the folder.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, Uid};
use rustix::io::{Errno, Result};

use crate::attributes::copy_attributes;

const BUFFER_BYTES: usize = 256 << 10;

/// Returns the `stat` of the object with this name; `None` if the object does not exist.
pub(in crate::settings) fn look(dir: BorrowedFd<'_>, name: &CStr) -> Result<Option<Stat>> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        found => found.map(Some),
    }
}

pub(in crate::settings) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

pub(in crate::settings) fn open_folder(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

pub(in crate::settings) fn open_object(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    rustix::fs::openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a regular file. If the kernel permits it, reading does not change the file's access time.
pub(in crate::settings) fn open_file(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    // If a pipe now has this name, opening the pipe must not wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(dir, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::openat(dir, name, flags, Mode::empty())?,
        opened => opened?,
    };
    let is_file = kind(&rustix::fs::fstat(&opened)?) == FileType::RegularFile;
    if is_file { Ok(opened) } else { Err(Errno::NOENT) }
}

/// Returns whether two files have the same content. Comparing timestamps is not enough: on tmpfs, writes
/// through a mapping do not change timestamps.
pub(in crate::settings) fn same_content(one: &OwnedFd, other: &OwnedFd) -> Result<bool> {
    let (mut left, mut right) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    let mut at = 0;
    loop {
        let (read, also) = (fill(one, &mut left, at)?, fill(other, &mut right, at)?);
        if left[..read] != right[..also] {
            return Ok(false);
        }
        if read == 0 {
            return Ok(true);
        }
        at += read as u64;
    }
}

/// Reads from the file at offset `at` until the buffer is full or the file ends.
fn fill(file: &OwnedFd, buffer: &mut [u8], at: u64) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(file, &mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Copies the content of a file into an empty file; holes stay holes. Returns the number of bytes written to
/// the copy.
pub(in crate::settings) fn copy_content(from: &OwnedFd, to: &OwnedFd) -> Result<u64> {
    let mut buffer = vec![0; BUFFER_BYTES];
    // Read the file's size before its content. Otherwise, data appended meanwhile would become zeros at the
    // end of the copy.
    let size = rustix::fs::fstat(from)?.st_size as u64;
    let mut written = 0;
    let mut at = 0;
    loop {
        at = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => break,
            // The file system does not support seeking to holes.
            Err(Errno::INVAL) => at,
            found => found?,
        };
        let hole = match rustix::fs::seek(from, SeekFrom::Hole(at)) {
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL) => u64::MAX,
            found => found?,
        };
        while at < hole {
            let wanted = usize::try_from(hole - at).unwrap_or(usize::MAX).min(buffer.len());
            let read = fill(from, &mut buffer[..wanted], at)?;
            if read == 0 {
                break;
            }
            write_all(to, &buffer[..read], at)?;
            at += read as u64;
            written += read as u64;
        }
        if at < hole {
            break;
        }
    }
    // Recreate a hole at the end of the file.
    rustix::fs::ftruncate(to, size.max(at))?;
    Ok(written)
}

fn write_all(file: &OwnedFd, mut bytes: &[u8], mut at: u64) -> Result<()> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, at) {
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the path of a descriptor, for calls that do not accept an `O_PATH` descriptor.
pub(in crate::settings) fn path_of(object: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", object.as_raw_fd())
}

/// Copies owner, mode, attributes and timestamps from `from` to `to` where they differ. Returns whether
/// anything differed.
pub(in crate::settings) fn copy_properties(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<bool> {
    let (source, now) = (rustix::fs::fstat(from)?, rustix::fs::fstat(to)?);
    let mut changed = false;
    if (source.st_uid, source.st_gid) != (now.st_uid, now.st_gid) {
        let (owner, group) = (Uid::from_raw(source.st_uid), Gid::from_raw(source.st_gid));
        rustix::fs::chownat(to, c"", Some(owner), Some(group), AtFlags::EMPTY_PATH)?;
        changed = true;
    }
    let path = path_of(to);
    // Changing the owner clears the set-user-ID and set-group-ID bits, so set the mode again.
    if kind(&source) != FileType::Symlink && (changed || source.st_mode != now.st_mode) {
        rustix::fs::chmod(path.as_str(), Mode::from_raw_mode(source.st_mode))?;
        changed = true;
    }
    changed |= copy_attributes(&path_of(from), &path)?;
    let modified = |stat: &Stat| (stat.st_mtime, stat.st_mtime_nsec);
    // Do not write timestamps if only the access time differs.
    if changed || modified(&source) != modified(&now) {
        rustix::fs::utimensat(rustix::fs::CWD, path.as_str(), &times(&source), AtFlags::empty())?;
        changed = true;
    }
    Ok(changed)
}

#[allow(clippy::unnecessary_cast, reason = "the types of the fields differ between architectures")]
pub(in crate::settings) fn times(stat: &Stat) -> Timestamps {
    let time = |seconds, nanos| Timespec { tv_sec: seconds as i64, tv_nsec: nanos as i64 };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}
