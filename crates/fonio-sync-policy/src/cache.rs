//! The contract of databases that are never synced.
//!
//! The marker `x-fonio-boot` is next to the database `x`. The marker contains the id of the last boot during
//! which `x` was written without sync.
//!
//! Invariant: the marker of a boot is durable before the first unsynced write of that boot. Therefore, if the
//! marker names an earlier boot that did not end cleanly, any writes since the beginning of that boot may be
//! lost. Without a marker, every write was synced. The database's files are removed before the marker, so if
//! the power is cut in between, the remaining files are removed next time. Killing a program is harmless,
//! because its writes are in the page cache, and the marker names the current boot.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::iter;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::boots::{Boots, replace, sync_folder};
use crate::error::PolicyError;

/// The suffixes of SQLite's additional files: the write-ahead log, the log's index, and the rollback journal.
pub const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

pub(crate) const MARKER: &str = "-fonio-boot";

/// The bytes that SQLite locks: the bytes from `PENDING_BYTE` on in a database (os.h), and the bytes from
/// `UNIX_SHM_BASE` to `UNIX_SHM_DMS` in the index of a write-ahead log (os_unix.c).
const LOCKS: [(&str, u64, u64); 2] = [("", 0x4000_0000, 512), ("-shm", 120, 9)];

/// The state of a database according to its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no marker: all writes were synced as the program requested.
    Synced,
    /// The marker was written in this boot.
    OfThisBoot,
    /// The marker was written in an earlier boot, which ended cleanly.
    Kept,
    /// The marker was written in an earlier boot, which did not end cleanly.
    Stale,
}

/// A database of the class `cache`.
#[derive(Clone, Debug)]
pub struct Cache {
    database: PathBuf,
}

impl Cache {
    /// Creates the cache at an absolute path; the database need not exist.
    pub fn at(database: &Path) -> Cache {
        Cache { database: database.to_owned() }
    }

    /// Returns the database of a marker; `None` for other files.
    pub fn of_marker(marker: &Path) -> Option<Cache> {
        let database = marker.to_str()?.strip_suffix(MARKER)?;
        Some(Cache { database: database.into() })
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.database
    }

    fn with(&self, end: &str) -> PathBuf {
        let mut path: OsString = self.database.clone().into();
        path.push(end);
        path.into()
    }

