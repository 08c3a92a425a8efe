//! Defines the command line; `commands` implements it.

pub mod ci;
pub mod cure;
#[cfg(test)]
mod documented;
pub mod emulate;
pub mod fix;
pub mod fleet;
pub mod lab;
pub mod mount;
pub mod per;
pub mod run;
pub mod storebench;
#[cfg(test)]
mod table;
pub mod watch;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fonio_bench::plan::Set;
use fonio_core::{Nanos, Op};
use fonio_trace::csv::Mapping;
use fonio_trace::recognise::Format;

use fonio_core::quantity::{parse_bytes, parse_duration};
pub use fonio_recorder::{Blocked, Extras, Record, Redact, parse_time};

/// Shows which programs use your flash storage, what that costs, and which change helps.
///
/// Without a command, fonio shows the machine's storage: devices, wear, free space, and the processes that
/// are writing now.
///
/// Start with `sudo fonio check`.
#[derive(Debug, Parser)]
#[command(name = "fonio", version, max_term_width = 100, subcommand_help_heading = "Commands")]
#[command(after_help = format!("{}\n\nEvery command that reads a recording also reads traces of other tools: blktrace, \
    blkparse text, ftrace text, systrace HTML, Perfetto protobuf, CSV.", crate::exit::table()))]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Print JSON.
    ///
    /// Prints the storage summary.
    #[arg(long)]
    pub json: bool,

    /// Colour the output.
    #[arg(long, value_enum, default_value_t = Colour::Auto, global = true)]
    pub color: Colour,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check whether storage is the problem, and say what to do.
    ///
    /// Records for a while, or reads a recording or trace. Writes only the recording: to --output, or to
    /// /var/lib/fonio/checks (without root: ~/.local/state/fonio/checks), where the newest five remain.
    ///
    /// Example: sudo fonio check
    Check(Check),
    /// Cure a stall: record it, say its cause, try the fixes for this cause, and keep the one that helps.
    ///
    /// Records for a while, or takes a recording. Writes the recording, and files of its own on the disk of the stall while it
    /// tries a fix; changes a setting only for a trial, and keeps it only if you say so. Needs root.
    ///
    /// Example: sudo fonio cure
    Cure(Box<cure::Cure>),
    /// Record block I/O: while a command runs, for a given time, or until Ctrl-C.
    ///
    /// Reads the kernel's trace events (needs root), or those of a phone (needs adb). Writes a recording that
    /// `fonio report` explains.
    ///
    /// Example: sudo fonio record -- apt update
    Record(Box<RecordHere>),
    /// Explain a recording or a trace: verdict, findings, tables, charts.
    ///
    /// Reads a recording, or a trace of another tool. Writes only the --html page.
    ///
    /// Example: fonio report fonio-recording --html report.html
    Report(Report),
    /// Compare recordings and report the significant differences.
    ///
    /// Reads two or more recordings or traces. Writes only the --html page.
    ///
    /// Example: fonio compare before after
    Compare(Compare),
    /// Count what a command writes and syncs, and compare it with a baseline, for continuous integration.
    ///
    /// Counts the file-system calls of the command and its children, without root. Reads and writes the baseline. The exit
    /// code is 1 if a cost is higher than in the baseline.
    ///
    /// Example: fonio ci --update -- ./test-suite
    Ci(Box<ci::Ci>),
    /// Convert a trace of another tool into a recording (Parquet).
    ///
    /// Reads the trace. Writes the recording.
    ///
    /// Example: fonio import trace.blktrace.0 -o recording
    Import(Import),
    /// Convert a recording into another tool's format, or remove its names.
    ///
    /// Reads a recording or a trace. Writes a file, or a recording.
    ///
    /// Example: fonio export fonio-recording --format perfetto -o trace.pftrace
    Export(Export),
    /// Measure the speed of a device with fio.
    #[command(subcommand)]
    Bench(BenchWhat),
    /// Measure a device in ten minutes, and show how it compares with others.
    ///
    /// Writes files below a directory and removes them again; a block device is only read, unless --erase names it.
    ///
    /// Example: fonio storebench /mnt/card
    #[command(name = "storebench")]
    StoreBench(Box<storebench::StoreBench>),
    /// Work with models of flash devices: list, show, verify, emulate, fit.
    Device(Device),
    /// Mount a directory at a second path through a buffering FUSE file system.
    ///
    /// Reads and writes the files of the directory.
    ///
    /// Example: fonio mount /data /mnt/data
    Mount(mount::Mount),
    /// Run an app's workload on a device and record it.
    ///
    /// Reads a built-in workload or a file. Writes the workload's files to the target of --on, recordings,
    /// and a page.
    ///
    /// Example: sudo fonio run webbench --on kingston --fix wal-normal
    Run(Box<run::Run>),
    /// Launch a command and report how its time divides into processor, storage, network and other waits.
    ///
    /// Records each launch (needs root). Writes recordings and a page.
    ///
    /// Example: sudo fonio launch --runs 5 -- firefox --version
    Launch(Box<run::Launch>),
    /// Replay a recording on other storage, or with other settings.
    ///
    /// Each thread continues when the request or call that it waited for has completed. Compares the targets
    /// of --on and the fixes of --fix. Reads a recording. Writes a test file to each target, recordings, and
    /// a page; a replay in models writes only with --output.
    ///
    /// Example: fonio replay fonio-recording --on model:samsung_s5
    Replay(Box<run::Replay>),
    /// List the applied fixes and the fixes that suit this machine; or show, apply, undo or measure a fix.
    ///
    /// Reads the settings of this machine, and writes nothing.
    ///
    /// Example: fonio fix
    Fix(Box<fix::Fix>),
    /// Work with guests that run Debian's kernels, for `fonio run --in lab:6.12`.
    #[command(subcommand)]
    Lab(lab::Lab),
    /// Write a folder from memory to the disk, as the units of folder-in-ram do.
    #[command(subcommand, hide = true)]
    Folder(Folder),
    /// Check a sync policy for SQLite databases (docs/sync-policy.md).
    #[command(subcommand)]
    SyncPolicy(SyncPolicy),
    /// Watch storage continuously: stalls, the programs that write most, and the remaining life of devices.
    #[command(subcommand)]
    Watch(watch::Watch),
    /// Answer over many devices: which versions, disks and units are to blame, since when, and what wears out.
    ///
    /// Reads the folder or object store to which devices send what the watch keeps (`fonio watch send`). Runs the Python
    /// package fonio.fleet (docs/fleet.md).
    ///
    /// Example: fonio fleet report /srv/fleet --html fleet.html
    Fleet(fleet::Fleet),
    /// Run as a helper process of `run`.
    #[command(hide = true)]
    Role {
        /// The role.
        #[command(subcommand)]
        role: run::Role,
    },
    /// Print shell completions.
    ///
    /// Example: fonio completions bash > ~/.local/share/bash-completion/completions/fonio
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory.
    ///
    /// Example: fonio man /usr/local/share/man/man1
    Man {
        /// The directory; created if missing.
        dir: PathBuf,
    },
}

