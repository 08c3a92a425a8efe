//! Sorts the rows of one table in bounded memory.
//!
//! Producers emit a request on completion, but the table is ordered by issue. So rows arrive *nearly* sorted:
//! a row is about as many positions away from its right position as the device has requests in its queue.
//! Rows wait in memory until the settled mark of the producer is later than the rows. The sequence looks at
//! the waiting rows only when their number has doubled. A look moves only keys. It sorts the new keys, and
//! merges them with the older keys that sort after the first new key. A row stays in its slot until it is
//! emitted; then the slot is reused.
//!
//! A request that never completes keeps the mark from advancing until the end of the trace. If memory is
//! full, the half of the waiting rows that comes first in sort order is spilled to [`runs::Runs`] on disk.
//! Invariant: no emitted row sorts after a row that waits in memory or in runs.

mod encoded;
pub(crate) mod ordered;
mod runs;

use std::io;
use std::path::Path;

use fonio_core::{Bio, Request};

use runs::Runs;

/// The sort key of a table: a time, then an id.
pub(crate) type Key = (u64, u64);

/// A row with a sort key and a fixed-size encoding for spill files.
pub(crate) trait Sequenced: Clone {
    /// The name of the row type in messages for the user.
    const NAME: &'static str;
    /// Size of one encoded row in bytes.
    const ENCODED_BYTES: usize;

    fn key(&self) -> Key;
    fn encode(&self, out: &mut Vec<u8>);
    /// Decodes a row from the bytes that [`encode`](Sequenced::encode) wrote.
    fn decode(bytes: &[u8]) -> Self;
}

/// Number of new rows between two looks: large enough to keep the cost of looks low, but small enough for the
/// processor's cache.
const ROWS_PER_LOOK: usize = 1024;

/// Number of rows fetched at once; the fetched rows fill at most half of the first-level cache.
const ROWS_NEAR: usize = 64;

/// Number of moves per key up to which insertion sort is cheaper than the standard sort.
const MOVES_PER_KEY: usize = 16;

/// The key of a waiting row, and the row's slot in `rows`.
type Waiting = (u64, u64, u32);

/// Sorts keys, fast if they are at most a few positions out of order. If they are further out of order, uses
/// the standard sort.
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

/// Returns the key as one number. Sorting and merging are stable, so rows with equal keys stay in order of
/// arrival.
fn order(&(time, id, _): &Waiting) -> u128 {
    u128::from(time) << 64 | u128::from(id)
}

pub(crate) struct Sequence<T: Sequenced> {
    /// The waiting rows. Slots in `free` contain rows that have already been emitted.
    rows: Vec<T>,
    /// Free slots in `rows`. The last slot is used first. The slots of emitted rows are added in the opposite
    /// order, so new rows get consecutive slots, which the processor can prefetch.
    free: Vec<u32>,
    /// The keys of emitted rows and, from `given` on, the keys of waiting rows.
    keys: Vec<Waiting>,
    given: usize,
    /// Number of keys at the start of `keys` that are in order.
    sorted: usize,
    /// Memory that merging reuses.
    before: Vec<Waiting>,
    /// Copies of the next rows to emit. The first copy is the row at the position that `given` had when the
    /// rows were copied. The rows in `rows` are no longer in the cache, and fetching several rows takes about
    /// as long as fetching one row.
    near: Vec<T>,
    near_from: usize,
    rows_in_memory: usize,
    /// The number of keys at which the sequence next looks at its rows.
    look_at: usize,
    runs: Runs<T>,
}

impl<T: Sequenced> Sequence<T> {
    /// Creates a sequence that keeps up to `rows_in_memory` rows (at least about two thousand) in memory, and
    /// spills further rows into unlinked files in `spill_dir`.
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

    /// Adds a row. Rows can be added in any order that the settled mark allows.
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

    /// Returns whether enough rows are waiting for the next [`look`](Sequence::look).
    #[inline]
    pub(crate) fn look_is_due(&self) -> bool {
        self.keys.len() >= self.look_at
    }

    /// Sorts the waiting rows. After this call, [`head`](Sequence::head) and [`pop`](Sequence::pop) can be
    /// used.
    pub(crate) fn look(&mut self) {
        self.forget_near();
        assert!(self.given <= self.sorted && self.sorted <= self.keys.len(), "only sorted rows are emitted");
        let new = &mut self.keys[self.sorted..];
        sort(new);
        let Some(first) = new.first().map(order) else { return };
        let before = &self.keys[self.given..self.sorted];
        let place = self.given + before.partition_point(|key| order(key) <= first);
        self.merge(place);
        self.sorted = self.keys.len();
    }

    /// Drops the copies of the next rows, because the order may have changed.
    fn forget_near(&mut self) {
        self.near.clear();
        self.near_from = self.given;
    }

    /// Merges the keys from `place` to `sorted` with the later keys; both parts are sorted.
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

    /// Returns the key of the first waiting row.
    #[inline]
    pub(crate) fn head(&self) -> Option<Key> {
        let memory = self.keys.get(self.given).map(|&(time, id, _)| (time, id));
        match (memory, self.runs.head()) {
            (Some(memory), Some(spilled)) => Some(memory.min(spilled)),
            (memory, spilled) => memory.or(spilled),
        }
    }

    /// Removes and returns the first waiting row. Allowed only between [`look`](Sequence::look) and
    /// [`end_look`](Sequence::end_look), and only if [`head`](Sequence::head) is `Some`.
    #[inline]
    pub(crate) fn pop(&mut self) -> io::Result<&T> {
        let memory = self.keys.get(self.given).map(|&(time, id, _)| (time, id));
        // Spilled rows arrived earlier, so they come first among rows with equal keys.
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

    /// Ends a look: spills if too many rows wait, and drops the keys of emitted rows.
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
            // If rows were emitted, all keys are in order.
            self.free.extend(self.keys.drain(..self.given).rev().map(|(_, _, place)| place));
            assert!(self.keys.len() + self.free.len() == self.rows.len(), "each slot is in use or free");
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
