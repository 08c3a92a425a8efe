//! The folders in which fonio keeps recordings and results for which the user named no place. Only the newest
//! remain.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use fonio_core::ByteCount;
use fonio_system::{dated, state};
use fonio_watch::times;

/// Limits for the earlier folders of a kind that remain when a new one is made.
const EARLIER: dated::Limits = dated::Limits { folders: 4, bytes: ByteCount(1 << 30) };

/// Returns the folder of one kind of results.
pub fn folder(kind: &str) -> Result<PathBuf> {
    Ok(state::lasting_folder().context("this user has no home folder")?.join(kind))
}

/// Returns the path of a new folder for results of this kind, which does not exist yet, and removes old folders
/// there.
pub fn place(kind: &str) -> Result<PathBuf> {
    let folder = folder(kind)?;
    dated::make_room(&folder, EARLIER).with_context(|| format!("cannot use {}", folder.display()))?;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = times::in_file_name(i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX));
    let name = |number: u32| if number == 1 { time.clone() } else { format!("{time}-{number}") };
    let free = (1..).map(|number| folder.join(name(number))).find(|path| !path.exists());
    Ok(free.expect("a folder has fewer files than 2³²"))
}
