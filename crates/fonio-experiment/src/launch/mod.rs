//! Measures launches: how long a command takes, and what it waits for.
//!
//! The command runs under the recorder, which records its waits; [`fonio_analysis::launch`] divides the time
//! into parts. Before the first measured launch on a setup, the command runs once without being measured. For
//! warm launches, this run fills the cache. For cold launches, this run shows which files the command opens.
//! The cached pages of these files are dropped before each launch. Only the pages of these files are dropped.
//! Pages that other processes map stay cached, as do directory entries and inodes. [`Dropped`] reports what
//! stayed.

mod caches;
mod report;
mod results;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fonio_core::{RowSink, Wait, ignore_rows};
use fonio_host::{Confined, OpenWatch};
use fonio_record::{CommandOutput, CommandSetting, Quiet, RecordOptions};
use fonio_recording::{Recording, Table, Tables};

use crate::analysed::Analysed;
use crate::error::ExperimentError;
use crate::held::Holding;
use crate::recorded::{Notes, record_command};
use crate::rounds::{Arm, Design, Measurement, Rounds, check_stop};
use crate::setup::{Setup, Storage};
use crate::test_bed::{Roles, TestBed};

pub use caches::{Dropped, Kept};
pub use report::launch_document;
pub use results::{LaunchFigures, LaunchPart, LaunchResult, LaunchSeries, PartKind};

/// The environment variable with the address of the server behind the link: `ADDRESS:PORT`.
const HTTP_VARIABLE: &str = "FONIO_HTTP";

/// The contents of the page cache when a launch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// The cache has no pages of the files that the command opens, except pages that other processes map.
    Cold,
    /// The cache has the pages that an earlier launch left.
    Warm,
}

/// The command of a launch, and how to launch it.
#[derive(Clone, Debug)]
pub struct LaunchOptions<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// The state of the page cache when a launch starts.
    pub cache: CacheState,
    /// The condition under which a command that does not end by itself counts as launched.
    pub until_idle: Option<Quiet>,
    /// Number of unmeasured launches before each measured launch, for a warm cache.
    pub warmup: u32,
    /// Files to copy to a device that is formatted for the launch.
    pub copy: &'a [PathBuf],
    /// Whether the command's output is shown, on standard error.
    pub show_output: bool,
    /// The seed of the device model.
    pub seed: u64,
    /// The command lines with which this program starts its own processes.
    pub roles: &'a Roles,
    /// A flag that a signal handler sets to end the launch as soon as possible.
    pub stop: &'a AtomicBool,
}

