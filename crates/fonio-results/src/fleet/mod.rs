//! Receives the days of devices (`fonio watch send`) into the folder of a fleet.
//!
//! A device sends the file of one day at a time. The service checks the device's token ([`Tokens`]) and the file
//! ([`check()`]), and stores the file as `arrived/DAY/DEVICE.jsonl.gz`, which `fonio fleet` reads.

mod day_file;
mod tokens;

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::civil::Date;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use thiserror::Error;

pub use day_file::BadDayFile;
pub use tokens::{TokenProblem, Tokens};

/// Maximum number of bytes of a file, compressed.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// The folder for incomplete files. Readers of fleets leave out names that begin with a dot.
const INCOMING: &str = ".incoming";
const DEVICE_BYTES_MAX: usize = 64;

/// A problem with the settings of a fleet. The messages name the path and the way out.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FleetError {
    /// The folder of the fleet cannot be used.
    #[error(
        "{path} cannot be the folder of a fleet: {cause}; create it, and let only the service write to it"
    )]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The operating system's error; the message already contains it.
        cause: io::Error,
    },
    /// The file with the tokens cannot be used.
    #[error("{path}: {problem}")]
    Tokens {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: TokenProblem,
    },
}

/// The folder of a fleet, and the tokens of its devices.
#[derive(Debug)]
pub struct Fleet {
    folder: PathBuf,
    tokens: PathBuf,
    /// Distinguishes the names of incomplete files.
    number: AtomicU64,
}

/// The name of a device in a fleet: up to 64 letters, digits, dashes, dots and underscores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device(String);

/// A day (UTC), in the form `2026-11-24`.
#[derive(Clone, Copy, Debug)]
pub struct Day(Date);

/// Whether a file is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The file is stored on disk.
    New,
    /// The fleet has a file of this device and day already, which stays as it is.
    Known,
}

impl Device {
    /// Returns the device with this name, if the name is valid.
    pub fn named(name: &str) -> Option<Device> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_valid = (1..=DEVICE_BYTES_MAX).contains(&name.len())
            && !name.starts_with('.')
            && name.bytes().all(is_plain);
        is_valid.then(|| Device(name.to_owned()))
    }

    fn file(&self) -> String {
        format!("{}.jsonl.gz", self.0)
    }
}

impl Day {
    /// Returns the day with this name, if it has the form `2026-11-24`.
    pub fn named(name: &str) -> Option<Day> {
        let day: Date = name.parse().ok()?;
        // The parser accepts other forms too.
        (day.to_string() == name).then_some(Day(day))
    }

    /// Returns whether the day has not ended in any time zone that a device can have.
    pub fn is_in_future(self, today: Date) -> bool {
        self.0 > today
    }
}

