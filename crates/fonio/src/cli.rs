//! The command line: what can be said, and nothing of what it does.

pub mod emulate;
pub mod mount;
pub mod run;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fonio_bench::plan::Set;
use fonio_core::Op;
use fonio_trace::csv::Mapping;
use fonio_trace::recognise::Format;

use fonio_core::quantity::{parse_bytes, parse_duration};

/// Shows what is using your flash, what it costs you, and which change fixes it.
///
/// Without a command: what is on flash on this machine, how full and worn it is, and who writes now.
#[derive(Debug, Parser)]
#[command(name = "fonio", version, max_term_width = 100, subcommand_help_heading = "Commands")]
#[command(after_help = "Exit codes: 0 fine, 1 a budget you stated is broken, 2 usage or bad input, \
    3 the measurement is not valid.\n\nEvery command that takes a recording takes a foreign trace too: blktrace, \
    blkparse text, ftrace text, systrace HTML, CSV.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Status card as JSON.
    #[arg(long)]
    pub json: bool,

    /// Colours in the terminal.
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
    /// Say whether storage is the problem: record for a while, or read a trace, and give the verdict.
    Check(Check),
    /// Record block I/O while a command runs, for a time, or until Ctrl-C.
    Record(Record),
    /// Explain a recording or a trace: verdict, findings, tables, pictures.
    Report(Report),
    /// Say what differs between recordings, with intervals; "no difference" is an answer.
    Compare(Compare),
    /// Turn a foreign trace into a recording: Parquet tables that any tool can read.
    Import(Import),
    /// Write a recording or trace in another tool's format.
    Export(Export),
    /// Measure a device with fio: how fast it is, where its weak point is.
    #[command(subcommand)]
    Bench(BenchWhat),
    /// List, show, verify and emulate models of flash devices.
    Device(Device),
    /// Mount a directory a second time through FUSE, at the device's speed; `mount stats DIR` asks a mount what it does.
    Mount(mount::Mount),
    /// Run an app's workload on a device, under the recorder, with and without fixes.
    Run(Box<run::Run>),
    /// List the fixes, each with what a power cut can lose; or prove what they are worth.
    Fix(Box<run::Fix>),
    /// What `run` starts this program as.
    #[command(hide = true)]
    Role {
        /// The role.
        #[command(subcommand)]
        role: crate::commands::run::Role,
    },
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder.
    Man {
        /// The folder; it is made where it is missing.
        dir: PathBuf,
    },
}

/// `fonio check`.
#[derive(Debug, Args)]
pub struct Check {
    /// A recording, a trace, a device (/dev/mmcblk0) or a folder on one; nothing records every device.
    pub what: Option<PathBuf>,
    /// How long to record where WHAT is not a recording or trace.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    pub time: Duration,
    /// Keep the recording here.
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Reading foreign traces.
    #[command(flatten)]
    pub reading: Reading,
    /// What to look at.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// How to show it.
    #[command(flatten)]
    pub output: Output,
}

/// `fonio record`.
#[derive(Debug, Args)]
pub struct Record {
    /// Only this device: /dev/mmcblk0, mmcblk0 or 179:0; may be given more than once.
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Only the device that holds this file or folder.
    #[arg(long, value_name = "PATH")]
    pub path: Vec<PathBuf>,
    /// Stop after this time (30s, 5min); else when the command ends, else at Ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub time: Option<Duration>,
    /// Where the recording goes.
    #[arg(short, long, value_name = "DIR", default_value = "fonio-recording")]
    pub out: PathBuf,
    /// Replace a recording that is there.
    #[arg(long)]
    pub overwrite: bool,
    /// Memory for events; nothing is written before the end while they fit.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "256MiB")]
    pub buffer: u64,
    /// Where events go once the buffer is full; best on another device. Without it the recording ends there.
    #[arg(long = "spill-to", value_name = "DIR")]
    pub spill: Option<PathBuf>,
    /// The kernel's ring buffer for each processor; larger where events are lost.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub kernel_buffer: Option<u64>,
    /// How often the monitor samples CPU, memory, disks, network, pressure and temperature.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "500ms")]
    pub interval: Duration,
    /// Record also why the command's threads were blocked, and who woke them; the report then says where its time went.
    #[arg(long, requires = "command")]
    pub waits: bool,
    /// The command to watch, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `fonio report`.
#[derive(Debug, Args)]
pub struct Report {
    /// A recording, or a trace: one file, the common prefix of per-CPU files, several files, or - for standard input.
    #[arg(required = true, value_name = "INPUT")]
    pub input: Vec<PathBuf>,
    /// List every figure that a budget can name, and end.
    #[arg(long)]
    pub figures: bool,
    /// Reading foreign traces.
    #[command(flatten)]
    pub reading: Reading,
    /// What to look at.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// How to show it.
    #[command(flatten)]
    pub output: Output,
}

/// `fonio compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// Two or more recordings or traces; the others are compared with the first. How runs of the same thing differ, a
    /// single recording of each cannot show: for that, give several with --before and --after.
    #[arg(required_unless_present = "before", num_args = 2.., value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// Recordings of repeated runs before a change, three or more.
    #[arg(long, num_args = 1.., value_name = "INPUT", requires = "after", conflicts_with = "inputs")]
    pub before: Vec<PathBuf>,
    /// Recordings of repeated runs after it, three or more.
    #[arg(long, num_args = 1.., value_name = "INPUT", requires = "before")]
    pub after: Vec<PathBuf>,
    /// Reading foreign traces.
    #[command(flatten)]
    pub reading: Reading,
    /// What to look at.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// How to show it.
    #[command(flatten)]
    pub output: Output,
}

