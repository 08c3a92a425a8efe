//! Measures how much room the file system of a recording has left.
//!
//! A table is useless without its end, which is written last. Its writer must therefore stop before the file system is
//! full: when the free space is just enough for the rows taken so far and the ends of all tables.

use std::path::{Path, PathBuf};

use crate::error::RecordingError;

/// Room for the ends of the event tables, and for everything that is written after them.
const EVENTS_MARGIN: u64 = 256 << 10;
/// Room for the ends of the other tables (a few KiB each), for `meta.json` and for diagnostics.
const REST_MARGIN: u64 = 128 << 10;

/// The file system to which a recording is written.
#[derive(Clone, Debug)]
pub(super) struct Room {
    dir: PathBuf,
}

/// The rows for which a file system still has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Takes {
    /// No rows.
    Nothing,
    /// Threads, files, marks and samples.
    NoEvents,
    /// Every row.
    All,
}

impl Room {
    pub(super) fn of(dir: &Path) -> Room {
        Room { dir: dir.to_owned() }
    }

    /// Returns what it still takes in addition to `unwritten` bytes of rows that were taken before.
    pub(super) fn takes(&self, unwritten: u64) -> Result<Takes, RecordingError> {
        let stat = rustix::fs::statvfs(&self.dir);
        let stat = stat.map_err(|errno| RecordingError::io("find the room in", &self.dir)(errno.into()))?;
        // Root may use the blocks reserved for root.
        let blocks = if rustix::process::geteuid().is_root() { stat.f_bfree } else { stat.f_bavail };
        Ok(takes(blocks.saturating_mul(stat.f_frsize), unwritten))
    }
}

fn takes(free: u64, unwritten: u64) -> Takes {
    // The size of encoded rows is an estimate until they are written, hence the eighth.
    match free.saturating_sub(unwritten + unwritten / 8) {
        EVENTS_MARGIN.. => Takes::All,
        REST_MARGIN.. => Takes::NoEvents,
        _ => Takes::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_decides() {
        for (free, unwritten, expected) in [
            (1 << 30, 0, Takes::All),
            (1 << 20, 512 << 10, Takes::All),
            (1 << 20, 700 << 10, Takes::NoEvents),
            (1 << 20, 900 << 10, Takes::Nothing),
            (EVENTS_MARGIN, 0, Takes::All),
            (EVENTS_MARGIN - 1, 0, Takes::NoEvents),
            (REST_MARGIN, 0, Takes::NoEvents),
            (REST_MARGIN - 1, 0, Takes::Nothing),
            (0, u64::MAX / 2, Takes::Nothing),
        ] {
            assert_eq!(takes(free, unwritten), expected, "{free} free, {unwritten} unwritten");
        }
    }
}
