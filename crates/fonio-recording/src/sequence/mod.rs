//! Puts rows of one table in order, in bounded memory.
//!
//! Producers give a request when it is complete, while the table is ordered by issue; so rows come *nearly* sorted: out
//! of order by about the device's queue depth. Rows wait in memory until the producer's settled mark has passed them.
//! What waits is looked at only when it has doubled, and only the keys are sorted then, in the processor's cache.
//! (Inserting each row where it belongs costs twice as much at a queue depth of sixty.)
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

/// A waiting row: its key, and where it is in `rows`. The place also keeps rows with the same key in order of arrival.
type Waiting = (u64, u64, u32);

pub(crate) struct Sequence<T: Sequenced> {
    rows: Vec<T>,
    /// Memory for moving the rows that wait together.
    spare: Vec<T>,
    /// One for each of `rows`; from `given` on they wait, those before have been given out.
    keys: Vec<Waiting>,
    given: usize,
    /// The first so many of `keys` are in order.
    sorted: usize,
    rows_in_memory: usize,
    /// The next look is due when this many rows are in memory.
    look_at: usize,
    runs: Runs<T>,
}

impl<T: Sequenced> Sequence<T> {
    /// Holds up to `rows_in_memory` rows (at least a thousand or so) and spills into unlinked files in `spill_dir`.
    pub(crate) fn new(rows_in_memory: usize, spill_dir: &Path) -> Sequence<T> {
        let rows_in_memory = rows_in_memory.clamp(2 * ROWS_PER_LOOK, u32::MAX as usize / 2);
        Sequence {
            rows: Vec::new(),
            spare: Vec::new(),
            keys: Vec::new(),
            given: 0,
            sorted: 0,
            rows_in_memory,
            look_at: ROWS_PER_LOOK,
            runs: Runs::new(spill_dir.to_owned()),
        }
    }

    /// Takes a row, in any order that the settled mark allows.
    #[inline]
    pub(crate) fn push(&mut self, row: &T) {
        let (time, id) = row.key();
        let key = (time, id, self.rows.len() as u32);
        if self.sorted == self.keys.len() && self.keys.last().is_none_or(|last| *last < key) {
            self.sorted += 1;
        }
        self.keys.push(key);
        self.rows.push(row.clone());
    }

    /// Whether so many rows have gathered that it is time to [`look`](Sequence::look).
    #[inline]
    pub(crate) fn look_is_due(&self) -> bool {
        self.rows.len() >= self.look_at
    }

    /// Puts what waits in order, so that [`head`](Sequence::head) and [`pop`](Sequence::pop) can be used.
    pub(crate) fn look(&mut self) {
        self.sort();
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
        let (_, _, place) = self.keys[self.given];
        self.given += 1;
        Ok(&self.rows[place as usize])
    }

    /// Ends a look: spills if too many rows wait, and forgets those given out.
    pub(crate) fn end_look(&mut self) -> io::Result<()> {
        let waiting = self.keys.len() - self.given;
        if waiting > self.rows_in_memory / 2 {
            self.sort();
            let spilled = &self.keys[self.given..self.given + waiting / 2];
            self.runs.spill(spilled.iter().map(|&(_, _, place)| &self.rows[place as usize]))?;
            self.given += waiting / 2;
        }
        let waiting = self.keys.len() - self.given;
        if waiting == 0 {
            self.rows.clear();
            self.keys.clear();
            (self.given, self.sorted) = (0, 0);
        } else if self.given > waiting / 2 {
            // Something was given out, so all was in order.
            self.spare.clear();
            self.spare.extend(self.keys[self.given..].iter().map(|key| self.rows[key.2 as usize].clone()));
            std::mem::swap(&mut self.rows, &mut self.spare);
            self.keys.drain(..self.given);
            for (place, key) in self.keys.iter_mut().enumerate() {
                key.2 = place as u32;
            }
            (self.given, self.sorted) = (0, waiting);
        }
        self.look_at = (self.rows.len() + waiting.max(ROWS_PER_LOOK)).min(self.rows_in_memory);
        Ok(())
    }

    fn sort(&mut self) {
        if self.sorted < self.keys.len() {
            self.keys[self.given..].sort_unstable();
            self.sorted = self.keys.len();
        }
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
