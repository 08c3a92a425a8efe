//! Requests and bios in order, the two interleaved by time: what a sequencer and a writer have in common.

use std::io;
use std::path::Path;

use fonio_core::{Bio, Request, RowSink, Timestamp};

use super::{Sequence, Sequenced};

pub(crate) struct Ordered {
    requests: Sequence<Request>,
    bios: Sequence<Bio>,
    /// What the producer has said.
    settled: Timestamp,
    /// Everything before this has been given out, and the sink was told so.
    given: Timestamp,
}

impl Ordered {
    /// See [`Sequence::new`]; of each table so many rows are held.
    pub(crate) fn new(rows_in_memory: usize, spill_dir: &Path) -> Ordered {
        Ordered {
            requests: Sequence::new(rows_in_memory, spill_dir),
            bios: Sequence::new(rows_in_memory, spill_dir),
            settled: Timestamp(0),
            given: Timestamp(0),
        }
    }

    #[inline]
    pub(crate) fn request(&mut self, row: &Request, sink: &mut dyn RowSink) -> io::Result<()> {
        self.check(row)?;
        self.requests.push(row);
        if self.requests.look_is_due() { self.give(Some(self.settled), sink) } else { Ok(()) }
    }

    #[inline]
    pub(crate) fn bio(&mut self, row: &Bio, sink: &mut dyn RowSink) -> io::Result<()> {
        self.check(row)?;
        self.bios.push(row);
        if self.bios.look_is_due() { self.give(Some(self.settled), sink) } else { Ok(()) }
    }

    /// Only notes the mark: rows are given out a thousand at a time, however often the producer says this.
    #[inline]
    pub(crate) fn settled(&mut self, before: Timestamp) {
        self.settled = self.settled.max(before);
    }

    pub(crate) fn finish(&mut self, sink: &mut dyn RowSink) -> io::Result<()> {
        self.give(None, sink)
    }

    #[inline]
    fn check<T: Sequenced>(&self, row: &T) -> io::Result<()> {
        let (time, id) = row.key();
        if time < self.given.0 {
            return Err(late::<T>(time, id, self.given));
        }
        Ok(())
    }

    /// Gives out what is ordered before the mark; without a mark, everything. At one instant bios come first, since a
    /// request consists of them.
    fn give(&mut self, mark: Option<Timestamp>, sink: &mut dyn RowSink) -> io::Result<()> {
        if mark != Some(self.given) {
            self.requests.look();
            self.bios.look();
            let before = |key: super::Key| mark.is_none_or(|mark| key.0 < mark.0);
            let mut next_bio = self.bios.head().filter(|key| before(*key));
            while let Some(request) = self.requests.head().filter(|key| before(*key)) {
                while let Some(bio) = next_bio
                    && bio.0 <= request.0
                {
                    sink.bio(self.bios.pop()?)?;
                    next_bio = self.bios.head().filter(|key| before(*key));
                }
                sink.request(self.requests.pop()?)?;
            }
            while next_bio.is_some() {
                sink.bio(self.bios.pop()?)?;
                next_bio = self.bios.head().filter(|key| before(*key));
            }
            if let Some(mark) = mark {
                self.given = mark;
                sink.settled(mark)?;
            }
        }
        self.requests.end_look()?;
        self.bios.end_look()
    }
}

/// The producer broke its word. An error rather than a panic: what it said may come from a damaged trace.
#[cold]
fn late<T: Sequenced>(time: u64, id: u64, given: Timestamp) -> io::Error {
    let message = format!(
        "{} {id} is ordered at {time} ns, but everything before {} ns had been declared settled",
        T::NAME,
        given.0
    );
    io::Error::new(io::ErrorKind::InvalidData, message)
}
