//! Puts rows of one table in order, in bounded memory.
//!
//! Producers give a request when it is complete, while the table is ordered by issue; so rows come *nearly* sorted: out
//! of order by about the device's queue depth. Rows wait in memory until the producer's settled mark has passed them.
//! What waits is looked at only when it has doubled. Only keys are moved then: the new ones are sorted, and merged with
//! the last of those that waited before. A row stays where it was put until it is given out; its place is used again.
//!
//! Where the mark stands still (a request that never completes holds it until the end of the trace) and memory is full,
//! the lower half of what waits goes to [`runs::Runs`] on disk. Invariant: whatever was given out is not after anything
//! that waits, in memory or in runs.

mod encoded;
pub(crate) mod ordered;
mod runs;

use std::io;
use std::path::Path;

use fonio_core::{Bio, Request};

use runs::Runs;

/// What a table is ordered by: an instant, then an id.
pub(crate) type Key = (u64, u64);

/// A row that has an order, and a fixed-size form for the spill file.
pub(crate) trait Sequenced: Clone {
    /// For messages.
    const NAME: &'static str;
    /// Bytes of one row in a spill file.
    const ENCODED_BYTES: usize;

    fn key(&self) -> Key;
    fn encode(&self, out: &mut Vec<u8>);
    /// The row that [`encode`](Sequenced::encode) wrote, from exactly that many bytes.
    fn decode(bytes: &[u8]) -> Self;
}

/// Rows that gathered since the last look before the next one: enough to make a look cheap, few enough to stay in the
/// processor's cache.
const ROWS_PER_LOOK: usize = 1024;

/// Rows fetched at once: as many as fit into half of the first-level cache.
const ROWS_NEAR: usize = 64;

/// So many moves of a key are cheaper than to sort in the usual way.
const MOVES_PER_KEY: usize = 16;

/// A waiting row: its key, and its place in `rows`.
type Waiting = (u64, u64, u32);

/// Sorts keys that are nearly in order, a few places off at most; if they are not, in the usual way.
fn sort(keys: &mut [Waiting]) {
    let mut moves = 0;
    for at in 1..keys.len() {
        let key = keys[at];
        let mut place = at;
        while place > 0 && order(&keys[place - 1]) > order(&key) {
            keys[place] = keys[place - 1];
            place -= 1;
        }
        keys[place] = key;
        moves += at - place;
        if moves > MOVES_PER_KEY * keys.len() {
            return keys.sort_by_key(order);
        }
    }
}

/// The key as one number. Rows with the same key stay in order of arrival, since sorting and merging keep it.
fn order(&(time, id, _): &Waiting) -> u128 {
    u128::from(time) << 64 | u128::from(id)
}

pub(crate) struct Sequence<T: Sequenced> {
    /// The rows that wait; a place in `free` holds one that was given out.
    rows: Vec<T>,
    /// The last is used first. Rows were given out in the opposite order: so they are put down as they lay before, one
    /// behind the other, which the processor's prefetching needs.
    free: Vec<u32>,
    /// From `given` on, the rows that wait; those before have been given out.
    keys: Vec<Waiting>,
    given: usize,
    /// The first so many of `keys` are in order.
    sorted: usize,
    /// Memory for merging.
    before: Vec<Waiting>,
    /// Copies of the next rows to be given out, from `given` at the time. Rows lie where they left the cache long ago:
    /// fetched several at once, they come in the time of one.
    near: Vec<T>,
    near_from: usize,
    rows_in_memory: usize,
    /// The next look is due when there are this many keys.
    look_at: usize,
    runs: Runs<T>,
}

impl<T: Sequenced> Sequence<T> {
    /// Holds up to `rows_in_memory` rows (at least a thousand or so) and spills into unlinked files in `spill_dir`.
    pub(crate) fn new(rows_in_memory: usize, spill_dir: &Path) -> Sequence<T> {
        let rows_in_memory = rows_in_memory.clamp(2 * ROWS_PER_LOOK, u32::MAX as usize / 2);
        Sequence {
            rows: Vec::new(),
            free: Vec::new(),
            keys: Vec::new(),
            given: 0,
            sorted: 0,
            before: Vec::new(),
            near: Vec::new(),
            near_from: 0,
            rows_in_memory,
            look_at: ROWS_PER_LOOK,
            runs: Runs::new(spill_dir.to_owned()),
        }
    }

    /// Takes a row, in any order that the settled mark allows.
    #[inline]
    pub(crate) fn push(&mut self, row: &T) {
        let (time, id) = row.key();
        let place = match self.free.pop() {
            Some(place) => {
                self.rows[place as usize].clone_from(row);
                place
            }
            None => {
                self.rows.push(row.clone());
                (self.rows.len() - 1) as u32
            }
        };
        self.keys.push((time, id, place));
    }

