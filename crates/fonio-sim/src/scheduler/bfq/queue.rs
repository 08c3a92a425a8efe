//! A queue of BFQ: the waiting requests of a process or of a burst of processes, in the order of their places.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use fonio_core::{Nanos, SECTOR_BYTES, Sector, Timestamp};

use super::super::thinking::ThinkTime;
use super::super::{Priority, ProcessId, Request, RequestId};

/// The place of a request, and the order among several requests at one place.
type Place = (u64, RequestId);

/// The maximum distance behind the head at which a request can go before one ahead: `back_seek_max`.
const BACK_SECTORS_MAX: u64 = (16 << 20) / SECTOR_BYTES;
/// A request ahead can be this many times as far: `back_seek_penalty`.
const BACK_PENALTY: u64 = 2;

/// Whose requests a queue holds.
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
    /// No request waits, and the queue does not have the device.
    Empty,
    /// Waits for its turn.
    Busy,
    /// Has the device.
    InService,
}

#[derive(Debug)]
pub(super) struct Queue {
    /// For the queue of a burst, the key of the first process.
    pub(super) key: Key,
    pub(super) state: State,
    pub(super) in_flight: u32,
    pub(super) think: ThinkTime,
    /// Virtual start and finish of the turn.
    pub(super) start: u64,
    pub(super) finish: u64,
    /// The budget that the queue has earned, and that of its turn, which is at least one request; in sectors.
    pub(super) earned: u64,
    pub(super) budget: u64,
    /// Sectors charged in this turn.
    pub(super) used: u64,
    waiting: BTreeMap<Place, Request>,
    /// Places in the order of insertion; those of requests that have gone are skipped at the front.
    by_age: VecDeque<(Timestamp, Place)>,
    next: Option<Place>,
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

    /// The weight: ten for each level above the lowest, and ten more: 80 to 10.
    pub(super) fn weight(&self) -> u64 {
        10 * (8 - u64::from(self.key.priority().level.min(Priority::LEVEL_MAX)))
    }

    /// The request that goes next in the order of places.
    pub(super) fn next(&self) -> Option<&Request> {
        self.waiting.get(&self.next?)
    }

    /// Adds a request. It goes next if it is closer to `head`, the end of the device's last request, than the one that
    /// would have gone next.
    pub(super) fn insert(&mut self, request: Request, now: Timestamp, head: Sector) {
        let place = (request.sector.0, request.id);
        self.waiting.insert(place, request);
        self.by_age.push_back((now, place));
        self.next = closer(head, self.next, Some(place));
    }

    /// Lets the oldest request go next if it has waited for `expire`.
    pub(super) fn prefer_expired(&mut self, now: Timestamp, expire: Nanos) {
        if let Some((inserted, oldest)) = self.by_age.front()
            && *inserted + expire <= now
        {
            self.next = Some(*oldest);
        }
    }

    /// Takes the next request. The closest one before or behind it goes next.
    pub(super) fn take(&mut self) -> Option<Request> {
        let place = self.next?;
        let request = self.waiting.remove(&place)?;
        if self.by_age.front().is_some_and(|(_, oldest)| *oldest == place) {
            self.by_age.pop_front();
            while self.by_age.front().is_some_and(|(_, oldest)| !self.waiting.contains_key(oldest)) {
                self.by_age.pop_front();
            }
        }
        let above = self.waiting.range((Bound::Excluded(place), Bound::Unbounded)).next();
        let ahead = above.or_else(|| self.waiting.first_key_value()).map(|(at, _)| *at);
        // Of several requests at one place, the first one goes.
        let mut below = self.waiting.range(..place).rev().map(|(at, _)| *at);
        let nearest = below.next();
        let behind = below
            .take_while(|(sector, _)| nearest.is_some_and(|(same, _)| same == *sector))
            .last()
            .or(nearest);
        self.next = closer(request.end(), ahead, behind);
        Some(request)
    }
}

/// The place that costs less to reach. Places ahead and a little behind cost their distance; the lowest of the others
/// is next when none of these waits.
fn closer(head: Sector, one: Option<Place>, other: Option<Place>) -> Option<Place> {
    let cost = |place: &Place| {
        let (sector, _) = *place;
        match sector.checked_sub(head.0) {
            Some(ahead) => (false, ahead, *place),
            None if head.0 - sector <= BACK_SECTORS_MAX => (false, (head.0 - sector) * BACK_PENALTY, *place),
            None => (true, sector, *place),
        }
    };
    one.into_iter().chain(other).min_by_key(cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_a_little_behind_cost_twice_their_distance() {
        let place = |sector| Some((sector, RequestId(sector)));
        for (head, one, other, expected) in [
            (1000, 1100, 1200, 1100),
            (1000, 1100, 960, 960),
            (1000, 1100, 940, 1100),
            // A place too far behind: it comes after all places ahead, the lowest first.
            (100_000, 900_000, 10, 900_000),
            (100_000, 20, 10, 10),
        ] {
            assert_eq!(
                closer(Sector(head), place(one), place(other)),
                place(expected),
                "{head}: {one} or {other}"
            );
        }
    }
}
