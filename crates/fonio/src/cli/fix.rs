//! The command line of `fonio fix`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Subcommand};
use fonio_core::quantity::parse_duration;
use fonio_experiment::Candidate;

use super::run::{Candidates, SetupArgs, WorkArgs};
use super::{Cli, parse_time};

/// `fonio fix`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = groups())]
pub struct Fix {
    /// The action on a fix.
    #[command(subcommand)]
    pub command: Option<FixCommand>,
    #[command(flatten)]
    pub screen: Screen,
}

/// `fonio fix` without a verb.
#[derive(Debug, Args)]
pub struct Screen {
    #[command(flatten)]
    pub choice: Choice,
    /// Print everything, not only the most important lines.
    ///
    /// Prints every fix, with its description and the data that a power cut can lose with it.
    #[arg(long)]
    pub all: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A choice of fixes.
#[derive(Clone, Copy, Debug, Args)]
pub struct Choice {
    /// Choose only fixes that lose at most the last few seconds of synced data in a power cut.
    #[arg(long)]
    pub safe: bool,
    /// Choose only fixes that need no new hardware.
    #[arg(long)]
    pub no_hardware: bool,
}

/// The verbs of `fonio fix`.
#[derive(Debug, Subcommand)]
pub enum FixCommand {
    /// Show one fix: what it changes, needs and costs, and the data that a power cut can lose with it.
    ///
    /// Reads the settings of this machine, and writes nothing.
    ///
    /// Example: fonio fix show bfq
    Show(FixShow),
    /// Apply a fix to this machine until the next boot, or permanently with --keep.
    ///
    /// Changes the setting that `fonio fix show NAME` names, and records the former value for `fonio fix undo`. Needs root.
    ///
    /// Example: sudo fonio fix apply bfq /mnt/sd
    Apply(FixApply),
    /// Undo one fix or all fixes: restore the former settings, and remove kept settings from the
    /// configuration files.
    ///
    /// Reads the record of what fonio changed. Needs root.
    ///
    /// Example: sudo fonio fix undo bfq
    Undo(FixUndo),
    /// Measure the gain of fixes, with a workload or with your own command.
    ///
    /// Runs the workload or command in rounds, with and without each fix, and reports each gain with its
    /// confidence interval. Writes recordings and a page. A command runs on your own disk: name a folder on
    /// this disk with --on. The setting is changed before each measurement and restored after it. For fixes of
    /// SQLite, each measurement gets a fresh copy of the command's databases; the originals are not changed.
    ///
    /// Example: fonio fix prove --safe webbench --on ridata
    Prove(Box<FixProve>),
    /// Test a setting while the machine does its usual work.
    ///
    /// Switches the setting on and off in slices of time: in each pair of slices, one slice has the setting,
    /// and the order is random. Compares the times for which threads were blocked on storage, stops when the
    /// result is clear, and always restores the setting. Writes a recording of each slice. Needs root.
    ///
    /// Example: sudo fonio fix trial bfq /mnt/sd --for 10m
    Trial(FixTrial),
}

/// The names of the fixes, grouped by what they change, for the help.
fn groups() -> String {
    let mut text = "Fixes, by what they change:\n".to_owned();
    for group in fonio_host::Group::ALL {
        let names: Vec<&str> = fonio_experiment::Fix::of_group(group).map(|fix| fix.name).collect();
        text.push_str(&format!("  {:<21} {}\n", group.heading(), names.join(", ")));
    }
    text
}

/// `fonio fix show`.
#[derive(Debug, Args)]
pub struct FixShow {
    /// The fix, such as noatime or io-weight=50.
    #[arg(value_parser = super::run::parse_candidate)]
    pub name: Candidate,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `fonio fix apply`.
#[derive(Debug, Args)]
pub struct FixApply {
    /// The fix, such as noatime or io-weight=50.
    #[arg(value_parser = super::run::parse_candidate)]
    pub name: Candidate,
    /// A path whose device or mount is changed; or the folder, database or systemd unit to change.
    ///
    /// A setting of the whole machine needs no target.
    pub target: Option<PathBuf>,
    /// Apply the fix to this running process, its threads and its descendants.
    ///
    /// This is possible for io-class, io-rate and io-weight. With io-rate, the target is a path on the only disk
    /// whose rate is limited.
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Keep the fix across reboots.
    ///
    /// Uses `/etc/fstab`, a udev rule, a sysctl.d file, or a systemd drop-in or unit.
    #[arg(long, conflicts_with_all = ["pid", "command"])]
    pub keep: bool,
    /// Print what would be done, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Change a folder even if programs have files in it open for writing.
    ///
    /// Restart these programs immediately afterwards.
    #[arg(long)]
    pub force: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Run this command with the fix.
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["pid", "json"])]
    pub command: Vec<OsString>,
}

