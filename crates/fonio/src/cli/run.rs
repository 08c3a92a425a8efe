//! The command lines of `fonio run` and `fonio fix`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fonio_experiment::Candidate;
use fonio_host::{CpuShare, Filesystem, LinkRates};
use fonio_lab::Wanted;
use fonio_record::Quiet;

use fonio_core::quantity::{parse_bytes, parse_duration};

/// `fonio run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The workload: a name from the list, or a TOML file (docs/workloads.md). Default: print the list.
    pub workload: Option<String>,
    /// Where and how the workload runs.
    #[command(flatten)]
    pub setup: SetupArgs,
    /// Also run the workload with each of these fixes, separated by commas (`fonio fix` lists them).
    #[arg(long, value_name = "FIX", value_delimiter = ',', value_parser = parse_candidate)]
    pub fix: Vec<Candidate>,
    /// Replay the system calls of a phone with their original timing, from a trace in mobigen's format.
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    pub mobigen: Option<PathBuf>,
    /// Replay the reads, writes and flushes of this recording, past the page cache: each thread goes on when what it had waited
    /// for has ended. Compare places with --on, settings with --fix.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["workload", "mobigen", "arguments", "launch"])]
    pub recording: Option<PathBuf>,
    /// With --recording: replay its file-system calls (`fonio record --calls`), through the page cache and the file system of
    /// each place.
    #[arg(long, requires = "recording")]
    pub calls: bool,
    /// With --recording: without pauses, as fast as it goes.
    #[arg(long, requires = "recording")]
    pub fast: bool,
    /// How the command after `--` is launched.
    #[command(flatten)]
    pub launch: LaunchArgs,
    /// The command for --launch; or, with the workload `mobibench`, Mobibench's options (`-- -f 1024 -r 4 -a 1`).
    #[arg(last = true, value_name = "ARGUMENTS", help_heading = "Arguments")]
    pub arguments: Vec<OsString>,
}

/// How a command is launched.
#[derive(Debug, Args)]
#[command(next_help_heading = "Launches")]
pub struct LaunchArgs {
    /// Launch the command after `--` and report where its time goes: processor, storage, network, other waits.
    #[arg(long, conflicts_with_all = ["workload", "mobigen", "fix", "scale"], requires = "arguments")]
    pub launch: bool,
    /// Launch cold: drop the command's files from the page cache before each launch. This is the default.
    #[arg(long, requires = "launch", conflicts_with = "warm")]
    pub cold: bool,
    /// Launch warm: run the command once before measuring.
    #[arg(long, requires = "launch")]
    pub warm: bool,
    /// For a command that does not exit: end the launch, and the command, once its threads use less than SHARE of a
    /// processor and none waits for storage, for TIME.
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
    /// Copy these files and directories to the device first; the command starts in the top directory of the device.
    #[arg(long, requires = "launch", value_name = "PATH", value_delimiter = ',')]
    pub with: Vec<PathBuf>,
    /// Show the command's output on standard error.
    #[arg(long, requires = "launch")]
    pub show_output: bool,
}

/// `fonio fix`.
#[derive(Debug, Args)]
pub struct Fix {
    /// The fix, such as noatime or io-weight=50. Default: list what is applied here and all fixes, or with --prove WORKLOAD
    /// measure all that can be tried here. A command and --live need a name.
    #[arg(value_parser = parse_candidate)]
    pub name: Option<Candidate>,
    /// Run this workload, or the command after `--`, with and without the fix, and report the gain with its interval. A
    /// command runs on your own disk: --on names a directory on it, and the setting is changed for each measurement and
    /// restored after it.
    #[arg(long, value_name = "WORKLOAD", num_args = 0..=1, default_missing_value = "")]
    pub prove: Option<String>,
    /// Apply the fix to the device or mount that holds this path, or to this folder, database or unit of systemd, until the next
    /// boot. `--undo` restores the previous setting. A setting of the whole machine needs no path.
    #[arg(long, value_name = "PATH|UNIT", requires = "name", conflicts_with = "prove", num_args = 0..=1)]
    pub apply: Option<Option<PathBuf>>,
    /// Apply the fix and keep it across reboots: in `/etc/fstab`, in a rule of udev, in a file of sysctl.d, or in a drop-in or
    /// unit of systemd.
    #[arg(long, value_name = "PATH|UNIT", requires = "name", conflicts_with_all = ["prove", "apply"], num_args = 0..=1)]
    pub keep: Option<Option<PathBuf>>,
    /// Restore the settings from before --apply or --keep, and take the kept ones out of the files: of this fix, or without a
    /// name of all fixes.
    #[arg(long, conflicts_with_all = ["prove", "apply", "keep"])]
    pub undo: bool,
    /// With --apply, --keep or --undo: print what would change, and change nothing. With a name only: print what the fix needs.
    #[arg(long)]
    pub dry_run: bool,
    /// With --apply or --keep and a fix of a folder: also if programs have files in the folder open for writing. Restart them
    /// at once.
    #[arg(long, requires = "name", conflicts_with_all = ["prove", "undo"])]
    pub force: bool,
    /// With --prove and a command: run this line of the shell before each measurement, to bring the files into the same state.
    /// Its time is not measured.
    #[arg(long = "setup", value_name = "LINE", requires = "prove", requires = "arguments")]
    pub before_each: Option<String>,
    /// Only fixes that lose at most the last seconds of synced data at a power cut.
    #[arg(long)]
    pub safe: bool,
    /// Only fixes that need no new hardware.
    #[arg(long)]
    pub no_hardware: bool,
    /// With --prove: run every fix once, then measure only the N fastest.
    #[arg(long, value_name = "N", requires = "prove")]
    pub best: Option<usize>,
    /// Where and how the workload runs.
    #[command(flatten)]
    pub setup: SetupArgs,
    /// How a setting is tested on the machine in use.
    #[command(flatten)]
    pub live: LiveArgs,
    /// The command for --prove.
    #[arg(last = true, value_name = "COMMAND", requires = "prove", help_heading = "Arguments")]
    pub arguments: Vec<OsString>,
}

