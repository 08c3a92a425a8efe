//! Defines the command line; `commands` implements it.

#[cfg(test)]
mod documented;
pub mod emulate;
pub mod lab;
pub mod mount;
pub mod run;
pub mod storebench;
pub mod watch;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fonio_bench::plan::Set;
use fonio_core::Op;
use fonio_trace::csv::Mapping;
use fonio_trace::recognise::Format;

use fonio_core::quantity::{parse_bytes, parse_duration};
pub use fonio_recorder::{Beside, Blocked, Record, Redact, parse_time};

/// Shows what is using your flash, what it costs you, and which change fixes it.
///
/// Without a command, fonio shows the machine's storage: devices, wear, free space, and which processes write now.
///
/// Start with `sudo fonio check`.
#[derive(Debug, Parser)]
#[command(name = "fonio", version, max_term_width = 100, subcommand_help_heading = "Commands")]
#[command(after_help = format!("{}\n\nEvery command that reads a recording also reads traces of other tools: blktrace, \
    blkparse text, ftrace text, systrace HTML, CSV.", crate::exit::table()))]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Print the storage summary as JSON.
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
    /// Check whether storage is the problem, and say what to do. Example: sudo fonio check
    Check(Check),
    /// Record block I/O: while a command runs, for a given time, or until Ctrl-C. Example: sudo fonio record -- apt update
    Record(Record),
    /// Explain a recording or a trace: verdict, findings, tables, charts. Example: fonio report fonio-recording --html r.html
    Report(Report),
    /// Compare recordings and name the differences that are not chance. Example: fonio compare before after
    Compare(Compare),
    /// Convert a trace of another tool into a recording (Parquet). Example: fonio import trace.blktrace.0 -o rec
    Import(Import),
    /// Convert a recording into another tool's format, or remove its names. Example: fonio export rec --format perfetto -o rec.json
    Export(Export),
    /// Measure the speed of a device with fio. Example: fonio bench device /mnt/card
    #[command(subcommand)]
    Bench(BenchWhat),
    /// Measure where a device stands among others, in ten minutes: one run, one result. Example: fonio storebench /mnt/card
    #[command(name = "storebench")]
    StoreBench(Box<storebench::StoreBench>),
    /// Work with models of flash devices: list, show, verify, emulate, fit. Example: sudo fonio device emulate kingston
    Device(Device),
    /// Mount a directory a second time through a buffered FUSE file system. Example: fonio mount /data /mnt/data
    Mount(mount::Mount),
    /// Run an app's workload on a device and record it. Example: sudo fonio run webbench --on kingston --fix wal+normal
    Run(Box<run::Run>),
    /// List the fixes, measure them on a workload, apply or undo them. Example: sudo fonio fix --prove webbench
    #[command(after_help = crate::commands::fix::groups())]
    Fix(Box<run::Fix>),
    /// Guests with Debian's kernels, for `fonio run --in lab:6.12` and the like. Example: fonio lab list
    #[command(subcommand)]
    Lab(lab::Lab),
    /// Write out a folder that is in memory, as the units of `fonio fix folder-in-ram` do. Example: fonio folder write-out /var/log
    #[command(subcommand, hide = true)]
    Folder(Folder),
    /// Check a sync policy for databases of SQLite (docs/sync-policy.md). Example: fonio sync-policy check
    #[command(subcommand)]
    SyncPolicy(SyncPolicy),
    /// Watch storage all the time: what stalled, who writes most, when a device will be worn out. Example: sudo fonio watch install
    #[command(subcommand)]
    Watch(watch::Watch),
    /// Run as one of the helper processes of `run`.
    #[command(hide = true)]
    Role {
        /// The role.
        #[command(subcommand)]
        role: crate::commands::run::Role,
    },
    /// Print shell completions. Example: fonio completions bash > ~/.local/share/bash-completion/completions/fonio
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory. Example: fonio man /usr/local/share/man/man1
    Man {
        /// The directory; created if missing.
        dir: PathBuf,
    },
}

