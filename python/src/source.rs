//! The load of a simulation: requests with given times, processes that wait for their requests, or the replay of a
//! recording.

use std::sync::Arc;

use fonio_core::{ByteCount, Nanos, SECTOR_BYTES};
use fonio_sim::engine::{self, Think};
use fonio_sim::measure::Order;
use fonio_sim::scheduler::{Class, Priority, ProcessId};
use fonio_sim::simulation::{Load, LoopLoad};
use pyo3::prelude::*;

use crate::arrow::from_object;
use crate::error::wrong;
use crate::replay::Replay;
use crate::requests::read_arrivals;

/// A process that keeps requests in flight, and waits for them.
#[pyclass(frozen, subclass, module = "fonio._fonio")]
#[derive(Clone)]
pub struct ClosedLoop {
    /// The range is unknown until the device is known; then it has this length.
    range: Option<u64>,
    settings: engine::ClosedLoop,
}

#[pymethods]
impl ClosedLoop {
    #[new]
    #[pyo3(signature = (count, size, reads_percent, is_random, depth, start, range, think_ns, process, priority, sync))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    fn new(
        count: u64,
        size: u64,
        reads_percent: u8,
        is_random: bool,
        depth: u32,
        start: u64,
        range: Option<u64>,
        think_ns: (u64, u64),
        process: u32,
        priority: &str,
        sync: bool,
    ) -> PyResult<ClosedLoop> {
        for (what, is_wrong) in [
            ("count must be at least 1", count == 0),
            ("depth must be at least 1", depth == 0),
            (
                "size must be a multiple of 512 bytes, and not 0",
                size == 0 || !size.is_multiple_of(SECTOR_BYTES),
            ),
            ("start must be a multiple of 512 bytes", !start.is_multiple_of(SECTOR_BYTES)),
            ("range must be at least one request long", range.is_some_and(|range| range < size)),
            ("reads must be a share from 0 to 1", reads_percent > 100),
            ("think_ns must be a minimum and a maximum that is not smaller", think_ns.0 > think_ns.1),
        ] {
            if is_wrong {
                return Err(wrong(format!("ClosedLoop: {what}")));
            }
        }
        let settings = engine::ClosedLoop {
            process: ProcessId(process),
            priority: parse_priority(priority)?,
            is_sync: sync,
            reads_percent,
            order: if is_random { Order::Random } else { Order::Sequential },
            start: ByteCount(start),
            range: ByteCount(0),
            request: ByteCount(size),
            count,
            depth,
            think: Think { min: Nanos(think_ns.0), max: Nanos(think_ns.1) },
        };
        Ok(ClosedLoop { range, settings })
    }
}

impl ClosedLoop {
    fn load(&self) -> LoopLoad {
        LoopLoad { range: self.range, settings: self.settings }
    }
}

/// Parses `rt/0`, `be/4` or `idle`.
fn parse_priority(text: &str) -> PyResult<Priority> {
    let (class, level) = text.split_once('/').unwrap_or((text, "4"));
    let class = Class::ALL.into_iter().find(|known| known.name() == class);
    let level = level.parse().ok().filter(|level| *level <= Priority::LEVEL_MAX);
    match (class, level) {
        (Some(Class::Idle), _) => Ok(Priority { class: Class::Idle, level: Priority::LEVEL_MAX }),
        (Some(class), Some(level)) => Ok(Priority { class, level }),
        _ => Err(wrong(format!(
            "`{text}` is not a priority; use rt/LEVEL or be/LEVEL with a level from 0 to 7, or idle"
        ))),
    }
}

/// The load of a simulation, as the user gave it.
pub struct Given {
    /// The load, with requests in the order of their times.
    pub load: Arc<Load>,
    /// The row of each request in the user's table, if the table has another order.
    rows: Option<Vec<usize>>,
}

impl Given {
    /// Reads a table of requests, a replay, or a list of processes.
    pub fn of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Given> {
        let whole = |load: Load| Ok(Given { load: Arc::new(load), rows: None });
        if let Ok(replay) = object.cast::<Replay>() {
            return Ok(Given { load: replay.get().load(), rows: None });
        }
        if let Ok(only) = object.cast::<ClosedLoop>() {
            return whole(Load::Loops(vec![only.get().load()]));
        }
        if let Ok(loops) = object.extract::<Vec<Bound<'_, ClosedLoop>>>() {
            if loops.is_empty() {
                return Err(wrong(format!("{what} has no process")));
            }
            return whole(Load::Loops(loops.iter().map(|one| one.get().load()).collect()));
        }
        let reader = from_object(object, what)?;
        object.py().detach(|| {
            let arrivals = read_arrivals(reader)?;
            if arrivals.is_sorted_by_key(|arrival| arrival.at) {
                return whole(Load::Arrivals(arrivals));
            }
            let mut rows: Vec<usize> = (0..arrivals.len()).collect();
            rows.sort_by_key(|row| arrivals[*row].at);
            let sorted = rows.iter().map(|row| arrivals[*row]).collect();
            Ok(Given { load: Arc::new(Load::Arrivals(sorted)), rows: Some(rows) })
        })
    }

    /// Puts the results of the requests into the order of the user's table.
    pub fn in_rows<T: Copy>(&self, done: Vec<T>) -> Vec<T> {
        let Some(rows) = &self.rows else { return done };
        let mut places: Vec<usize> = vec![0; rows.len()];
        for (place, row) in rows.iter().enumerate() {
            places[*row] = place;
        }
        places.into_iter().map(|place| done[place]).collect()
    }
}