/// How a setting is tested on the machine in use.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tests on the machine in use")]
pub struct LiveArgs {
    /// With --prove: test a setting while the machine does its usual work. The setting is switched back and forth in slices of
    /// time; each pair of slices has one with it, in an order drawn at random. fonio compares how long threads were blocked on
    /// storage, stops when the answer is clear, and restores the setting in any case.
    #[arg(long, requires = "prove", requires = "name", conflicts_with_all = [
        "before_each", "best", "arguments", "guest", "dry_run", "safe", "no_hardware", "erase", "size", "dilate", "fault",
        "filesystem", "mount_options", "scheduler", "full", "cpu", "memory", "beside", "beside_scale", "link", "repeat", "scale", "pace", "write_back", "seed", "html",
    ])]
    pub live: bool,
    /// The device whose setting is tested, or a file or folder on it. A setting of the whole machine needs none.
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// End after this time at the latest. A test that goes on gets this time anew.
    #[arg(long = "for", requires = "live", value_name = "TIME", value_parser = super::parse_time, default_value = "10m")]
    pub lasting: Duration,
    /// Measure the threads of this systemd unit or container. Default: those of all programs, without bulk work such as copies.
    #[arg(long, requires = "live", value_name = "UNIT")]
    pub unit: Option<String>,
    /// The measured time of a slice. Default: 5 s more than the kernel takes at most to write dirty pages back, which is 40 s on
    /// most machines.
    #[arg(long, requires = "live", value_name = "TIME", value_parser = parse_slice)]
    pub slice: Option<Duration>,
    /// The time after a switch that is not measured. Default: for a setting of the disk's queue, the time between two wake-ups of
    /// write-back (5 s); for other settings, as long as dirty pages of before the switch remain (35 s).
    #[arg(long, requires = "live", value_name = "TIME", value_parser = parse_duration)]
    pub carry_over: Option<Duration>,
    /// Go on with the test in this folder.
    #[arg(long, requires = "live", value_name = "DIR", conflicts_with_all = ["out", "order_seed"])]
    pub resume: Option<PathBuf>,
    /// Seed of the order of slices. Default: a new one, which is printed.
    #[arg(long, requires = "live", value_name = "N")]
    pub order_seed: Option<u64>,
}

/// Parses the time of a slice.
fn parse_slice(text: &str) -> Result<Duration, String> {
    /// Shorter ones hold hardly any wait, and longer ones would fill the recorder's memory.
    const POSSIBLE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if POSSIBLE.contains(&time) { Ok(time) } else { Err("write a time from 1s to 1h".to_owned()) }
}

