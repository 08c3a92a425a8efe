//! Launches: any command, how long it takes, and what it waits for.
//!
//! A launch is run under the recorder with its waits; [`fonio_analysis::launch`] says where the time went. Before the
//! first measured launch in a place it is run once without being measured: for a warm launch that is all, for a cold one
//! it shows which files the command opens, and what the page cache holds of these is dropped before each launch. Nobody
//! else's cache is touched, so what others have in use stays: a library that runs in another process cannot be dropped,
//! and names and inodes stay cached. What stayed is told.

mod caches;
mod report;
mod results;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fonio_analysis::{Analyser, AnalysisOptions};
use fonio_core::{RowSink, Wait};
use fonio_host::{ConfinedCpu, OpenWatch, ProcessId, Step};
use fonio_record::{
    CommandOutput, CommandSetting, Progress, Quiet, RecordOptions, RecordSummary, StopReason, record,
};
use fonio_recording::{Recording, Table, Tables};

use crate::bed::{Bed, Roles};
use crate::error::ExperimentError;
use crate::run::check;
use crate::series::file_name;
use crate::setup::{Place, Setup};

pub use caches::{Dropped, Kept};
pub use report::launch_document;
pub use results::{LaunchFigures, LaunchPart, LaunchResult, LaunchSeries};

/// The variable in which a command finds the server behind the link: `ADDRESS:PORT`.
const HTTP_VARIABLE: &str = "FONIO_HTTP";

/// What the page cache holds when a launch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// Of the files that the command opens, nothing but what others use.
    Cold,
    /// What an earlier launch left.
    Warm,
}

/// What is launched, however often.
#[derive(Clone, Debug)]
pub struct LaunchOptions<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// How it begins.
    pub cache: CacheState,
    /// For a command that does not end by itself: when it is done.
    pub until_idle: Option<Quiet>,
    /// What is copied to a device that is formatted for the launch.
    pub with: &'a [PathBuf],
    /// Show what the command says, on standard error.
    pub show_output: bool,
    /// Of the device model.
    pub seed: u64,
    /// How this program starts itself.
    pub roles: &'a Roles,
    /// Set by a signal handler: the launch ends as soon as it can.
    pub stop: &'a AtomicBool,
}

/// A place with a name.
#[derive(Clone, Debug)]
pub struct PlaceToLaunch {
    /// Its name, which is also that of its recordings' folder.
    pub name: String,
    /// The setup.
    pub setup: Setup,
}

/// Launches in every place `repeat` times, in rounds, and compares the places with the first. `say` hears which launch
/// begins: round, rounds, place.
///
/// # Errors
///
/// [`ExperimentError`] of the first launch that failed.
///
/// # Panics
///
/// Without a place, or with a repeat of 0.
pub fn launch_series(
    places: &[PlaceToLaunch],
    repeat: u32,
    options: &LaunchOptions<'_>,
    out: &Path,
    say: &mut dyn FnMut(u32, u32, &str),
) -> Result<LaunchSeries, ExperimentError> {
    assert!(!places.is_empty() && repeat > 0, "there is something to launch");
    std::fs::create_dir_all(out).map_err(ExperimentError::system("make", out))?;
    let mut runs: Vec<Vec<LaunchFigures>> = vec![Vec::new(); places.len()];
    // The files that the command opens in a folder are the same ones each time.
    let mut known: BTreeMap<usize, BTreeSet<PathBuf>> = BTreeMap::new();
    let mut told = Told::default();
    for round in 1..=repeat {
        for (at, place) in places.iter().enumerate() {
            check(options.stop)?;
            say(round, repeat, &place.name);
            let dir = out.join(file_name(&place.name, round));
            let known = known.entry(at).or_default();
            let figures = launch_once(&place.setup, options, &dir, known, &mut told).inspect_err(|_| {
                // Nothing is left of a command that could not be started; what has been recorded stays.
                let _ = std::fs::remove_dir(out);
            })?;
            runs[at].push(figures);
        }
    }
    Ok(results::series(places, runs, options))
}

/// The notes of recordings, each told once: they are the same for each launch.
#[derive(Default)]
struct Told(BTreeSet<String>);

impl Told {
    fn note(&mut self, note: &str) {
        if self.0.insert(note.to_owned()) {
            eprintln!("note: {note}");
        }
    }
}