/// Where to record, if not on this machine: a phone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Android {
    /// The serial number of the phone; `None` if only one is connected.
    pub serial: Option<String>,
}

impl FromStr for Android {
    type Err = String;

    fn from_str(text: &str) -> Result<Android, String> {
        match text.split_once(':') {
            None if text == "android" => Ok(Android { serial: None }),
            Some(("android", serial)) if !serial.is_empty() => {
                Ok(Android { serial: Some(serial.to_owned()) })
            }
            _ => Err("write android, or android:SERIAL with a serial number of `adb devices`".to_owned()),
        }
    }
}

/// A place other than this machine.
#[derive(Clone, Debug)]
pub enum Place {
    /// A guest with one of Debian's kernels.
    Guest(fonio_lab::Wanted),
    /// A phone.
    Phone(Android),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        if text.starts_with("android") {
            return text.parse().map(Place::Phone);
        }
        text.parse().map(Place::Guest).map_err(|error: fonio_lab::LabError| error.to_string())
    }
}

/// `fonio record`.
#[derive(Debug, Args)]
pub struct RecordHere {
    /// Work in this place, not on this machine.
    ///
    /// PLACE is a phone that `adb devices` lists: android, or android:SERIAL if there are several. It needs neither root
    /// nor an app, but Android 9 or later and USB debugging (docs/phones.md).
    #[arg(long = "in", value_name = "PLACE", conflicts_with_all = NOT_ON_A_PHONE)]
    pub place: Option<Android>,
    /// Use this file as the recorder for a phone whose root fonio may use.
    ///
    /// FILE is fonio-recorder for the phone's processor, such as fonio-recorder-0.1.0-aarch64-unknown-linux-musl. Default:
    /// the one next to the program fonio.
    #[arg(long, value_name = "FILE", requires = "place")]
    pub recorder: Option<PathBuf>,
    #[command(flatten)]
    pub record: Record,
}

