//! Replays a recording's requests in virtual time, on a device model under scheduler models.
//!
//! The replay needs no root and no device, and can use schedulers that Linux no longer has. The models do not
//! merge requests, because the kernel merged the requests before they were recorded.

mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fonio_core::{ByteCount, DeviceId, Nanos, Op, SECTOR_BYTES, Sector, Timestamp};
use fonio_recording::{Recording, Table, Tables};
use fonio_sim::engine::{self, Arrival, Begins, Host, Source, Step};
use fonio_sim::measure::write_in_order;
use fonio_sim::scheduler::{Class, Policy, Priority, ProcessId};
use serde::Serialize;

use super::blocks::{Access, Collected, Kind, NO_FLUSHES, Sequence};
use crate::error::ExperimentError;

pub use report::model_document;

/// Maximum number of commands of one replay, so that it needs less than 512 MiB of memory.
const STEPS_MAX: u64 = 2 << 20;

/// The device on which a recording is replayed.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    /// The name of a device's profile, or of an array of two devices.
    pub profile: &'a str,
    /// The size of the device.
    pub size: ByteCount,
    /// The seed of the model's random decisions.
    pub seed: u64,
    /// Whether to replay without the recorded pauses.
    pub fast: bool,
    /// The recorded device; `None`: the device with the most accesses.
    pub of_device: Option<DeviceId>,
    /// The program whose requests get the I/O class idle.
    pub idle: Option<&'a str>,
}

/// The result of a recording replayed under scheduler models.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelReplay {
    /// The directory of the recording.
    pub recording: PathBuf,
    /// The name of the device model.
    pub device: String,
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
    /// The result under each scheduler model, in the requested order.
    pub runs: Vec<ModelRun>,
}

/// The result of a recording replayed under one scheduler.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelRun {
    /// The name of the scheduler model.
    pub scheduler: String,
    /// Seconds from the start until the last request completed.
    pub time_s: f64,
    /// The response times of each program.
    pub programs: Vec<ProgramTimes>,
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

/// Replays the recording in `dir` under each scheduler, on a new device where the accessed data are already
/// written. Fails with [`ExperimentError::Recording`], [`ExperimentError::NothingToReplay`],
/// [`ExperimentError::Emulator`] if the profile does not exist, or [`ExperimentError::InModel`] if the
/// recording does not fit on the device.
pub fn replay_in_model(
    dir: &Path,
    model: &Model<'_>,
    schedulers: &[Policy],
) -> Result<ModelReplay, ExperimentError> {
    let mut collected = Collected::default();
    let tables = Tables::NONE.with(Table::Threads).with(Table::Waits).with(Table::Requests);
    Recording::open(dir)?.replay(&mut collected, tables)?;
    let too_large = |why| ExperimentError::TooLarge { recording: dir.to_owned(), why };
    let sequence = collected.sequence_of(model.of_device).map_err(too_large)?;
    if sequence.is_empty() {
        return Err(ExperimentError::NothingToReplay { recording: dir.to_owned() });
    }
    let device = fonio_emulator::profile::device(model.profile, model.size, model.seed)?;
    let is_unflushed = device.limits().volatile_cache && sequence.has_only_volatile_writes();
    let runs = schedulers.iter().map(|policy| run(&sequence, model, *policy));
    let runs = runs.collect::<Result<Vec<ModelRun>, _>>()?;
    Ok(ModelReplay {
        recording: dir.to_owned(),
        device: model.profile.to_owned(),
        accesses: sequence.len() as u64,
        left_out: sequence.left_out,
        of_other_devices: sequence.of_other_devices,
        fast: model.fast,
        notes: is_unflushed.then(|| NO_FLUSHES.to_owned()).into_iter().collect(),
        recorded: recorded(&sequence),
        runs,
    })
}