/// Makes the place, launches, undoes it. `known` holds the files that a launch in this place opened, once one has.
fn launch_once(
    setup: &Setup,
    options: &LaunchOptions<'_>,
    out: &Path,
    known: &mut BTreeSet<PathBuf>,
    told: &mut Told,
) -> Result<LaunchFigures, ExperimentError> {
    let mut bed = Bed::for_command(setup, options.with, options.seed, options.roles)?;
    let is_made = !matches!(setup.place, Place::Directory(_));
    if is_made || known.is_empty() {
        *known = first_launch(&mut bed, options, told)?;
        check(options.stop)?;
    }
    let confined = match setup.cpu {
        Some(share) => Some(ConfinedCpu::make(bed.ledger(), share)?),
        None => None,
    };
    let dropped = match options.cache {
        CacheState::Cold => {
            if is_made {
                bed.forget_caches()?;
            }
            Some(Dropped::files(known))
        }
        CacheState::Warm => None,
    };
    bed.pace()?;
    let record_options = record_options(&bed, options, confined.as_ref(), out);
    let summary = record_launch(&mut bed, &record_options, told)?;
    check(options.stop)?;
    bed.close()?;

    let recording = Recording::open(out)?;
    let mut analyser = Analyser::new(AnalysisOptions::default());
    recording.replay(&mut analyser, Tables::ALL)?;
    let analysis = analyser.finish(recording.meta());
    let command = || options.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    LaunchFigures::of(&analysis, &summary, dropped).ok_or_else(|| ExperimentError::NotSeen {
        command: command(),
        reason: "the recording holds no waits of it; `fonio report` on it says what was lost",
    })
}

/// A launch that is not measured, and the files that it opened.
fn first_launch(
    bed: &mut Bed,
    options: &LaunchOptions<'_>,
    told: &mut Told,
) -> Result<BTreeSet<PathBuf>, ExperimentError> {
    let out = bed.scratch().join("first");
    let watch = match options.cache {
        CacheState::Cold => Some(OpenWatch::begin()?),
        CacheState::Warm => None,
    };
    let record_options = record_options(bed, options, None, &out);
    record_launch(bed, &record_options, told)?;
    let Some(watch) = watch else { return Ok(BTreeSet::new()) };
    let opened = watch.finish()?;
    let mut threads = Tids::default();
    Recording::open(&out)?.replay(&mut threads, Tables::NONE.with(Table::Waits))?;
    let of_command = opened.into_iter().filter(|opened| threads.0.contains(&opened.pid));
    Ok(of_command.map(|opened| opened.path).collect())
}

fn record_options(
    bed: &Bed,
    options: &LaunchOptions<'_>,
    confined: Option<&ConfinedCpu>,
    out: &Path,
) -> RecordOptions {
    let http = bed.http().map(|address| (HTTP_VARIABLE.into(), address.to_string().into()));
    RecordOptions {
        command: Some(options.command.to_vec()),
        setting: CommandSetting {
            dir: bed.places().get("dir").cloned(),
            environment: http.into_iter().collect(),
            own_group: true,
            cgroup: confined.map(|group| group.dir().to_owned()),
            output: if options.show_output { CommandOutput::ToError } else { CommandOutput::Discard },
        },
        waits: true,
        until_idle: options.until_idle,
        overwrite: true,
        ..RecordOptions::new(out)
    }
}

/// Records, with the command in the ledger for as long as it runs.
fn record_launch(
    bed: &mut Bed,
    options: &RecordOptions,
    told: &mut Told,
) -> Result<RecordSummary, ExperimentError> {
    let mut entry = None;
    let summary = record(options, &mut |progress| match progress {
        Progress::Note(note) => told.note(note),
        Progress::CommandStarted { pid } => {
            // One that has ended already leaves nothing behind; a ledger that cannot be written stops the next step.
            entry = ProcessId::of(pid)
                .and_then(|id| bed.ledger().begin(Step::Process { id, leads_group: true }).ok());
        }
        _ => {}
    })?;
    if let Some(entry) = entry {
        bed.ledger().end(entry)?;
    }
    if matches!(summary.stopped_by, StopReason::Interrupted | StopReason::Terminated) {
        return Err(ExperimentError::Interrupted);
    }
    Ok(summary)
}

/// The threads of a launch.
#[derive(Default)]
struct Tids(BTreeSet<u32>);

impl RowSink for Tids {
    fn wait(&mut self, row: &Wait) -> io::Result<()> {
        self.0.insert(row.tid);
        Ok(())
    }
}