/// `fonio fix undo`.
#[derive(Debug, Args)]
pub struct FixUndo {
    /// The fix to undo. Default: all.
    #[arg(value_parser = super::run::parse_candidate)]
    pub name: Option<Candidate>,
    /// The target on which the fix was applied. Default: all targets.
    pub target: Option<PathBuf>,
    /// Print what would be done, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `fonio fix prove`.
#[derive(Debug, Args)]
#[command(override_usage = "fonio fix prove [OPTIONS] NAME[,NAME…]|all WORKLOAD --on PLACE\n       \
    fonio fix prove [OPTIONS] --safe|--no-hardware WORKLOAD --on PLACE\n       \
    fonio fix prove [OPTIONS] NAME[,NAME…] --on PLACE -- CMD\n       \
    fonio fix prove [OPTIONS] wal-full|wal-normal|synchronous|… [--database FILE] -- CMD\n       \
    fonio fix prove [OPTIONS] --versus LINE -- CMD")]
pub struct FixProve {
    /// The fixes, separated by commas, or `all`; then the workload (`fonio run` lists the workloads). With
    /// --safe or --no-hardware, name only the workload.
    #[arg(value_name = "NAMES WORKLOAD", num_args = 0..=2)]
    pub words: Vec<String>,
    #[command(flatten)]
    pub choice: Choice,
    /// Run every fix once, then measure only the N fastest fixes.
    #[arg(long, value_name = "N")]
    pub best: Option<usize>,
    /// Print more.
    ///
    /// Names each fix that is left out, with the reason.
    #[arg(short)]
    pub verbose: bool,
    /// Run this shell command before each measurement, so that every measurement starts with the same files.
    ///
    /// The time of this command is not measured.
    #[arg(long, value_name = "LINE", requires = "command")]
    pub prepare: Option<String>,
    /// Give each measurement a fresh copy of this SQLite database. Repeatable.
    ///
    /// The copy is on the same file system, and the command finds it in the place of the original. Default: the
    /// database that the command changes in a first run, whose changes are thrown away.
    #[arg(long, value_name = "FILE", requires = "command")]
    pub database: Vec<PathBuf>,
    /// Compare the command with this shell command: the program before a change.
    ///
    /// Both get fresh copies of the databases that the shell command changes.
    #[arg(long, value_name = "LINE", requires = "command")]
    pub versus: Option<String>,
    /// Print what would be done, and change nothing.
    ///
    /// Runs the command once to find its databases; what it changes is thrown away.
    #[arg(long, requires = "command")]
    pub dry_run: bool,
    #[command(flatten)]
    pub setup: SetupArgs,
    #[command(flatten)]
    pub work: WorkArgs,
    /// Measure this command.
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["best", "WorkArgs"])]
    pub command: Vec<OsString>,
}

/// The fixes that `fonio fix prove` measures, and the workload or command.
#[derive(Debug)]
pub struct Proof {
    /// The fixes; `None` for all fixes that the options select.
    pub names: Option<Candidates>,
    /// The workload; `None` for a command.
    pub workload: Option<String>,
}

