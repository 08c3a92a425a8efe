//! `fonio run` and `fonio fix`.

use std::path::PathBuf;

use clap::Args;
use fonio_experiment::Change;
use fonio_host::{Filesystem, LinkRates};

use crate::quantity::parse_size;

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
#[derive(Debug, Args)]
pub struct SetupArgs {
    /// A folder, a block device, or the profile of an emulated device (`fonio device list`); several are separated by
    /// commas.
    #[arg(long, value_name = "PLACE", value_delimiter = ',', default_value = ".")]
    pub on: Vec<String>,
    /// A block device that may be overwritten although it holds data: its name a second time.
    #[arg(long, value_name = "DEVICE")]
    pub erase: Option<PathBuf>,
    /// The size of an emulated device.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "2GiB")]
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
    /// The link to the server: wifi or usb, with the rates of the first study. Without it, none.
    #[arg(long, value_name = "NAME", value_parser = parse_link)]
    pub link: Option<LinkRates>,
    /// How often each is run.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
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

fn parse_change(text: &str) -> Result<Change, String> {
    Change::parse(text).map_err(|error| error.to_string())
}

fn parse_link(text: &str) -> Result<LinkRates, String> {
    LinkRates::named(text).ok_or_else(|| format!("it is one of {}", LinkRates::NAMES.join(", ")))
}
