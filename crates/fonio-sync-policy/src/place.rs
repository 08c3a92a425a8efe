//! A database that is never synced, its marker, and its other files, in their folder.
//!
//! Only the state and the marking are needed while a program syncs a file, possibly in a signal handler.
//! These functions allocate no memory and wait for no lock.

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::{self, Errno};

use crate::boots::Boots;
use crate::fault::Fault;
use crate::folder::{Folder, Name, is_regular, is_writable_by_others};

/// The suffixes of SQLite's additional files: the write-ahead log, the log's index, and the rollback journal.
pub const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

pub(crate) const MARKER: &str = "-fonio-boot";

/// The first bytes of every database (<https://www.sqlite.org/fileformat.html>, 1.3).
pub const HEADER: &[u8; 16] = b"SQLite format 3\0";

/// The longest path of a database, as in SQLite (`MAX_PATHNAME` in os_unix.c).
pub const PATH_BYTES_MAX: usize = 512;

/// The permissions of a marker. Only its owner can open it, so only its owner can hold its lock.
const MARKER_MODE: Mode = Mode::from_raw_mode(0o600);

/// The state of a database according to its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no marker, so every write to the database was synced.
    Synced,
    /// The marker was written in this boot.
    OfThisBoot,
    /// The marker was written in an earlier boot, which ended cleanly.
    Kept,
    /// The marker was written in an earlier boot, which did not end cleanly.
    Stale,
    /// Somebody other than the database's owner can have written the marker, so it counts for nothing.
    Distrusted(Fault),
}

/// The folder of a database, and the database's name.
pub(crate) struct Place<'p> {
    folder: Folder,
    name: &'p [u8],
    marker: Name,
}

impl<'p> Place<'p> {
    /// Opens the folder of the database at this absolute path.
    pub(crate) fn open(path: &'p [u8]) -> Result<Place<'p>, Fault> {
        if path.len() > PATH_BYTES_MAX {
            return Err(Fault::System { action: "open", error: Errno::NAMETOOLONG });
        }
        let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let (folder, name) = (&path[..slash], &path[(slash + 1).min(path.len())..]);
        if name.is_empty() || name == b"." || name == b".." {
            return Err(Fault::NotAFile);
        }
        let folder = Folder::open(if folder.is_empty() { b"/" } else { folder })?;
        Ok(Place { folder, name, marker: Name::new(&[name, MARKER.as_bytes()])? })
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn marker(&self) -> &Name {
        &self.marker
    }

    /// Returns the name of a file of the database; the suffix is empty for the database itself.
    pub(crate) fn file(&self, suffix: &str) -> Result<Name, Fault> {
        Name::new(&[self.name, suffix.as_bytes()])
    }

    /// Returns the owner of the database or, if there is no database, of the marker.
    pub(crate) fn owner(&self) -> Result<Option<u32>, Fault> {
        if let Some(stat) = self.database()? {
            return Ok(Some(stat.st_uid));
        }
        Ok(self.folder.stat(&self.marker)?.map(|stat| stat.st_uid))
    }

    fn database(&self) -> Result<Option<Stat>, Fault> {
        match self.folder.stat(&self.file("")?)? {
            Some(stat) if !is_regular(&stat) => Err(Fault::NotAFile),
            stat => Ok(stat),
        }
    }

    /// Reads the state of the database from its marker. Fails if the marker cannot be read.
    pub(crate) fn state(&self, boots: &Boots) -> Result<State, Fault> {
        let Some(marker) = self.folder.stat(&self.marker)? else { return Ok(State::Synced) };
        let of_database = match self.database() {
            Ok(Some(stat)) => stat.st_uid,
            Ok(None) => marker.st_uid,
            Err(fault) => return Ok(State::Distrusted(fault)),
        };
        if let Err(fault) = self.check_marker(&marker, of_database) {
            return Ok(State::Distrusted(fault));
        }
        let (file, _) = self.folder.open_file(&self.marker, OFlags::RDONLY)?;
        let mut content = [0; 64];
        let length = io::pread(&file, &mut content[..], 0).map_err(Fault::system("read the marker of"))?;
        let id = content[..length].trim_ascii();
        Ok(if id == boots.current().as_bytes() {
            State::OfThisBoot
        } else if boots.ended_cleanly(id) {
            State::Kept
        } else {
            State::Stale
        })
    }

    /// Fails if others than the database's owner and root can have written the marker.
    fn check_marker(&self, marker: &Stat, of_database: u32) -> Result<(), Fault> {
        if !is_regular(marker) {
            return Err(Fault::MarkerKind);
        }
        if marker.st_uid != of_database {
            return Err(Fault::MarkerOwner { uid: marker.st_uid, of_database });
        }
        if is_writable_by_others(marker) {
            return Err(Fault::MarkerWritable { mode: marker.st_mode & 0o7777 });
        }
        self.folder.check_owner(of_database)
    }

    /// Writes the id of this boot to the marker, and returns the marker's attributes. The caller has synced
    /// the header of the database.
    pub(crate) fn mark(&self, boots: &Boots) -> Result<Stat, Fault> {
        let Some(database) = self.database()? else {
            return Err(Fault::System { action: "find", error: Errno::NOENT });
        };
        if database.st_uid != rustix::process::geteuid().as_raw() {
            return Err(Fault::NotOwner { uid: database.st_uid });
        }
        self.folder.check_owner(database.st_uid)?;
        match self.state(boots)? {
            State::OfThisBoot => {}
            State::Stale => return Err(Fault::Stale),
            State::Distrusted(fault) => return Err(fault),
            State::Synced | State::Kept => self.write_marker(boots.current().as_bytes())?,
        }
        let missing = Fault::System { action: "find the marker of", error: Errno::NOENT };
        self.folder.stat(&self.marker)?.ok_or(missing)
    }

    /// Writes the id of a boot to the marker.
    pub(crate) fn write_marker(&self, boot: &[u8]) -> Result<(), Fault> {
        let content = Name::new(&[boot, b"\n"])?;
        self.folder.replace(&self.marker, content.get(), MARKER_MODE)
    }
}
