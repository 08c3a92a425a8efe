//! Converts recorded requests to arrivals.
//!
//! A recording stores rows in the order of issue. Requests are queued in nearly the same order, so sorting
//! within a window of rows is enough.

use std::collections::BTreeMap;

use fonio_core::rows;
use fonio_core::{Flags, Op, Sector, Timestamp};

use super::{Arrival, EngineError};
use crate::scheduler::{Priority, ProcessId};

/// The number of rows in the sort window. No queue holds this many requests.
const WINDOW: usize = 1 << 16;

/// The recorded requests of a device as arrivals, in the order in which they were queued.
pub struct Replay<I> {
    rows: I,
    /// Arrivals by queueing time, then by request ID; rows with the same ID keep their order.
    window: BTreeMap<(Timestamp, u64, u64), Arrival>,
    read: u64,
}

impl<I: Iterator<Item = rows::Request>> Replay<I> {
    /// Makes arrivals from `rows`, which must be in table order. The caller filters rows by device.
    pub fn new(rows: I) -> Replay<I> {
        Replay { rows, window: BTreeMap::new(), read: 0 }
    }
}

impl<I: Iterator<Item = rows::Request>> Iterator for Replay<I> {
    type Item = Result<Arrival, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.window.len() < WINDOW {
            let Some(row) = self.rows.next() else { break };
            let arrival = match arrival(&row) {
                Ok(arrival) => arrival,
                Err(error) => return Some(Err(error)),
            };
            self.window.insert((arrival.at, row.request_id, self.read), arrival);
            self.read += 1;
        }
        self.window.pop_first().map(|(_, arrival)| Ok(arrival))
    }
}

/// Converts a recorded request to an arrival. If the queueing time is unknown, the insertion time replaces
/// it; if the insertion time is unknown too, the issue time does. A request of an unknown thread belongs to
/// process 0; a write with unknown flags counts as write-back. Fails if the row has no time or no sector.
pub fn arrival(row: &rows::Request) -> Result<Arrival, EngineError> {
    let unknown = |what| EngineError::Unknown { request_id: row.request_id, what };
    let at = row.queued.or(row.inserted).or(row.issued).ok_or_else(|| unknown("time of queueing"))?;
    let sector = match (row.sector, row.op) {
        (Some(sector), _) => sector,
        (None, Op::Flush) => Sector(0),
        (None, _) => return Err(unknown("sector")),
    };
    Ok(Arrival {
        at,
        op: row.op,
        is_sync: row.op == Op::Read || row.flags.contains(Flags::SYNC),
        fua: row.flags.contains(Flags::FUA),
        sector,
        bytes: row.bytes,
        process: ProcessId(row.tid.unwrap_or(0)),
        priority: row.ioprio.map_or(Priority::DEFAULT, Priority::from_ioprio),
    })
}
