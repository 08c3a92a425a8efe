//! The parsers of a phone's answers, for the fuzz target `phone`. Everything that a phone says is foreign: the cable can end
//! in anything.

use std::io;
use std::path::Path;

use crate::counters::{self, AppIo};
use crate::phone::Phone;
use crate::recorder;
use crate::storage::{self, Storage};

/// Reads what the recorder sends, and writes the files of the recording into a folder. Returns their size in bytes.
///
/// # Errors
/// Returns the reason if the recording is incomplete.
pub fn recording(mut bytes: &[u8], folder: &Path) -> Result<u64, String> {
    let mut size = 0;
    recorder::receive(&mut bytes, folder, &mut size, &mut |_| {}).map(|()| size)
}

/// Parses `dumpsys storaged`. Returns the end of its last span in seconds since 1970, and what each app did in the spans that
/// ended after `after`.
pub fn storaged(text: &str, after: u64) -> Option<(u64, Vec<AppIo>)> {
    counters::storaged(text, after)
}

/// Parses two readings of `/proc/uid_io/stats`, and returns what apps did between them.
pub fn uid_io(before: &str, after: &str) -> Vec<AppIo> {
    counters::since(&counters::parse(before), &counters::parse(after))
}

/// Parses `pm list packages -U`. Returns each user id with its packages.
pub fn packages(text: &str) -> Vec<(u32, Vec<String>)> {
    counters::packages_of(text).into_iter().collect()
}

/// Writes the description of a phone's storage into a folder.
///
/// # Errors
/// Fails if the folder cannot be written.
pub fn storage(text: &str, folder: &Path) -> io::Result<Storage> {
    storage::copy(text, folder)
}

/// Parses the facts about a phone.
pub fn facts(text: &str) -> Phone {
    Phone::parse(text)
}