/// Launches the command on every setup in rounds, records and analyses each launch once, and compares the
/// other setups with the first setup. Also returns the analysis of the first launch. Calls `begins` before
/// each launch, and writes recordings to folders in `out`. Panics in the same cases as [`Design::run`].
pub fn launch_series(
    places: &[Arm<Setup>],
    rounds: Rounds,
    options: &LaunchOptions<'_>,
    out: &Path,
    begins: &mut dyn FnMut(&Measurement<'_, Setup>),
) -> Result<(LaunchSeries, Analysed), ExperimentError> {
    std::fs::create_dir_all(out).map_err(ExperimentError::system("make", out))?;
    // The files that the command opens, by arm. In a directory, all launches open the same files.
    let mut opened: BTreeMap<usize, BTreeSet<PathBuf>> = BTreeMap::new();
    let mut notes = Notes::default();
    let mut first = None;
    let design = Design { arms: places, rounds, seed: options.seed, stop: options.stop };
    let runs = design.run(begins, &mut |measurement| {
        let of_round = LaunchOptions { seed: measurement.seed, ..options.clone() };
        let opened = opened.entry(measurement.arm).or_default();
        let launched =
            launch_once(measurement.setup, &of_round, &measurement.recording(out), opened, &mut notes);
        let (figures, analysed) = launched.inspect_err(|_| {
            // Remove the folder of a command that did not start. This fails if the folder contains a
            // recording.
            let _ = std::fs::remove_dir(out);
        })?;
        first.get_or_insert(analysed);
        Ok(figures)
    })?;
    Ok((results::series(places, runs, options), first.expect("a design has at least one measurement")))
}

/// Creates the test bed, launches the command, and removes the test bed. `opened` contains the files that an
/// earlier launch on this setup opened.
fn launch_once(
    setup: &Setup,
    options: &LaunchOptions<'_>,
    out: &Path,
    opened: &mut BTreeSet<PathBuf>,
    notes: &mut Notes,
) -> Result<(LaunchFigures, Analysed), ExperimentError> {
    let mut bed = TestBed::for_command(setup, options.copy, options.seed, options.roles, options.stop)?;
    let is_made = !matches!(setup.storage, Storage::Directory(_));
    if is_made || opened.is_empty() {
        let launches = if options.cache == CacheState::Warm { options.warmup } else { 1 };
        for _ in 0..launches {
            *opened = first_launch(&mut bed, options, notes)?;
            check_stop(options.stop)?;
        }
    }
    let confined = Confined::make(bed.ledger(), setup.limits)?;
    let holding = Holding::begin(&mut bed, setup, &confined, options.roles)?;
    let dropped = match options.cache {
        CacheState::Cold => {
            if is_made {
                bed.forget_caches()?;
            }
            Some(Dropped::files(opened))
        }
        CacheState::Warm => None,
    };
    bed.pace()?;
    let record_options = record_options(&bed, options, Some(&confined), out);
    let summary = record_command(&mut bed, &record_options, notes)?;
    check_stop(options.stop)?;
    if let Some(limit) = setup.limits.memory.filter(|_| confined.kills() > 0) {
        return Err(ExperimentError::OutOfMemory { limit });
    }
    let held = holding.map(|holding| holding.end(&mut bed)).transpose()?;
    bed.close_measured()?;

    let analysed = Analysed::of(out)?;
    let command = || options.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    match LaunchFigures::of(&analysed.analysis, &summary, dropped) {
        Some(figures) => Ok((LaunchFigures { processor: held, ..figures }, analysed)),
        None => Err(ExperimentError::NotSeen {
            command: command(),
            reason: "the recording has no waits of the command; run `fonio report` on it to see what was lost",
        }),
    }
}

/// Launches the command without measuring it, and returns the files that it opened.
fn first_launch(
    bed: &mut TestBed,
    options: &LaunchOptions<'_>,
    notes: &mut Notes,
) -> Result<BTreeSet<PathBuf>, ExperimentError> {
    let out = bed.scratch.join("first");
    let watch = match options.cache {
        CacheState::Cold => Some(OpenWatch::begin()?),
        CacheState::Warm => None,
    };
    let record_options = record_options(bed, options, None, &out);
    record_command(bed, &record_options, notes)?;
    let Some(watch) = watch else { return Ok(BTreeSet::new()) };
    let opened = watch.finish()?;
    let mut threads = Tids::default();
    Recording::open(&out)?.replay(&mut threads, Tables::NONE.with(Table::Waits))?;
    let of_command = opened.into_iter().filter(|opened| threads.0.contains(&opened.pid));
    Ok(of_command.map(|opened| opened.path).collect())
}

fn record_options(
    bed: &TestBed,
    options: &LaunchOptions<'_>,
    confined: Option<&Confined>,
    out: &Path,
) -> RecordOptions {
    let http = bed.http.map(|address| (HTTP_VARIABLE.into(), address.to_string().into()));
    RecordOptions {
        command: Some(options.command.to_vec()),
        setting: CommandSetting {
            mounts: None,
            overlays: Vec::new(),
            dir: bed.places.get("dir").cloned(),
            environment: http.into_iter().collect(),
            own_group: true,
            cgroups: confined.iter().flat_map(|group| group.dirs().map(Path::to_owned)).collect(),
            output: if options.show_output { CommandOutput::ToError } else { CommandOutput::Discard },
            ..CommandSetting::default()
        },
        waits: true,
        until_idle: options.until_idle,
        overwrite: true,
        ..RecordOptions::new(out)
    }
}

/// Collects the threads of a launch from the rows of a recording.
#[derive(Default)]
struct Tids(BTreeSet<u32>);

impl RowSink for Tids {
    fn wait(&mut self, row: &Wait) -> io::Result<()> {
        self.0.insert(row.tid);
        Ok(())
    }
    ignore_rows! {
        began, request, bio, link, call, statement, blocked_count, file, thread, sample, mark, diagnostic,
        settled
    }
}
