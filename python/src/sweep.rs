//! `fonio.sweep`: runs one load on many models, on all processors.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use fonio_core::ByteCount;
use fonio_sim::scheduler::Policy;
use fonio_sim::simulation::{Load, Settings, Summary};
use pyo3::prelude::*;
use rustix::time::{ClockId, clock_gettime};

use crate::interrupt::interruptible;
use crate::profile::{self, Profile};
use crate::result::json;
use crate::scheduler::Failure;
use crate::simulate::{device, host, named, run};
use crate::source::Given;

/// One model of a sweep.
struct Cell {
    profile: Profile,
    policy: Policy,
    depth: Option<u32>,
    seed: u64,
}

/// The result of a cell: the summary as JSON, and the processor time that it took, in seconds.
type Swept = PyResult<(String, f64)>;

/// Runs `requests` on every cell: a profile, the name of a scheduler, a depth and a seed. Returns the summary and the
/// processor time of each cell, and the elapsed time of all cells together, in seconds.
#[pyfunction]
#[pyo3(signature = (cells, requests, capacity, prepare, threads))]
pub fn sweep(
    py: Python<'_>,
    cells: Vec<(Bound<'_, Profile>, String, Option<u32>, u64)>,
    requests: &Bound<'_, PyAny>,
    capacity: Option<&str>,
    prepare: Option<&Bound<'_, PyAny>>,
    threads: usize,
) -> PyResult<(Vec<(String, f64)>, f64)> {
    let capacity = capacity.map(profile::capacity).transpose()?;
    let cells = cells.into_iter().map(|(profile, scheduler, depth, seed)| {
        let profile = profile.borrow().clone();
        Ok(Cell { profile, policy: named(&scheduler)?, depth, seed })
    });
    let cells: Vec<Cell> = cells.collect::<PyResult<_>>()?;
    let load = Given::of(requests, "requests")?.load;
    let prepare =
        prepare.map(|prepare| Given::of(prepare, "prepare")).transpose()?.map(|prepare| prepare.load);
    interruptible(py, |stop| {
        let began = Instant::now();
        let swept = run_all(&cells, threads.max(1), |cell| {
            let began = processor_s();
            let text = run_cell(cell, capacity, prepare.as_deref(), &load, stop)?;
            Ok((text, processor_s() - began))
        });
        let results = swept.into_iter().collect::<PyResult<Vec<_>>>()?;
        Ok((results, began.elapsed().as_secs_f64()))
    })?
}

/// Returns the processor time that this thread has used, in seconds.
fn processor_s() -> f64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

fn run_cell(
    cell: &Cell,
    capacity: Option<ByteCount>,
    prepare: Option<&Load>,
    load: &Load,
    stop: &AtomicBool,
) -> PyResult<String> {
    let mut device = device(&cell.profile, capacity, cell.seed)?;
    let host = host(device.as_ref(), cell.depth, cell.seed)?;
    let settings = Settings::of(&cell.profile.model, device.as_ref(), cell.policy.name(), host);
    let mut scheduler = cell.policy.scheduler();
    let failure = Failure::default();
    let ran = run(device.as_mut(), scheduler.as_mut(), prepare, load, host, 1, &failure, stop)?;
    Ok(json(&Summary::of(&ran, &settings)))
}

/// Runs `run` for every cell on this number of threads. The results have the order of the cells.
fn run_all(cells: &[Cell], threads: usize, run: impl Fn(&Cell) -> Swept + Sync) -> Vec<Swept> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Swept>>> = Mutex::new(cells.iter().map(|_| None).collect());
    thread::scope(|scope| {
        for _ in 0..threads.min(cells.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(at) else { return };
                    let result = run(cell);
                    results.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(|result| result.expect("every cell was run")).collect()
}
