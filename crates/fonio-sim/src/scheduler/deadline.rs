//! The deadline scheduler: batches of requests in sector order, with a deadline for each request.
//!
//! Reads and writes are kept in separate lists, sorted by sector and by age. A batch consists of requests
//! of one direction in ascending order. A new batch consists of reads, unless writes have waited for
//! [`Tunables::writes_starved`] read batches. If the deadline of the oldest request of its direction has
//! passed, the batch begins with this request. Otherwise, the batch continues after the last dispatched
//! request of its direction.
//!
//! Source: the kernel's `Documentation/block/deadline-iosched`.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use fonio_core::{Nanos, Op, Timestamp};

use super::{Position, Request, Scheduler};

/// The tunables, under the kernel's names.
#[derive(Clone, Copy, Debug)]
pub struct Tunables {
    /// The time from a read's insertion to its deadline.
    pub read_expire: Nanos,
    /// The time from a write's insertion to its deadline.
    pub write_expire: Nanos,
    /// The maximum number of requests per batch.
    pub fifo_batch: u32,
    /// The number of read batches that may precede a batch of waiting writes. With 0, reads wait for all
    /// writes.
    pub writes_starved: u32,
}

impl Tunables {
    /// The kernel's default tunables.
    pub const DEFAULT: Tunables = Tunables {
        read_expire: Nanos(500_000_000),
        write_expire: Nanos(5_000_000_000),
        fifo_batch: 16,
        writes_starved: 2,
    };
}

/// The deadline scheduler.
#[derive(Debug)]
pub struct Deadline {
    lists: Lists,
    batches: Batches,
}

impl Deadline {
    /// Makes an empty scheduler.
    pub fn new(settings: Tunables) -> Deadline {
        Deadline { lists: Lists::default(), batches: Batches::new(settings) }
    }
}

impl Scheduler for Deadline {
    fn insert(&mut self, request: Request, now: Timestamp) {
        self.lists.insert(request, now);
    }

    fn dispatch(&mut self, now: Timestamp, _: u32) -> Option<Request> {
        let (chosen, _) = self.batches.choose(&self.lists, now)?;
        Some(self.batches.take(&mut self.lists, chosen))
    }

    fn waiting(&self) -> usize {
        self.lists.len()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    /// All requests except reads.
    Write,
}

impl Direction {
    fn of(request: &Request) -> Direction {
        if request.op == Op::Read { Direction::Read } else { Direction::Write }
    }
}

/// A request chosen by [`Batches::choose`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    direction: Direction,
    position: Position,
}

#[derive(Debug, Default)]
struct Side {
    /// Waiting requests with their insertion times.
    by_position: BTreeMap<Position, (Request, Timestamp)>,
    /// Insertion times and positions, in the order of insertion. Dispatched requests are skipped when they
    /// reach the front.
    by_age: VecDeque<(Timestamp, Position)>,
    last: Option<Position>,
}

impl Side {
    fn next_in_order(&self) -> Option<(Timestamp, Position)> {
        let behind = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let (position, (_, inserted)) = self.by_position.range((behind, Bound::Unbounded)).next()?;
        Some((*inserted, *position))
    }

    fn oldest(&self) -> Option<(Timestamp, Position)> {
        self.by_age.front().copied()
    }

    fn take(&mut self, position: Position) -> Request {
        let (request, _) = self.by_position.remove(&position).expect("the request waits");
        if self.by_age.front().is_some_and(|(_, oldest)| *oldest == position) {
            self.by_age.pop_front();
            while self.by_age.front().is_some_and(|(_, oldest)| !self.by_position.contains_key(oldest)) {
                self.by_age.pop_front();
            }
        }
        self.last = Some(position);
        request
    }
}

#[derive(Debug, Default)]
pub(super) struct Lists {
    sides: [Side; 2],
}

impl Lists {
    pub(super) fn insert(&mut self, request: Request, now: Timestamp) {
        let side = &mut self.sides[Direction::of(&request) as usize];
        let position = (request.sector.0, request.id);
        side.by_position.insert(position, (request, now));
        side.by_age.push_back((now, position));
    }

    pub(super) fn len(&self) -> usize {
        self.sides.iter().map(|side| side.by_position.len()).sum()
    }

    /// Returns the insertion time of the oldest request.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.sides.iter().filter_map(Side::oldest).map(|(inserted, _)| inserted).min()
    }

    fn side(&self, direction: Direction) -> &Side {
        &self.sides[direction as usize]
    }
}

/// The batch in progress. Several lists can share a batch, which then continues with requests of another
/// list.
#[derive(Debug)]
pub(super) struct Batches {
    settings: Tunables,
    /// The direction of the batch in progress, and the number of its dispatched requests.
    batch: Option<(Direction, u32)>,
    /// Number of read batches since writes began to wait.
    starved: u32,
}

impl Batches {
    pub(super) fn new(settings: Tunables) -> Batches {
        Batches { settings, batch: None, starved: 0 }
    }