/// `fonio check`.
#[derive(Debug, Args)]
pub struct Check {
    /// A recording or trace to read; or a device (/dev/mmcblk0), or a directory on one, to record. Default: record all devices.
    pub what: Option<PathBuf>,
    /// How long to record.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, default_value = "40s")]
    pub time: Duration,
    /// Print everything: all findings, tables and notes.
    #[arg(long)]
    pub all: bool,
    /// Keep the recording in this directory.
    #[arg(short, long = "output", alias = "out", value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What else is recorded.
    #[command(flatten)]
    pub beside: Beside,
    /// How traces of other tools are read.
    #[command(flatten)]
    pub reading: Reading,
    /// Which requests are analysed.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// How the result is shown.
    #[command(flatten)]
    pub output: Output,
}

/// `fonio report`.
#[derive(Debug, Args)]
pub struct Report {
    /// A recording; or a trace: one file, several files, the common prefix of per-CPU files, or - for standard input.
    #[arg(required = true, value_name = "INPUT")]
    pub input: Vec<PathBuf>,
    /// Print everything: all findings, tables and notes.
    #[arg(long)]
    pub all: bool,
    /// List the figures that a budget can name, then exit.
    #[arg(long)]
    pub figures: bool,
    /// How names are replaced.
    #[command(flatten)]
    pub redact: Redact,
    /// How traces of other tools are read.
    #[command(flatten)]
    pub reading: Reading,
    /// Which requests are analysed.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// How the result is shown.
    #[command(flatten)]
    pub output: Output,
}

/// `fonio compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// Two or more recordings or traces; each is compared with the first. One recording of each setup cannot show how
    /// much repeated runs differ; to allow for that, use --before and --after.
    #[arg(required_unless_present = "before", num_args = 2.., value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// Recordings of repeated runs before a change; at least three.
    #[arg(long, num_args = 1.., value_name = "INPUT", requires = "after", conflicts_with = "inputs")]
    pub before: Vec<PathBuf>,
    /// Recordings of repeated runs after the change; at least three.
    #[arg(long, num_args = 1.., value_name = "INPUT", requires = "before")]
    pub after: Vec<PathBuf>,
    /// How traces of other tools are read.
    #[command(flatten)]
    pub reading: Reading,
    /// Which requests are analysed.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// How the result is shown.
    #[command(flatten)]
    pub output: Output,
}