    /// Whether so many rows have gathered that it is time to [`look`](Sequence::look).
    #[inline]
    pub(crate) fn look_is_due(&self) -> bool {
        self.keys.len() >= self.look_at
    }

    /// Puts what waits in order, so that [`head`](Sequence::head) and [`pop`](Sequence::pop) can be used.
    pub(crate) fn look(&mut self) {
        self.forget_near();
        let new = &mut self.keys[self.sorted..];
        sort(new);
        let Some(first) = new.first().map(order) else { return };
        let before = &self.keys[self.given..self.sorted];
        let place = self.given + before.partition_point(|key| order(key) <= first);
        self.merge(place);
        self.sorted = self.keys.len();
    }

    /// Forgets the copies of rows that come next, because other rows come next now.
    fn forget_near(&mut self) {
        self.near.clear();
        self.near_from = self.given;
    }

    /// Merges the keys from `place` to `sorted` with those after them, both in order.
    fn merge(&mut self, place: usize) {
        self.before.clear();
        self.before.extend_from_slice(&self.keys[place..self.sorted]);
        let (mut out, mut new, mut before) = (place, self.sorted, self.before.as_slice());
        while let [first, rest @ ..] = before
            && new < self.keys.len()
        {
            if order(first) <= order(&self.keys[new]) {
                self.keys[out] = *first;
                before = rest;
            } else {
                self.keys[out] = self.keys[new];
                new += 1;
            }
            out += 1;
        }
        self.keys[out..out + before.len()].copy_from_slice(before);
    }

    /// The key of the first row that waits.
    #[inline]
    pub(crate) fn head(&self) -> Option<Key> {
        let memory = self.keys.get(self.given).map(|&(time, id, _)| (time, id));
        match (memory, self.runs.head()) {
            (Some(memory), Some(spilled)) => Some(memory.min(spilled)),
            (memory, spilled) => memory.or(spilled),
        }
    }

    /// The first row that waits. Only between [`look`](Sequence::look) and [`end_look`](Sequence::end_look), and where
    /// [`head`](Sequence::head) is something.
    #[inline]
    pub(crate) fn pop(&mut self) -> io::Result<&T> {
        let memory = self.keys.get(self.given).map(|&(time, id, _)| (time, id));
        // What was spilled arrived earlier: it goes first among equals.
        if let Some(spilled) = self.runs.head()
            && memory.is_none_or(|memory| spilled <= memory)
        {
            return self.runs.pop();
        }
        if self.given - self.near_from >= self.near.len() {
            let until = self.keys.len().min(self.given + ROWS_NEAR);
            let keys = &self.keys[self.given..until];
            self.near.clear();
            self.near.extend(keys.iter().map(|&(_, _, place)| self.rows[place as usize].clone()));
            self.near_from = self.given;
        }
        self.given += 1;
        Ok(&self.near[self.given - 1 - self.near_from])
    }

    /// Ends a look: spills if too many rows wait, and forgets those given out.
    pub(crate) fn end_look(&mut self) -> io::Result<()> {
        let waiting = self.keys.len() - self.given;
        if waiting > self.rows_in_memory / 2 {
            self.look();
            let spilled = &self.keys[self.given..self.given + waiting / 2];
            self.runs.spill(spilled.iter().map(|&(_, _, place)| &self.rows[place as usize]))?;
            self.given += waiting / 2;
        }
        let waiting = self.keys.len() - self.given;
        if self.given > waiting / 2 {
            // Something was given out, so all was in order.
            self.free.extend(self.keys.drain(..self.given).rev().map(|(_, _, place)| place));
            (self.given, self.sorted) = (0, waiting);
            self.forget_near();
        }
        self.look_at = (self.keys.len() + waiting.max(ROWS_PER_LOOK)).min(self.rows_in_memory);
        Ok(())
    }
}

impl Sequenced for Request {
    const NAME: &'static str = "request";
    const ENCODED_BYTES: usize = encoded::REQUEST_BYTES;

    fn key(&self) -> Key {
        (self.order_time().0, self.request_id)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        encoded::request(self, out);
    }
    fn decode(bytes: &[u8]) -> Request {
        encoded::request_from(bytes)
    }
}

impl Sequenced for Bio {
    const NAME: &'static str = "bio";
    const ENCODED_BYTES: usize = encoded::BIO_BYTES;

    fn key(&self) -> Key {
        (self.queued.0, self.bio_id)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        encoded::bio(self, out);
    }
    fn decode(bytes: &[u8]) -> Bio {
        encoded::bio_from(bytes)
    }
}
