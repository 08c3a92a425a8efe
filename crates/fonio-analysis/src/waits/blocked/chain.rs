//! Finds waits for a thread that was blocked on storage: waits for a lock that the thread held, or for its
//! reply.
//!
//! Only the part of the wait during which the other thread was blocked is counted. The other thread may
//! itself have waited for a third thread, and so on. Waits arrive in order of their begin times, so a wait
//! stays open until another wait begins after its end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fonio_core::{BlockedIn, Nanos, Timestamp};
use rustc_hash::FxHashMap;

/// Maximum number of threads between the waiting thread and the thread blocked on storage.
const LENGTH_MAX: usize = 4;
/// Maximum number of open waits, and of places kept per wait.
const OPEN_MAX: usize = 1 << 16;
const PLACES_MAX: usize = 8;

type Interval = (Timestamp, Timestamp);

/// Where a thread was blocked on storage: thread, operation and file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Number that stands for the program's name; `unit` stands for the program's unit.
    pub(super) name: u32,
    /// Number that stands for the thread's name.
    pub(super) thread: u32,
    pub(super) unit: Option<u32>,
    pub(super) operation: BlockedIn,
    pub(super) file: Option<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct ForThread {
    pub(super) key: (u32, u32),
    pub(super) unit: Option<u32>,
    pub(super) operation: BlockedIn,
    /// Whether the wait is counted for its thread; otherwise it only explains waits for that thread.
    is_counted: bool,
    began: Timestamp,
    ended: Timestamp,
    /// The other thread.
    pub(super) waker: u32,
    /// Total time for which the other thread was blocked during the wait. `first` is the start of the other
    /// thread's first blocked interval, and `last` is the end of its last blocked interval.
    pub(super) time: Nanos,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// The longest time for which the other thread was blocked without interruption.
    longest: Nanos,
    /// Where the other thread was blocked, with the blocked time for each place.
    places: Vec<(Place, Nanos)>,
}

impl ForThread {
    pub(super) fn new(
        (key, unit): ((u32, u32), Option<u32>),
        operation: BlockedIn,
        (began, ended): Interval,
        waker: u32,
    ) -> ForThread {
        ForThread {
            key,
            unit,
            operation,
            is_counted: true,
            began,
            ended,
            waker,
            time: Nanos(0),
            first: Timestamp(0),
            last: Timestamp(0),
            longest: Nanos(0),
            places: Vec::new(),
        }
    }

    /// Returns the wait marked as not counted for its thread.
    pub(super) fn uncounted(self) -> ForThread {
        ForThread { is_counted: false, ..self }
    }

    /// Adds the part of an interval that lies within the wait, and returns that part.
    fn add(&mut self, (began, ended): Interval, place: Place) -> Option<Interval> {
        // The blocked intervals of a thread arrive in order. Skip the part of the interval that was already
        // counted.
        let from = began.max(self.began).max(self.last);
        let until = ended.min(self.ended);
        // If neither wait has ended, both waits last until the end of the recording. The end of the recording
        // is not known yet, so the part is dropped.
        if from >= until || until == Timestamp::MAX {
            return None;
        }
        if self.time == Nanos(0) {
            self.first = from;
        }
        let part = until - from;
        self.time += part;
        self.longest = self.longest.max(part);
        self.last = until;
        assert!(self.time <= self.ended - self.began, "the parts of a wait lie within it and do not overlap");
        if let Some((_, time)) = self.places.iter_mut().find(|(known, _)| *known == place) {
            *time += part;
        } else if self.places.len() < PLACES_MAX {
            self.places.push((place, part));
        }
        Some((from, until))
    }

    /// Returns the time that is treated as one wait. This is the total blocked time if it makes up most of
    /// the wait, as with a reply that took several writes. Otherwise, it is the longest single blocked
    /// interval, because a shell that waits minutes for a program does not feel the program's many short
    /// waits as one wait.
    pub(super) fn felt(&self) -> Nanos {
        if self.time + self.time >= self.ended - self.began { self.time } else { self.longest }
    }

    /// Returns the place with the most time; if several places have the same time, returns the first of them.
    pub(super) fn place(&self) -> Option<Place> {
        let most = self.places.iter().copied().reduce(|most, next| if next.1 > most.1 { next } else { most });
        most.map(|(place, _)| place)
    }
}

/// The waits for other threads that are still open.
#[derive(Debug, Default)]
pub(super) struct Chains {
    open: FxHashMap<u64, ForThread>,
    next: u64,
    /// Keys of the open waits, by the thread that each wait is for.
    by_waker: FxHashMap<u32, Vec<u64>>,
    /// Keys of the open waits, earliest end first.
    ends: BinaryHeap<Reverse<(Timestamp, u64)>>,
    /// The latest interval in which each thread was blocked.
    last: FxHashMap<u32, (Interval, Place)>,
    /// Number of waits dropped because too many waits were open.
    pub(super) beyond: u64,
}

