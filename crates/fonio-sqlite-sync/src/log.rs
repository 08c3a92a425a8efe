//! The write-ahead log of an open database, in each process that uses it.

use std::sync::{Arc, Mutex, PoisonError};

use crate::wal::Wal;
use crate::world::World;

/// A hooked write-ahead log. After fork(2), a child can continue to use the log; its writes are then synced
/// by the child.
pub struct Log {
    last: Mutex<(usize, Arc<Wal>)>,
}

impl Log {
    /// Makes this process sync the log.
    pub fn new(wal: Wal) -> std::io::Result<Log> {
        let (world, wal) = (World::get(), Arc::new(wal));
        world.syncer.add(&wal)?;
        Ok(Log { last: Mutex::new((world.number(), wal)) })
    }

    /// Returns the log's state in this process. In a child process, the first call starts the thread that
    /// syncs the log.
    pub fn wal(&self) -> Arc<Wal> {
        let world = World::get();
        // Only the thread that uses the connection takes this lock, so the lock is free in a child.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0 != world.number() {
            let wal = Arc::new(last.1.in_child());
            if let Err(error) = world.syncer.add(&wal) {
                wal.sync_each_write();
                world.said.once(&format!(
                    "cannot start a thread in this child process: {error}. It syncs each write to {} itself.",
                    wal.path().display()
                ));
            }
            *last = (world.number(), wal);
        }
        Arc::clone(&last.1)
    }

    /// Returns the log's state, if this process has used the log.
    pub fn wal_if_used(&self) -> Option<Arc<Wal>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        (last.0 == World::get().number()).then(|| Arc::clone(&last.1))
    }
}
