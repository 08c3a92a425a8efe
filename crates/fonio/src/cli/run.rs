//! The command lines of `fonio run`, `fonio launch` and `fonio replay`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use fonio_core::quantity::{parse_bytes, parse_duration};
use fonio_experiment::replay::What;
use fonio_experiment::{Candidate, PILOT_ROUNDS};
use fonio_host::{CpuShare, Filesystem, LinkRates};
use fonio_lab::Wanted;
use fonio_record::Quiet;

use super::Place;

/// `fonio run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The workload: a name from the list of workloads, a TOML file (docs/workloads.md), or a real program (app:NAME,
    /// app:NAME:SCRIPT, app:./FOLDER; docs/apps.md); with --in android, the TOML file of a script (docs/phones.md). Default:
    /// print the list.
    pub workload: Option<String>,
    #[command(flatten)]
    pub setup: SetupArgs,
    #[command(flatten)]
    pub work: WorkArgs,
    /// Also run with each of these fixes, separated by commas (`fonio fix` lists them).
    #[arg(long, value_name = "NAMES")]
    pub fix: Option<Candidates>,
    /// Use this file as the recorder for a phone whose root fonio may use.
    ///
    /// FILE is fonio-recorder for the phone's processor, such as fonio-recorder-0.1.0-aarch64-unknown-linux-musl. Default:
    /// the one next to the program fonio.
    #[arg(long, value_name = "FILE", requires = "place")]
    pub recorder: Option<PathBuf>,
    /// Replay a phone's system calls with their original timing, from a trace in mobigen's format.
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    pub mobigen: Option<PathBuf>,
    /// Mobibench's options (`-- -f 1024 -r 4 -a 1`), for the workload `mobibench`.
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<OsString>,
}

/// `fonio launch`.
#[derive(Debug, Args)]
pub struct Launch {
    /// Run the command N times before measuring, and do not drop the page cache.
    ///
    /// Default: no warm-up, and the command's files are dropped from the page cache before each launch.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..1000))]
    pub warmup: Option<u32>,
    /// End the launch when the command is idle, and end a command that does not exit by itself.
    ///
    /// The command is idle if, for TIME, its threads use less than SHARE of a processor and none of them
    /// waits for storage.
    #[arg(
        long,
        value_name = "SHARE:TIME",
        value_parser = parse_quiet,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10%:500ms"
    )]
    pub until_idle: Option<Quiet>,
    /// Copy these files and directories to the command's working directory.
    ///
    /// The working directory is the top directory of the device of --on. Separate several paths by commas.
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub copy: Vec<PathBuf>,
    /// Show the command's output on standard error.
    #[arg(long)]
    pub show_output: bool,
    /// Launch the app of a phone from this state (default: cold).
    ///
    /// cold: the process does not run, and the page cache is dropped if the phone allows it; warm: the process runs,
    /// and the activity is made anew; hot: the activity is only brought to the front.
    #[arg(long, value_name = "STATE", value_enum)]
    pub start: Option<StartState>,
    #[command(flatten)]
    pub setup: SetupArgs,
    /// The command and its arguments.
    #[arg(last = true, value_name = "CMD", required = true)]
    pub command: Vec<OsString>,
}

/// The state from which the app of a phone is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StartState {
    /// The process does not run.
    Cold,
    /// The process runs, and the activity is made anew.
    Warm,
    /// The activity is brought to the front.
    Hot,
}

/// `fonio replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// The recording (`last`: the newest that `fonio check` keeps).
    pub recording: PathBuf,
    /// Replay this layer of the recording.
    #[arg(long, value_enum, value_name = "LAYER", default_value_t = Layer::Blocks)]
    pub layer: Layer,
    /// Replay without pauses, as fast as possible.
    #[arg(long)]
    pub fast: bool,
    /// Also run with each of these fixes, separated by commas (`fonio fix` lists them).
    #[arg(long, value_name = "NAMES")]
    pub fix: Option<Candidates>,
    #[command(flatten)]
    pub setup: SetupArgs,
}

/// The layer of a recording that is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layer {
    /// Reads, writes and flushes of the disk, bypassing the page cache.
    Blocks,
    /// File-system calls (`fonio record --calls`), through the page cache and file system of each target.
    Calls,
}

impl From<Layer> for What {
    fn from(layer: Layer) -> What {
        match layer {
            Layer::Blocks => What::Blocks,
            Layer::Calls => What::Calls,
        }
    }
}

/// The internal roles in which a run starts this program.
#[derive(Clone, Debug, Subcommand)]
pub enum Role {
    /// Serve objects over HTTP.
    Http {
        /// The address to listen on.
        address: SocketAddr,
    },
    /// Prepare and run a workload.
    Task {
        /// The file that describes the task.
        file: PathBuf,
    },
    /// Replay a recording on a file.
    Replay {
        /// The recording.
        recording: PathBuf,
        /// The file or folder prepared for the replay.
        file: PathBuf,
        /// Replay this layer of the recording.
        #[arg(long, value_enum, default_value_t = Layer::Blocks)]
        layer: Layer,
        /// Replay without pauses, as fast as possible.
        #[arg(long)]
        fast: bool,
        /// Write the result to this file.
        #[arg(long, value_name = "FILE")]
        result: PathBuf,
    },
    /// Repeat the calls of a program on command.
    Apart {
        /// The file with the calls.
        file: PathBuf,
    },
    /// Start a prepared workload, and exit when it ends.
    Start {
        /// The socket on which the workload waits.
        socket: PathBuf,
    },
}