fn run(sequence: &Sequence, model: &Model<'_>, policy: Policy) -> Result<ModelRun, ExperimentError> {
    let mut device = fonio_emulator::profile::device(model.profile, model.size, model.seed)?;
    let limits = device.limits().clone();
    if sequence.file_bytes > limits.capacity {
        return Err(ExperimentError::InModel(format!(
            "the recording accesses {} of distinct data, but the device has {}; use --size",
            sequence.file_bytes.to_exact_text(),
            limits.capacity.to_exact_text()
        )));
    }
    let from = write_in_order(device.as_mut(), sequence.file_bytes, Timestamp(0));
    // The engine holds all steps in memory, as the sequence holds all accesses.
    let count = |access: &Access| access.bytes.div_ceil(limits.command_max.0).max(1);
    let steps_all = sequence.threads.iter().flatten().map(count).fold(0, u64::saturating_add);
    if steps_all > STEPS_MAX {
        return Err(ExperimentError::InModel(format!(
            "the device splits the accesses into {steps_all} commands, and the model can run at most {STEPS_MAX}; \
             replay a part of the recording, which `fonio import RECORDING --until 10m -o PART` writes"
        )));
    }
    let priority = |access: &Access| {
        let is_idle =
            model.idle.is_some() && sequence.names.get(&access.tid).map(|name| plain(name)) == model.idle;
        if is_idle { Priority { class: Class::Idle, ..Priority::DEFAULT } } else { Priority::DEFAULT }
    };
    let steps = |thread: &Vec<Access>| steps(thread, limits.command_max.0, model.fast, &priority);
    let sources = sequence.threads.iter().map(|thread| Source::Linked(steps(thread))).collect();
    let host = Host { depth: limits.depth, seed: model.seed };
    let outcome = engine::run(device.as_mut(), policy.scheduler().as_mut(), sources, from, host)
        .map_err(|error| ExperimentError::InModel(error.to_string()))?;
    let mut programs = Programs::new(&sequence.names);
    for ((process, op), tally) in &outcome.tallies {
        let (sum, max) = (tally.response.sum.0 as f64 / 1e9, tally.response.max.0 as f64 / 1e9);
        programs.add(process.0, *op, (tally.count, sum, max));
    }
    let time_s = (outcome.end.0 - outcome.from.0) as f64 / 1e9;
    Ok(ModelRun { scheduler: policy.name().to_owned(), time_s, programs: programs.into() })
}

/// Returns a thread's requests, split into requests of at most `command_max`.
fn steps(
    thread: &[Access],
    command_max: u64,
    fast: bool,
    priority: &dyn Fn(&Access) -> Priority,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for access in thread {
        let op = match access.kind {
            Kind::Read => Op::Read,
            Kind::Write | Kind::DurableWrite => Op::Write,
            Kind::Flush => Op::Flush,
        };
        let mut begins = begins(access.begins, fast);
        let (mut offset, end) = (access.offset, access.offset + access.bytes);
        loop {
            let bytes = (end - offset).min(command_max);
            let is_last = offset + bytes == end;
            let request = Arrival {
                at: Timestamp(0),
                op,
                is_sync: access.is_sync,
                fua: access.kind == Kind::DurableWrite,
                sector: Sector(offset / SECTOR_BYTES),
                bytes: ByteCount(bytes),
                process: ProcessId(access.tid),
                priority: priority(access),
            };
            steps.push(Step { begins, request, signal: access.signal.filter(|_| is_last) });
            if is_last {
                break;
            }
            offset += bytes;
            begins = Begins::AfterBegin(Nanos(0));
        }
    }
    steps
}

fn begins(begins: Begins, fast: bool) -> Begins {
    match begins {
        begins if !fast => begins,
        Begins::At(_) => Begins::At(Nanos(0)),
        Begins::AfterEnd(_) => Begins::AfterEnd(Nanos(0)),
        Begins::AfterBegin(_) => Begins::AfterBegin(Nanos(0)),
        Begins::AfterOther { signal, .. } => Begins::AfterOther { signal, pause: Nanos(0) },
    }
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
