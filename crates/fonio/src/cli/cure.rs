//! The command line of `fonio cure`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::parse_time;
use super::per::{Per, parse_per};

/// `fonio cure`.
#[derive(Clone, Debug, Args)]
pub struct Cure {
    /// The systemd unit or container whose stalls are cured. Default: the program that waits most.
    pub unit: Option<String>,
    /// Read this recording or kept stall instead of recording.
    ///
    /// A fix can be tried on the stall itself only if the recording has the calls of the programs (`fonio record
    /// --calls`, and the recordings of this command).
    #[arg(long, value_name = "INPUT", conflicts_with_all = ["time", "command"])]
    pub from: Option<PathBuf>,
    /// End after this time.
    ///
    /// Default: the recording lasts until the kernel has written back old data once (40 s on most machines), or
    /// until the command ends.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub time: Option<Duration>,
    /// Write the result to this path.
    ///
    /// PATH is a new folder for the recording. Default: a folder in /var/lib/fonio/checks, where the newest five
    /// recordings remain.
    #[arg(short, long = "output", value_name = "PATH", conflicts_with = "from")]
    pub out: Option<PathBuf>,
    /// Count units of work: 'order=120', 'order=transactions:*/shop.db', 'order=files:*.pdf', 'order=syncs:*.log', 'order=lines:placed'.
    ///
    /// The result says what each unit waits for storage. The number of units in the recording is given, or is the number
    /// of committed transactions of SQLite databases, of created files or of syncs of files. Lines of output are not
    /// recorded. Paths are absolute, and may contain `*`.
    #[arg(long, value_name = "NAME=COUNT", value_parser = parse_per)]
    pub per: Option<Per>,
    /// Go on without asking.
    ///
    /// A fix that was shown to help is kept across reboots. Fixes with which a power cut can lose more than the last
    /// seconds are not tried.
    #[arg(long)]
    pub yes: bool,
    /// Print what would be done, and change nothing.
    ///
    /// The recording is made; no fix is tried.
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Run and cure this command instead of the programs that run now.
    #[arg(last = true, value_name = "CMD", conflicts_with = "unit")]
    pub command: Vec<OsString>,
}
