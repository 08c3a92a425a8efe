//! The folder that receives the files of devices: `arrived/DAY/DEVICE.jsonl.gz`.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::days::Day;
use crate::error::WatchError;

/// The number of tries to write a file, for example into a folder on a network that is not reachable for a moment.
const TRIES: u32 = 5;
/// The longest first wait. The waits double.
const WAIT: Duration = Duration::from_secs(2);

/// A folder that receives files of devices.
#[derive(Debug)]
pub struct Inbox {
    folder: PathBuf,
}

impl Inbox {
    /// Opens the folder of a fleet. The folder must exist: a missing folder can be a file system that is not mounted.
    ///
    /// # Errors
    /// Returns [`WatchError::File`] if the folder does not exist.
    pub fn open(folder: &Path) -> Result<Inbox, WatchError> {
        let is_folder = fs::metadata(folder).map_err(WatchError::file(folder, "opened"))?.is_dir();
        if !is_folder {
            return Err(WatchError::file(folder, "opened")(ErrorKind::NotADirectory.into()));
        }
        Ok(Inbox { folder: folder.to_owned() })
    }

    fn path(&self, device: &str, day: Day) -> PathBuf {
        self.folder.join("arrived").join(day.name()).join(format!("{device}.jsonl.gz"))
    }

    /// Returns whether the folder has the file of a device and day.
    pub fn has(&self, device: &str, day: Day) -> bool {
        self.path(device, day).exists()
    }

    /// Writes the file of a device and day, completely or not at all. Waits and tries again if the folder cannot be
    /// written for a moment; `wait` gets the longest time to wait, and must wait for a random part of it, so that many
    /// devices do not come back together.
    ///
    /// # Errors
    /// Returns [`WatchError::File`] after the last try, or at once if another try cannot help.
    pub fn put(
        &self,
        device: &str,
        day: Day,
        bytes: &[u8],
        mut wait: impl FnMut(Duration),
    ) -> Result<(), WatchError> {
        let path = self.path(device, day);
        for attempt in 0.. {
            match write(&path, bytes) {
                Ok(()) => return Ok(()),
                Err(error) if attempt + 1 == TRIES || is_lasting(&error) => {
                    return Err(WatchError::file(&path, "written")(error));
                }
                Err(_) => wait(WAIT * 2_u32.pow(attempt)),
            }
        }
        unreachable!("the last try returns")
    }
}

/// Returns whether an error stays without a change by a person.
fn is_lasting(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::NotADirectory
            | ErrorKind::NotFound
            | ErrorKind::AlreadyExists
            | ErrorKind::InvalidFilename
    )
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().expect("the path has a folder");
    fs::create_dir_all(folder)?;
    let name = path.file_name().expect("the path has a name").to_string_lossy();
    // Readers leave out names that begin with a dot.
    let part = folder.join(format!(".{name}.part"));
    let mut file = File::create(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&part, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_complete_and_only_passing_errors_are_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let inbox = Inbox::open(dir.path()).unwrap();
        assert!(!inbox.has("d1", Day(0)));
        inbox.put("d1", Day(0), b"first", |_| panic!("nothing to wait for")).unwrap();
        assert!(inbox.has("d1", Day(0)) && !inbox.has("d1", Day(1)) && !inbox.has("d2", Day(0)));
        assert_eq!(fs::read(dir.path().join("arrived/1970-01-01/d1.jsonl.gz")).unwrap(), b"first");
        // A file in the place of the day's folder: waiting does not help.
        fs::write(dir.path().join("arrived/1970-01-02"), b"").unwrap();
        let error = inbox.put("d1", Day(1), b"x", |_| panic!("it is no use to wait")).unwrap_err();
        assert!(error.to_string().contains("1970-01-02"), "{error}");
        assert!(Inbox::open(&dir.path().join("missing")).is_err());
        assert!(Inbox::open(&dir.path().join("arrived/1970-01-02")).is_err());
    }
}