/// `fonio import`.
#[derive(Debug, Args)]
pub struct Import {
    /// The trace: one file, several files, the common prefix of per-CPU files, or - for standard input.
    #[arg(required = true, value_name = "INPUT")]
    pub input: Vec<PathBuf>,
    /// Write the recording into this directory.
    #[arg(short, long = "output", alias = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// Replace an existing recording.
    #[arg(long)]
    pub overwrite: bool,
    /// How traces of other tools are read.
    #[command(flatten)]
    pub reading: Reading,
    /// Which requests are converted.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// `fonio export`.
#[derive(Debug, Args)]
pub struct Export {
    /// A recording or a trace.
    #[arg(required = true, value_name = "INPUT")]
    pub input: Vec<PathBuf>,
    /// The format to write.
    #[arg(long, value_enum)]
    pub format: ExportFormat,
    /// Write into this file, for a recording into this directory; - is standard output.
    #[arg(short, long = "output", alias = "out", value_name = "FILE", default_value = "-")]
    pub out: PathBuf,
    /// How names are replaced.
    #[command(flatten)]
    pub redact: Redact,
    /// How traces of other tools are read.
    #[command(flatten)]
    pub reading: Reading,
    /// Which requests are exported.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// `fonio device`.
#[derive(Debug, Args)]
pub struct Device {
    /// What to do.
    #[command(subcommand)]
    pub command: DeviceCommand,
}

/// What `fonio device` can do.
#[derive(Debug, Subcommand)]
pub enum DeviceCommand {
    /// List the device profiles that come with fonio.
    List {
        /// Print JSON, described in docs/devices.md.
        #[arg(long)]
        json: bool,
    },
    /// Show a profile, each number with its source.
    Show {
        /// A profile name, or a file ending in .toml.
        profile: String,
        /// Print JSON, described in docs/devices.md.
        #[arg(long, conflicts_with = "toml")]
        json: bool,
        /// Print the profile as TOML, as a starting point for your own.
        #[arg(long)]
        toml: bool,
    },
    /// Compare the models with published measurements, and say which of these were used to fit them.
    Verify {
        /// A profile name. Default: all.
        profile: Option<String>,
        /// Print JSON, described in docs/devices.md.
        #[arg(long)]
        json: bool,
    },
    /// Run an emulated device: a block device with the model's timing, with faults and power cuts on demand. Needs root.
    Emulate(Box<emulate::Emulate>),
    /// Serve an emulated device; started by `emulate` only.
    #[command(hide = true)]
    Serve,
    /// Fit a profile to a measured device; or compare a profile with a measurement.
    Fit(Box<Fit>),
}

/// `fonio folder`.
#[derive(Debug, Subcommand)]
pub enum Folder {
    /// Put the folder into memory; units of systemd do it at each start.
    Start {
        /// The most memory that it can take.
        size: fonio_core::ByteCount,
        /// The folder.
        dir: PathBuf,
    },
    /// Write the folder out to the disk now.
    WriteOut {
        /// The folder.
        dir: PathBuf,
    },
}

/// `fonio sync-policy`.
#[derive(Debug, Subcommand)]
pub enum SyncPolicy {
    /// Print the rules of the policy, or the class of each named database. Example: fonio sync-policy check /srv/app/app.db
    Check {
        /// The policy's file; by default the one that programs follow in this shell (`FONIO_SYNC_POLICY`).
        #[arg(long, value_name = "FILE", default_value_os_t = crate::commands::sync_policy::of_shell())]
        policy: PathBuf,
        /// The databases. They need not exist yet.
        databases: Vec<PathBuf>,
    },
    /// Remove the caches of boots that did not end cleanly, as fonio-sync-policy.service does before programs start (root).
    Boot {
        /// The policy's file.
        #[arg(long, value_name = "FILE", default_value = crate::commands::sync_policy::POLICY)]
        policy: PathBuf,
    },
    /// Record that this boot ended cleanly, as fonio-sync-policy.service does after programs have ended (root).
    Stop,
}

/// The formats of `fonio export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Trace for ui.perfetto.dev and chrome://tracing; correct at any queue depth.
    Perfetto,
    /// fio's I/O log with times (version 3), for `fio --read_iolog` (fio 3.31 or later).
    Iolog,
    /// fio's I/O log without times (version 2), for older versions of fio.
    #[value(name = "iolog-v2")]
    IologV2,
    /// One request per line.
    Csv,
    /// A recording of fonio: what the filters leave, or with tokens instead of names (--redact).
    Recording,
}

/// `fonio bench`.
#[derive(Debug, Subcommand)]
pub enum BenchWhat {
    /// Measure sequential and 4 KiB random I/O, response times, concurrency, and a long write. Example: fonio bench device /mnt
    Device {
        /// How the device is measured.
        #[command(flatten)]
        measurement: Measurement,
        /// The sets of tests to run: four, response, concurrency, interference, address-range, sustained, near-full, fit,
        /// held-back.
        #[arg(
            long = "set",
            value_name = "SET",
            value_delimiter = ',',
            value_parser = parse_set,
            default_values = ["four", "response", "concurrency", "sustained"]
        )]
        sets: Vec<Set>,
    },
    /// Measure 4 KiB random writes over growing address ranges, which shows how the device maps addresses.
    AddressRange(Measurement),
    /// Find how many reads and writes at once, sequential and random, give the device's full throughput. Example: fonio bench
    /// concurrency /mnt/card
    Concurrency {
        /// How the device is measured.
        #[command(flatten)]
        measurement: Measurement,
        /// Set what was found, until the next boot (root): the concurrency parameters of the scheduler smartio or, under another
        /// scheduler, the number of requests of the device's queue. `fonio fix --undo` takes it back.
        #[arg(long)]
        apply: bool,
    },
    /// Measure how much reads and writes slow each other down: one of each and four of each beside each other, sequential
    /// and random, over one alone.
    Interference(Measurement),
    /// Measure the throughput left after each layer: device, scheduler, file system, FUSE.
    Layers(BenchLayers),
}

