//! Replays a recording's requests in virtual time, on device models under scheduler models.
//!
//! The replay needs no root and no device, and can use schedulers that Linux no longer has. The models do not
//! merge requests, because the kernel merged the requests before they were recorded.

mod card;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use fonio_core::{ByteCount, DeviceId, Op};
use fonio_recording::{Recording, Table, Tables};
use fonio_sim::engine::{EngineError, Host};
use fonio_sim::recorded::{Collected, Kind, NO_FLUSHES, Sequence};
use fonio_sim::scheduler::Policy;
use fonio_sim::simulation::{self, Load, Ran, SimulationError, Summary};
use serde::Serialize;

use crate::error::ExperimentError;
use card::Card;

pub use card::Change;
pub use report::model_document;

/// Maximum memory for the requests of all simulations that run at the same time.
const MEMORY_MAX: usize = 256 << 20;

/// The devices and schedulers on which a recording is replayed: every combination is a cell.
#[derive(Clone, Copy, Debug)]
pub struct Grid<'a> {
    /// The names of profiles, or of arrays of two devices.
    pub devices: &'a [String],
    /// The keys of changed values, each with the values to try.
    pub changes: &'a [(String, Vec<String>)],
    /// The schedulers.
    pub schedulers: &'a [Policy],
    /// The size of the devices.
    pub size: ByteCount,
    /// The seed of the models' random decisions.
    pub seed: u64,
    /// Whether to replay without the recorded pauses.
    pub fast: bool,
    /// The recorded device; `None`: the device with the most accesses.
    pub of_device: Option<DeviceId>,
    /// The program whose requests get the I/O class idle.
    pub idle: Option<&'a str>,
}

/// The result of a recording replayed on models.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelReplay {
    /// The directory of the recording.
    pub recording: PathBuf,
    /// The names of the device models.
    pub devices: Vec<String>,
    /// Number of replayed reads, writes and flushes.
    pub accesses: u64,
    /// Number of discards and other operations that are not replayed.
    pub left_out: u64,
    /// Number of recorded requests to other devices.
    pub of_other_devices: u64,
    /// Whether the recorded pauses were left out.
    pub fast: bool,
    /// What the replay does not show.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The recorded response times of each program.
    pub recorded: Vec<ProgramTimes>,
    /// The result of each cell: by device, changed values and scheduler, in the requested order.
    pub runs: Vec<ModelRun>,
}

/// The result of a recording replayed on one device under one scheduler.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelRun {
    /// The name of the device model.
    pub device: String,
    /// The changed values of the device model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// The name of the scheduler model.
    pub scheduler: String,
    /// Seconds from the start until the last request completed.
    pub time_s: f64,
    /// The response times of each program.
    pub programs: Vec<ProgramTimes>,
    /// All settings and numbers of the simulation.
    pub summary: Summary,
}

impl ModelRun {
    /// Returns the name of the device with its changed values, such as `sd_a1 ftl.spare=7%`.
    pub fn card(&self) -> String {
        let changes = self.changes.iter().map(|Change { key, value }| format!(" {key}={value}"));
        std::iter::once(self.device.clone()).chain(changes).collect()
    }
}

/// The requests of a cell, for the results of a replay.
pub struct Requests<'a> {
    /// The position of the cell among all cells.
    pub cell: usize,
    /// The result of the cell.
    pub run: &'a ModelRun,
    /// The simulated requests.
    pub ran: &'a Ran,
    /// The names of the recorded threads, by thread id.
    pub names: &'a BTreeMap<u32, String>,
}

/// The response times of all threads with one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgramTimes {
    /// The threads' name, without the numbers of kernel workers.
    pub name: String,
    /// The response times of the program's reads.
    pub reads: Responses,
    /// The response times of the program's writes, without flushes.
    pub writes: Responses,
}

/// Statistics of response times, from queueing to completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Responses {
    /// The number of requests.
    pub count: u64,
    /// The sum of the response times in seconds. Overlapping requests are counted separately.
    pub sum_s: f64,
    /// The longest response time in seconds.
    pub max_s: f64,
}

impl Responses {
    /// Returns the mean response time in seconds; `None` if there are no requests.
    pub fn mean_s(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_s / self.count as f64)
    }

    fn add(&mut self, count: u64, sum_s: f64, max_s: f64) {
        self.count += count;
        self.sum_s += sum_s;
        self.max_s = self.max_s.max(max_s);
    }
}

