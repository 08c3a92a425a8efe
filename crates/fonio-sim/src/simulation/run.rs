//! Runs a load, and records every request.

use std::ops::ControlFlow;

use fonio_core::rows;
use fonio_core::{DeviceId, Flags, Op, Timestamp};

use super::error::SimulationError;
use super::load::Load;
use crate::device::{Counters, Device};
use crate::engine::{Done, Host, Observer, Outcome, run_observed};
use crate::ftl::Census;
use crate::scheduler::{Policy, Scheduler};

/// The device at one time of a run.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// The time since the start of the run.
    pub time_ns: u64,
    /// Number of completed requests.
    pub completed: u64,
    /// The counters of the device.
    pub counters: Counters,
    /// The erase blocks of the device, if it has any.
    pub census: Option<Census>,
}

/// What happened in a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The requests, in the order of queueing. Times count from the start of the run.
    pub done: Vec<Done>,
    /// The states of the device, in the order of time.
    pub states: Vec<State>,
    /// The counters of the device at the end.
    pub counters: Counters,
    /// The erase blocks of the device at the end, if it has any.
    pub census: Option<Census>,
    /// How often each erase block was erased during the run and its preparation; empty if the device does not count.
    pub erase_counts: Vec<u32>,
    /// The counts and times of each process and op.
    pub outcome: Outcome,
}

/// Runs `prepare` and then `load`. The counters of the result are those of `load` alone. `samples` is the number of
/// states. The run ends with [`EngineError::Stopped`](crate::engine::EngineError::Stopped) once `is_over` returns true.
///
/// # Errors
/// Fails if the device cannot run the load.
pub fn run(
    device: &mut dyn Device,
    scheduler: &mut dyn Scheduler,
    prepare: Option<&Load>,
    load: &Load,
    host: Host,
    samples: u64,
    is_over: &dyn Fn() -> bool,
) -> Result<Ran, SimulationError> {
    let mut from = Timestamp(0);
    if let Some(prepare) = prepare {
        from = prepare.prepare(device, from)?;
        let (sources, _) = prepare.sources(device, from)?;
        // The order of preparing requests does not depend on the scheduler under test.
        let mut noop = Policy::Noop.scheduler();
        from = run_observed(device, noop.as_mut(), sources, from, host, &mut StopWatch(is_over))?.end;
        device.reset_counters();
    }
    let from = load.prepare(device, from)?;
    let (sources, count) = load.sources(device, from)?;
    let mut recorder = Recorder {
        from,
        done: vec![None; count as usize],
        states: Vec::new(),
        every: count.div_ceil(samples.max(1)).max(1),
        completed: 0,
        is_over,
    };
    let outcome = run_observed(device, scheduler, sources, from, host, &mut recorder)?;
    let Recorder { done, states, .. } = recorder;
    let done: Vec<Done> = done.into_iter().map(|done| done.expect("every request completes")).collect();
    let census = device.census();
    let mut erase_counts = device.erase_counts().to_vec();
    if let Some(census) = census.filter(|_| !erase_counts.is_empty()) {
        erase_counts.resize(census.total as usize, 0);
    }
    Ok(Ran { done, states, counters: device.counters(), census, erase_counts, outcome })
}

/// Returns a simulated request as a row of a recording. `row` is its number.
pub fn row(row: u64, done: &Done) -> rows::Request {
    let Done { request, queued, issued, completed } = *done;
    let is_sync_write = request.is_sync && request.op != Op::Read;
    rows::Request {
        request_id: row,
        flags: if is_sync_write { Flags::SYNC } else { Flags::NONE },
        flags_known: Flags::SYNC,
        sector: (request.op != Op::Flush).then_some(request.sector),
        queued: Some(queued),
        issued: Some(issued),
        completed: Some(completed),
        tid: Some(request.process.0),
        error: Some(0),
        ..rows::Request::new(DeviceId::default(), request.op, request.bytes)
    }
}

/// Ends a run early.
struct StopWatch<'a>(&'a dyn Fn() -> bool);

impl Observer for StopWatch<'_> {
    fn completed(&mut self, _: &Done, _: &dyn Device) -> ControlFlow<()> {
        if (self.0)() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct Recorder<'a> {
    from: Timestamp,
    done: Vec<Option<Done>>,
    states: Vec<State>,
    /// Number of requests between two states.
    every: u64,
    completed: u64,
    is_over: &'a dyn Fn() -> bool,
}

impl Observer for Recorder<'_> {
    fn completed(&mut self, done: &Done, device: &dyn Device) -> ControlFlow<()> {
        let since = |at: Timestamp| Timestamp(at.0 - self.from.0);
        let at = since(done.completed);
        self.done[done.request.id.0 as usize] = Some(Done {
            queued: since(done.queued),
            issued: since(done.issued),
            completed: at,
            request: done.request,
        });
        self.completed += 1;
        if self.completed.is_multiple_of(self.every) || self.completed == self.done.len() as u64 {
            self.states.push(State {
                time_ns: at.0,
                completed: self.completed,
                counters: device.counters(),
                census: device.census(),
            });
        }
        if (self.is_over)() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