/// `fonio import`.
#[derive(Debug, Args)]
pub struct Import {
    /// A trace: one file, the common prefix of per-CPU files, several files, or - for standard input.
    #[arg(required = true, value_name = "INPUT")]
    pub input: Vec<PathBuf>,
    /// Where the recording goes.
    #[arg(short, long, value_name = "DIR")]
    pub out: PathBuf,
    /// Replace a recording that is there.
    #[arg(long)]
    pub overwrite: bool,
    /// Reading foreign traces.
    #[command(flatten)]
    pub reading: Reading,
    /// What to take over.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// `fonio export`.
#[derive(Debug, Args)]
pub struct Export {
    /// A recording or a trace.
    #[arg(required = true, value_name = "INPUT")]
    pub input: Vec<PathBuf>,
    /// The format.
    #[arg(long, value_enum)]
    pub format: ExportFormat,
    /// The file; - is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub out: PathBuf,
    /// Reading foreign traces.
    #[command(flatten)]
    pub reading: Reading,
    /// What to export.
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
    /// List the profiles that come with fonio.
    List {
        /// JSON on standard output; docs/devices.md describes it.
        #[arg(long)]
        json: bool,
    },
    /// Show a profile: every number with its source.
    Show {
        /// The name of a profile, or a file ending in .toml.
        profile: String,
        /// JSON on standard output; docs/devices.md describes it.
        #[arg(long, conflicts_with = "toml")]
        json: bool,
        /// The profile as a file, to be changed and given back.
        #[arg(long)]
        toml: bool,
    },
    /// Hold the models against published numbers that they were not fitted to.
    Verify {
        /// The name of a profile; all of them without it.
        profile: Option<String>,
        /// JSON on standard output; docs/devices.md describes it.
        #[arg(long)]
        json: bool,
    },
    /// Be such a device: a block device with its times, faults on demand, power cuts. Needs root.
    Emulate(Box<emulate::Emulate>),
    /// The process behind `emulate`, which alone starts it.
    #[command(hide = true)]
    Serve,
    /// Turn a benchmark of a device into a profile, with its uncertainty; or hold a profile against a benchmark.
    Fit(Box<Fit>),
}

/// The formats of `fonio export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// For ui.perfetto.dev and chrome://tracing; right at any queue depth.
    Perfetto,
    /// fio's I/O log with times (version 3), for `fio --read_iolog` from fio 3.31 on.
    Iolog,
    /// The same without times (version 2), for older versions of fio.
    #[value(name = "iolog-v2")]
    IologV2,
    /// One request a line.
    Csv,
}

/// `fonio bench`.
#[derive(Debug, Subcommand)]
pub enum BenchWhat {
    /// Sequential and 4 KiB random reads and writes, response times, concurrency, and the rate of a long write.
    Device {
        /// How it is done.
        #[command(flatten)]
        bench: Bench,
        /// What is measured: four, response, concurrency, address-range, sustained, near-full, fit, held-back.
        #[arg(
            long = "set",
            value_name = "SET",
            value_delimiter = ',',
            value_parser = parse_set,
            default_values = ["four", "response", "concurrency", "sustained"]
        )]
        sets: Vec<Set>,
    },
    /// 4 KiB random writes over growing ranges: shows how the device translates addresses.
    AddressRange(Bench),
    /// 1, 2, 4 and 8 processes at once.
    Concurrency(Bench),
    /// Where throughput is lost between a file and the device: device, scheduler, file system, FUSE.
    Layers(BenchLayers),
}

