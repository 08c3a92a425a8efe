//! The contract of databases that are never synced.
//!
//! The marker `x-fonio-boot` is next to the database `x`. The marker contains the id of the last boot during
//! which `x` was written without sync.
//!
//! Invariant: the database's header and the marker of a boot are durable before the first unsynced write of
//! that boot. Therefore, if the marker names an earlier boot that did not end cleanly, any writes since the
//! beginning of that boot may be lost. Without a marker, every write was synced. The database's files are
//! removed before the marker, so if the power is cut in between, the remaining files are removed next time.
//! Killing a program is harmless, because its writes are in the page cache, and the marker names the current
//! boot.
//!
//! Only a file with the header of a SQLite database is removed, and only with the rights of its owner. A
//! marker counts only if the database's owner wrote it, and if only this user and root can change the folder
//! ([`crate::folder`]). Everybody else can neither cause a removal nor prevent one.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::{self, Errno};
use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::boots::Boots;
use crate::error::PolicyError;
use crate::fault::Fault;
use crate::folder::is_regular;
use crate::place::{COMPANIONS, HEADER, MARKER, Place, State};
use crate::rights::as_user;

/// The bytes that SQLite locks: the bytes from `PENDING_BYTE` on in a database (os.h), and the bytes from
/// `UNIX_SHM_BASE` to `UNIX_SHM_DMS` in the index of a write-ahead log (os_unix.c).
const LOCKS: [(&str, u64, u64); 2] = [("", 0x4000_0000, 512), ("-shm", 120, 9)];

/// A database of the class `cache`.
#[derive(Clone, Debug)]
pub struct Cache {
    database: PathBuf,
}

/// What [`Cache::remove_stale`] has done.
#[derive(Debug)]
pub enum Removal {
    /// The database is not stale.
    NotNeeded,
    /// The database was stale; contains the removed files, without the marker. The state is now the same as
    /// if the database had always been synced.
    Removed(Vec<PathBuf>),
    /// The marker counts for nothing, or the file is not a database. No file was removed, and the database
    /// must be synced.
    Refused(Fault),
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

