//! Provides the target of a benchmark: a new file in a directory, or a complete device.
//!
//! The file name contains the process id, and the file is locked. If the process no longer exists, an
//! interrupted benchmark left the file behind; the next benchmark in the same directory removes it.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fonio_host::Confirmation;
use rustix::fs::OFlags;

use crate::error::BenchError;
use crate::place::Place;
use crate::throughput;

const PREFIX: &str = ".fonio-bench-";

const DATA: &str = ".data";
const APPS: &str = ".apps";

/// Space that benchmarks leave free on a file system.
const RESERVE_BYTES: u64 = 64 << 20;

/// The directory or device that is benchmarked. Dropping this value removes the benchmark's file; if the
/// target is a device, the written data stay on it.
#[derive(Debug)]
pub struct Target {
    /// The path of the benchmark's file or device.
    file: PathBuf,
    place: Place,
    room_bytes: u64,
    remove: bool,
    /// Keeps the file locked, or keeps exclusive access to the device, so that nobody can mount the device.
    _held: File,
}

impl Target {
    /// Opens `path`: creates a file in a directory, or claims a block device. If the device contains data,
    /// `erase` must be equal to `path`. Fails with [`BenchError::NoTarget`], [`BenchError::HoldsData`],
    /// [`BenchError::Host`], [`BenchError::NoDirectIo`] and errors of system calls.
    pub fn open(path: &Path, erase: Option<&Path>) -> Result<Target, BenchError> {
        let metadata = fs::metadata(path).map_err(BenchError::system("find", path))?;
        let place = Place::of(path);
        if metadata.is_dir() {
            in_folder(path, place)
        } else if metadata.file_type().is_block_device() {
            on_device(path, place, erase)
        } else {
            Err(BenchError::NoTarget { path: path.to_owned() })
        }
    }

    /// Opens a block device for reading only. The device may be in use.
    pub fn read_only(path: &Path) -> Result<Target, BenchError> {
        let metadata = fs::metadata(path).map_err(BenchError::system("find", path))?;
        if !metadata.file_type().is_block_device() {
            return Err(BenchError::NoTarget { path: path.to_owned() });
        }
        let held = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::DIRECT.bits() as i32)
            .open(path)
            .map_err(BenchError::system("open for direct I/O", path))?;
        let place = Place::of(path);
        let room_bytes = place.size_bytes;
        Ok(Target { file: path.to_owned(), place, room_bytes, remove: false, _held: held })
    }

    /// Returns the path prefix of further files (`-NUMBER.data`) and folders (`.apps`) in the directory. The
    /// next benchmark in the directory removes files and folders that are left behind without a lock. Returns
    /// `None` if the target is a device.
    pub(crate) fn beside(&self) -> Option<PathBuf> {
        self.remove.then(|| self.file.with_extension(""))
    }

    /// Truncates the file to free its space for other parts of a benchmark.
    pub(crate) fn make_room(&self) -> Result<(), BenchError> {
        if self.remove {
            // Open the file again, because fio may have replaced it.
            let file = OpenOptions::new().write(true).open(&self.file);
            file.and_then(|file| file.set_len(0)).map_err(BenchError::system("empty", &self.file))?;
        }
        Ok(())
    }

    /// Returns the path of the file or device on which fio runs.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the description of the target's environment.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Finds the cause of a fio failure: [`BenchError::Gone`] if the target can no longer be read.
    pub(crate) fn explain(&self, error: BenchError) -> BenchError {
        let BenchError::FioFailed { output, .. } = &error else { return error };
        if output.contains("No space left on device") {
            return BenchError::Full { path: self.place.path.clone() };
        }
        match throughput::read_device(&self.file, throughput::RECORD_BYTES as u64) {
            Ok(_) => error,
            Err(reason) => BenchError::Gone { path: self.place.path.clone(), reason: reason.to_string() },
        }
    }

    /// Returns the number of bytes that benchmarks can write to the target.
    pub fn room_bytes(&self) -> u64 {
        self.room_bytes
    }

    /// Checks that `bytes` fit on the target.
    pub fn check_room(&self, bytes: u64) -> Result<(), BenchError> {
        if bytes > self.room_bytes {
            let path = self.place.path.clone();
            return Err(BenchError::NoRoom { path, free: self.room_bytes, needed: bytes });
        }
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.remove {
            // If the file cannot be removed, the next benchmark in this directory tries again to remove the
            // file.
            let _ = fs::remove_file(&self.file);
        }
    }
}

/// Returns the number of bytes that benchmarks could write to `path`, without changing anything there.
pub fn room_bytes(path: &Path) -> Result<u64, BenchError> {
    let metadata = fs::metadata(path).map_err(BenchError::system("find", path))?;
    let place = Place::of(path);
    if metadata.is_dir() {
        Ok(place.free_bytes.saturating_sub(RESERVE_BYTES))
    } else if metadata.file_type().is_block_device() {
        Ok(place.size_bytes)
    } else {
        Err(BenchError::NoTarget { path: path.to_owned() })
    }
}

