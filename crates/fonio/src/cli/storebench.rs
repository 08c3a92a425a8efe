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
    fonio storebench compare before.json after.json  report the significant differences\n\n\
    For a directory with the name of a subcommand, write ./show."
)]
pub struct StoreBench {
    /// The action on a result.
    #[command(subcommand)]
    pub command: Option<StoreBenchCommand>,
    #[command(flatten)]
    pub measure: StoreBenchRun,
}

/// A measurement.
#[derive(Debug, Args)]
pub struct StoreBenchRun {
    /// A directory (files are written and removed again); a block device, which is only read (see --erase);
    /// or an emulated device (a profile from `fonio device list`, as root).
    #[arg(default_value = ".")]
    pub target: PathBuf,
    /// Overwrite this device and destroy its data.
    ///
    /// To measure the writes of a block device too, repeat the device's path here.
    #[arg(long, value_name = "DEVICE")]
    pub erase: Option<PathBuf>,
    /// Measure once, for a short time, with little data.
    ///
    /// The result is compared only with other quick results.
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
    /// A smaller limit first shortens the long write, then reduces repetitions, then skips parts.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "16GiB")]
    pub max_write: u64,
    /// Do not continue an interrupted run.
    #[arg(long)]
    pub restart: bool,
    /// Write the result to this path.
    ///
    /// PATH is a file. Default: a new file in fonio's state folder.
    #[arg(short, long = "output", value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Print JSON.
    ///
    /// docs/storebench.schema.json describes the JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub emulated: EmulatedTarget,
}

/// The action on a result.
#[derive(Debug, Subcommand)]
pub enum StoreBenchCommand {
    /// Show a result and its rank among models or a server's results.
    ///
    /// Example: fonio storebench show storebench.json
    Show {
        /// The result.
        file: PathBuf,
        /// Address of the results server.
        ///
        /// Compares the result with the server's results of the same key instead of with models.
        #[arg(long, value_name = "URL")]
        server: Option<String>,
        /// Print everything, not only the most important lines.
        ///
        /// Prints every figure.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        output: ResultOutput,
    },
    /// Compare two results and report the significant differences.
    ///
    /// Example: fonio storebench compare before.json after.json
    Compare {
        /// The first result.
        first: PathBuf,
        /// The second result.
        second: PathBuf,
        /// Compare results even if their keys (file systems, sizes, modes) differ. These differences also
        /// affect the figures.
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
        /// Go on without asking.
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
        /// The delete token [default: the token that was saved when the result was sent].
        #[arg(long)]
        token: Option<String>,
        /// The result's id, as `submit` printed it.
        id: String,
    },
}

/// Options for showing a result.
#[derive(Debug, Args)]
pub struct ResultOutput {
    /// Print JSON.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// Write a page with charts to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl ResultOutput {
    /// Converts these options to the options of the functions that show reports.
    pub fn as_report(&self) -> Output {
        Output { json: self.json, markdown: self.markdown, html: self.html.clone(), budget: Vec::new() }
    }
}
