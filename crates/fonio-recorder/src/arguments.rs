//! The arguments of `fonio record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fonio_core::quantity::{parse_bytes, parse_duration};

/// The arguments of `fonio record` and `fonio-recorder`.
#[derive(Debug, Args)]
pub struct Record {
    /// Look only at this device. Repeatable.
    ///
    /// Examples: /dev/mmcblk0, mmcblk0, 179:0.
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Look only at the device that holds this file or directory. Repeatable.
    #[arg(long, value_name = "PATH")]
    pub path: Vec<PathBuf>,
    /// End after this time.
    ///
    /// Examples: 30s, 5min. By default, the recording ends when the command ends, or at Ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub time: Option<Duration>,
    /// Write the result to this path.
    ///
    /// PATH is a new folder for the recording.
    #[arg(short, long = "output", value_name = "PATH", default_value = "fonio-recording")]
    pub out: PathBuf,
    /// Replace an existing recording.
    #[arg(long)]
    pub overwrite: bool,
    /// Buffer events in memory up to this size.
    ///
    /// If all events fit, nothing is written to disk before the end.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "256MiB")]
    pub buffer: u64,
    /// Spill events to this directory when the buffer is full, best on another device.
    ///
    /// By default, the recording ends when the buffer is full.
    #[arg(long = "spill-to", value_name = "DIR")]
    pub spill: Option<PathBuf>,
    /// Set the size of the kernel's ring buffer per processor.
    ///
    /// Increase it if events are lost.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub kernel_buffer: Option<u64>,
    /// Sample CPU, memory, disks, network, pressure and temperature at this interval.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "500ms")]
    pub interval: Duration,
    /// Also record why the command's threads were blocked and what woke them, so the report shows where time
    /// went.
    #[arg(long, requires = "command")]
    pub waits: bool,
    /// Replacement of names.
    #[command(flatten)]
    pub redact: Redact,
    /// Also record the command's file-system calls, so the report shows the cost of each SQLite transaction.
    #[arg(long, requires = "command")]
    pub calls: bool,
    /// Data to record in addition to requests.
    #[command(flatten)]
    pub extras: Extras,
    /// The command to record, after `--`.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Data that `fonio check` and `fonio record` can record in addition to requests.
#[derive(Clone, Debug, Args)]
pub struct Extras {
    /// Choose how to record blocked threads.
    ///
    /// Default: BPF, or tracefs if the kernel has no BPF. tracefs shows less than BPF.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Blocked::Auto, hide_default_value = true)]
    pub blocked: Blocked,
    /// Also record the file-system calls of this running process and its later children. Repeatable.
    #[arg(long, value_name = "PID")]
    pub calls_of: Vec<u32>,
    /// Do not record the SQL statements of SQLite together with file-system calls.
    ///
    /// By default, SQL statements are recorded without their values.
    #[arg(long)]
    pub no_statements: bool,
}

/// Method of recording blocked threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Blocked {
    /// By BPF, or by tracefs if the kernel has no BPF.
    #[default]
    Auto,
    /// By BPF (Linux 5.15 or later).
    Bpf,
    /// By scheduler events in tracefs.
    Tracefs,
    /// Not at all.
    None,
}

/// The heading of [`Redact`].
pub const REDACTION: &str = "Redaction";

/// Replacement of names, so the result can be shared.
#[derive(Clone, Debug, Args)]
pub struct Redact {
    /// Replace names with tokens; equal names get equal tokens.
    ///
    /// Tokens replace paths, command lines, and the names of processes, units, containers, the machine and
    /// network interfaces. Sizes, times and models of devices stay.
    #[arg(long, help_heading = REDACTION)]
    pub redact: bool,
    /// Use this file as the key for tokens (16 bytes or more).
    ///
    /// With the same key, a name gets the same token in all recordings. Default: a random key that is not
    /// stored.
    #[arg(long, value_name = "FILE", requires = "redact", help_heading = REDACTION)]
    pub redact_key: Option<PathBuf>,
}

impl Redact {
    /// Returns the key, if names must be replaced. Fails if the file cannot be read or is too short.
    pub fn key(&self) -> anyhow::Result<Option<fonio_recording::Key>> {
        Ok(match (&self.redact_key, self.redact) {
            (Some(path), _) => Some(fonio_recording::Key::from_file(path)?),
            (None, true) => Some(fonio_recording::Key::random()?),
            (None, false) => None,
        })
    }
}

/// Parses a time above 0. Fails if the text is not a time, or a time of 0.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("write a time above 0, such as 40s".to_owned()) } else { Ok(time) }
}