fn in_folder(folder: &Path, place: Place) -> Result<Target, BenchError> {
    remove_left_over(folder)?;
    let file = folder.join(format!("{PREFIX}{}{DATA}", std::process::id()));
    let held =
        OpenOptions::new().read(true).write(true).create_new(true).open(&file).map_err(
            |error| match error.kind() {
                ErrorKind::ReadOnlyFilesystem => BenchError::ReadOnly { path: folder.to_owned() },
                ErrorKind::StorageFull => BenchError::Full { path: folder.to_owned() },
                _ => BenchError::system("create", &file)(error),
            },
        )?;
    // The file is new, so no other process can have locked it.
    held.try_lock().map_err(|error| BenchError::system("lock", &file)(error.into()))?;
    let room_bytes = room_bytes(folder)?;
    let target = Target { file, place, room_bytes, remove: true, _held: held };
    check_direct(&target.file, &target.place)?;
    Ok(target)
}

fn remove_left_over(folder: &Path) -> Result<(), BenchError> {
    let entries = fs::read_dir(folder).map_err(BenchError::system("list", folder))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with(PREFIX) {
            continue;
        }
        // To extend a file, fio replaces the file, and the new file has no lock.
        if is_owner_alive(&name) {
            continue;
        }
        if name.ends_with(APPS) {
            if File::open(entry.path()).is_ok_and(|held| held.try_lock().is_ok()) {
                fs::remove_dir_all(entry.path()).map_err(BenchError::system("remove", entry.path()))?;
            }
            continue;
        }
        if !name.ends_with(DATA) {
            continue;
        }
        // This user cannot open a file of another user, so the other user must remove the file.
        let Ok(file) = OpenOptions::new().read(true).write(true).open(entry.path()) else { continue };
        if file.try_lock().is_ok() {
            fs::remove_file(entry.path()).map_err(BenchError::system("remove", &entry.path()))?;
        }
    }
    Ok(())
}

/// Whether the process whose id is in the file name is alive and runs the same program as this process.
fn is_owner_alive(name: &str) -> bool {
    let program = |process: &str| fs::read_to_string(Path::new("/proc").join(process).join("comm")).ok();
    let number: String = name.chars().skip(PREFIX.len()).take_while(char::is_ascii_digit).collect();
    !number.is_empty() && program(&number).is_some_and(|found| Some(found) == program("self"))
}

fn on_device(path: &Path, place: Place, erase: Option<&Path>) -> Result<Target, BenchError> {
    let confirmation = if erase == Some(path) { Confirmation::NamedTwice } else { Confirmation::NamedOnce };
    let held = fonio_host::claim(path, confirmation)?;
    check_direct(path, &place)?;
    let room_bytes = place.size_bytes;
    Ok(Target { file: path.to_owned(), place, room_bytes, remove: false, _held: held })
}

fn check_direct(file: &Path, place: &Place) -> Result<(), BenchError> {
    let opened =
        OpenOptions::new().read(true).write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(file);
    match opened {
        Err(error) if error.kind() == ErrorKind::InvalidInput => Err(BenchError::NoDirectIo {
            path: place.path.clone(),
            file_system: place.file_system.clone().unwrap_or_else(|| "raw device".to_owned()),
        }),
        other => other.map(drop).map_err(BenchError::system("open for direct I/O", file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_goes_with_its_owner_and_a_killed_ones_with_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let left = folder.path().join(format!("{PREFIX}1.data"));
        fs::write(&left, "left").expect("it can be written");
        let left_apps = folder.path().join(format!("{PREFIX}1.apps"));
        fs::create_dir_all(left_apps.join("app/an_app")).expect("it can be made");
        let held_apps = folder.path().join(format!("{PREFIX}2.apps"));
        fs::create_dir(&held_apps).expect("it can be made");
        let held = File::open(&held_apps).expect("it can be opened");
        held.try_lock().expect("nobody else holds it");
        let other = folder.path().join("mine.data");
        fs::write(&other, "not ours").expect("it can be written");
        let target = match Target::open(folder.path(), None) {
            Ok(target) => target,
            Err(error @ BenchError::NoDirectIo { .. }) => {
                return fonio_testing::skip(fonio_testing::Need::DirectIo, error);
            }
            Err(error) => panic!("{error}"),
        };
        assert!(!left.exists() && !left_apps.exists(), "nobody held them");
        assert!(held_apps.exists(), "its owner holds it");
        let file = target.file().to_owned();
        remove_left_over(folder.path()).expect("leftover files can be removed");
        assert!(file.exists(), "its owner holds it");
        drop(target);
        assert!(!file.exists());
        assert!(other.exists());
    }

    #[test]
    fn a_file_is_no_target() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(matches!(Target::open(file.path(), None), Err(BenchError::NoTarget { .. })));
    }
}