/// Where a workload runs, on what, how often.
#[derive(Clone, Debug, Args)]
pub struct SetupArgs {
    /// Run on this directory, block device, emulated device (a profile of `fonio device list`), or array of emulated devices
    /// (md-raid0:ridata+transcend, made by the kernel's md driver). Separate several by commas. With --recording also
    /// model:PROFILE, a model of that device under models of schedulers, in virtual time and without root.
    #[arg(long, value_name = "PLACE", value_delimiter = ',', default_value = SetupArgs::ON_DEFAULT)]
    pub on: Vec<String>,
    /// Run everything in a guest with one of Debian's kernels (`fonio lab list`): lab:6.12, lab:newest. Its clock does not
    /// depend on what else this machine does.
    #[arg(long = "in", value_name = "lab:KERNEL", value_parser = parse_kernel)]
    pub guest: Option<Wanted>,
    /// Confirm that this block device may be overwritten.
    #[arg(long, value_name = "DEVICE")]
    pub erase: Option<PathBuf>,
    /// Size of an emulated device, or of all devices of an array together.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "2GiB")]
    pub size: u64,
    /// Slow emulated devices down by this factor, if this machine is too slow to emulate them in real time. The processor
    /// is not slowed down: compare run times only with those at the same factor.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = super::emulate::parse_dilation)]
    pub dilate: f64,
    /// Inject a fault into the emulated device, such as vanish:after=10s (`fonio device emulate --help` lists them); into the
    /// last device of an array. Repeatable.
    #[arg(long, value_name = "KIND:SETTINGS")]
    pub fault: Vec<String>,
    /// Make this file system on the device: ext4, ext3, xfs, btrfs, f2fs, nilfs2 or vfat. Separate several by commas.
    /// Default: ext4.
    #[arg(long = "fs", value_name = "NAME", value_delimiter = ',')]
    pub filesystem: Vec<Filesystem>,
    /// Mount options, separated by commas.
    #[arg(long, value_name = "OPTIONS", value_delimiter = ',')]
    pub mount_options: Vec<String>,
    /// Use this I/O scheduler. Separate several by commas. Default: none on an emulated device, the current one on a block
    /// device, all models in a model.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub scheduler: Vec<String>,
    /// Fill the file system to this share before each run, such as 0.9, as on a device in use: files are written until it
    /// is full, and random ones are deleted.
    #[arg(long, value_name = "SHARE", value_parser = parse_full)]
    pub full: Option<f64>,
    /// Limit the workload to this share of one processor, such as 0.25, to imitate a phone's slow processor. The workload
    /// runs for 1 ms and then pauses for the rest of a period (3 ms at 0.25), which makes single latencies coarser.
    #[arg(long, value_name = "SHARE", value_parser = parse_cpu)]
    pub cpu: Option<CpuShare>,
    /// Limit the memory of the workload, with the page cache of the files that it uses, to this size, as on a small board:
    /// 512MiB. What does not fit is written back or dropped earlier; a workload that needs more itself is killed.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub memory: Option<u64>,
    /// Limit the link to the server to the rate of the phone study: wifi or usb. Default: no limit.
    #[arg(long, value_name = "NAME", value_parser = parse_link)]
    pub link: Option<LinkRates>,
    /// Run this workload beside, on the same storage and within the same limits, for as long as the measured one runs:
    /// background, or another of the list or a TOML file. Both have their own figures. A fix changes the measured one.
    #[arg(long, value_name = "WORKLOAD")]
    pub beside: Option<String>,
    /// Scale the amount of work of the workload beside.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = parse_scale, requires = "beside")]
    pub beside_scale: f64,
    /// Number of rounds, each of which runs every setup once; or `auto`: three rounds show how much run times vary, then
    /// as many follow as are needed to know every gain within 25 %, for three minutes at most.
    #[arg(long, value_name = "N|auto", default_value = "3", value_parser = parse_repeat)]
    pub repeat: Repeat,
    /// Scale the amount of work: 0.1 does a tenth in the same mix.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = parse_scale)]
    pub scale: f64,
    /// Multiply the workload's pauses: 0 for none.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub pace: f64,
    /// Record until the page cache is written back. The run time does not include this.
    #[arg(long)]
    pub write_back: bool,
    /// Seed of file contents and of the device model.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the recordings into this new directory. Default: fonio-runs, or the first free one of fonio-runs-2, …
    #[arg(short, long = "output", alias = "out", value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write the report into this file, not into `report.html` beside the recordings.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON, described in docs/runs.md.
    #[arg(long)]
    pub json: bool,
}

impl SetupArgs {
    /// Where a workload runs by default.
    pub const ON_DEFAULT: &str = ".";
}

/// Number of runs of each setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// This many times.
    Times(u32),
    /// As many as the spread of a pilot requires.
    Auto,
}

fn parse_repeat(text: &str) -> Result<Repeat, String> {
    match text.parse::<u32>() {
        Ok(times @ 1..=1000) => Ok(Repeat::Times(times)),
        _ if text == "auto" => Ok(Repeat::Auto),
        _ => Err("write a whole number from 1 to 1000, or auto".to_owned()),
    }
}

pub(super) fn parse_kernel(text: &str) -> Result<Wanted, String> {
    text.parse().map_err(|error: fonio_lab::LabError| error.to_string())
}

fn parse_candidate(text: &str) -> Result<Candidate, String> {
    Candidate::parse(text).map_err(|error| error.to_string())
}

fn parse_cpu(text: &str) -> Result<CpuShare, String> {
    text.parse().map_err(|error: fonio_host::HostError| error.to_string())
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
    let below_share = below_share.ok_or("write the share of a processor as above 0% to 100%")?;
    Ok(Quiet { below_share, lasting: parse_duration(time).map_err(|error| error.to_string())? })
}

fn parse_link(text: &str) -> Result<LinkRates, String> {
    LinkRates::named(text).ok_or_else(|| format!("it is one of {}", LinkRates::NAMES.join(", ")))
}
