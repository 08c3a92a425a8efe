//! Runs a load on a model in virtual time, and records what happens.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use fonio_core::{ByteCount, Timestamp};
use fonio_sim::device::{Counters, Device};
use fonio_sim::engine::{Done, EngineError, Host, Observer, run_observed};
use fonio_sim::ftl::Census;
use fonio_sim::scheduler::Scheduler;
use pyo3::prelude::*;

use crate::error::{refused, wrong};
use crate::scheduler::Failure;
use crate::source::Load;

/// The device at one time of a run.
#[derive(Clone, Copy)]
pub struct State {
    /// The time since the start of the run.
    pub time_ns: u64,
    /// Number of completed requests.
    pub completed: u64,
    pub counters: Counters,
    pub census: Option<Census>,
}

/// What happened in a run.
pub struct Ran {
    /// The requests, in the order of the user's table; for processes, in the order of queueing. Times count from the
    /// start of the run.
    pub done: Vec<Done>,
    pub states: Vec<State>,
    pub counters: Counters,
    pub census: Option<Census>,
    /// How often each erase block was erased during the run and its preparation.
    pub erase_counts: Vec<u32>,
    pub capacity: ByteCount,
}

/// Runs `prepare` and then `load`. The counters of the result are those of `load` alone.
#[expect(clippy::too_many_arguments, reason = "each is a part of a run, and all differ in type")]
pub fn run_load(
    device: &mut dyn Device,
    scheduler: &mut dyn Scheduler,
    prepare: Option<&Load>,
    load: &Load,
    host: Host,
    samples: u64,
    failure: &Failure,
    stop: &AtomicBool,
) -> PyResult<Ran> {
    let ended = |error: EngineError| match error {
        EngineError::Stopped => failure.take().unwrap_or_else(|| wrong("interrupted")),
        other => refused(other),
    };
    let mut from = Timestamp(0);
    if let Some(prepare) = prepare {
        let mut watch = StopWatch { failure, stop };
        let sources = prepare.sources(device, from)?;
        // The order of preparing requests does not depend on the scheduler under test.
        let mut noop = fonio_sim::scheduler::Policy::Noop.scheduler();
        from = run_observed(device, noop.as_mut(), sources, from, host, &mut watch).map_err(ended)?.end;
        device.reset_counters();
    }
    let count = load.count();
    let mut recorder = Recorder {
        from,
        done: vec![None; count as usize],
        states: Vec::new(),
        every: count.div_ceil(samples.max(1)).max(1),
        completed: 0,
        watch: StopWatch { failure, stop },
    };
    let sources = load.sources(device, from)?;
    run_observed(device, scheduler, sources, from, host, &mut recorder).map_err(ended)?;
    if let Some(error) = failure.take() {
        return Err(error);
    }
    let Recorder { done, states, .. } = recorder;
    let done: Vec<Done> = done.into_iter().map(|done| done.expect("every request completes")).collect();
    let census = device.census();
    let mut erase_counts = device.erase_counts().to_vec();
    if let Some(census) = census.filter(|_| !erase_counts.is_empty()) {
        erase_counts.resize(census.total as usize, 0);
    }
    let capacity = device.limits().capacity;
    let counters = device.counters();
    Ok(Ran { done: in_rows(done, load), states, counters, census, erase_counts, capacity })
}

/// Puts requests into the order of the user's table.
fn in_rows(done: Vec<Done>, load: &Load) -> Vec<Done> {
    let Load::Arrivals(_, Some(rows)) = load else { return done };
    let mut places: Vec<usize> = vec![0; rows.len()];
    for (place, row) in rows.iter().enumerate() {
        places[*row] = place;
    }
    places.into_iter().map(|place| done[place]).collect()
}

/// Ends a run after an error in Python or an interruption.
struct StopWatch<'a> {
    failure: &'a Failure,
    stop: &'a AtomicBool,
}

impl Observer for StopWatch<'_> {
    fn completed(&mut self, _: &Done, _: &dyn Device) -> ControlFlow<()> {
        if self.failure.has_failed() || self.stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

struct Recorder<'a> {
    from: Timestamp,
    done: Vec<Option<Done>>,
    states: Vec<State>,
    /// Number of requests between two states.
    every: u64,
    completed: u64,
    watch: StopWatch<'a>,
}

impl Observer for Recorder<'_> {
    fn completed(&mut self, done: &Done, device: &dyn Device) -> ControlFlow<()> {
        let since = |at: Timestamp| Timestamp(at.0 - self.from.0);
        let at = since(done.completed);
        let done = Done {
            queued: since(done.queued),
            issued: since(done.issued),
            completed: at,
            request: done.request,
        };
        self.done[done.request.id.0 as usize] = Some(done);
        self.completed += 1;
        if self.completed.is_multiple_of(self.every) || self.completed == self.done.len() as u64 {
            self.states.push(State {
                time_ns: at.0,
                completed: self.completed,
                counters: device.counters(),
                census: device.census(),
            });
        }
        self.watch.completed(&done, device)
    }
}