/// `fonio bench layers`.
#[derive(Clone, Debug, Args)]
pub struct BenchLayers {
    /// A directory on the device; the test files in it are removed again. Or an emulated device (a profile of `fonio device
    /// list`, as root), with a file system (--fs), and a second one for the writes to the raw device.
    pub dir: PathBuf,
    /// Also measure writes to this raw device, which destroys its data; confirm with --erase. Default: only read the device
    /// that holds the directory.
    #[arg(long, value_name = "DEVICE", requires = "erase")]
    pub device: Option<PathBuf>,
    /// Confirm that this device may be overwritten.
    #[arg(long, alias = "yes-destroy", value_name = "DEVICE", requires = "device")]
    pub erase: Option<PathBuf>,
    /// Bytes written and read in each test.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "256MiB")]
    pub size: u64,
    /// Rounds; each measures every layer once. The result is the median, and a loss needs at least 3 to be shown.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..100))]
    pub rounds: u16,
    /// Measure FUSE with these options of `fonio mount -o`. Repeatable. Default: the modes from stock to auto.
    #[arg(long = "mode", value_name = "OPTIONS")]
    pub modes: Vec<String>,
    /// Make this file system on an emulated device: ext4, ext3, xfs, btrfs, f2fs, nilfs2 or vfat.
    #[arg(long = "fs", value_name = "NAME", default_value = "ext4", help_heading = EMULATED)]
    pub filesystem: fonio_host::Filesystem,
    /// How an emulated device is made.
    #[command(flatten)]
    pub emulated: EmulatedTarget,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The heading of the options of emulated devices.
const EMULATED: &str = "Emulated devices";

/// The emulated device of a benchmark, and where it is.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = EMULATED)]
pub struct EmulatedTarget {
    /// Size of an emulated device.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "2GiB")]
    pub capacity: u64,
    /// I/O scheduler of an emulated device.
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub scheduler: String,
    /// Measure an emulated device in a guest with one of Debian's kernels (`fonio lab list`): lab:6.12, lab:newest. Its clock
    /// does not depend on what else this machine does.
    #[arg(long = "in", value_name = "lab:KERNEL", value_parser = run::parse_kernel)]
    pub guest: Option<fonio_lab::Wanted>,
}

/// `fonio device fit`.
#[derive(Debug, Args)]
pub struct Fit {
    /// What is measured, and how.
    #[command(flatten)]
    pub bench: Bench,
    /// Also keep the measurement in this file.
    #[arg(long, value_name = "FILE")]
    pub save_measurement: Option<PathBuf>,
    /// Write the profile into this file.
    #[arg(short = 'o', long = "output", alias = "to", value_name = "FILE", default_value = "profile.toml")]
    pub to: PathBuf,
    /// Compare the fitted profile with this benchmark, made with `--set held-back`.
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Do not fit; compare this profile with the benchmark.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["against", "to"])]
    pub profile: Option<PathBuf>,
    /// Bootstrap resamples for the intervals; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub resamples: u32,
}