/// The target of a run, the number of runs, and the output.
#[derive(Clone, Debug, Args)]
pub struct SetupArgs {
    /// Run on this folder, block device or emulated device. Separate several targets by commas.
    ///
    /// A target is an existing folder, a block device, a profile from `fonio device list`, or an array of
    /// emulated devices (md-raid0:ridata+transcend, assembled by the kernel's md driver). `fonio replay` also
    /// accepts model:PROFILE and then models the device and the schedulers in virtual time, without root.
    /// Default: the current folder.
    #[arg(long, value_name = "PLACE", value_delimiter = ',')]
    pub on: Vec<String>,
    /// Work in this place, not on this machine.
    ///
    /// PLACE is a guest with one of Debian's kernels (`fonio lab list`): lab:6.12, lab:newest.
    /// The guest's clock does not depend on other load of this machine. For `fonio run` and `fonio launch`, it can be a
    /// phone: android, or android:SERIAL.
    #[arg(long = "in", value_name = "PLACE")]
    pub place: Option<Place>,
    /// Overwrite this device and destroy its data.
    ///
    /// Without this option, a block device is used only if it contains no data.
    #[arg(long, value_name = "DEVICE")]
    pub erase: Option<PathBuf>,
    /// Make the emulated device this large.
    ///
    /// For an array, this is the total size.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "2GiB")]
    pub size: u64,
    /// Slow the emulated device down by this factor, if this machine is too slow to emulate it in real time.
    ///
    /// The processor is not slowed down, so compare only run times with the same factor.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = super::emulate::parse_dilation)]
    pub dilate: f64,
    /// Inject a fault into the emulated device, such as vanish:after=10s. Repeatable.
    ///
    /// `fonio device emulate --help` lists the faults. In an array, the last device gets the fault.
    #[arg(long, value_name = "KIND:SETTINGS")]
    pub fault: Vec<String>,
    /// Make this file system on the device: ext4, ext3, xfs, btrfs, f2fs, nilfs2 or vfat.
    ///
    /// Separate several file systems by commas. Default: ext4.
    #[arg(long = "fs", value_name = "NAME", value_delimiter = ',')]
    pub filesystem: Vec<Filesystem>,
    /// Mount with these options, separated by commas.
    #[arg(long, value_name = "OPTIONS", value_delimiter = ',')]
    pub mount_options: Vec<String>,
    /// Use this I/O scheduler.
    ///
    /// Separate several schedulers by commas. Default: none on an emulated device, the current scheduler on a
    /// block device, all modelled schedulers in a model.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub scheduler: Vec<String>,
    /// Fill this share of the file system before each run, such as 0.9, as on a device in use.
    ///
    /// Files are written until the file system is full; then random files are deleted.
    #[arg(long, value_name = "SHARE", value_parser = parse_full)]
    pub full: Option<f64>,
    /// Limit the workload or command to this share of one processor, such as 0.25, to imitate a phone's slow processor.
    ///
    /// The workload or command runs for 1 ms and then pauses for the rest of a period (3 ms at 0.25). The
    /// pauses make individual latencies less precise.
    #[arg(long, value_name = "SHARE")]
    pub cpu: Option<CpuShare>,
    /// Limit the memory to this size, such as 512MiB.
    ///
    /// The limit includes the page cache of the accessed files, as on a small board. Beyond the limit, pages
    /// are written back or dropped earlier, and a program that needs more memory is killed.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub memory: Option<u64>,
    /// Limit the link to the server to the rate of the phone study: wifi or usb. Default: no limit.
    #[arg(long, value_name = "NAME", value_parser = parse_link)]
    pub link: Option<LinkRates>,
    /// Run each test or setup this many times.
    ///
    /// Each round runs every setup once. `auto` runs three rounds to estimate the variation. More rounds
    /// follow until every gain is known to within 25 %, for at most three minutes; `auto:1m` sets this time.
    /// Default: auto for `fonio fix prove … -- CMD`, otherwise 3.
    #[arg(long, value_name = "N", value_parser = parse_runs)]
    pub runs: Option<Runs>,
    /// Draw all random choices from this seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the result to this path.
    ///
    /// PATH is a new folder for the recordings. Default: fonio-runs, or the first free name of fonio-runs-2,
    /// …; for `fonio fix prove … -- CMD`, a folder in /var/lib/fonio/proofs, where the newest five remain.
    #[arg(short, long = "output", value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Write a page with charts to this file.
    ///
    /// Default: `report.html` next to the recordings.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON.
    ///
    /// docs/runs-reference.md describes the JSON.
    #[arg(long)]
    pub json: bool,
}

