//! Reads the history of a watch.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use fonio_watch::{Folders, History};

/// Returns whether the watch has not written a minute.
pub(super) fn history_is_empty(history: &History) -> bool {
    history.minutes.is_empty() && history.hours.is_empty() && history.days.is_empty()
}

/// Reads the history and the minutes in memory, and accepts that there are none.
pub(super) fn history_of(folders: &Folders) -> Result<History> {
    let mut history = History::read(&folders.rings())?;
    history.minutes.extend(folders.read_unwritten());
    Ok(history)
}

/// Returns the seconds since 1970.
pub(super) fn now() -> Result<i64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970; set it")?;
    Ok(i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}
