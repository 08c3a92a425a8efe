//! The class `learn`: counts the writes and syncs of a database, and suggests a class.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::say::say;

/// The kinds of files of a database.
#[derive(Clone, Copy)]
pub enum Part {
    Database,
    Log,
    Journal,
}

/// The observed writes and syncs of a database since it was opened.
#[derive(Default)]
pub struct Seen {
    counts: [Counts; 3],
}

#[derive(Default)]
struct Counts {
    writes: AtomicU64,
    syncs: AtomicU64,
}

impl Seen {
    pub fn new() -> Arc<Seen> {
        Arc::default()
    }

    fn of(&self, part: Part) -> &Counts {
        &self.counts[part as usize]
    }

    pub fn count_write(&self, part: Part) {
        self.of(part).writes.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_sync(&self, part: Part) {
        self.of(part).syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Prints which class suits the database, if the program wrote to it.
    pub fn suggest(&self, database: &Path) {
        if let Some(suggestion) = self.suggestion(database) {
            say(&suggestion);
        }
    }

    fn suggestion(&self, database: &Path) -> Option<String> {
        let [data, log, journal] = [Part::Database, Part::Log, Part::Journal].map(|part| {
            let counts = self.of(part);
            (counts.writes.load(Ordering::Relaxed), counts.syncs.load(Ordering::Relaxed))
        });
        if data.0 + log.0 + journal.0 == 0 {
            return None;
        }
        let mut text = format!("{}: ", database.display());
        for (name, (writes, syncs)) in [("database", data), ("write-ahead log", log), ("journal", journal)] {
            if writes + syncs > 0 {
                let _ = write!(text, "{writes} writes and {syncs} syncs of the {name}; ");
            }
        }
        let is_cache = database.to_string_lossy().to_lowercase().contains("cache");
        text += if log.1 > data.1 {
            // A checkpoint syncs the log once and the database once; all other syncs of the log belong to
            // commits.
            "class \"ordered\" would sync commits together, and a power cut would lose at most the commits of one window"
        } else if journal.1 > 0 {
            "class \"ordered\" with to-wal = true would change it to a write-ahead log and sync commits together, and a power cut would lose at most the commits of one window"
        } else {
            "class \"durable\": the program rarely syncs"
        };
        if is_cache && data.1 + log.1 + journal.1 > 0 {
            text += "; if all its data can be downloaded again, as its path suggests, class \"cache\" would sync nothing";
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggestion_follows_the_syncs() {
        let check = |path: &str, counts: [(u64, u64); 3], class: &str| {
            let seen = Seen::new();
            for (of, (writes, syncs)) in seen.counts.iter().zip(counts) {
                of.writes.store(writes, Ordering::Relaxed);
                of.syncs.store(syncs, Ordering::Relaxed);
            }
            let said = seen.suggestion(Path::new(path)).expect("something was written");
            assert!(said.contains(&format!("class \"{class}\"")), "{said}");
            said
        };
        check("/srv/a.db", [(10, 1), (200, 101), (0, 0)], "ordered");
        check("/srv/a.db", [(10, 1), (200, 1), (0, 0)], "durable");
        assert!(check("/srv/a.db", [(10, 5), (0, 0), (10, 10)], "ordered").contains("to-wal = true"));
        check("/var/cache/a.db", [(10, 1), (200, 101), (0, 0)], "cache");
        assert_eq!(Seen::new().suggestion(Path::new("/srv/a.db")), None);
    }
}
