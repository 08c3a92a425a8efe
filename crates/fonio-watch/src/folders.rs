//! The files of a watch: permanent files on the medium, and temporary files in memory.
//!
//! | file | contents |
//! |---|---|
//! | `STATE/rings` | the history ([`rings`](crate::rings)) |
//! | `STATE/kept/*.stall` | kept stalls, 4 MiB at most |
//! | `STATE/told.json` | when a person was last told about each cause |
//! | `STATE/followed.json` | when fixes were kept; `fonio fix apply --keep` writes it |
//! | `RUN/running` | the process of the watch, locked while it runs |
//! | `RUN/unwritten` | the minutes not yet in the history; rewritten each minute |
//! | `RUN/kept/*.stall` | kept stalls not yet on the medium, 4 MiB at most |
//!
//! `STATE` is `/var/lib/fonio/watch` and `RUN` is `/run/fonio/watch`, which is in memory. After `kill -9`,
//! the next watch reads `unwritten` and continues with its minutes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fonio_system::{ProcessId, TrustedFolder};
use serde::{Deserialize, Serialize};

use crate::error::WatchError;
use crate::rings::{decode, encode};
use crate::summary::Summary;

/// Maximum number of bytes of kept stalls in each of the two folders.
const KEPT_BYTES_MAX: u64 = 4 << 20;
/// Maximum sizes of `running` and `unwritten`. The minutes that are not yet written need about 1 MB.
const RUNNING_BYTES_MAX: u64 = 4 << 10;
const UNWRITTEN_BYTES_MAX: u64 = 64 << 20;
const RUNNING: &str = "running";
const UNWRITTEN: &str = "unwritten";

/// The folders in which a watch stores its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    /// The watch's folder on the medium.
    pub state: PathBuf,
    /// The watch's folder in memory.
    pub run: PathBuf,
}

impl Default for Folders {
    fn default() -> Folders {
        Folders { state: "/var/lib/fonio/watch".into(), run: fonio_system::state::folder().join("watch") }
    }
}

/// The contents of `RUN/running`.
#[derive(Debug, Serialize, Deserialize)]
struct Process {
    #[serde(flatten)]
    process: ProcessId,
    is_ready: bool,
}

/// Lock that keeps other watches from using these folders, until this value is dropped or the process ends.
#[derive(Debug)]
pub struct Running {
    file: File,
}

impl Folders {
    /// Returns the path of the history file.
    pub fn rings(&self) -> PathBuf {
        self.state.join("rings")
    }

    /// Returns the folders of kept stalls: first the folder in memory, then the folder on the medium.
    pub fn kept(&self) -> [PathBuf; 2] {
        [self.run.join("kept"), self.state.join("kept")]
    }

    /// Creates the folders in memory and locks them for this watch. The folder on the medium is created at
    /// the first write, so an unwritable medium does not end the watch.
    ///
    /// # Errors
    /// Returns [`WatchError::Runs`] if a watch is already running, or [`WatchError::File`] if other users can
    /// change the folders.
    pub fn begin(&self) -> Result<Running, WatchError> {
        let folder = TrustedFolder::make(&self.run).map_err(WatchError::used(&self.run, "made"))?;
        let (path, kept) = (self.run.join(RUNNING), self.run.join("kept"));
        // Refuse a folder of another user before anything is changed.
        TrustedFolder::open(&kept).map_err(WatchError::used(&kept, "opened"))?;
        let file = folder.open_or_create(RUNNING).map_err(WatchError::used(&path, "opened"))?;
        if file.try_lock().is_err() {
            return Err(WatchError::Runs { pid: self.runs().map_or(0, |process| process.pid) });
        }
        TrustedFolder::make(&kept).map_err(WatchError::used(&kept, "made"))?;
        // A killed watch may have left these files.
        folder.remove_unfinished(UNWRITTEN).map_err(WatchError::used(&self.run, "cleaned up"))?;
        let running = Running { file };
        running.tell(false).map_err(WatchError::file(&path, "written"))?;
        Ok(running)
    }

    /// Returns the process of the running watch; `None` if no watch is running.
    pub fn runs(&self) -> Option<ProcessId> {
        Some(self.process()?.process)
    }

    /// Returns the process of the running watch, if its start is complete.
    pub fn is_ready(&self) -> Option<ProcessId> {
        Some(self.process().filter(|process| process.is_ready)?.process)
    }

