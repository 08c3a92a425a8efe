//! The databases under a policy that this process has open.
//!
//! The policy decides when a database is opened. Its log and its journal, which SQLite opens later, and further connections follow
//! that decision, even if the policy has changed since.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::seen::Seen;

/// How a database is treated.
#[derive(Clone)]
pub enum Treatment {
    /// Commits in its write-ahead log are synced together.
    Ordered {
        /// The longest time span whose transactions can be lost.
        window: Duration,
        /// Change it to write-ahead mode.
        to_wal: bool,
    },
    /// It is never synced.
    Unsynced,
    /// Its syncs are counted.
    Watched(Arc<Seen>),
}

#[derive(Default)]
pub struct OpenDatabases(Mutex<BTreeMap<PathBuf, (Treatment, usize)>>);

impl OpenDatabases {
    /// Returns how an open database is treated.
    pub fn treatment(&self, database: &Path) -> Option<Treatment> {
        self.0.lock().ok()?.get(database).map(|(treatment, _)| treatment.clone())
    }

    /// Counts one more opened file of a database, and returns how it is treated: as before, if it was open.
    pub fn opened(&self, database: &Path, treatment: Treatment) -> Option<Treatment> {
        let mut open = self.0.lock().ok()?;
        let entry = open.entry(database.to_owned()).or_insert((treatment, 0));
        entry.1 += 1;
        Some(entry.0.clone())
    }

    /// Counts one file less; returns the treatment if that was the last file.
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