/// `fonio bench layers`.
#[derive(Clone, Debug, Args)]
pub struct BenchLayers {
    /// A folder; what is written in it is removed again.
    pub dir: PathBuf,
    /// Write to this device too, which loses what it holds; else the folder's device is only read. Name it twice.
    #[arg(long, value_name = "DEV", requires = "yes_destroy")]
    pub device: Option<PathBuf>,
    /// The device again, to say that what it holds may be lost.
    #[arg(long, value_name = "DEV", requires = "device")]
    pub yes_destroy: Option<PathBuf>,
    /// What is written and read at a time.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "256MiB")]
    pub size: u64,
    /// How often each layer is measured; the median counts.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..100))]
    pub rounds: u16,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `fonio device fit`.
#[derive(Debug, Args)]
pub struct Fit {
    /// What is measured, and how; a file that `fonio bench device --out` wrote is taken as it is.
    #[command(flatten)]
    pub bench: Bench,
    /// Where the profile goes.
    #[arg(short = 'o', long, value_name = "FILE", default_value = "profile.toml")]
    pub to: PathBuf,
    /// A benchmark with the set held-back, to hold the fitted profile against.
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Fit nothing: hold this profile against the benchmark.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["against", "to"])]
    pub profile: Option<PathBuf>,
    /// Resamples of the measurement, for the intervals; 0 leaves them out.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub resamples: u32,
}

/// How a device is measured.
#[derive(Clone, Debug, Args)]
pub struct Bench {
    /// A folder, in which one file is written and removed again, or a block device, which is overwritten.
    pub target: PathBuf,
    /// The device again, to say that what it holds may be lost.
    #[arg(long, value_name = "DEV")]
    pub yes_destroy: Option<PathBuf>,
    /// Every test once and short; of the concurrency tests only those with 1 and 4 processes.
    #[arg(long)]
    pub quick: bool,
    /// Only say what would be written.
    #[arg(long)]
    pub dry_run: bool,
    /// The range of the tests.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "128MiB")]
    pub size: u64,
    /// The largest range of the address range test.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "256MiB")]
    pub range_max: u64,
    /// What the long write writes.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "1GiB")]
    pub sustained: u64,
    /// The most runs of a test; fewer where the mean is known to 2 % before.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..1000))]
    pub runs: Option<u32>,
    /// The longest that a run takes, without its preparation [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub run_time: Option<Duration>,
    /// Begin no run after this time [default: 15min].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub time: Option<Duration>,
    /// The seed of the random places.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// JSON on standard output; its shape is in docs/benchmark.md.
    #[arg(long)]
    pub json: bool,
    /// Write the JSON into this file too, for `fonio device fit`.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// How foreign traces are read.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Reading")]
pub struct Reading {
    /// The trace's format, where its content does not tell: blktrace, blkparse, ftrace, systrace, msr-cambridge, disksim, csv.
    #[arg(id = "from_format", long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Columns of a CSV trace: time=1:ms,op=rw,offset=off:bytes,size=len:bytes,latency=lat:us (see the manual).
    #[arg(long, value_name = "MAPPING")]
    pub csv: Option<Mapping>,
    /// Give a request out without completion after this time.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "600s")]
    pub horizon: Duration,
}

/// What part of the I/O to look at.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Filters")]
pub struct FilterArgs {
    /// Only requests of this device: a name in the recording, or major:minor.
    #[arg(long = "only-device", value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Only requests of processes with this name or thread id.
    #[arg(long = "process", value_name = "NAME")]
    pub process: Vec<String>,
    /// Only these: read, write, flush, discard, write_zeroes, …
    #[arg(long = "op", value_name = "OP", value_parser = parse_op)]
    pub op: Vec<Op>,
    /// Only from this time after the beginning on.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub from: Option<Duration>,
    /// Only until this time after the beginning.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub until: Option<Duration>,
}

/// Where and how the answer is shown.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// JSON on standard output; the schema is in docs/report.schema.json.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Markdown on standard output.
    #[arg(long)]
    pub markdown: bool,
    /// One self-contained HTML file with charts.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// A threshold on any figure: 'totals.requests<=5000'; exit code 1 where it is broken. May be given more than once.
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