impl Chains {
    /// Returns the counted waits for a blocked thread that ended before `time`.
    pub(super) fn ended_before(&mut self, time: Timestamp) -> Vec<ForThread> {
        let mut ended = Vec::new();
        while let Some(&Reverse((at, id))) = self.ends.peek()
            && at <= time
        {
            self.ends.pop();
            let Some(wait) = self.open.remove(&id) else { continue };
            if let Some(ids) = self.by_waker.get_mut(&wait.waker) {
                ids.retain(|known| *known != id);
                if ids.is_empty() {
                    self.by_waker.remove(&wait.waker);
                }
            }
            if wait.time > Nanos(0) && wait.is_counted {
                ended.push(wait);
            }
        }
        ended
    }

    /// Takes an interval in which a thread was blocked on storage.
    pub(super) fn blocked(&mut self, tid: u32, interval: Interval, place: Place) {
        self.thread_blocked(tid, interval, place, 0);
    }

    pub(super) fn waited(&mut self, mut wait: ForThread) {
        if self.open.len() >= OPEN_MAX {
            self.beyond += 1;
            return;
        }
        let (id, tid) = (self.next, wait.key.0);
        self.next += 1;
        let earlier = self.last.get(&wait.waker).copied();
        let part = earlier.and_then(|(interval, place)| Some((wait.add(interval, place)?, place)));
        self.ends.push(Reverse((wait.ended, id)));
        self.by_waker.entry(wait.waker).or_default().push(id);
        self.open.insert(id, wait);
        if let Some((part, place)) = part {
            self.thread_blocked(tid, part, place, 1);
        }
    }

    /// Takes an interval in which a thread was blocked, directly or because it waited for the thread of
    /// `place`.
    fn thread_blocked(&mut self, tid: u32, interval: Interval, place: Place, length: usize) {
        if self.last.len() < OPEN_MAX || self.last.contains_key(&tid) {
            let last = self.last.entry(tid).or_insert((interval, place));
            if interval.1 >= last.0.1 {
                *last = (interval, place);
            }
        }
        if length >= LENGTH_MAX {
            return;
        }
        let Some(ids) = self.by_waker.get(&tid) else { return };
        let mut behind = Vec::new();
        for id in ids {
            if let Some(wait) = self.open.get_mut(id)
                && let Some(part) = wait.add(interval, place)
            {
                behind.push((wait.key.0, part));
            }
        }
        for (tid, part) in behind {
            self.thread_blocked(tid, part, place, length + 1);
        }
    }
}

/// Maximum number of places per thread or program in waits for other threads.
const THROUGH_MAX: usize = 16;

