//! Measures the free space in the file system of a recording.
//!
//! A table is useless without its footer, and the footer is written last. Therefore, the writer must stop
//! before the file system is full, while there is still room for the accepted rows and the footers of all
//! tables.

use std::path::{Path, PathBuf};

use crate::error::RecordingError;

/// Space for the footers of the event tables, and for everything written after them.
const EVENTS_MARGIN: u64 = 256 << 10;
/// Space for the footers of other tables (a few KiB each), `meta.json` and diagnostics.
const REST_MARGIN: u64 = 128 << 10;

/// The file system on which a recording is written.
#[derive(Clone, Debug)]
pub(super) struct Room {
    dir: PathBuf,
}

/// Kinds of rows that still fit into the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Takes {
    /// No more rows fit.
    Nothing,
    /// Only threads, files, marks and samples fit.
    NoEvents,
    /// All kinds of rows fit.
    All,
}

impl Room {
    pub(super) fn of(dir: &Path) -> Room {
        Room { dir: dir.to_owned() }
    }

    /// Returns which kinds of rows still fit in addition to `unwritten` bytes of accepted rows.
    pub(super) fn takes(&self, unwritten: u64) -> Result<Takes, RecordingError> {
        let stat = rustix::fs::statvfs(&self.dir);
        let stat = stat.map_err(|errno| RecordingError::io("check space in", &self.dir)(errno.into()))?;
        // Only root may use the file system's reserved blocks.
        let blocks = if rustix::process::geteuid().is_root() { stat.f_bfree } else { stat.f_bavail };
        Ok(takes(blocks.saturating_mul(stat.f_frsize), unwritten))
    }
}

fn takes(free: u64, unwritten: u64) -> Takes {
    // The size of the unwritten rows is an estimate, so increase the estimate by an eighth.
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
