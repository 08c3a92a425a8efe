//! The command line of `fonio storebench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use fonio_core::quantity::parse_bytes;

use super::{EmulatedTarget, Output, parse_time};

/// `fonio storebench`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "fonio storebench [OPTIONS] [TARGET]\n       fonio storebench show|compare|submit|delete …",
    after_help = "Examples:\n  \
    fonio storebench /mnt/card                      measure the device below a directory\n  \
    sudo fonio storebench /dev/mmcblk0              read a device, and write nothing\n  \
    fonio storebench show storebench.json           show a result again\n  \
    fonio storebench compare before.json after.json  name the differences that are not chance\n\n\
    For a directory with the name of a subcommand, write ./show."
)]
pub struct StoreBench {
    /// What to do with a result.
    #[command(subcommand)]
    pub command: Option<StoreBenchCommand>,
    #[command(flatten)]
    pub measure: StoreBenchRun,
}

/// A measurement.
#[derive(Debug, Args)]
pub struct StoreBenchRun {
    /// A directory, where files are written and removed again; a block device, which is only read (see --erase); or an
    /// emulated device (a profile of `fonio device list`, as root).
    #[arg(default_value = ".")]
    pub target: PathBuf,
    /// Overwrite this device, and lose its data.
    ///
    /// Name the block device again, to measure also its writes.
    #[arg(long, value_name = "DEVICE")]
    pub erase: Option<PathBuf>,
    /// Measure once, for a short time, with little data.
    ///
    /// The result is compared with quick ones only.
    #[arg(long)]
    pub quick: bool,
    /// Print what would be done, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// End after this time.
    ///
    /// At most 10min, because longer runs would not be comparable.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, default_value = "10min")]
    pub time: Duration,
    /// Write at most this much.
    ///
    /// A smaller limit shortens the long write, then reduces repetitions, then leaves parts out.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "16GiB")]
    pub max_write: u64,
    /// Do not continue an interrupted run.
    #[arg(long)]
    pub restart: bool,
    /// Write the result to this path.
    ///
    /// A file. Default: a new file in fonio's state folder.
    #[arg(short, long = "output", value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Print JSON.
    ///
    /// docs/storebench.schema.json describes it.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub emulated: EmulatedTarget,
}

/// What to do with a result.
#[derive(Debug, Subcommand)]
pub enum StoreBenchCommand {
    /// Show a result, and where it stands among models or a server's results.
    ///
    /// Example: fonio storebench show storebench.json
    Show {
        /// The result.
        file: PathBuf,
        /// Address of the results server.
        ///
        /// Compare with its results that have the same key, instead of models.
        #[arg(long, value_name = "URL")]
        server: Option<String>,
        /// Print everything, not only the most important.
        ///
        /// Every figure.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        output: ResultOutput,
    },
    /// Compare two results, and name the differences that are not chance.
    ///
    /// Example: fonio storebench compare before.json after.json
    Compare {
        /// The first result.
        first: PathBuf,
        /// The second result, which is compared with the first.
        second: PathBuf,
        /// Compare results of different keys: file systems, sizes, modes. Their figures differ also for these reasons.
        #[arg(long)]
        across_keys: bool,
        #[command(flatten)]
        output: ResultOutput,
    },
    /// Send a result to a server, after a preview of every field.
    ///
    /// Example: fonio storebench submit --server http://HOST:8080 storebench.json
    Submit {
        /// Address of the results server.
        ///
        /// There is no default.
        #[arg(long, value_name = "URL")]
        server: String,
        /// Send without asking.
        #[arg(long)]
        yes: bool,
        /// The result.
        file: PathBuf,
    },
    /// Delete a result from a server.
    ///
    /// Example: fonio storebench delete --server http://HOST:8080 ID
    Delete {
        /// Address of the results server.
        #[arg(long, value_name = "URL")]
        server: String,
        /// The delete token [default: the one that was kept when the result was sent].
        #[arg(long)]
        token: Option<String>,
        /// The result's id, as `submit` printed it.
        id: String,
    },
}

/// How a result is shown.
#[derive(Debug, Args)]
pub struct ResultOutput {
    /// Print JSON.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// Write a page with charts into this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl ResultOutput {
    /// The same for the functions that show reports.
    pub fn as_report(&self) -> Output {
        Output { json: self.json, markdown: self.markdown, html: self.html.clone(), budget: Vec::new() }
    }
}