/// Adds blocked time to a place in a short list. If the list is full, the place is added without its file.
pub(super) fn add_place(places: &mut Vec<(Place, Nanos)>, place: Place, time: Nanos) {
    if let Some((_, sum)) = places.iter_mut().find(|(known, _)| *known == place) {
        *sum += time;
    } else if places.len() >= THROUGH_MAX && place.file.is_some() {
        add_place(places, Place { file: None, ..place }, time);
    } else if places.len() < 2 * THROUGH_MAX {
        places.push((place, time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Option<u32> = Some(5);

    fn interval(began: u64, ended: u64) -> Interval {
        (Timestamp(began), Timestamp(ended))
    }

    fn place(tid: u32) -> Place {
        Place { name: tid, thread: tid, unit: None, operation: BlockedIn::Fsync, file: FILE }
    }

    /// Passes `rows` to the chains in order: `tid began ended` for a thread blocked on storage, `tid began
    /// ended waker` for a wait. For each wait, returns the thread id, the blocked time, its first and last
    /// timestamp, and the blocked thread.
    fn told(rows: &[&[u64]]) -> Vec<(u32, u64, u64, u64, u32)> {
        let mut chains = Chains::default();
        let mut ended = Vec::new();
        for row in rows {
            ended.extend(chains.ended_before(Timestamp(row[1])));
            match *row {
                [tid, began, until] => {
                    chains.blocked(*tid as u32, interval(*began, *until), place(*tid as u32));
                }
                [tid, began, until, waker] => {
                    let key = (*tid as u32, *tid as u32);
                    let wait = ForThread::new(
                        (key, None),
                        BlockedIn::OtherThread,
                        interval(*began, *until),
                        *waker as u32,
                    );
                    chains.waited(wait);
                }
                _ => unreachable!(),
            }
        }
        ended.extend(chains.ended_before(Timestamp::MAX));
        assert!(chains.by_waker.is_empty() && chains.open.is_empty());
        let told = |wait: ForThread| {
            (wait.key.0, wait.time.0, wait.first.0, wait.last.0, wait.place().unwrap().name)
        };
        ended.into_iter().map(told).collect()
    }

    #[test]
    fn the_time_of_the_other_thread_counts() {
        type Told = (u32, u64, u64, u64, u32);
        let cases: [(&[&[u64]], &[Told]); 7] = [
            // The other thread was blocked twice while the first thread waited, and once afterwards.
            (&[&[1, 10, 90, 2], &[2, 20, 40], &[2, 50, 60], &[2, 91, 99]], &[(1, 30, 20, 60, 2)]),
            // The other thread was blocked from before the wait began until after the wait ended.
            (&[&[2, 0, 30], &[1, 10, 90, 2], &[2, 80, 100]], &[(1, 30, 10, 90, 2)]),
            // Thread 2 was not blocked during the wait, or only thread 3 was blocked.
            (&[&[1, 10, 90, 2], &[3, 20, 40]], &[]),
            (&[&[2, 0, 10], &[1, 10, 90, 2]], &[]),
            // Two threads wait for thread 2, one of them longer than the other.
            (&[&[1, 10, 90, 2], &[3, 15, 30, 2], &[2, 20, 40]], &[(3, 10, 20, 30, 2), (1, 20, 20, 40, 2)]),
            // Thread 1 waits for thread 2, and thread 2 waits for thread 3. The test covers both orders of
            // the two waits.
            (&[&[1, 10, 90, 2], &[2, 12, 80, 3], &[3, 20, 40]], &[(2, 20, 20, 40, 3), (1, 20, 20, 40, 3)]),
            (&[&[2, 5, 80, 3], &[3, 6, 40], &[1, 10, 90, 2]], &[(2, 34, 6, 40, 3), (1, 30, 10, 40, 3)]),
        ];
        for (rows, expected) in cases {
            assert_eq!(told(rows), expected, "{rows:?}");
        }
    }

    /// A wait that a filter drops still explains waits of other threads for its thread, but is not reported.
    #[test]
    fn a_link_that_is_not_counted_holds_the_chain() {
        let wait =
            |tid: u32, when, waker| ForThread::new(((tid, tid), None), BlockedIn::OtherThread, when, waker);
        let mut chains = Chains::default();
        chains.waited(wait(1, interval(10, 90), 2));
        chains.waited(wait(2, interval(12, 80), 3).uncounted());
        chains.blocked(3, interval(20, 40), place(3));
        let ended = chains.ended_before(Timestamp::MAX);
        assert_eq!(ended.len(), 1);
        assert_eq!((ended[0].key.0, ended[0].time.0, ended[0].place()), (1, 20, Some(place(3))));
    }

    #[test]
    fn short_waits_during_a_long_one_are_not_one_wait() {
        let felt = |until| {
            let mut chains = Chains::default();
            chains.waited(ForThread::new(((1, 1), None), BlockedIn::OtherThread, interval(0, until), 2));
            chains.blocked(2, interval(10, 30), place(2));
            chains.blocked(2, interval(40, 80), place(2));
            chains.ended_before(Timestamp::MAX)[0].felt().0
        };
        assert_eq!((felt(120), felt(121)), (60, 40));
    }

    /// At the end of a recording, neither a wait nor the block of the awaited thread has ended.
    #[test]
    fn what_has_no_end_is_not_counted_for_ever() {
        let end = u64::MAX;
        assert_eq!(told(&[&[1, 10, end, 2], &[2, 20, end]]), []);
        assert_eq!(told(&[&[1, 10, end, 2], &[2, 20, 30], &[2, 40, end]]), [(1, 10, 20, 30, 2)]);
        assert_eq!(told(&[&[1, 10, 50, 2], &[2, 20, end]]), [(1, 30, 20, 50, 2)]);
    }

    /// A cycle of threads that wait for each other does not cause an endless loop.
    #[test]
    fn a_circle_ends() {
        let found = told(&[&[1, 0, 100, 2], &[2, 1, 100, 1], &[2, 10, 20]]);
        assert_eq!(found, [(1, 10, 10, 20, 2), (2, 10, 10, 20, 2)]);
    }

    #[test]
    fn a_chain_of_many_threads_has_a_longest_length() {
        let waits: Vec<[u64; 4]> = (0..9).map(|tid| [tid, tid, 100, tid + 1]).collect();
        let mut rows: Vec<&[u64]> = waits.iter().map(|row| &row[..]).collect();
        rows.push(&[9, 50, 60]);
        let tids: Vec<u32> = told(&rows).into_iter().map(|row| row.0).collect();
        assert_eq!(tids, [5, 6, 7, 8]);
    }
}
