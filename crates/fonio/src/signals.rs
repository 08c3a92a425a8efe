//! Handles signals that end a run (SIGINT, SIGTERM, SIGHUP), and cleans up after killed runs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use fonio_host::Ledger;
use fonio_system::{say, signals};

pub use fonio_system::signals::exit_code;

/// Makes SIGINT, SIGTERM and SIGHUP set the returned flag instead of ending the process.
pub fn watch() -> Result<Arc<AtomicBool>> {
    signals::watch(&signals::ENDING).context("cannot watch for Ctrl-C")
}

/// Cleans up after runs that were killed, and returns the flag that signals such as SIGINT and SIGTERM set.
pub fn begin() -> Result<Arc<AtomicBool>> {
    let stop = watch()?;
    recover()?;
    Ok(stop)
}

/// Cleans up after runs that were killed, and reports the cleanup.
pub fn recover() -> Result<()> {
    let recovery = Ledger::recover(&Ledger::default_dir())?;
    for undone in &recovery.undone {
        say!("Cleaned up after an interrupted run: {undone}");
    }
    for failed in &recovery.failed {
        say!("warning: after an interrupted run, {failed}");
    }
    for left in &recovery.left {
        say!("note: after an interrupted run, {left}");
    }
    Ok(())
}
