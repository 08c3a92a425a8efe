//! `fonio record`.

use anyhow::Result;
use fonio_core::BlockedIn;

use crate::cli::Record;
use crate::exit::Exit;

/// Records, prints a summary of the recording and the next command. The exit code is that of the recorded command.
pub fn run(arguments: &Record) -> Result<Exit> {
    fonio_recorder::run(arguments, words)
}

/// Says where a thread was blocked, as reports do.
pub fn words(blocked_in: BlockedIn) -> String {
    fonio_analysis::waits::blocked::doing(blocked_in.name(), None, None)
}