    fn place(&self) -> Result<Place<'_>, Fault> {
        Place::open(self.database.as_os_str().as_bytes())
    }

    fn with(&self, suffix: &str) -> PathBuf {
        let mut path = self.database.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    fn error(&self, fault: Fault) -> PolicyError {
        PolicyError::of(fault, &self.database)
    }

    /// Reads the state of the database from its marker.
    pub fn state(&self, boots: &Boots) -> Result<State, PolicyError> {
        match self.place() {
            Ok(place) => place.state(boots).map_err(|fault| self.error(fault)),
            Err(fault) => Ok(State::Distrusted(fault)),
        }
    }

    /// Writes the id of this boot to the marker, if the marker does not contain it. Afterwards, writes to the
    /// database need no sync. The caller has checked the header of the database, and synced it if the marker
    /// does not name this boot. Fails if the marker cannot be written, for example because the disk is full,
    /// or because others can change the folder; then writes still need a sync.
    pub fn mark(&self, boots: &Boots) -> Result<(), PolicyError> {
        let marked = self.place().and_then(|place| place.mark(boots));
        marked.map(drop).map_err(|fault| self.error(fault))
    }

    /// Removes the database if it is stale. Waits at most `patience` for another process of the database's
    /// owner that removes the same database. Fails with [`PolicyError::InUse`], [`PolicyError::System`] or
    /// [`PolicyError::Refused`]; the database must then not be read.
    pub fn remove_stale(&self, boots: &Boots, patience: Duration) -> Result<Removal, PolicyError> {
        let place = match self.place() {
            Ok(place) => place,
            Err(fault) => return Ok(Removal::Refused(fault)),
        };
        match place.state(boots).map_err(|fault| self.error(fault))? {
            State::Synced | State::OfThisBoot | State::Kept => return Ok(Removal::NotNeeded),
            State::Distrusted(fault) => return Ok(Removal::Refused(fault)),
            State::Stale => {}
        }
        let Some(owner) = place.owner().map_err(|fault| self.error(fault))? else {
            return Ok(Removal::NotNeeded);
        };
        as_user(owner, || self.remove(&place, owner, boots, patience))
            .map_err(PolicyError::system("take the rights of the owner of", &self.database))?
    }

    /// Removes the database with the rights of its owner.
    fn remove(
        &self,
        place: &Place<'_>,
        owner: u32,
        boots: &Boots,
        patience: Duration,
    ) -> Result<Removal, PolicyError> {
        let error = |fault| self.error(fault);
        let Some(_lock) = self.lock(place, boots, patience)? else { return Ok(Removal::NotNeeded) };
        if place.owner().map_err(error)? != Some(owner) {
            return Ok(Removal::NotNeeded);
        }
        let mut removed = Vec::new();
        match self.content(place).map_err(error)? {
            Content::Other => return Ok(Removal::Refused(Fault::NotADatabase)),
            // There is nothing to lose, so SQLite ignores the other files, and removes them itself.
            Content::None => {}
            Content::Database => {
                self.check_unused(place)?;
                let remove = |suffix: &str, removed: &mut Vec<PathBuf>| -> Result<(), Fault> {
                    let name = place.file(suffix)?;
                    let is_own = |stat: &rustix::fs::Stat| is_regular(stat) && stat.st_uid == owner;
                    if place.folder().stat(&name)?.as_ref().is_some_and(is_own)
                        && place.folder().remove(&name)?
                    {
                        removed.push(self.with(suffix));
                    }
                    Ok(())
                };
                for suffix in COMPANIONS {
                    remove(suffix, &mut removed).map_err(error)?;
                }
                // Only the database shows that the other files are SQLite's, so the database goes last.
                place.folder().sync().map_err(error)?;
                remove("", &mut removed).map_err(error)?;
                place.folder().sync().map_err(error)?;
                // The database comes first.
                removed.sort();
            }
        }
        place.folder().remove(place.marker()).map_err(error)?;
        Ok(Removal::Removed(removed))
    }

    /// Locks the marker of a stale database, so that no other process removes the database at the same time.
    /// Returns `None` if the database is not stale any more.
    fn lock(
        &self,
        place: &Place<'_>,
        boots: &Boots,
        patience: Duration,
    ) -> Result<Option<OwnedFd>, PolicyError> {
        let error = |fault| self.error(fault);
        let begun = Instant::now();
        loop {
            if place.state(boots).map_err(error)? != State::Stale {
                return Ok(None);
            }
            let (file, stat) = match place.folder().open_file(place.marker(), OFlags::RDONLY) {
                Err(Fault::System { error: Errno::NOENT, .. }) => continue,
                opened => opened.map_err(error)?,
            };
            if stat.st_mode & 0o077 != 0 {
                // Others can hold the lock of such a marker, so put a new file in its place.
                let mut id = [0; 36];
                let length = io::pread(&file, &mut id[..], 0)
                    .map_err(|code| error(Fault::system("read the marker of")(code)))?;
                place.write_marker(id[..length].trim_ascii()).map_err(error)?;
                continue;
            }
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) if begun.elapsed() >= patience => return Err(error(Fault::Locked)),
                Err(Errno::WOULDBLOCK) => {
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                }
                Err(code) => return Err(error(Fault::system("lock the marker of")(code))),
            }
            // The process that held the lock may have removed the marker, and a program may have written a
            // new one.
            let now = place.folder().stat(place.marker()).map_err(error)?;
            if now.is_some_and(|now| now.st_ino == stat.st_ino && now.st_dev == stat.st_dev) {
                return Ok(Some(file));
            }
        }
    }

    /// Reads the header of the database. This process does not have the database open, so closing it drops no
    /// locks.
    fn content(&self, place: &Place<'_>) -> Result<Content, Fault> {
        let name = place.file("")?;
        let Some(stat) = place.folder().stat(&name)? else { return Ok(Content::None) };
        if stat.st_size == 0 {
            return Ok(Content::None);
        }
        let (file, _) = place.folder().open_file(&name, OFlags::RDONLY)?;
        let mut header = [0; HEADER.len()];
        let length = io::pread(&file, &mut header[..], 0).map_err(Fault::system("read"))?;
        Ok(if header[..length] == HEADER[..] { Content::Database } else { Content::Other })
    }

    /// Returns an error if another process holds SQLite locks on the database.
    fn check_unused(&self, place: &Place<'_>) -> Result<(), PolicyError> {
        for (suffix, start, length) in LOCKS {
            let name = place.file(suffix).map_err(|fault| self.error(fault))?;
            let file: File = match place.folder().open_file(&name, OFlags::RDWR) {
                Err(Fault::System { error: Errno::NOENT, .. } | Fault::NotAFile) => continue,
                file => file.map_err(|fault| self.error(fault))?.0.into(),
            };
            let wanted = Flock { start, length, ..Flock::from(FlockType::WriteLock) };
            let held = fcntl_getlk(&file, &wanted)
                .map_err(|error| PolicyError::system("ask for locks of", &self.database)(error.into()))?;
            if let Some(held) = held {
                let pid = held.pid.map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
                return Err(PolicyError::InUse { path: self.database.clone(), pid });
            }
        }
        Ok(())
    }
}