    fn process(&self) -> Option<Process> {
        let folder = TrustedFolder::open(&self.run).ok()??;
        let process: Process =
            serde_json::from_slice(&folder.read(RUNNING, RUNNING_BYTES_MAX).ok()??).ok()?;
        process.process.runs().then_some(process)
    }

    /// Stores the minutes that are not yet in the history in a file in memory.
    ///
    /// # Errors
    /// Returns errors of the file system.
    pub fn store_unwritten(&self, minutes: &[Summary]) -> io::Result<()> {
        Ok(TrustedFolder::make(&self.run)?.replace_without_sync(UNWRITTEN, &encode(minutes, 0))?)
    }

    /// Reads the stored minutes that are not yet in the history.
    pub fn read_unwritten(&self) -> Vec<Summary> {
        let read = TrustedFolder::open(&self.run).and_then(|folder| match folder {
            Some(folder) => folder.read(UNWRITTEN, UNWRITTEN_BYTES_MAX),
            None => Ok(None),
        });
        let bytes = read.ok().flatten().unwrap_or_default();
        decode(&bytes).map(|(_, minutes)| minutes).unwrap_or_default()
    }

    /// Makes room for `bytes` in a folder of kept stalls by removing the oldest stalls.
    pub fn make_room(folder: &Path, bytes: u64) {
        let mut files: Vec<(PathBuf, u64)> = kept_in(folder);
        let mut total: u64 = files.iter().map(|(_, length)| length).sum();
        // The names of kept stalls start with timestamps.
        files.sort_unstable();
        for (path, length) in files {
            if total + bytes <= KEPT_BYTES_MAX {
                return;
            }
            if fs::remove_file(path).is_ok() {
                total -= length;
            }
        }
    }

    /// Returns the path of the kept stall with this name.
    pub fn find_kept(&self, name: &str) -> Option<PathBuf> {
        self.kept().into_iter().map(|folder| folder.join(name)).find(|path| path.exists())
    }
}

/// Returns the paths of the kept stalls in a folder, with their lengths in bytes.
pub fn kept_in(folder: &Path) -> Vec<(PathBuf, u64)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let stalls = entries.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "stall"));
    stalls.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.len()))).collect()
}

impl Running {
    /// Tells other processes that the start of the watch is complete.
    ///
    /// # Errors
    /// Returns errors of the file system.
    pub fn ready(&self) -> io::Result<()> {
        self.tell(true)
    }

    fn tell(&self, is_ready: bool) -> io::Result<()> {
        let own = serde_json::to_string(&Process { process: ProcessId::own(), is_ready })?;
        self.file.set_len(0)?;
        self.file.write_all_at(own.as_bytes(), 0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Clear the stored process id, because another process may reuse it.
        let _ = self.file.set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(dir: &Path) -> Folders {
        Folders { state: dir.join("state"), run: dir.join("run") }
    }

    #[test]
    fn there_is_one_watch_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let folders = folders(dir.path());
        assert_eq!(folders.runs(), None);
        let running = folders.begin().unwrap();
        assert_eq!((folders.runs(), folders.is_ready()), (Some(ProcessId::own()), None));
        running.ready().unwrap();
        assert_eq!(folders.is_ready(), Some(ProcessId::own()));
        let second = folders.begin().unwrap_err().to_string();
        assert!(
            second.starts_with(&format!("a watch is already running (process {})", std::process::id())),
            "{second}"
        );
        drop(running);
        assert_eq!(folders.runs(), None);
        folders.begin().unwrap();
    }

    #[test]
    fn unwritten_minutes_survive() {
        let dir = tempfile::tempdir().unwrap();
        let folders = folders(dir.path());
        assert_eq!(folders.read_unwritten(), []);
        let _running = folders.begin().unwrap();
        let minutes = [Summary { began: 7, ..Summary::default() }];
        folders.store_unwritten(&minutes).unwrap();
        assert_eq!(folders.read_unwritten(), minutes);
        fs::write(folders.run.join(UNWRITTEN), b"damaged").unwrap();
        assert_eq!(folders.read_unwritten(), []);
    }

    #[test]
    fn the_oldest_kept_stalls_make_room() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.stall", "a.stall", "c.stall", "other"] {
            fs::write(dir.path().join(name), vec![0; 1 << 20]).unwrap();
        }
        Folders::make_room(dir.path(), (1 << 20) + (1 << 19));
        let mut left: Vec<_> = kept_in(dir.path()).into_iter().map(|(path, _)| path).collect();
        left.sort_unstable();
        assert_eq!(left, [dir.path().join("b.stall"), dir.path().join("c.stall")]);
        assert!(dir.path().join("other").exists());
    }
}
