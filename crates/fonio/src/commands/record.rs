//! Implements `fonio record`.

use anyhow::Result;
use fonio_core::BlockedIn;

use crate::cli::RecordHere;
use crate::commands::android;
use crate::exit::Exit;

/// Records, and prints a summary of the recording and the next command to run. Returns the recorded command's
/// exit code.
pub fn run(arguments: &RecordHere) -> Result<Exit> {
    match &arguments.place {
        Some(place) => android::run(place, arguments.recorder.as_deref(), &arguments.record),
        None => fonio_recorder::run(&arguments.record, words),
    }
}

/// Formats the operation in which a thread was blocked, as in reports.
pub fn words(blocked_in: BlockedIn) -> String {
    fonio_analysis::waits::blocked::doing(blocked_in.name(), None, None)
}
