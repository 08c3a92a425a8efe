//! The load of a simulation: requests with given times, or processes that wait for their requests.

use fonio_core::{ByteCount, Nanos, SECTOR_BYTES, Timestamp};
use fonio_sim::device::Device;
use fonio_sim::engine::{self, Arrival, Source, Think, replay};
use fonio_sim::measure::Order;
use fonio_sim::scheduler::{Class, Priority, ProcessId};
use pyo3::prelude::*;

use crate::arrow::from_object;
use crate::error::{refused, wrong};
use crate::requests::read_rows;

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

/// The load of a simulation.
pub enum Load {
    /// Requests in the order of their times, with the row of each request in the user's table if the table has
    /// another order.
    Arrivals(Vec<Arrival>, Option<Vec<usize>>),
    /// Processes.
    Loops(Vec<ClosedLoop>),
}

impl Load {
    /// Reads a table of requests, or a list of processes.
    pub fn of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Load> {
        if let Ok(only) = object.cast::<ClosedLoop>() {
            return Ok(Load::Loops(vec![only.get().clone()]));
        }
        if let Ok(loops) = object.extract::<Vec<Bound<'_, ClosedLoop>>>() {
            if loops.is_empty() {
                return Err(wrong(format!("{what} has no process")));
            }
            return Ok(Load::Loops(loops.iter().map(|one| one.get().clone()).collect()));
        }
        let reader = from_object(object, what)?;
        object.py().detach(|| {
            let mut arrivals = Vec::new();
            read_rows(reader, |row| {
                arrivals.push(replay::arrival(&row).map_err(refused)?);
                Ok(())
            })?;
            if arrivals.is_sorted_by_key(|arrival| arrival.at) {
                return Ok(Load::Arrivals(arrivals, None));
            }
            let mut rows: Vec<usize> = (0..arrivals.len()).collect();
            rows.sort_by_key(|row| arrivals[*row].at);
            let sorted = rows.iter().map(|row| arrivals[*row]).collect();
            Ok(Load::Arrivals(sorted, Some(rows)))
        })
    }

    /// Returns the number of requests.
    pub fn count(&self) -> u64 {
        match self {
            Load::Arrivals(arrivals, _) => arrivals.len() as u64,
            Load::Loops(loops) => loops.iter().map(|one| one.settings.count).sum(),
        }
    }

    /// Returns the sources for a run on `device` that begins at `from`. The times of a table count from there.
    pub fn sources(&self, device: &dyn Device, from: Timestamp) -> PyResult<Vec<Source<'_>>> {
        match self {
            Load::Arrivals(arrivals, _) => {
                let shifted =
                    move |arrival: &Arrival| Ok(Arrival { at: Timestamp(arrival.at.0 + from.0), ..*arrival });
                Ok(vec![Source::Open(Box::new(arrivals.iter().map(shifted)))])
            }
            Load::Loops(loops) => {
                let capacity = device.limits().capacity.0;
                let closed = |one: &ClosedLoop| {
                    let (start, size) = (one.settings.start.0, one.settings.request.0);
                    let range = one.range.unwrap_or(capacity.saturating_sub(start));
                    if range < size || start.saturating_add(range) > capacity {
                        return Err(wrong(format!(
                            "a ClosedLoop with the range from {start} to {} bytes does not fit the device of {capacity} bytes",
                            start.saturating_add(range)
                        )));
                    }
                    Ok(Source::Closed(engine::ClosedLoop { range: ByteCount(range), ..one.settings }))
                };
                loops.iter().map(closed).collect()
            }
        }
    }
}
