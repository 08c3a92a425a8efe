//! `fonio run` and `fonio fix`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use fonio_experiment::Change;
use fonio_host::{CpuShare, Filesystem, LinkRates};
use fonio_record::Quiet;

use fonio_core::quantity::{parse_bytes, parse_duration};

/// `fonio run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The workload: a shipped one's name, or a TOML file (docs/workloads.md). Without it, the list.
    pub workload: Option<String>,
    /// Where and how.
    #[command(flatten)]
    pub setup: SetupArgs,
    /// Also run it with these fixes, each by itself (`fonio fix` lists them); several are separated by commas.
    #[arg(long, value_name = "FIX", value_delimiter = ',', value_parser = parse_change)]
    pub fix: Vec<Change>,
    /// Replay a phone's system calls: a trace in mobigen's format, at its times.
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    pub mobigen: Option<PathBuf>,
    /// Launches of the command that follows `--`.
    #[command(flatten)]
    pub launch: LaunchArgs,
    /// With --launch, the command; with the workload `mobibench`, Mobibench's own options (`-- -f 1024 -r 4 -a 1`).
    #[arg(last = true, value_name = "ARGUMENTS", help_heading = "Arguments")]
    pub arguments: Vec<OsString>,
}

/// How a command is launched.
#[derive(Debug, Args)]
#[command(next_help_heading = "Launches")]
pub struct LaunchArgs {
    /// Launch the command that follows `--`, and say where its time goes: processor, storage, network, others.
    #[arg(long, conflicts_with_all = ["workload", "mobigen", "fix", "scale"], requires = "arguments")]
    pub launch: bool,
    /// Cold launches: what the page cache holds of the files that the command opens is dropped before each. The default.
    #[arg(long, requires = "launch", conflicts_with = "warm")]
    pub cold: bool,
    /// Warm launches: it has run before.
    #[arg(long, requires = "launch")]
    pub warm: bool,
    /// For a command that does not end by itself: the launch is over, and the command is ended, when its threads take
    /// less than this share of a processor, and none waits for storage, for this time.
    #[arg(
        long,
        requires = "launch",
        value_name = "SHARE:TIME",
        value_parser = parse_quiet,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10%:500ms"
    )]
    pub until_idle: Option<Quiet>,
    /// Files and folders that are copied to the device on which the command is launched, whose top is its folder.
    #[arg(long, requires = "launch", value_name = "PATH", value_delimiter = ',')]
    pub with: Vec<PathBuf>,
    /// Show what the command says, on standard error.
    #[arg(long, requires = "launch")]
    pub show_output: bool,
}

/// `fonio fix`.
#[derive(Debug, Args)]
pub struct Fix {
    /// The fix; without it, all of them are listed, or with --prove all that can be tried are.
    #[arg(value_parser = parse_change)]
    pub name: Option<Change>,
    /// Measure it on this workload: before and after, with intervals.
    #[arg(long, value_name = "WORKLOAD")]
    pub prove: Option<String>,
    /// Set it on this machine: on the device or mount of this path. `--undo` brings back what was there.
    #[arg(long, value_name = "PATH", requires = "name", conflicts_with = "prove")]
    pub apply: Option<PathBuf>,
    /// Bring back what was in force before --apply; without a name, of all that was applied.
    #[arg(long, conflicts_with_all = ["prove", "apply"])]
    pub undo: bool,
    /// With --apply or --undo: say what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Only fixes with which nothing is lost that an app was told is durable, but for the last seconds.
    #[arg(long)]
    pub safe: bool,
    /// Only fixes that need no other hardware.
    #[arg(long)]
    pub no_hardware: bool,
    /// With --prove: run every fix once, and then measure only the so many fastest.
    #[arg(long, value_name = "N", requires = "prove")]
    pub best: Option<usize>,
    /// Where and how.
    #[command(flatten)]
    pub setup: SetupArgs,
}