/// Replays the recording in `dir` on every cell of the grid, each on a new device where the accessed data are already
/// written. The cells run on all processors; the results do not depend on their number. `keep` gets the requests of each
/// cell, on the thread that ran it. Ends with [`ExperimentError::Interrupted`] if `stop` is set. Fails with
/// [`ExperimentError::Recording`], [`ExperimentError::NothingToReplay`], [`ExperimentError::Emulator`] if a profile does
/// not exist, [`ExperimentError::InModel`] if the recording does not fit on a device, or with an error of `keep`.
pub fn replay_in_models<E: From<ExperimentError> + Send>(
    dir: &Path,
    grid: &Grid<'_>,
    stop: &AtomicBool,
    keep: &(dyn Fn(&Requests<'_>) -> Result<(), E> + Sync),
) -> Result<ModelReplay, E> {
    let cards = Card::all(grid.devices, grid.changes)?;
    let sequence = sequence(dir, grid)?;
    let mut unflushed = BTreeSet::new();
    for card in &cards {
        let device = card.device(grid.size, grid.seed)?;
        if device.limits().volatile_cache && sequence.has_only_volatile_writes() {
            unflushed.insert(card.name.as_str());
        }
    }
    let names: Vec<&str> = unflushed.iter().copied().collect();
    let is_on_all = cards.iter().all(|card| unflushed.contains(card.name.as_str()));
    let note = match names.len() {
        0 => None,
        _ if is_on_all => Some(NO_FLUSHES.to_owned()),
        _ => Some(format!("{}: {NO_FLUSHES}", names.join(", "))),
    };
    let cells: Vec<(&Card, Policy)> =
        cards.iter().flat_map(|card| grid.schedulers.iter().map(move |policy| (card, *policy))).collect();
    let (names, accesses, recorded) = (sequence.names.clone(), sequence.len(), recorded(&sequence));
    let (left_out, of_other_devices) = (sequence.left_out, sequence.of_other_devices);
    let idle = names.iter().filter(|(_, name)| grid.idle == Some(plain(name))).map(|(tid, _)| *tid).collect();
    let load = Load::Replay(simulation::Replay { sequence, fast: grid.fast, idle });
    let of_requests = 2 * accesses.max(1) * size_of::<fonio_sim::engine::Done>();
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MEMORY_MAX / of_requests).max(1);
    let runs = each(&cells, threads, |cell, (card, policy)| {
        let (run, ran) = run(card, *policy, grid, &load, &names, stop)?;
        keep(&Requests { cell, run: &run, ran: &ran, names: &names })?;
        Ok::<_, E>(run)
    });
    let runs = runs.into_iter().collect::<Result<Vec<ModelRun>, E>>()?;
    Ok(ModelReplay {
        recording: dir.to_owned(),
        devices: grid.devices.to_vec(),
        accesses: accesses as u64,
        left_out,
        of_other_devices,
        fast: grid.fast,
        notes: note.into_iter().collect(),
        recorded,
        runs,
    })
}

/// Reads the sequence of a replay.
fn sequence(dir: &Path, grid: &Grid<'_>) -> Result<Sequence, ExperimentError> {
    let mut collected = Collected::default();
    let tables = Tables::NONE.with(Table::Threads).with(Table::Waits).with(Table::Requests);
    Recording::open(dir)?.replay(&mut collected, tables)?;
    let too_large = |why| ExperimentError::TooLarge { recording: dir.to_owned(), why };
    let sequence = collected.sequence_of(grid.of_device).map_err(too_large)?;
    if sequence.is_empty() {
        return Err(ExperimentError::NothingToReplay { recording: dir.to_owned() });
    }
    Ok(sequence)
}

/// Runs `run` for every cell on this number of threads. The results have the order of the cells. After an error, no
/// further cell begins.
fn each<C: Sync, T: Send, E: Send>(
    cells: &[C],
    threads: usize,
    run: impl Fn(usize, &C) -> Result<T, E> + Sync,
) -> Vec<Result<T, E>> {
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results: Mutex<Vec<Option<Result<T, E>>>> = Mutex::new(cells.iter().map(|_| None).collect());
    thread::scope(|scope| {
        for _ in 0..threads.min(cells.len()) {
            scope.spawn(|| {
                while !has_failed.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(at) else { return };
                    let result = run(at, cell);
                    has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    results.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Cells are missing only after an error, which is then among the results.
    results.into_iter().flatten().collect()
}

fn run(
    card: &Card,
    policy: Policy,
    grid: &Grid<'_>,
    load: &Load,
    names: &BTreeMap<u32, String>,
    stop: &AtomicBool,
) -> Result<(ModelRun, Ran), ExperimentError> {
    let mut device = card.device(grid.size, grid.seed)?;
    let host = Host { depth: device.limits().depth, seed: grid.seed };
    let settings = card.settings(device.as_ref(), policy.name(), host);
    let is_over = || stop.load(Ordering::Relaxed);
    let ran = simulation::run(device.as_mut(), policy.scheduler().as_mut(), None, load, host, 1, &is_over);
    let ran = ran.map_err(|error| match error {
        SimulationError::Engine(EngineError::Stopped) => ExperimentError::Interrupted,
        error @ SimulationError::DoesNotFit { .. } => {
            ExperimentError::InModel(format!("{error}; use --size"))
        }
        error => ExperimentError::InModel(error.to_string()),
    })?;
    let mut programs = Programs::new(names);
    for ((process, op), tally) in &ran.outcome.tallies {
        let (sum, max) = (tally.response.sum.0 as f64 / 1e9, tally.response.max.0 as f64 / 1e9);
        programs.add(process.0, *op, (tally.count, sum, max));
    }
    let run = ModelRun {
        device: card.name.clone(),
        changes: card.changes.clone(),
        scheduler: policy.name().to_owned(),
        time_s: (ran.outcome.end.0 - ran.outcome.from.0) as f64 / 1e9,
        programs: programs.into(),
        summary: Summary::of(&ran, &settings),
    };
    Ok((run, ran))
}

fn recorded(sequence: &Sequence) -> Vec<ProgramTimes> {
    let mut programs = Programs::new(&sequence.names);
    for access in sequence.threads.iter().flatten() {
        let op = match access.kind {
            Kind::Read => Op::Read,
            Kind::Write | Kind::DurableWrite => Op::Write,
            Kind::Flush => continue,
        };
        if let Some(took) = access.took.map(|took| took.as_secs_f64()) {
            programs.add(access.tid, op, (1, took, took));
        }
    }
    programs.into()
}

struct Programs<'a> {
    names: &'a BTreeMap<u32, String>,
    times: BTreeMap<String, ProgramTimes>,
}

impl<'a> Programs<'a> {
    fn new(names: &'a BTreeMap<u32, String>) -> Programs<'a> {
        Programs { names, times: BTreeMap::new() }
    }

    fn add(&mut self, tid: u32, op: Op, (count, sum_s, max_s): (u64, f64, f64)) {
        let name = self.names.get(&tid).map_or("unknown", |name| plain(name));
        let new = || ProgramTimes {
            name: name.to_owned(),
            reads: Responses::default(),
            writes: Responses::default(),
        };
        let times = self.times.entry(name.to_owned()).or_insert_with(new);
        match op {
            Op::Read => times.reads.add(count, sum_s, max_s),
            Op::Write => times.writes.add(count, sum_s, max_s),
            _ => {}
        }
    }
}

impl From<Programs<'_>> for Vec<ProgramTimes> {
    fn from(programs: Programs<'_>) -> Vec<ProgramTimes> {
        let has_requests = |times: &ProgramTimes| times.reads.count + times.writes.count > 0;
        let mut times: Vec<ProgramTimes> = programs.times.into_values().filter(has_requests).collect();
        times.sort_by(|one, other| {
            let sum = |times: &ProgramTimes| times.reads.sum_s + times.writes.sum_s;
            sum(other).total_cmp(&sum(one)).then_with(|| one.name.cmp(&other.name))
        });
        times
    }
}

/// Returns a thread's name without the numbers of kernel workers: `kworker` for `kworker/u8:1-flush-8:0`.
fn plain(name: &str) -> &str {
    match name.split_once('/') {
        Some(("kworker", _)) => "kworker",
        Some(("jbd2", _)) => "jbd2",
        _ => name,
    }
}

/// Returns the scheduler model with this name; `none` is the kernel's name for `noop` since Linux 4.
pub fn scheduler_named(name: &str) -> Option<Policy> {
    Policy::named(if name == "none" { "noop" } else { name })
}

/// Returns the names of all scheduler models, for `--scheduler`.
pub fn scheduler_names() -> BTreeSet<&'static str> {
    Policy::ALL.iter().map(|policy| policy.name()).collect()
}