    /// Reads the state of the database from its marker.
    pub fn state(&self, boots: &Boots) -> Result<State, PolicyError> {
        let marker = self.with(MARKER);
        match fs::read_to_string(&marker) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(State::Synced),
            Err(error) if error.kind() == ErrorKind::InvalidData => Ok(State::Stale),
            Err(error) => Err(PolicyError::system("read", marker)(error)),
            Ok(id) if id.trim() == boots.current() => Ok(State::OfThisBoot),
            Ok(id) if boots.ended_cleanly(id.trim()) => Ok(State::Kept),
            Ok(_) => Ok(State::Stale),
        }
    }

    /// Removes the database if it is stale, and returns the removed files. After the removal, the state of
    /// the database is the same as if it had always been synced. Fails with [`PolicyError::InUse`] or
    /// [`PolicyError::System`]; the database must then not be read.
    pub fn remove_stale(&self, boots: &Boots) -> Result<Option<Vec<PathBuf>>, PolicyError> {
        if self.state(boots)? != State::Stale {
            return Ok(None);
        }
        let _lock = self.lock()?;
        // Another process may have removed the database first.
        if self.state(boots)? != State::Stale {
            return Ok(None);
        }
        self.check_unused()?;
        let mut removed = Vec::new();
        for end in iter::once("").chain(COMPANIONS) {
            let path = self.with(end);
            match fs::remove_file(&path) {
                Ok(()) => removed.push(path),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(PolicyError::system("remove the stale cache", path)(error)),
            }
        }
        sync_folder(&self.database).map_err(PolicyError::system("sync the folder of", &self.database))?;
        let marker = self.with(MARKER);
        fs::remove_file(&marker).map_err(PolicyError::system("remove", marker))?;
        Ok(Some(removed))
    }

    /// Writes the id of this boot to the marker. Afterwards, writes to the database need no sync. Fails with
    /// [`PolicyError::System`], for example if the disk is full; then writes still need a sync. Panics if the
    /// database is stale.
    pub fn mark(&self, boots: &Boots) -> Result<(), PolicyError> {
        match self.state(boots)? {
            State::OfThisBoot => return Ok(()),
            State::Stale => panic!("a stale database must not be marked with this boot"),
            State::Synced | State::Kept => {}
        }
        let _lock = self.lock()?;
        let like = fs::metadata(&self.database).ok();
        replace(&self.with(MARKER), &format!("{}\n", boots.current()), like.as_ref())
    }

    /// Locks the folder, so that no other process removes or marks databases in the folder at the same time.
    fn lock(&self) -> Result<File, PolicyError> {
        let folder = self.database.parent().unwrap_or(Path::new("/"));
        let file = File::open(folder).map_err(PolicyError::system("open", folder))?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)
            .map_err(|error| PolicyError::system("lock", folder)(error.into()))?;
        Ok(file)
    }

    /// Returns an error if another process holds SQLite locks on the database.
    fn check_unused(&self) -> Result<(), PolicyError> {
        for (end, start, length) in LOCKS {
            let path = self.with(end);
            let file = match File::options().read(true).write(true).open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                file => file.map_err(PolicyError::system("open", &path))?,
            };
            let wanted = Flock { start, length, ..Flock::from(FlockType::WriteLock) };
            let held = fcntl_getlk(&file, &wanted)
                .map_err(|error| PolicyError::system("ask for locks of", &path)(error.into()))?;
            if let Some(held) = held {
                let pid = held.pid.map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
                return Err(PolicyError::InUse { path: self.database.clone(), pid });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a database and all its files, and the boots "now", "then" and "clean". Of these boots,
    /// only "clean" ended cleanly.
    struct Bed {
        dir: tempfile::TempDir,
        boots: Boots,
        cache: Cache,
    }

    impl Bed {
        fn new(marker: Option<&str>) -> Bed {
            let dir = tempfile::tempdir().expect("dir");
            let id = dir.path().join("id");
            fs::write(&id, "now\n").expect("write");
            fs::write(dir.path().join("clean"), "clean\n").expect("write");
            let boots = Boots::read_from(&id, &dir.path().join("clean")).expect("boots");
            let folder = dir.path().join("app");
            fs::create_dir(&folder).expect("mkdir");
            let database = folder.join("x.db");
            for end in ["", "-wal", "-shm", "-journal"] {
                fs::write(folder.join(format!("x.db{end}")), "content").expect("write");
            }
            fs::write(folder.join("x.db-other"), "not SQLite's").expect("write");
            if let Some(marker) = marker {
                fs::write(folder.join("x.db-fonio-boot"), marker).expect("write");
            }
            Bed { boots, cache: Cache::at(&database), dir }
        }

        fn files(&self) -> Vec<String> {
            let entries = fs::read_dir(self.dir.path().join("app")).expect("list");
            let mut names: Vec<String> = entries
                .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names
        }
    }

    #[test]
    fn only_an_unclean_boot_removes_and_it_removes_all_files() {
        for (marker, state) in [
            (None, State::Synced),
            (Some("now\n"), State::OfThisBoot),
            (Some("clean\n"), State::Kept),
            (Some("then\n"), State::Stale),
            (Some(""), State::Stale),
        ] {
            let bed = Bed::new(marker);
            assert_eq!(bed.cache.state(&bed.boots).expect("state"), state, "{marker:?}");
            let before = bed.files();
            let removed = bed.cache.remove_stale(&bed.boots).expect("removed");
            assert_eq!(removed.is_some(), state == State::Stale, "{marker:?}");
            let after = bed.files();
            if state == State::Stale {
                assert_eq!(after, ["x.db-other"], "{marker:?}");
            } else {
                assert_eq!(after, before, "{marker:?}");
            }
            bed.cache.mark(&bed.boots).expect("marked");
            assert_eq!(bed.cache.state(&bed.boots).expect("state"), State::OfThisBoot);
        }
    }

    #[test]
    fn a_removal_that_a_power_cut_ended_is_finished() {
        let bed = Bed::new(Some("then\n"));
        fs::remove_file(bed.cache.path()).expect("half of it");
        let removed = bed.cache.remove_stale(&bed.boots).expect("removed").expect("it is stale");
        assert_eq!(removed.len(), 3);
        assert_eq!(bed.files(), ["x.db-other"]);
    }

    #[test]
    fn markers_name_their_database() {
        let cache = Cache::of_marker(Path::new("/srv/x.db-fonio-boot")).expect("a marker");
        assert_eq!(cache.path(), Path::new("/srv/x.db"));
        assert!(Cache::of_marker(Path::new("/srv/x.db-wal")).is_none());
    }
}