impl Fleet {
    /// Opens the folder of a fleet, and checks the file with the tokens. Removes incomplete files of a service that was
    /// killed.
    ///
    /// # Errors
    /// Returns a [`FleetError`] if the folder cannot be written, or if the file has no valid token.
    pub fn open(folder: &Path, tokens: &Path) -> Result<Fleet, FleetError> {
        let failed = |cause| FleetError::Folder { path: folder.to_owned(), cause };
        if !fs::metadata(folder).map_err(failed)?.is_dir() {
            return Err(failed(ErrorKind::NotADirectory.into()));
        }
        let incoming = folder.join(INCOMING);
        match fs::remove_dir_all(&incoming) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => fs::create_dir(&incoming).map_err(failed)?,
        }
        Tokens::read(tokens).map_err(|problem| FleetError::Tokens { path: tokens.to_owned(), problem })?;
        Ok(Fleet { folder: folder.to_owned(), tokens: tokens.to_owned(), number: AtomicU64::new(0) })
    }

    /// Checks a token. The file is read each time, so a token can be added or removed while the service runs.
    pub(crate) fn admit(&self, token: &str, device: &Device, today: Date) -> Result<(), TokenProblem> {
        Tokens::read(&self.tokens)?.admit(token, device, today)
    }

    /// Returns the days of which the fleet has a file of the device, in order.
    pub(crate) fn days(&self, device: &Device) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.folder.join("arrived")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut days = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if Day::named(&name).is_some() && entry.path().join(device.file()).exists() {
                days.push(name);
            }
        }
        days.sort_unstable();
        Ok(days)
    }

    /// Stores a file, which is on disk when this method returns. A file that exists already stays as it is.
    pub(crate) fn store(&self, device: &Device, day: Day, bytes: &[u8]) -> io::Result<Stored> {
        let folder = self.folder.join("arrived").join(day.0.to_string());
        fs::create_dir_all(&folder)?;
        let path = folder.join(device.file());
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let part = self.folder.join(INCOMING).join(format!("{}-{number}.part", std::process::id()));
        let stored = write(&part, bytes).and_then(|()| publish(&part, &path));
        if !matches!(stored, Ok(Stored::New)) {
            let _ = fs::remove_file(&part);
        }
        if stored.as_ref().is_ok_and(|stored| *stored == Stored::New) {
            File::open(&folder)?.sync_all()?;
        }
        stored
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Gives a complete file its name, unless a file has this name.
fn publish(part: &Path, path: &Path) -> io::Result<Stored> {
    match renameat_with(CWD, part, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(Stored::New),
        Err(rustix::io::Errno::EXIST) => Ok(Stored::Known),
        // Some file systems on a network do not know the flag.
        Err(rustix::io::Errno::INVAL) if !path.exists() => fs::rename(part, path).map(|()| Stored::New),
        Err(rustix::io::Errno::INVAL) => Ok(Stored::Known),
        Err(error) => Err(error.into()),
    }
}

/// Checks that a file is complete, and that it is the file of this device and day.
///
/// # Errors
/// Returns the first fault of the file, in words.
pub fn check(bytes: &[u8], device: &Device, day: Day) -> Result<(), BadDayFile> {
    day_file::check(bytes, &device.0, &day.0.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_and_days_cannot_leave_the_folder() {
        for name in ["", ".", "..", ".part", "a/b", "a b", "a\0", "ä", &"a".repeat(65)] {
            assert!(Device::named(name).is_none(), "{name}");
        }
        for name in ["pi-4", "d_1.kitchen", &"a".repeat(64)] {
            assert!(Device::named(name).is_some(), "{name}");
        }
        for name in ["", "..", "2026-1-2", "20260102", "2026-02-30", "2026-01-02T00:00", "+002026-01-02"] {
            assert!(Day::named(name).is_none(), "{name}");
        }
        assert!(Day::named("2026-01-02").is_some());
    }

    #[test]
    fn a_file_is_stored_once_and_parts_disappear() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = dir.path().join("tokens");
        tokens::tests::write(&tokens, &format!("{}\n", "a".repeat(32)));
        let folder = dir.path().join("fleet");
        fs::create_dir(&folder).unwrap();
        let fleet = Fleet::open(&folder, &tokens).unwrap();
        let (device, day) = (Device::named("d1").unwrap(), Day::named("2026-01-02").unwrap());
        assert_eq!(fleet.days(&device).unwrap(), Vec::<String>::new());
        assert_eq!(fleet.store(&device, day, b"first").unwrap(), Stored::New);
        assert_eq!(fleet.store(&device, day, b"second").unwrap(), Stored::Known);
        assert_eq!(fs::read(folder.join("arrived/2026-01-02/d1.jsonl.gz")).unwrap(), b"first");
        fleet.store(&device, Day::named("2026-01-01").unwrap(), b"earlier").unwrap();
        fs::create_dir(folder.join("arrived/notes")).unwrap();
        assert_eq!(fleet.days(&device).unwrap(), ["2026-01-01", "2026-01-02"]);
        assert_eq!(fs::read_dir(folder.join(INCOMING)).unwrap().count(), 0);
        // A service was killed while it wrote.
        fs::write(folder.join(INCOMING).join("7-0.part"), b"ha").unwrap();
        Fleet::open(&folder, &tokens).unwrap();
        assert_eq!(fs::read_dir(folder.join(INCOMING)).unwrap().count(), 0);
        assert!(Fleet::open(&dir.path().join("missing"), &tokens).is_err());
        assert!(Fleet::open(&tokens, &tokens).is_err());
    }
}
