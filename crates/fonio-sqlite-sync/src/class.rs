//! Decides how to treat a database when it is opened.

use std::ffi::c_int;
use std::path::Path;
use std::time::Duration;

use fonio_sync_policy::{Boots, Cache, Class, PolicyError, Removal, State, network_filesystem};

use crate::open_databases::Treatment;
use crate::seen::Seen;
use crate::sqlite::*;
use crate::unsynced::Unsynced;
use crate::world::World;

/// How long a program waits for another program that removes the same stale cache.
const PATIENCE: Duration = Duration::from_secs(1);

/// How to treat a database.
pub enum Decision {
    /// SQLite syncs the database as usual.
    Durable,
    /// This library replaces some of SQLite's I/O methods for the database's files.
    Treated(Treatment),
    /// The database must not be opened; contains the SQLite error code to return.
    Refused(c_int),
}

/// Decides how to treat a database before it is opened. If the database is a stale cache, removes it first.
pub fn decide(database: &Path, flags: c_int) -> Decision {
    decide_with(database, |boots| {
        let cache = Cache::at(database);
        match cache.remove_stale(boots, PATIENCE) {
            Ok(Removal::NotNeeded) => Ok(()),
            Ok(Removal::Refused(fault)) => {
                let why = fault.about(database);
                World::get().said.once(&format!("{why}. {} stays durable.", database.display()));
                Err(Decision::Durable)
            }
            Ok(Removal::Removed(removed)) => {
                let files: Vec<_> = removed.iter().map(|path| path.display().to_string()).collect();
                World::get().said.once(&format!(
                    "{} is a cache from a boot that did not end cleanly: removed {}",
                    database.display(),
                    files.join(", ")
                ));
                Ok(())
            }
            Err(error) => {
                World::get().said.once(&format!("{error}. It is not opened."));
                let is_used = matches!(error, PolicyError::InUse { .. });
                Err(Decision::Refused(if is_used { SQLITE_BUSY } else { SQLITE_CANTOPEN }))
            }
        }
    })
    .unless_read_only(flags)
}

/// Decides how to treat a database that is already open.
pub fn decide_on_open(database: &Path) -> Decision {
    decide_with(database, |boots| match Cache::at(database).state(boots) {
        Ok(State::Stale) | Err(_) => {
            World::get().said.once(&format!(
                "{} is a cache from a boot that did not end cleanly, and was opened before this library was loaded: close it, and load the library first. It stays durable.",
                database.display()
            ));
            Err(Decision::Durable)
        }
        Ok(_) => Ok(()),
    })
}

impl Decision {
    /// Leaves read-only connections alone, because they have nothing to sync.
    fn unless_read_only(self, flags: c_int) -> Decision {
        match self {
            Decision::Treated(_) if flags & SQLITE_OPEN_READWRITE == 0 => Decision::Durable,
            other => other,
        }
    }
}

/// Decides according to the policy. If the class is `cache`, `not_stale` checks that the database is not
/// stale; its error is the decision about a stale database.
fn decide_with(database: &Path, not_stale: impl FnOnce(&Boots) -> Result<(), Decision>) -> Decision {
    let world = World::get();
    if let Some(treatment) = world.databases.treatment(database) {
        return Decision::Treated(treatment);
    }
    if let Some(pinned) = world.pins.of_database(database) {
        return Decision::Treated(Treatment::Pinned(pinned));
    }
    let class = world.policy().class(database);
    let shown = database.display();
    if class == Class::Durable {
        return Decision::Durable;
    }
    if class == Class::Learn {
        return Decision::Treated(Treatment::Watched(Seen::new()));
    }
    let folder = database.parent().unwrap_or(Path::new("/"));
    match network_filesystem(folder) {
        Ok(None) => {}
        Ok(Some(name)) => {
            world.said.once(&format!(
                "{shown} is on {name}, which other machines can write to, independently of this machine's boots and syncs: the database stays durable"
            ));
            return Decision::Durable;
        }
        Err(error) => {
            world.said.once(&format!("cannot find the file system of {shown}: {error}. It stays durable."));
            return Decision::Durable;
        }
    }
    match class {
        Class::Ordered { window, to_wal } => Decision::Treated(Treatment::Ordered { window, to_wal }),
        Class::Cache { .. } => match Boots::read() {
            Ok(boots) => match not_stale(&boots) {
                Ok(()) => {
                    let unsynced = Unsynced::new(database, |said| World::get().said.once(said));
                    Decision::Treated(Treatment::Unsynced(unsynced))
                }
                Err(decision) => decision,
            },
            Err(error) => {
                world.said.once(&format!("{error}. {shown} stays durable."));
                Decision::Durable
            }
        },
        Class::Durable | Class::Learn => Decision::Durable,
    }
}

/// Prepares the treatment of an open database. If the preparation fails, prints the reason, and the database
/// stays durable.
pub fn is_possible(database: &Path, treatment: &Treatment) -> bool {
    let world = World::get();
    let error = match treatment {
        Treatment::Watched(_) | Treatment::Unsynced(_) | Treatment::Pinned(_) => return true,
        Treatment::Ordered { .. } => {
            world.syncer.enter().err().map(|error| format!("cannot start a thread: {error}"))
        }
    };
    let Some(error) = error else { return true };
    world.said.once(&format!("{error}. {} stays durable.", database.display()));
    false
}