/// Where a workload runs, on what, how often.
#[derive(Clone, Debug, Args)]
pub struct SetupArgs {
    /// A folder, a block device, or the profile of an emulated device (`fonio device list`); several are separated by
    /// commas.
    #[arg(long, value_name = "PLACE", value_delimiter = ',', default_value = SetupArgs::ON_DEFAULT)]
    pub on: Vec<String>,
    /// A block device that may be overwritten although it holds data: its name a second time.
    #[arg(long, value_name = "DEVICE")]
    pub erase: Option<PathBuf>,
    /// The size of an emulated device.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "2GiB")]
    pub size: u64,
    /// The file system that is made on a device: ext4, ext3, xfs, btrfs.
    #[arg(long = "fs", value_name = "NAME", default_value = "ext4")]
    pub filesystem: Filesystem,
    /// Mount options, separated by commas.
    #[arg(long, value_name = "OPTIONS", value_delimiter = ',')]
    pub mount_options: Vec<String>,
    /// The I/O scheduler; several are separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "none")]
    pub scheduler: Vec<String>,
    /// The share of one processor that the workload may use, such as 0.25, for the slow processor of a phone. It runs for
    /// 1 ms and then stands still for the rest of a period (0.25: 3 ms), so single latencies are coarser.
    #[arg(long, value_name = "SHARE", value_parser = parse_cpu)]
    pub cpu: Option<CpuShare>,
    /// The link to the server: wifi or usb, with the rates of the first study. Without it, none.
    #[arg(long, value_name = "NAME", value_parser = parse_link)]
    pub link: Option<LinkRates>,
    /// How often each is run, or `auto`: three rounds show how much run times spread, and as many follow as bring every gain
    /// within 25 percent, for three minutes at most.
    #[arg(long, value_name = "N|auto", default_value = "3", value_parser = parse_repeat)]
    pub repeat: Repeat,
    /// The share of the full amount of work: 0.1 keeps the mix and does a tenth.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    pub scale: f64,
    /// What the workload's pauses are multiplied by: 0 leaves none.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub pace: f64,
    /// Record until what the workload left in memory is written back; the run time does not count it.
    #[arg(long)]
    pub write_back: bool,
    /// The seed of all content and of the device model.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Where the recordings go.
    #[arg(short, long, value_name = "DIR", default_value = "fonio-runs")]
    pub out: PathBuf,
    /// Where the report goes, instead of `report.html` beside the recordings.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// JSON on standard output; docs/runs.md describes it.
    #[arg(long)]
    pub json: bool,
}

impl SetupArgs {
    /// Where a workload runs if nothing is said.
    pub const ON_DEFAULT: &str = ".";
}

/// How often each setup is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// This many times.
    Times(u32),
    /// As the spread of a pilot demands.
    Auto,
}

fn parse_repeat(text: &str) -> Result<Repeat, String> {
    match text.parse::<u32>() {
        Ok(times @ 1..=1000) => Ok(Repeat::Times(times)),
        _ if text == "auto" => Ok(Repeat::Auto),
        _ => Err("write a whole number from 1 to 1000, or auto".to_owned()),
    }
}

fn parse_change(text: &str) -> Result<Change, String> {
    Change::parse(text).map_err(|error| error.to_string())
}

fn parse_cpu(text: &str) -> Result<CpuShare, String> {
    text.parse().map_err(|error: fonio_host::HostError| error.to_string())
}

/// `10%:500ms`.
fn parse_quiet(text: &str) -> Result<Quiet, String> {
    let (share, time) = text.split_once(':').ok_or("write a share and a time, such as 10%:500ms")?;
    let percent = share.strip_suffix('%').and_then(|percent| percent.parse::<f64>().ok());
    let below_share =
        percent.filter(|percent| *percent > 0.0 && *percent <= 100.0).map(|percent| percent / 100.0);
    let below_share = below_share.ok_or("write the share of a processor as above 0% to 100%")?;
    Ok(Quiet { below_share, lasting: parse_duration(time).map_err(|error| error.to_string())? })
}

fn parse_link(text: &str) -> Result<LinkRates, String> {
    LinkRates::named(text).ok_or_else(|| format!("it is one of {}", LinkRates::NAMES.join(", ")))
}