/// The options of a recording that a phone does not have.
const NOT_ON_A_PHONE: [&str; 13] = [
    "device",
    "path",
    "buffer",
    "spill",
    "kernel_buffer",
    "interval",
    "waits",
    "redact",
    "calls",
    "command",
    "blocked",
    "calls_of",
    "no_statements",
];

/// `fonio check`.
#[derive(Debug, Args)]
pub struct Check {
    /// A recording or trace to read (`last`: the newest that fonio keeps); or a device to record
    /// (/dev/mmcblk0), or a directory on it; or with --in android, a package. Default: record all devices.
    pub what: Option<PathBuf>,
    /// Work in this place, not on this machine.
    ///
    /// PLACE is a phone that `adb devices` lists: android, or android:SERIAL if there are several. It needs neither root
    /// nor an app, but Android 9 or later and USB debugging (docs/phones.md).
    #[arg(long = "in", value_name = "PLACE", conflicts_with_all = ["blocked", "calls_of", "no_statements"])]
    pub place: Option<Android>,
    /// Use this file as the recorder for a phone whose root fonio may use.
    ///
    /// FILE is fonio-recorder for the phone's processor, such as fonio-recorder-0.1.0-aarch64-unknown-linux-musl. Default:
    /// the one next to the program fonio.
    #[arg(long, value_name = "FILE", requires = "place")]
    pub recorder: Option<PathBuf>,
    /// End after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, default_value = "40s")]
    pub time: Duration,
    /// Print everything, not only the most important lines.
    ///
    /// Prints all findings, tables and notes.
    #[arg(long)]
    pub all: bool,
    /// Write the result to this path.
    ///
    /// PATH is a new folder for the recording. Default: a folder in /var/lib/fonio/checks or
    /// ~/.local/state/fonio/checks, where the newest five recordings remain
    /// (the earlier four only up to 1 GiB, or a tenth of the file system). `last` names the newest.
    #[arg(short, long = "output", value_name = "PATH")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub extras: Extras,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub output: Output,
}

/// `fonio report`.
#[derive(Debug, Args)]
pub struct Report {
    /// A recording (`last`: the newest that `fonio check` keeps); or a trace: one file, several files, the
    /// common prefix of per-CPU files, or - for standard input.
    #[arg(required = true, value_name = "INPUT")]
    pub input: Vec<PathBuf>,
    /// Print everything, not only the most important lines.
    ///
    /// Prints all findings, tables and notes.
    #[arg(long)]
    pub all: bool,
    /// List the figures that a budget can name, with their values, then exit.
    #[arg(long)]
    pub figures: bool,
    #[command(flatten)]
    pub redact: Redact,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub output: Output,
}

/// `fonio compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// Two or more recordings (also `last`) or traces; each is compared with the first. One recording of each setup
    /// does not show how much repeated runs vary; use --before and --after to compare repeated runs.
    #[arg(required_unless_present = "before", num_args = 2.., value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// Recordings of repeated runs before a change; at least three.
    #[arg(long, num_args = 1.., value_name = "INPUT", requires = "after", conflicts_with = "inputs")]
    pub before: Vec<PathBuf>,
    /// Recordings of repeated runs after the change; at least three.
    #[arg(long, num_args = 1.., value_name = "INPUT", requires = "before")]
    pub after: Vec<PathBuf>,
    /// Print everything, not only the most important lines.
    ///
    /// Prints all rows of the tables.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub output: Output,
}