/// How a device is measured.
#[derive(Clone, Debug, Args)]
pub struct Bench {
    /// A directory, where one file is written and removed again; a block device, which is overwritten (see --erase); or an
    /// emulated device (a profile of `fonio device list`, as root). `fonio device fit` also takes a measurement that `fonio
    /// bench device -o` wrote.
    pub target: PathBuf,
    /// Confirm that this device may be overwritten.
    #[arg(long, alias = "yes-destroy", value_name = "DEVICE")]
    pub erase: Option<PathBuf>,
    /// Run each test once, for a short time, with fewer numbers of processes (1 and 4; in `bench concurrency` 1, 2, 4, 8, 16 and
    /// 32).
    #[arg(long)]
    pub quick: bool,
    /// Print what would be written, then exit.
    #[arg(long)]
    pub dry_run: bool,
    /// The address range of the tests.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "128MiB")]
    pub size: u64,
    /// The largest range of the address-range test.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "256MiB")]
    pub range_max: u64,
    /// Bytes of the long write.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "1GiB")]
    pub sustained: u64,
    /// The most runs of a test; it ends earlier when its mean is known to 2 %.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..1000))]
    pub runs: Option<u32>,
    /// The longest time of a run, without its preparation [default: 10s; of `bench concurrency` 500ms].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub run_time: Option<Duration>,
    /// Start no further run after this time [default: 15min].
    #[arg(long = "for", alias = "time", value_name = "TIME", value_parser = parse_time)]
    pub time: Option<Duration>,
    /// Seed of the random addresses.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON, described in docs/benchmark.md.
    #[arg(long)]
    pub json: bool,
    /// How an emulated device is made.
    #[command(flatten)]
    pub emulated: EmulatedTarget,
}

/// A measurement that can be kept.
#[derive(Clone, Debug, Args)]
pub struct Measurement {
    /// How the device is measured.
    #[command(flatten)]
    pub bench: Bench,
    /// Also write the JSON into this file, for `fonio device fit`.
    #[arg(short, long = "output", alias = "out", value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// How foreign traces are read.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Reading")]
pub struct Reading {
    /// Format of the trace, if it cannot be recognised: blktrace, blkparse, ftrace, systrace, msr-cambridge, disksim, csv.
    #[arg(id = "from_format", long = "from-format", alias = "from_format", value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Columns of a CSV trace, by number or by name in its first line, each with its unit:
    /// time=1:ms,op=rw,offset=off:bytes,size=len:bytes,latency=lat:us. All columns and units are in docs/traces.md.
    #[arg(long, value_name = "MAPPING")]
    pub csv: Option<Mapping>,
    /// Treat a request as never completed after this time.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "600s")]
    pub horizon: Duration,
}

/// What part of the I/O to look at.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Filters")]
pub struct FilterArgs {
    /// Analyse only this device: a name in the recording, or major:minor. Repeatable.
    #[arg(long = "only-device", value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Analyse only processes with this name or thread id. Repeatable.
    #[arg(long = "process", value_name = "NAME")]
    pub process: Vec<String>,
    /// Analyse only processes in this systemd unit, container, add-on or Android package: notes.service, web, 'docker *'.
    /// Repeatable.
    #[arg(long = "unit", value_name = "NAME")]
    pub unit: Vec<String>,
    /// Analyse only these files: a name ('notes.db*'), or a path with the files below it (/var/lib/notes). Repeatable.
    #[arg(long = "file", value_name = "FILE")]
    pub file: Vec<String>,
    /// Analyse only these operations: read, write, flush, discard, write_zeroes, … Repeatable.
    #[arg(long = "op", value_name = "OP", value_parser = parse_op)]
    pub op: Vec<Op>,
    /// Start this long after the beginning of the recording.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub from: Option<Duration>,
    /// Stop this long after the beginning of the recording.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub until: Option<Duration>,
}

/// Where and how the answer is shown.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// Print JSON; docs/report.schema.json describes it.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// Write a self-contained HTML page with charts into this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Require a figure to keep a limit: 'totals.requests<=5000'. Exit code 1 if it does not. Repeatable.
    #[arg(long, value_name = "BUDGET")]
    pub budget: Vec<String>,
}

fn parse_set(text: &str) -> Result<Set, String> {
    Set::named(text).ok_or_else(|| {
        let names: Vec<&str> = Set::ALL.iter().map(|(_, name)| *name).collect();
        format!("it is one of {}", names.join(", "))
    })
}

fn parse_op(text: &str) -> Result<Op, String> {
    Op::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Op::ALL.iter().map(|op| op.name()).collect();
        format!("it is one of {}", names.join(", "))
    })
}
