//! The signals that end a run: SIGINT, SIGTERM and SIGHUP.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use fonio_system::signals;

pub use fonio_system::signals::exit_code;

/// Makes the signals set the returned flag from now on, instead of ending the process.
pub fn watch() -> Result<Arc<AtomicBool>> {
    signals::watch(&signals::ENDING).context("cannot watch for Ctrl-C")
}
