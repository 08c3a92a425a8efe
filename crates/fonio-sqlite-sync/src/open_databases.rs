//! The databases under a policy that are open in this process.
//!
//! The policy is applied when a database is first opened. Further connections, and the log and journal that
//! SQLite opens later, follow this decision even if the policy changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::pins::Pinned;
use crate::seen::Seen;
use crate::unsynced::Unsynced;

/// How this library treats a database.
#[derive(Clone)]
pub enum Treatment {
    /// This library syncs the commits in the database's write-ahead log in groups.
    Ordered {
        /// Maximum time span of the transactions that a power cut loses.
        window: Duration,
        /// Whether to change the database to write-ahead mode.
        to_wal: bool,
    },
    /// The database is not synced once its header and its marker are on the disk.
    Unsynced(Arc<Unsynced>),
    /// The database's connections get settings.
    Pinned(Arc<Pinned>),
    /// The database's syncs are counted.
    Watched(Arc<Seen>),
}

#[derive(Default)]
pub struct OpenDatabases(Mutex<BTreeMap<PathBuf, (Treatment, usize)>>);

impl OpenDatabases {
    /// Returns the databases of the parent process, for a child. The list is empty if another thread of the
    /// parent held its lock.
    pub fn inherited(&self) -> OpenDatabases {
        OpenDatabases(Mutex::new(self.0.try_lock().map(|open| open.clone()).unwrap_or_default()))
    }

    /// Returns the treatment of an open database.
    pub fn treatment(&self, database: &Path) -> Option<Treatment> {
        self.0.lock().ok()?.get(database).map(|(treatment, _)| treatment.clone())
    }

    /// Counts one more open file of a database, and returns its treatment. If the database was already
    /// open, its treatment stays the same.
    pub fn opened(&self, database: &Path, treatment: Treatment) -> Option<Treatment> {
        let mut open = self.0.lock().ok()?;
        let entry = open.entry(database.to_owned()).or_insert((treatment, 0));
        entry.1 += 1;
        Some(entry.0.clone())
    }

    /// Reduces the number of a database's open files by one; returns the treatment if no file is open any
    /// more.
    pub fn closed(&self, database: &Path) -> Option<Treatment> {
        let mut open = self.0.lock().ok()?;
        let entry = open.get_mut(database)?;
        entry.1 -= 1;
        if entry.1 > 0 {
            return None;
        }
        open.remove(database).map(|(treatment, _)| treatment)
    }
}