/// What a file with a marker contains.
enum Content {
    /// The file is missing or empty.
    None,
    /// The file is a database of SQLite.
    Database,
    /// The file is something else.
    Other,
}

#[cfg(test)]
mod tests {
    use std::fs;

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
            let path = fs::canonicalize(dir.path()).expect("path");
            fs::write(path.join("id"), "now\n").expect("write");
            fs::write(path.join("clean"), "clean\n").expect("write");
            let boots = Boots::read_from(&path.join("id"), &path.join("clean")).expect("boots");
            let folder = path.join("app");
            fs::create_dir(&folder).expect("mkdir");
            let database = folder.join("x.db");
            fs::write(&database, b"SQLite format 3\0 and pages").expect("write");
            for end in COMPANIONS {
                fs::write(folder.join(format!("x.db{end}")), "content").expect("write");
            }
            fs::write(folder.join("x.db-other"), "not SQLite's").expect("write");
            if let Some(marker) = marker {
                fs::write(folder.join("x.db-fonio-boot"), marker).expect("write");
            }
            Bed { boots, cache: Cache::at(&database), dir }
        }

        /// Returns the number of removed files, or `None` if the database is not stale.
        fn removed(&self) -> Option<usize> {
            match self.cache.remove_stale(&self.boots, Duration::ZERO).expect("removed") {
                Removal::NotNeeded => None,
                Removal::Removed(files) => Some(files.len()),
                Removal::Refused(fault) => panic!("{fault:?}"),
            }
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
            let removed = bed.removed();
            assert_eq!(removed.is_some(), state == State::Stale, "{marker:?}");
            let after = bed.files();
            if state == State::Stale {
                assert_eq!(after, ["x.db-other"], "{marker:?}");
                fs::write(bed.cache.path(), HEADER).expect("a new database");
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
        for end in COMPANIONS {
            fs::remove_file(bed.cache.with(end)).expect("half of it");
        }
        assert_eq!(bed.removed(), Some(1));
        assert_eq!(bed.files(), ["x.db-other"]);
        let bed = Bed::new(Some("then\n"));
        for end in COMPANIONS.into_iter().chain([""]) {
            fs::remove_file(bed.cache.with(end)).expect("nearly all of it");
        }
        assert_eq!(bed.removed(), Some(0));
        assert_eq!(bed.files(), ["x.db-other"]);
    }

    #[test]
    fn a_file_that_is_not_a_database_is_never_removed() {
        let long = [b'x'; 4096];
        for content in [&b"key = 1\n"[..], b"SQLite format 2\0", b"S", &[0; 4096], &long] {
            let bed = Bed::new(Some("then\n"));
            fs::write(bed.cache.path(), content).expect("write");
            let before = bed.files();
            let removal = bed.cache.remove_stale(&bed.boots, Duration::ZERO).expect("refused");
            assert!(matches!(removal, Removal::Refused(Fault::NotADatabase)), "{removal:?}");
            assert_eq!(bed.files(), before);
        }
        // An empty file loses its marker only.
        let bed = Bed::new(Some("then\n"));
        fs::write(bed.cache.path(), "").expect("write");
        assert_eq!(bed.removed(), Some(0));
        assert_eq!(bed.files(), ["x.db", "x.db-journal", "x.db-other", "x.db-shm", "x.db-wal"]);
    }

    #[test]
    fn links_and_folders_in_place_of_files_are_left() {
        let bed = Bed::new(Some("then\n"));
        let victim = bed.dir.path().join("victim");
        fs::write(&victim, HEADER).expect("write");
        fs::remove_file(bed.cache.path()).expect("remove");
        std::os::unix::fs::symlink(&victim, bed.cache.path()).expect("link");
        let removal = bed.cache.remove_stale(&bed.boots, Duration::ZERO).expect("refused");
        assert!(matches!(removal, Removal::Refused(Fault::NotAFile)), "{removal:?}");
        assert!(victim.exists());
        let bed = Bed::new(Some("then\n"));
        fs::remove_file(bed.cache.with("-wal")).expect("remove");
        fs::create_dir(bed.cache.with("-wal")).expect("mkdir");
        assert_eq!(bed.removed(), Some(3));
        assert_eq!(bed.files(), ["x.db-other", "x.db-wal"]);
        let bed = Bed::new(None);
        let fifo = bed.cache.with("-fonio-boot");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).expect("a FIFO");
        let removal = bed.cache.remove_stale(&bed.boots, Duration::ZERO).expect("refused");
        assert!(matches!(removal, Removal::Refused(Fault::MarkerKind)), "{removal:?}");
        assert!(bed.cache.mark(&bed.boots).is_err());
    }

    #[test]
    fn a_marker_that_others_can_have_written_counts_for_nothing() {
        use std::os::unix::fs::PermissionsExt;

        let mode = |mode| fs::Permissions::from_mode(mode);
        for folder in [0o1777, 0o777, 0o775] {
            let bed = Bed::new(Some("then\n"));
            fs::set_permissions(bed.cache.path().parent().expect("a folder"), mode(folder)).expect("chmod");
            let before = bed.files();
            let removal = bed.cache.remove_stale(&bed.boots, Duration::ZERO).expect("refused");
            assert!(matches!(removal, Removal::Refused(Fault::FolderWritable { .. })), "{removal:?}");
            let said = bed.cache.mark(&bed.boots).expect_err("not marked").to_string();
            assert!(said.contains("others than its owner can write to the folder "), "{said}");
            assert_eq!(bed.files(), before);
        }
        let bed = Bed::new(Some("then\n"));
        fs::set_permissions(bed.cache.with("-fonio-boot"), mode(0o666)).expect("chmod");
        let removal = bed.cache.remove_stale(&bed.boots, Duration::ZERO).expect("refused");
        assert!(matches!(removal, Removal::Refused(Fault::MarkerWritable { .. })), "{removal:?}");
    }

    #[test]
    fn a_held_lock_does_not_hold_up_a_removal() {
        let bed = Bed::new(Some("then\n"));
        let folder = File::open(bed.cache.path().parent().expect("a folder")).expect("open");
        let marker = File::open(bed.cache.with("-fonio-boot")).expect("open");
        for held in [&folder, &marker] {
            rustix::fs::flock(held, FlockOperation::LockExclusive).expect("lock");
        }
        // The marker is readable by others, so its lock does not count.
        assert_eq!(bed.removed(), Some(4));
        let bed = Bed::new(None);
        bed.cache.mark(&bed.boots).expect("marked");
        let place = bed.cache.place().expect("a place");
        place.write_marker(b"then").expect("write");
        let marker = File::open(bed.cache.with("-fonio-boot")).expect("open");
        rustix::fs::flock(&marker, FlockOperation::LockExclusive).expect("lock");
        let said = bed.cache.remove_stale(&bed.boots, Duration::ZERO).expect_err("locked").to_string();
        assert!(said.contains("another process holds the lock of its marker"), "{said}");
    }

    #[test]
    fn root_removes_with_the_rights_of_the_owner() {
        use std::os::unix::fs::{MetadataExt, chown};

        const OWNER: u32 = 12_345;
        let bed = Bed::new(Some("then\n"));
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = bed.cache.path().parent().expect("a folder").to_owned();
        let own = |names: &[&str]| {
            for name in names {
                chown(bed.cache.with(name), Some(OWNER), Some(OWNER)).expect("chown");
            }
        };
        // The owner cannot remove files from root's folder.
        own(&["", "-wal", "-shm", "-journal", "-fonio-boot"]);
        let before = bed.files();
        assert!(
            bed.cache
                .remove_stale(&bed.boots, Duration::ZERO)
                .expect_err("refused")
                .to_string()
                .contains("denied")
        );
        assert_eq!(bed.files(), before);
        // The folder of the owner can be below a folder that only root can enter.
        chown(&folder, Some(OWNER), Some(OWNER)).expect("chown");
        assert_eq!(bed.removed(), Some(4));
        assert_eq!(bed.files(), ["x.db-other"]);
        assert!(rustix::process::geteuid().is_root());
        // Root's database with root's marker in this folder may come from its owner.
        fs::write(bed.cache.path(), HEADER).expect("write");
        fs::write(bed.cache.with("-fonio-boot"), "then\n").expect("write");
        let removal = bed.cache.remove_stale(&bed.boots, Duration::ZERO).expect("refused");
        assert!(matches!(removal, Removal::Refused(Fault::FolderOwner { .. })), "{removal:?}");
        own(&["-fonio-boot"]);
        let removal = bed.cache.remove_stale(&bed.boots, Duration::ZERO).expect("refused");
        assert!(matches!(removal, Removal::Refused(Fault::MarkerOwner { .. })), "{removal:?}");
        assert_eq!(fs::metadata(bed.cache.path()).expect("it exists").uid(), 0);
        own(&[""]);
        fs::remove_file(bed.cache.with("-fonio-boot")).expect("remove");
        assert!(bed.cache.mark(&bed.boots).is_err(), "root does not mark the file of another user");
    }

    #[test]
    fn markers_name_their_database() {
        let cache = Cache::of_marker(Path::new("/srv/x.db-fonio-boot")).expect("a marker");
        assert_eq!(cache.path(), Path::new("/srv/x.db"));
        assert!(Cache::of_marker(Path::new("/srv/x.db-wal")).is_none());
    }
}
