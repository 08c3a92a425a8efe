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
use fonio_host::{CpuShare, Filesystem, HostError, LinkRates};
use fonio_lab::{GivenImage, Wanted};
use fonio_processor::{Processor, ProcessorError};
use fonio_record::Quiet;

use super::per::{Per, parse_per};
use super::{Place, parse_time};

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
    #[command(flatten)]
    pub stack: StackArgs,
    /// Mobibench's options (`-- -f 1024 -r 4 -a 1`), for the workload `mobibench`; with --compose, the command that drives the
    /// services.
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<OsString>,
}

/// Options for running the services of a Compose file.
#[derive(Clone, Debug, Args)]
pub struct StackArgs {
    /// Run the services of this Compose file (docker-compose.yml) in containers, with their images and volumes on the device.
    ///
    /// The clock starts when all services are ready: healthy, or running for 2 seconds if they have no health check. It
    /// stops after the time of --for, when the service of --ends-with ends, or when the command after `--` ends. The command
    /// runs with the files of this machine and in the network of the services; with --exec SERVICE, it runs in the container
    /// of this service. docs/apps.md lists the keys of the file that are used.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "mobigen", "recorder"])]
    pub compose: Option<PathBuf>,
    /// Take the image of a service from this file, if this machine cannot pull it.
    ///
    /// FILE comes from `podman save IMAGE -o FILE` or `docker save IMAGE -o FILE`, or is a folder in the OCI format. NAME is
    /// the image in the Compose file, if FILE has another name for it. Repeatable.
    #[arg(long = "image-file", value_name = "[NAME=]FILE", value_parser = parse_image, requires = "compose")]
    pub images: Vec<GivenImage>,
    /// End after this time.
    ///
    /// The services of --compose run for this time after all of them are ready.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, requires = "compose")]
    pub time: Option<Duration>,
    /// Start this service last, and stop the clock when it ends.
    #[arg(long, value_name = "SERVICE", requires = "compose")]
    pub ends_with: Option<String>,
    /// Run the command after `--` in the container of this service.
    #[arg(long, value_name = "SERVICE", requires = "compose")]
    pub exec: Option<String>,
    /// Count units of work: 'order=120', 'order=transactions:*/shop.db', 'order=files:*.pdf', 'order=syncs:*.log', 'order=lines:placed'.
    ///
    /// Here, only a number goes: the result has the rate of these units. `$UNITS` in the command after `--` is replaced by the
    /// number, which --scale changes.
    #[arg(long, value_name = "NAME=COUNT", value_parser = parse_per, requires = "compose")]
    pub per: Option<Per>,
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
    /// Try these values of a model's profile, separated by commas, such as ftl.spare=7%,28%. Repeatable.
    ///
    /// Every combination of the models of --on, the values and the schedulers is replayed, on all processors.
    /// docs/devices.md lists the keys. Only for models (--on model:PROFILE).
    #[arg(long, value_name = "KEY=VALUES", value_parser = parse_change)]
    pub change: Vec<(String, Vec<String>)>,
    /// Also run with each of these fixes, separated by commas (`fonio fix` lists them).
    #[arg(long, value_name = "NAMES")]
    pub fix: Option<Candidates>,
    #[command(flatten)]
    pub setup: SetupArgs,
}

/// Parses the changed values of a model, such as `ftl.spare=7%,28%`.
fn parse_change(text: &str) -> Result<(String, Vec<String>), String> {
    let (key, values) = text.split_once('=').unwrap_or((text, ""));
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if key.is_empty() || values.iter().any(String::is_empty) {
        return Err(format!(
            "`{text}` has no value; write KEY=VALUE or KEY=VALUE,VALUE, such as ftl.spare=7%,28%"
        ));
    }
    Ok((key.to_owned(), values))
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
    /// Measure the speed of the processor.
    Speed {
        /// `all`, or the number of threads that run the short tests.
        what: String,
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
    /// accepts model:PROFILE,PROFILE and then models the devices and the schedulers in virtual time, without root.
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
    /// Limit the workload or command to a slower processor: a share such as 0.25, or nexus-one, pi-zero or pi-4.
    ///
    /// With a name, fonio measures this machine's processor, and computes the share of one processor that is as
    /// fast as a core of the named one. Before and after each run, it measures the speed that the run gets, and
    /// stops if this speed is wrong by more than 15 %. `pi-4:2` has two of the four cores. The workload or
    /// command runs for 1 ms and then pauses for the rest of a period (3 ms at 0.25). The pauses make individual
    /// latencies less precise.
    #[arg(long, value_name = "SHARE")]
    pub cpu: Option<Cpu>,
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
    /// …; for `fonio fix prove … -- CMD`, a folder in /var/lib/fonio/proofs, where the newest five remain; for
    /// `fonio replay` in models, no folder.
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

/// The processor of a workload or command.
#[derive(Clone, Debug, PartialEq)]
pub enum Cpu {
    /// A share of one processor of this machine.
    Share(CpuShare),
    /// The processor of another machine.
    Named(Processor),
}

impl FromStr for Cpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Cpu, String> {
        if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return text.parse().map(Cpu::Named).map_err(|error: ProcessorError| error.to_string());
        }
        text.parse().map(Cpu::Share).map_err(|error: HostError| error.to_string())
    }
}

/// Options for running a workload.
#[derive(Clone, Debug, Args)]
pub struct WorkArgs {
    /// Run this workload in the background of the measured workload or app, on the same storage and within the
    /// same limits.
    ///
    /// `phone` and `home` are the small writers of a living phone and of a home server, at the rates of real
    /// ones (docs/runs.md). Any other workload that `fonio run` lists, or a TOML file, goes too. The background
    /// ends with the measured workload. Figures are reported for each of them; the waits of the background do
    /// not count for the verdict. A fix changes only the measured workload.
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

/// Parses `FILE` or `NAME=FILE`.
fn parse_image(text: &str) -> Result<GivenImage, String> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) if !name.contains(std::path::is_separator) || !PathBuf::from(text).exists() => {
            (Some(name.to_owned()), path)
        }
        _ => (None, text),
    };
    if path.is_empty() || name.as_deref() == Some("") {
        return Err(
            "write FILE, or the image in the Compose file and its file, as in redis:7=redis.tar".to_owned()
        );
    }
    Ok(GivenImage { name, path: path.into() })
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
