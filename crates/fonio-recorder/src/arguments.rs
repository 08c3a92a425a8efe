//! The arguments of `fonio record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fonio_core::quantity::{parse_bytes, parse_duration};

/// The arguments of `fonio record`, and those of `fonio-recorder`.
#[derive(Debug, Args)]
pub struct Record {
    /// Look only at this device. Repeatable.
    ///
    /// /dev/mmcblk0, mmcblk0 or 179:0.
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Look only at the device that holds this file or directory. Repeatable.
    #[arg(long, value_name = "PATH")]
    pub path: Vec<PathBuf>,
    /// End after this time.
    ///
    /// 30s, 5min. Default: when the command ends, or at Ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub time: Option<Duration>,
    /// Write the result to this path.
    ///
    /// A new folder for the recording.
    #[arg(short, long = "output", value_name = "PATH", default_value = "fonio-recording")]
    pub out: PathBuf,
    /// Replace an existing recording.
    #[arg(long)]
    pub overwrite: bool,
    /// Hold events in this much memory.
    ///
    /// While they fit, the recorder writes nothing to disk before the end.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "256MiB")]
    pub buffer: u64,
    /// Move events into this directory when the buffer is full, best on another device.
    ///
    /// Default: the recording ends then.
    #[arg(long = "spill-to", value_name = "DIR")]
    pub spill: Option<PathBuf>,
    /// Give the kernel's ring buffer this size for each processor.
    ///
    /// Increase it if events are lost.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub kernel_buffer: Option<u64>,
    /// Sample CPU, memory, disks, network, pressure and temperature this often.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "500ms")]
    pub interval: Duration,
    /// Also record why the command's threads were blocked and what woke them, so that the report shows where time went.
    #[arg(long, requires = "command")]
    pub waits: bool,
    /// How names are replaced.
    #[command(flatten)]
    pub redact: Redact,
    /// Also record the command's file-system calls, so that the report shows what each SQLite transaction cost.
    #[arg(long, requires = "command")]
    pub calls: bool,
    /// The recorded extras.
    #[command(flatten)]
    pub extras: Extras,
    /// The command to record, after `--`.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// The extras that `fonio check` and `fonio record` record in addition to requests.
#[derive(Clone, Debug, Args)]
pub struct Extras {
    /// Record in this way which threads were blocked.
    ///
    /// Default: by BPF; where the kernel has no BPF, by tracefs, which shows less.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Blocked::Auto, hide_default_value = true)]
    pub blocked: Blocked,
    /// Also record the file-system calls of this running process and of its later children. Repeatable.
    #[arg(long, value_name = "PID")]
    pub calls_of: Vec<u32>,
    /// Do not record the SQL statements of SQLite with file-system calls.
    ///
    /// Default: they are recorded, without their values.
    #[arg(long)]
    pub no_statements: bool,
}

/// How to record which threads were blocked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Blocked {
    /// By BPF, or by tracefs where the kernel has no BPF.
    #[default]
    Auto,
    /// By BPF (Linux 5.15 or later).
    Bpf,
    /// By events of the scheduler in tracefs.
    Tracefs,
    /// Not at all.
    None,
}

/// The heading of [`Redact`].
pub const REDACTION: &str = "Redaction";

/// How names are replaced, so that the result can be passed on.
#[derive(Clone, Debug, Args)]
pub struct Redact {
    /// Replace names with tokens; equal names get equal tokens.
    ///
    /// Paths, processes, units, containers, command lines, the machine, network interfaces. Sizes, times and models of devices
    /// stay.
    #[arg(long, help_heading = REDACTION)]
    pub redact: bool,
    /// Use this file as the key for tokens (16 bytes or more).
    ///
    /// With the same key, a name gets the same token in several recordings. Default: a random key, which is not kept.
    #[arg(long, value_name = "FILE", requires = "redact", help_heading = REDACTION)]
    pub redact_key: Option<PathBuf>,
}

impl Redact {
    /// The key, if names are to be replaced.
    ///
    /// # Errors
    /// If the file cannot be read or is too short.
    pub fn key(&self) -> anyhow::Result<Option<fonio_recording::Key>> {
        Ok(match (&self.redact_key, self.redact) {
            (Some(path), _) => Some(fonio_recording::Key::from_file(path)?),
            (None, true) => Some(fonio_recording::Key::random()?),
            (None, false) => None,
        })
    }
}

/// Parses a time in which something has to happen.
///
/// # Errors
/// If the text is not a time, or a time of 0.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("write a time above 0, such as 40s".to_owned()) } else { Ok(time) }
}