/// `fonio import`.
#[derive(Debug, Args)]
pub struct Import {
    /// The trace: one file, several files, the common prefix of per-CPU files, or - for standard input.
    #[arg(required = true, value_name = "INPUT")]
    pub input: Vec<PathBuf>,
    /// Write the result to this path.
    ///
    /// PATH is a new folder for the recording.
    #[arg(short, long = "output", value_name = "PATH")]
    pub out: PathBuf,
    /// Replace an existing recording.
    #[arg(long)]
    pub overwrite: bool,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// `fonio export`.
#[derive(Debug, Args)]
pub struct Export {
    /// A recording (`last`: the newest that `fonio check` keeps) or a trace.
    #[arg(required = true, value_name = "INPUT")]
    pub input: Vec<PathBuf>,
    /// The format to write.
    #[arg(long, value_enum)]
    pub format: ExportFormat,
    /// Write the result to this path.
    ///
    /// PATH is a file, or a new folder for a recording; - is standard output.
    #[arg(short, long = "output", value_name = "PATH", default_value = "-")]
    pub out: PathBuf,
    #[command(flatten)]
    pub redact: Redact,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// `fonio device`.
#[derive(Debug, Args)]
pub struct Device {
    /// The command.
    #[command(subcommand)]
    pub command: DeviceCommand,
}

/// The subcommands of `fonio device`.
#[derive(Debug, Subcommand)]
pub enum DeviceCommand {
    /// List the device profiles that come with fonio.
    ///
    /// Example: fonio device list
    List {
        /// Print JSON.
        ///
        /// docs/devices.md describes the JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a profile, each number with its source.
    ///
    /// Example: fonio device show kingston
    Show {
        /// A profile name, or a file ending in .toml.
        profile: String,
        /// Print JSON.
        ///
        /// docs/devices.md describes the JSON.
        #[arg(long, conflicts_with = "toml")]
        json: bool,
        /// Print the profile as TOML, as a starting point for your own profile.
        #[arg(long)]
        toml: bool,
    },
    /// Compare the models with published measurements, and mark the measurements that the models were fitted
    /// to.
    ///
    /// Example: fonio device verify kingston
    Verify {
        /// A profile name. Default: all.
        profile: Option<String>,
        /// Print JSON.
        ///
        /// docs/devices.md describes the JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run an emulated device: a block device with the model's timing, with faults and power cuts on demand.
    ///
    /// Needs root. Keeps the device until Ctrl-C, or runs a command on it and removes it.
    ///
    /// Example: sudo fonio device emulate ridata --fs ext4 --mount
    Emulate(Box<emulate::Emulate>),
    /// Serve an emulated device; started by `emulate` only.
    #[command(hide = true)]
    Serve,
    /// Fit a profile to a measured device; or compare a profile with a measurement.
    ///
    /// Reads a measurement, or measures a device as `fonio bench device` does. Writes the profile.
    ///
    /// Example: fonio device fit /mnt/card -o card.toml
    Fit(Box<Fit>),
}

/// `fonio folder`.
#[derive(Debug, Subcommand)]
pub enum Folder {
    /// Put the folder into memory; systemd units run this at each start.
    Start {
        /// Maximum memory for the folder.
        size: fonio_core::ByteCount,
        /// The folder.
        dir: PathBuf,
    },
    /// Write the folder to the disk now.
    WriteOut {
        /// The folder.
        dir: PathBuf,
    },
}

/// `fonio sync-policy`.
#[derive(Debug, Subcommand)]
pub enum SyncPolicy {
    /// Print the rules of the policy, or the class of each named database.
    ///
    /// Example: fonio sync-policy check /srv/app/app.db
    Check {
        /// The policy's file.
        ///
        /// Default: the policy of programs started from this shell (`FONIO_SYNC_POLICY`).
        #[arg(long, value_name = "FILE", default_value_os_t = policy_of_shell(), hide_default_value = true)]
        policy: PathBuf,
        /// The databases, which need not exist yet.
        databases: Vec<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove the caches of boots that did not end cleanly, as fonio-sync-policy.service does before programs start (root).
    Boot {
        /// The policy's file.
        #[arg(long, value_name = "FILE", default_value = fonio_sync_policy::DEFAULT)]
        policy: PathBuf,
    },
    /// Record that this boot ended cleanly, as fonio-sync-policy.service does after programs have ended (root).
    Stop,
}

/// The formats of `fonio export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Trace for ui.perfetto.dev (protocol buffers): requests by device, waits by thread, and counters.
    Perfetto,
    /// Trace for ui.perfetto.dev and chrome://tracing, as JSON.
    #[value(name = "perfetto-json")]
    PerfettoJson,
    /// fio's I/O log with times (version 3), for `fio --read_iolog` (fio 3.31 or later).
    Iolog,
    /// fio's I/O log without times (version 2), for older versions of fio.
    #[value(name = "iolog-v2")]
    IologV2,
    /// One request per line.
    Csv,
    /// A fonio recording, filtered, or with tokens instead of names (--redact).
    Recording,
}

/// `fonio bench`.
#[derive(Debug, Subcommand)]
pub enum BenchWhat {
    /// Measure sequential and 4 KiB random I/O, response times, concurrency, and a long write.
    ///
    /// Writes one file and removes it again. Writes to a block device only if --erase names it.
    ///
    /// Example: fonio bench device /mnt/card
    Device {
        #[command(flatten)]
        measurement: Measurement,
        /// Run these sets of tests.
        ///
        /// The sets are four, response, concurrency, interference, address-range, sustained, near-full, fit
        /// and held-back.
        #[arg(
            long = "set",
            value_name = "SET",
            value_delimiter = ',',
            value_parser = parse_set,
            default_values = ["four", "response", "concurrency", "sustained"]
        )]
        sets: Vec<Set>,
    },
    /// Measure 4 KiB random writes over growing address ranges, to find how the device maps addresses.
    ///
    /// Example: fonio bench address-range /mnt/card
    AddressRange(Measurement),
    /// Find the number of concurrent reads and writes, sequential and random, that gives the device's full
    /// throughput.
    ///
    /// Example: fonio bench concurrency /mnt/card
    Concurrency {
        #[command(flatten)]
        measurement: Measurement,
        /// Apply the result until the next boot.
        ///
        /// Needs root. Sets smartio's concurrency parameters or, with another scheduler, the queue depth.
        /// `fonio fix undo` restores the former value.
        #[arg(long)]
        apply: bool,
    },
    /// Measure how much reads and writes slow each other down.
    ///
    /// Runs one or four processes of each kind at the same time, with sequential and random I/O. The results
    /// are relative to one process alone.
    ///
    /// Example: fonio bench interference /mnt/card
    Interference(Measurement),
    /// Measure the throughput left after each layer: device, scheduler, file system, FUSE.
    ///
    /// Writes test files and removes them again. Needs root for most layers.
    ///
    /// Example: sudo fonio bench layers /mnt/card
    Layers(BenchLayers),
}

/// `fonio bench layers`.
#[derive(Clone, Debug, Args)]
pub struct BenchLayers {
    /// A directory on the device, in which test files are written and removed again; or an emulated device (a
    /// profile from `fonio device list`, as root) with a file system (--fs). For the raw writes, a second
    /// device is emulated.
    pub dir: PathBuf,
    /// Overwrite this device and destroy its data.
    ///
    /// Also measures writes to this raw device. Without this option, the directory's device is only read.
    #[arg(long, value_name = "DEVICE")]
    pub erase: Option<PathBuf>,
    /// Cover this many bytes with each test.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "256MiB")]
    pub range: u64,
    /// Run each test or setup this many times.
    ///
    /// Each round measures every layer once. The result of a layer is the median of the rounds. A loss is
    /// shown only with at least 3 rounds.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..100))]
    pub runs: u16,
    /// Measure FUSE with these options of `fonio mount`. Repeatable.
    ///
    /// Default: the modes from stock to auto.
    #[arg(long = "mode", value_name = "OPTIONS")]
    pub modes: Vec<String>,
    /// Make this file system on the device: ext4, ext3, xfs, btrfs, f2fs, nilfs2 or vfat.
    #[arg(long = "fs", value_name = "NAME", default_value = "ext4", help_heading = EMULATED)]
    pub filesystem: fonio_host::Filesystem,
    #[command(flatten)]
    pub emulated: EmulatedTarget,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The help heading for the options of emulated devices.
pub const EMULATED: &str = "Emulated devices";

/// The emulated device of a benchmark, and its location.
#[derive(Clone, Debug, Args)]
pub struct EmulatedTarget {
    /// Make the emulated device this large.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "2GiB", help_heading = EMULATED)]
    pub size: u64,
    /// Use this I/O scheduler.
    #[arg(long, value_name = "NAME", default_value = "none", help_heading = EMULATED)]
    pub scheduler: String,
    /// Work in this place, not on this machine.
    ///
    /// PLACE is a guest with one of Debian's kernels (`fonio lab list`): lab:6.12, lab:newest.
    /// The guest's clock does not depend on other load of this machine.
    #[arg(long = "in", value_name = "PLACE", help_heading = EMULATED)]
    pub guest: Option<fonio_lab::Wanted>,
}

/// `fonio device fit`.
#[derive(Debug, Args)]
pub struct Fit {
    #[command(flatten)]
    pub bench: Bench,
    /// Also save the measurement in this file.
    #[arg(long, value_name = "FILE")]
    pub save_measurement: Option<PathBuf>,
    /// Write the result to this path.
    ///
    /// PATH is a file for the profile.
    #[arg(short = 'o', long = "output", value_name = "PATH", default_value = "profile.toml")]
    pub to: PathBuf,
    /// Compare the fitted profile with this measurement from `fonio bench device --set held-back`.
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Do not fit; compare this profile with the measurement.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["against", "to"])]
    pub profile: Option<PathBuf>,
    /// Use this many bootstrap resamples for the intervals; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub resamples: u32,
}

/// Options for measuring a device.
#[derive(Clone, Debug, Args)]
pub struct Bench {
    /// A directory (one file is written and removed again); a block device, which is overwritten (see
    /// --erase); or an emulated device (a profile from `fonio device list`, as root). `fonio device fit` also
    /// accepts a measurement from `fonio bench device -o`.
    pub target: PathBuf,
    /// Overwrite this device and destroy its data.
    ///
    /// Required if the target is a block device; repeat the device's path here to confirm.
    #[arg(long, value_name = "DEVICE")]
    pub erase: Option<PathBuf>,
    /// Measure once, for a short time, with little data.
    ///
    /// Measures only with 1 and 4 processes; `bench concurrency` measures with 1, 2, 4, 8, 16 and 32.
    #[arg(long)]
    pub quick: bool,
    /// Print what would be done, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Cover this many bytes with each test.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "128MiB")]
    pub range: u64,
    /// Extend the address-range test to this many bytes.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "256MiB")]
    pub range_max: u64,
    /// Write this many bytes in the test of a long write.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "1GiB")]
    pub sustained: u64,
    /// Run each test or setup this many times.
    ///
    /// A test ends earlier when its mean is known to within 2 %.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..1000))]
    pub runs: Option<u32>,
    /// The maximum time of a run, without its preparation [default: 10s; for `bench concurrency` 500ms].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub run_time: Option<Duration>,
    /// End after this time.
    ///
    /// After this time, no further run starts [default: 15min].
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub time: Option<Duration>,
    /// Draw all random choices from this seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON.
    ///
    /// docs/benchmark.md describes the JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub emulated: EmulatedTarget,
}

/// A measurement that can be saved.
#[derive(Clone, Debug, Args)]
pub struct Measurement {
    #[command(flatten)]
    pub bench: Bench,
    /// Write the result to this path.
    ///
    /// PATH is a file for the JSON, which `fonio device fit` reads.
    #[arg(short, long = "output", value_name = "PATH")]
    pub out: Option<PathBuf>,
}

/// The heading of [`Reading`].
pub const READING: &str = "Reading";

/// Options for reading foreign traces.
#[derive(Clone, Debug, Args)]
pub struct Reading {
    /// Format of the trace, if fonio does not recognise it.
    ///
    /// The formats are blktrace, blkparse, ftrace, perf-script, perf-data, systrace, perfetto, trace-dat, ctf, biosnoop,
    /// fs-slower, msr-cambridge, vscsi, totals, fio-iolog, fio-log, disksim and csv.
    #[arg(id = "from_format", long = "from-format", value_name = "FORMAT", help_heading = READING)]
    pub format: Option<Format>,
    /// Columns of a CSV trace with their units, by number or by the name in the first line.
    ///
    /// For example, time=1:ms,op=rw,offset=off:bytes,size=len:bytes,latency=lat:us. All columns and units are
    /// in docs/traces.md.
    #[arg(long, value_name = "MAPPING", help_heading = READING)]
    pub csv: Option<Mapping>,
    /// Treat a request as never completed after this time.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "600s", help_heading = READING)]
    pub horizon: Duration,
}

impl Reading {
    /// Returns the settings for reading an input, with progress on standard error.
    pub fn settings(&self) -> fonio_input::Reading {
        let Reading { format, csv, horizon } = self.clone();
        let horizon = Nanos(u64::try_from(horizon.as_nanos()).unwrap_or(u64::MAX));
        fonio_input::Reading { format, csv, horizon, shows_progress: true }
    }
}

impl Default for Reading {
    fn default() -> Reading {
        Reading { format: None, csv: None, horizon: Duration::from_secs(600) }
    }
}

/// The heading of [`FilterArgs`].
pub const FILTERS: &str = "Filters";

/// Options for selecting a part of the I/O.
#[derive(Clone, Debug, Default, Args)]
pub struct FilterArgs {
    /// Look only at this device. Repeatable.
    ///
    /// DEVICE is a name in the recording, or major:minor.
    #[arg(long = "device", value_name = "DEVICE", help_heading = FILTERS)]
    pub device: Vec<String>,
    /// Look only at processes or threads with this name, or at this thread id. Repeatable.
    #[arg(long = "process", value_name = "NAME", help_heading = FILTERS)]
    pub process: Vec<String>,
    /// Look only at this systemd unit, container or Android package.
    ///
    /// UNIT can also be a Home Assistant add-on. Examples: notes.service, web, 'docker *'. Repeatable.
    #[arg(long = "unit", value_name = "UNIT", help_heading = FILTERS)]
    pub unit: Vec<String>,
    /// Look only at these files. Repeatable.
    ///
    /// FILE is a name ('notes.db*'), or a path (/var/lib/notes), which includes the files below it.
    #[arg(long = "file", value_name = "FILE", help_heading = FILTERS)]
    pub file: Vec<String>,
    /// Look only at these operations: read, write, flush, discard, write_zeroes, … Repeatable.
    #[arg(long = "op", value_name = "OP", value_parser = parse_op, help_heading = FILTERS)]
    pub op: Vec<Op>,
    /// Start the time window here.
    ///
    /// TIME is relative to the beginning of the recording.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = FILTERS)]
    pub since: Option<Duration>,
    /// End the time window here.
    ///
    /// TIME is relative to the beginning of the recording.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = FILTERS)]
    pub until: Option<Duration>,
}

/// The output format and file.
#[derive(Clone, Debug, Args)]
pub struct Output {
    /// Print JSON.
    ///
    /// docs/report.schema.json describes the JSON.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// Write a page with charts to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Check that a figure is within a limit: 'totals.requests<=5000'. Repeatable.
    ///
    /// The exit code is 1 if a figure is not within its limit.
    #[arg(long, value_name = "BUDGET")]
    pub budget: Vec<String>,
}

impl Output {
    /// Whether the report is text for a terminal.
    pub fn is_for_screen(&self) -> bool {
        !self.json && !self.markdown && self.html.is_none()
    }
}

/// Returns the path of the policy for programs that this shell starts.
fn policy_of_shell() -> PathBuf {
    std::env::var_os(fonio_sync_policy::VARIABLE)
        .map_or_else(|| fonio_sync_policy::DEFAULT.into(), PathBuf::from)
}

fn parse_set(text: &str) -> Result<Set, String> {
    Set::named(text).ok_or_else(|| {
        let names: Vec<&str> = Set::ALL.iter().map(|(_, name)| *name).collect();
        format!("use one of: {}", names.join(", "))
    })
}

fn parse_op(text: &str) -> Result<Op, String> {
    Op::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Op::ALL.iter().map(|op| op.name()).collect();
        format!("use one of: {}", names.join(", "))
    })
}
