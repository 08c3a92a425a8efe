//! Requests and bios in order, before any sink.

use std::io;
use std::path::PathBuf;

use fonio_core::{Bio, Request, RowSink, Timestamp, forward_rows};

use crate::sequence::ordered::Ordered;

/// How much a [`Sequencer`] may hold, and where it puts the rest.
#[derive(Clone, Debug)]
pub struct SequencerOptions {
    /// Rows of each table held in memory before they are spilled; a row takes up to about 250 bytes.
    pub rows_in_memory: usize,
    /// Where spilled rows go, as unlinked files; `None` is the system's directory for temporary files. Note that this
    /// is in memory too on some systems.
    pub spill_dir: Option<PathBuf>,
}

impl Default for SequencerOptions {
    fn default() -> SequencerOptions {
        SequencerOptions { rows_in_memory: 128 * 1024, spill_dir: None }
    }
}

/// A [`RowSink`] that puts requests and bios in order and hands all rows on to another sink.
///
/// Requests come out by [`order_time`](Request::order_time) and id, bios by the instant they were queued and id, and the
/// two interleaved by those times, a bio before a request of the same instant. That is what replaying a recording gives,
/// too. Rows of the other tables are handed on at once. Out of the producer's `settled` marks come fewer marks to the
/// sink, each true of both tables.
///
/// A row ordered before the producer's mark, as damaged traces give, is left out, counted and told as a diagnostic.
pub struct Sequencer<'a> {
    ordered: Ordered,
    sink: &'a mut dyn RowSink,
}

impl<'a> Sequencer<'a> {
    /// A sequencer before `sink`.
    pub fn new(sink: &'a mut dyn RowSink, options: SequencerOptions) -> Sequencer<'a> {
        let spill_dir = options.spill_dir.unwrap_or_else(std::env::temp_dir);
        Sequencer { ordered: Ordered::new(options.rows_in_memory, &spill_dir), sink }
    }

    /// Hands on what is still held. Without this the last rows are lost.
    ///
    /// # Errors
    /// What the sink reports, or reading back what was spilled.
    pub fn finish(mut self) -> io::Result<()> {
        self.ordered.finish(self.sink)
    }
}

impl RowSink for Sequencer<'_> {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.ordered.request(row, self.sink)
    }
    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        self.ordered.bio(row, self.sink)
    }
    forward_rows!(sink: began, link, call, wait, file, thread, sample, mark, diagnostic);
    fn settled(&mut self, before: Timestamp) -> io::Result<()> {
        self.ordered.settled(before);
        Ok(())
    }
    fn wants_bios(&self) -> bool {
        self.sink.wants_bios()
    }
}