    /// Returns the next request, with its insertion time; `None` if no request waits. If the request begins a
    /// batch, the batch in progress ends, even if [`Batches::take`] is not called.
    pub(super) fn choose(&mut self, lists: &Lists, now: Timestamp) -> Option<(Chosen, Timestamp)> {
        let going_on = self.batch.filter(|(_, gone)| *gone < self.settings.fifo_batch);
        if let Some((direction, _)) = going_on
            && let Some((inserted, position)) = lists.side(direction).next_in_order()
        {
            return Some((Chosen { direction, position }, inserted));
        }
        let direction = self.next_direction(lists)?;
        let (inserted, position) = self.beginning(lists.side(direction), direction, now)?;
        self.batch = Some((direction, 0));
        Some((Chosen { direction, position }, inserted))
    }

    /// Removes the chosen request from `lists`.
    pub(super) fn take(&mut self, lists: &mut Lists, chosen: Chosen) -> Request {
        if let Some((_, gone)) = &mut self.batch {
            *gone += 1;
        }
        lists.sides[chosen.direction as usize].take(chosen.position)
    }

    /// Returns the direction of a new batch; `None` if no request waits.
    fn next_direction(&mut self, lists: &Lists) -> Option<Direction> {
        let [reads, writes] =
            [Direction::Read, Direction::Write].map(|of| !lists.side(of).by_position.is_empty());
        match (reads, writes) {
            (false, false) => None,
            (true, false) => Some(Direction::Read),
            (true, true) if self.starved < self.settings.writes_starved => {
                self.starved += 1;
                Some(Direction::Read)
            }
            _ => {
                self.starved = 0;
                Some(Direction::Write)
            }
        }
    }

    /// Returns the first request of a new batch, with its insertion time.
    fn beginning(&self, side: &Side, direction: Direction, now: Timestamp) -> Option<(Timestamp, Position)> {
        let expire = match direction {
            Direction::Read => self.settings.read_expire,
            Direction::Write => self.settings.write_expire,
        };
        let oldest = side.oldest()?;
        let has_expired = oldest.0 + expire <= now;
        if has_expired { Some(oldest) } else { side.next_in_order().or(Some(oldest)) }
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::Random;
    use proptest::prelude::*;

    use super::super::tests::request;
    use super::*;

    #[test]
    fn a_batch_ascends_and_reads_go_first() {
        let settings = Tunables { fifo_batch: 2, writes_starved: 1, ..Tunables::DEFAULT };
        let mut deadline = Deadline::new(settings);
        for (id, op, sector) in [
            (0, Op::Write, 50),
            (1, Op::Read, 30),
            (2, Op::Read, 10),
            (3, Op::Write, 40),
            (4, Op::Read, 20),
            (5, Op::Write, 60),
        ] {
            deadline.insert(request(id, op, sector), Timestamp(id));
        }
        let order: Vec<u64> =
            std::iter::from_fn(|| deadline.dispatch(Timestamp(10), 0)).map(|gone| gone.sector.0).collect();
        // The first batch begins at the lowest sector. After one read batch, a write batch is due.
        assert_eq!(order, [10, 20, 40, 50, 30, 60]);
    }

    proptest! {
        /// After the oldest request of a direction has expired, only two things may precede it: the batch in
        /// progress, and the allowed batches of the other direction.
        #[test]
        fn the_oldest_waits_for_its_deadline_and_a_few_batches(seed in any::<u64>(), batch in 1u32..5, starved in 1u32..4) {
            let settings = Tunables {
                read_expire: Nanos(20),
                write_expire: Nanos(60),
                fifo_batch: batch,
                writes_starved: starved,
            };
            let mut deadline = Deadline::new(settings);
            let mut random = Random::new(seed);
            let mut waiting: Vec<(Request, u64, u32)> = Vec::new();
            let mut now = 0;
            for id in 0..400 {
                now += random.below(4);
                if random.below(5) < 3 {
                    let op = if random.below(2) == 0 { Op::Read } else { Op::Write };
                    let new = request(id, op, random.below(100));
                    deadline.insert(new, Timestamp(now));
                    waiting.push((new, now, 0));
                    continue;
                }
                let Some(gone) = deadline.dispatch(Timestamp(now), 0) else { continue };
                let at = waiting.iter().position(|(waits, ..)| waits.id == gone.id).expect("it waited");
                waiting.remove(at);
                for op in [Op::Read, Op::Write] {
                    let (expire, passes_max) = match op {
                        Op::Read => (20, 2 * batch),
                        _ => (60, (starved + 1) * batch),
                    };
                    let Some(oldest) = waiting.iter_mut().find(|(waits, ..)| waits.op == op) else { continue };
                    if oldest.1 + expire <= now {
                        oldest.2 += 1;
                        prop_assert!(oldest.2 <= passes_max, "{op:?} was overtaken {} times", oldest.2);
                    }
                }
            }
        }
    }
}
