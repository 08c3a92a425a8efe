//! How much room the file system of a recording still has.
//!
//! A table is of no use without its end, which is written last. So its writer must stop before the file system is full:
//! when what is left just holds the rows that were taken, and the ends of all tables.

use std::path::{Path, PathBuf};

use crate::RecordingError;

/// Room for the ends of the tables of events, and for all that comes after them.
const EVENTS_MARGIN: u64 = 256 << 10;
/// Room for the ends of the other tables (a few KiB each), for `meta.json` and for diagnostics.
const REST_MARGIN: u64 = 128 << 10;

/// The file system that a recording is written to.
#[derive(Clone, Debug)]
pub(super) struct Room {
    dir: PathBuf,
}

/// What a file system still takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Takes {
    /// Neither further events nor anything else.
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

    /// Says what it still takes beside `unwritten` bytes of rows that were taken before.
    pub(super) fn takes(&self, unwritten: u64) -> Result<Takes, RecordingError> {
        let stat = rustix::fs::statvfs(&self.dir);
        let stat = stat.map_err(|errno| RecordingError::io("find the room in", &self.dir)(errno.into()))?;
        // Root may use the reserve that others may not.
        let blocks = if rustix::process::geteuid().is_root() { stat.f_bfree } else { stat.f_bavail };
        Ok(takes(blocks.saturating_mul(stat.f_frsize), unwritten))
    }
}

fn takes(free: u64, unwritten: u64) -> Takes {
    // The size of encoded rows is an estimate until they are written.
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
