//! Recorded requests as arrivals.
//!
//! The rows of a recording come in the order in which they were issued. They are queued in nearly the same order, so a
//! window of rows is enough to sort them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fonio_core::rows;
use fonio_core::{Flags, Op, Sector, Timestamp};

use super::{Arrival, EngineError};
use crate::scheduler::{Priority, ProcessId};

/// The number of rows that are kept for sorting. No queue holds this many requests.
const WINDOW: usize = 1 << 16;

/// The arrivals of recorded requests of one device, in the order in which they were queued.
pub struct Replay<I> {
    rows: I,
    window: BinaryHeap<Reverse<(Timestamp, u64, usize)>>,
    /// The arrivals that the window names, and unused places.
    kept: Vec<Arrival>,
    free: Vec<usize>,
}

impl<I: Iterator<Item = rows::Request>> Replay<I> {
    /// Makes arrivals from `rows`, which are in the order of the table. The caller filters rows by device.
    pub fn new(rows: I) -> Replay<I> {
        Replay { rows, window: BinaryHeap::new(), kept: Vec::new(), free: Vec::new() }
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
            let place = match self.free.pop() {
                Some(place) => {
                    self.kept[place] = arrival;
                    place
                }
                None => {
                    self.kept.push(arrival);
                    self.kept.len() - 1
                }
            };
            self.window.push(Reverse((arrival.at, row.request_id, place)));
        }
        let Reverse((_, _, place)) = self.window.pop()?;
        self.free.push(place);
        Some(Ok(self.kept[place]))
    }
}

/// The arrival of a recorded request. A source that shows no queueing gives the instant of insertion, else of issue. A
/// request of an unknown thread belongs to process 0; a write without known flags counts as write-back.
///
/// # Errors
///
/// If the row has no instant or no place.
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
