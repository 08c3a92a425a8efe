//! Puts requests and bios in order for any sink.

use std::io;
use std::path::PathBuf;

use fonio_core::{Bio, Request, RowSink, Timestamp, forward_rows};

use crate::sequence::ordered::Ordered;

/// How many rows a [`Sequencer`] may hold, and where it spills the rest.
#[derive(Clone, Debug)]
pub struct SequencerOptions {
    /// Rows of each table held in memory before rows are spilled. A row takes up to about 250 bytes.
    pub rows_in_memory: usize,
    /// Directory of the spilled rows, which are stored in unlinked files. `None` is the system's directory for
    /// temporary files; on some systems this is in memory too.
    pub spill_dir: Option<PathBuf>,
}

impl Default for SequencerOptions {
    fn default() -> SequencerOptions {
        SequencerOptions { rows_in_memory: 128 * 1024, spill_dir: None }
    }
}

/// A [`RowSink`] that puts requests and bios in order and passes all rows on to another sink.
///
/// Requests are ordered by [`order_time`](Request::order_time) and id, bios by the instant at which they were queued
/// and id. The two tables are interleaved by these times, a bio before a request of the same instant; replaying a
/// recording gives the same order. Rows of the other tables are passed on at once. The sink gets fewer `settled` marks
/// than the producer gives; each holds for both tables.
///
/// A row ordered before the producer's mark, as in damaged traces, is left out, counted and reported as a diagnostic.
pub struct Sequencer<'a> {
    ordered: Ordered,
    sink: &'a mut dyn RowSink,
}

impl<'a> Sequencer<'a> {
    /// Creates a sequencer that passes its rows to `sink`.
    pub fn new(sink: &'a mut dyn RowSink, options: SequencerOptions) -> Sequencer<'a> {
        let spill_dir = options.spill_dir.unwrap_or_else(std::env::temp_dir);
        Sequencer { ordered: Ordered::new(options.rows_in_memory, &spill_dir), sink }
    }

    /// Passes on the rows that are still held. Without this call they are lost.
    ///
    /// # Errors
    /// Those of the sink, and errors in reading spilled rows back.
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
    forward_rows!(sink: began, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic);
    fn settled(&mut self, before: Timestamp) -> io::Result<()> {
        self.ordered.settled(before);
        Ok(())
    }
    fn wants_bios(&self) -> bool {
        self.sink.wants_bios()
    }
}