impl SetupArgs {
    /// Returns the guest in which the command runs.
    pub fn guest(&self) -> Result<Option<&Wanted>> {
        match &self.place {
            None => Ok(None),
            Some(Place::Guest(wanted)) => Ok(Some(wanted)),
            Some(Place::Phone(_)) => {
                bail!(
                    "only `fonio check`, `fonio record`, `fonio run` and `fonio launch` work on a phone; name a guest, or leave out --in"
                )
            }
        }
    }

    /// Returns the targets of `--on`, or the current folder.
    pub fn places(&self) -> Vec<String> {
        if self.on.is_empty() { vec![".".to_owned()] } else { self.on.clone() }
    }
}

/// Options for running a workload.
#[derive(Clone, Debug, Args)]
pub struct WorkArgs {
    /// Run this workload in the background during the measured workload, on the same storage and within the
    /// same limits.
    ///
    /// The background workload is one that `fonio run` lists, such as background, or a TOML file. The
    /// background workload ends with the measured workload. Figures are reported for each workload. A fix
    /// changes only the measured workload.
    #[arg(long, value_name = "WORKLOAD")]
    pub background: Option<String>,
    /// Scale the amount of work of the background workload.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = parse_scale, requires = "background")]
    pub background_scale: f64,
    /// Scale the amount of work: 0.1 does a tenth of the operations in the same mix.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = parse_scale)]
    pub scale: f64,
    /// Multiply the workload's pauses by this factor; 0 omits them.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub pace: f64,
    /// Keep recording until the page cache is written back.
    ///
    /// The run time does not include this write-back.
    #[arg(long)]
    pub write_back: bool,
}

/// Fixes, separated by commas.
#[derive(Clone, Debug, Default)]
pub struct Candidates(pub Vec<Candidate>);

impl FromStr for Candidates {
    type Err = String;

    /// Parses `bfq,concurrency=2,4,8,8`. A word that begins with a digit continues the previous value.
    fn from_str(text: &str) -> Result<Candidates, String> {
        let mut names: Vec<String> = Vec::new();
        for word in text.split(',') {
            match names
                .last_mut()
                .filter(|name| name.contains('=') && word.starts_with(|c: char| c.is_ascii_digit()))
            {
                Some(name) => *name += &format!(",{word}"),
                None => names.push(word.to_owned()),
            }
        }
        names.iter().map(|name| parse_candidate(name)).collect::<Result<_, _>>().map(Candidates)
    }
}

/// Number of runs of each setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// A fixed number.
    Number(u32),
    /// The number that the spread of the first rounds requires, within this time limit.
    Auto(Duration),
}

impl Runs {
    /// `--runs auto`.
    pub const AUTO: Runs = Runs::Auto(Duration::from_secs(180));
}

impl Default for Runs {
    /// The number of runs without `--runs`, except in a proof with a command.
    fn default() -> Runs {
        Runs::Number(PILOT_ROUNDS)
    }
}

fn parse_runs(text: &str) -> Result<Runs, String> {
    match text.parse::<u32>() {
        Ok(number @ 1..=1000) => Ok(Runs::Number(number)),
        _ if text == "auto" => Ok(Runs::AUTO),
        _ => match text.strip_prefix("auto:").map(parse_duration) {
            Some(Ok(time)) => Ok(Runs::Auto(time)),
            _ => Err("write a whole number from 1 to 1000, auto, or auto:TIME such as auto:1m".to_owned()),
        },
    }
}

pub(super) fn parse_candidate(text: &str) -> Result<Candidate, String> {
    Candidate::parse(text).map_err(|error| error.to_string())
}

fn parse_scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok().filter(|scale: &f64| *scale > 0.0 && *scale <= 1000.0);
    scale.ok_or_else(|| "write a number above 0 and at most 1000, such as 0.1".to_owned())
}

fn parse_full(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| *share > 0.0 && *share < 1.0);
    share.ok_or_else(|| "write a share between 0 and 1, such as 0.9".to_owned())
}

/// Parses `10%:500ms`.
fn parse_quiet(text: &str) -> Result<Quiet, String> {
    let (share, time) = text.split_once(':').ok_or("write a share and a time, such as 10%:500ms")?;
    let percent = share.strip_suffix('%').and_then(|percent| percent.parse::<f64>().ok());
    let below_share =
        percent.filter(|percent| *percent > 0.0 && *percent <= 100.0).map(|percent| percent / 100.0);
    let below_share = below_share.ok_or("write a share of a processor above 0% and at most 100%")?;
    Ok(Quiet { below_share, lasting: parse_duration(time).map_err(|error| error.to_string())? })
}

fn parse_link(text: &str) -> Result<LinkRates, String> {
    LinkRates::named(text).ok_or_else(|| format!("use one of: {}", LinkRates::NAMES.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_values_do_not_separate_fixes() {
        let names = |text: &str| {
            let Candidates(all) = text.parse().expect("they are fixes");
            all.iter().map(Candidate::name).collect::<Vec<_>>()
        };
        assert_eq!(names("bfq,noatime"), ["bfq", "noatime"]);
        assert_eq!(names("concurrency=2,4,8,8,bfq"), ["concurrency=2,4,8,8", "bfq"]);
    }
}
