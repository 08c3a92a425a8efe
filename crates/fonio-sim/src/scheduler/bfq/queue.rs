//! A BFQ queue: the waiting requests of a process or of a burst of processes, by position.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use fonio_core::{Nanos, SECTOR_BYTES, Sector, Timestamp};

use super::super::thinking::ThinkTime;
use super::super::{Position, Priority, ProcessId, Request};

/// `back_seek_max`: the maximum distance at which a request behind the head can precede a request ahead of
/// the head.
const BACK_SECTORS_MAX: u64 = (16 << 20) / SECTOR_BYTES;
/// Distances behind the head are multiplied by this number: `back_seek_penalty`.
const BACK_PENALTY: u64 = 2;

/// The owner of a queue's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Sync(Priority, ProcessId),
    Async(Priority),
}

impl Key {
    pub(super) fn of(request: &Request) -> Key {
        match request.is_synchronous() {
            true => Key::Sync(request.priority, request.process),
            false => Key::Async(request.priority),
        }
    }

    pub(super) fn priority(self) -> Priority {
        match self {
            Key::Sync(priority, _) | Key::Async(priority) => priority,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The queue has no waiting requests and does not have the device.
    Empty,
    /// The queue waits for its turn.
    Busy,
    /// The queue has the device.
    InService,
}

#[derive(Debug)]
pub(super) struct Queue {
    /// The key of the queue; for a burst, the key of its first process.
    pub(super) key: Key,
    pub(super) state: State,
    pub(super) in_flight: u32,
    pub(super) think: ThinkTime,
    /// Virtual start and finish times of the queue's turn.
    pub(super) start: u64,
    pub(super) finish: u64,
    /// The budget in sectors that the queue has earned, and the budget in sectors of its turn, which is
    /// enough for at least one request.
    pub(super) earned: u64,
    pub(super) budget: u64,
    pub(super) used: u64,
    waiting: BTreeMap<Position, Request>,
    /// Positions of requests, with their insertion times, in the order of insertion. Positions of requests
    /// that were already dispatched are removed when they reach the front.
    by_age: VecDeque<(Timestamp, Position)>,
    next: Option<Position>,
}

impl Queue {
    pub(super) fn new(key: Key, earned: u64) -> Queue {
        Queue {
            key,
            state: State::Empty,
            in_flight: 0,
            think: ThinkTime::default(),
            start: 0,
            finish: 0,
            earned,
            budget: earned,
            used: 0,
            waiting: BTreeMap::new(),
            by_age: VecDeque::new(),
            next: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn is_sync(&self) -> bool {
        matches!(self.key, Key::Sync(..))
    }

    pub(super) fn class(&self) -> usize {
        self.key.priority().class as usize
    }

    /// Returns the weight: 10 at the lowest level and 10 more for each higher level, up to 80.
    pub(super) fn weight(&self) -> u64 {
        10 * (8 - u64::from(self.key.priority().level.min(Priority::LEVEL_MAX)))
    }

    /// Returns the next request in position order.
    pub(super) fn next(&self) -> Option<&Request> {
        self.waiting.get(&self.next?)
    }

    /// Adds a request. The new request becomes the next request if it is closer to `head`, the end of the
    /// device's last request, than the current next request.
    pub(super) fn insert(&mut self, request: Request, now: Timestamp, head: Sector) {
        let position = (request.sector.0, request.id);
        self.waiting.insert(position, request);
        self.by_age.push_back((now, position));
        self.next = closer(head, self.next, Some(position));
    }

    /// If the oldest request has waited for `expire`, makes it the next request.
    pub(super) fn prefer_expired(&mut self, now: Timestamp, expire: Nanos) {
        if let Some((inserted, oldest)) = self.by_age.front()
            && *inserted + expire <= now
        {
            self.next = Some(*oldest);
        }
    }

    /// Removes and returns the next request. The closest request before or after the removed request becomes
    /// the next request.
    pub(super) fn take(&mut self) -> Option<Request> {
        let position = self.next?;
        let request = self.waiting.remove(&position)?;
        if self.by_age.front().is_some_and(|(_, oldest)| *oldest == position) {
            self.by_age.pop_front();
            while self.by_age.front().is_some_and(|(_, oldest)| !self.waiting.contains_key(oldest)) {
                self.by_age.pop_front();
            }
        }
        let above = self.waiting.range((Bound::Excluded(position), Bound::Unbounded)).next();
        let ahead = above.or_else(|| self.waiting.first_key_value()).map(|(at, _)| *at);
        // Among requests at the same sector, the first inserted request is next.
        let mut below = self.waiting.range(..position).rev().map(|(at, _)| *at);
        let nearest = below.next();
        let behind = below
            .take_while(|(sector, _)| nearest.is_some_and(|(same, _)| same == *sector))
            .last()
            .or(nearest);
        self.next = closer(request.end(), ahead, behind);
        Some(request)
    }
}

/// Returns the position with the lower cost. The cost of a position ahead or a little behind is its distance.
/// If both positions are too far behind, the lower position is next.
fn closer(head: Sector, one: Option<Position>, other: Option<Position>) -> Option<Position> {
    let cost = |position: &Position| {
        let (sector, _) = *position;
        match sector.checked_sub(head.0) {
            Some(ahead) => (false, ahead, *position),
            None if head.0 - sector <= BACK_SECTORS_MAX => {
                (false, (head.0 - sector) * BACK_PENALTY, *position)
            }
            None => (true, sector, *position),
        }
    };
    one.into_iter().chain(other).min_by_key(cost)
}

#[cfg(test)]
mod tests {
    use super::super::super::RequestId;
    use super::*;

    #[test]
    fn places_a_little_behind_cost_twice_their_distance() {
        let position = |sector| Some((sector, RequestId(sector)));
        for (head, one, other, expected) in [
            (1000, 1100, 1200, 1100),
            (1000, 1100, 960, 960),
            (1000, 1100, 940, 1100),
            // Positions that are too far behind come after all positions ahead. Among such positions, the
            // lowest is first.
            (100_000, 900_000, 10, 900_000),
            (100_000, 20, 10, 10),
        ] {
            assert_eq!(
                closer(Sector(head), position(one), position(other)),
                position(expected),
                "{head}: {one} or {other}"
            );
        }
    }
}