impl FixProve {
    /// Separates the names of fixes from the workload. Fails if a word is missing or superfluous, or if a fix
    /// is unknown.
    pub fn proof(&self) -> anyhow::Result<Proof> {
        let is_chosen = self.choice.safe || self.choice.no_hardware;
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let (names, workload) = match (is_chosen, words.as_slice()) {
            (true, []) => (None, None),
            (true, [workload]) => (None, Some(*workload)),
            (true, [..]) => {
                anyhow::bail!(
                    "--safe and --no-hardware already choose the fixes: omit either the names of fixes or these options"
                )
            }
            (false, []) if self.versus.is_some() => (Some(""), None),
            (false, []) => anyhow::bail!("name the fix to prove: `fonio fix prove bfq webbench --on PLACE`"),
            (false, [names, rest @ ..]) => (Some(*names), rest.first().copied()),
        };
        match (workload, self.command.is_empty()) {
            (Some(_), false) => anyhow::bail!("name either a workload or a command after `--`, not both"),
            (None, true) => {
                anyhow::bail!("name a workload (`fonio run` lists them), or write a command after `--`")
            }
            _ => {}
        }
        let names = match names {
            // Two commands can be compared without a fix.
            Some("") if self.versus.is_some() => Ok(Some(Candidates::default())),
            names => names.filter(|names| *names != "all").map(str::parse).transpose(),
        };
        Ok(Proof { names: names.map_err(anyhow::Error::msg)?, workload: workload.map(str::to_owned) })
    }
}

/// `fonio fix trial`.
#[derive(Clone, Debug, Args)]
pub struct FixTrial {
    /// The fix, such as bfq or read-ahead=512KiB.
    #[arg(value_parser = super::run::parse_candidate)]
    pub name: Candidate,
    /// The device whose setting is tested, or a file or folder on it.
    ///
    /// A setting of the whole machine needs no target.
    pub target: Option<PathBuf>,
    /// End after this time.
    ///
    /// The test ends earlier when the result is clear. A resumed test (--resume) gets the full time again.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, default_value = "10m")]
    pub lasting: Duration,
    /// Look only at this systemd unit, container or Android package.
    ///
    /// Default: all threads, except those that do bulk work such as copies.
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<String>,
    /// Measure each slice for this time.
    ///
    /// Default: the longest time until the kernel writes dirty pages back, plus 5 s (40 s on most machines).
    #[arg(long, value_name = "TIME", value_parser = parse_slice)]
    pub slice: Option<Duration>,
    /// Do not measure for this time after each switch.
    ///
    /// Default: for a setting of the disk's queue, the interval of write-back (5 s). For other settings, the
    /// time until the kernel has written pages that were dirtied before the switch (35 s).
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub carry_over: Option<Duration>,
    /// Continue the test in this folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "seed"])]
    pub resume: Option<PathBuf>,
    /// Draw all random choices from this seed.
    ///
    /// Default: a new seed, which is printed.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Write the result to this path.
    ///
    /// PATH is a folder for the slices. Default: fonio-live, or the first free name of fonio-live-2, …
    #[arg(short, long = "output", value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Replaces the error for `fonio fix NAME`, which lacks a verb, by a message that names `fonio fix show
/// NAME`.
pub fn with_verb(error: clap::Error) -> clap::Error {
    let name = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) if Candidate::parse(name).is_ok() => name,
        _ => return error,
    };
    let said = format!("{name} is a fix; `fonio fix show {name}` describes it and lists its commands");
    Cli::command().error(ErrorKind::InvalidSubcommand, said)
}

/// Parses the duration of a slice.
fn parse_slice(text: &str) -> Result<Duration, String> {
    /// Shorter slices contain hardly any waits; longer slices would fill the recorder's memory.
    const POSSIBLE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if POSSIBLE.contains(&time) { Ok(time) } else { Err("write a time from 1s to 1h".to_owned()) }
}
