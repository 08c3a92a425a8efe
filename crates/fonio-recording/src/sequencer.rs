//! Sorts requests and bios for any [`RowSink`].

use std::io;
use std::path::PathBuf;

use fonio_core::{Bio, Request, RowSink, Timestamp, forward_rows};

use crate::sequence::ordered::Ordered;

/// The memory limit of a [`Sequencer`], and the directory to which it spills further rows.
#[derive(Clone, Debug)]
pub struct SequencerOptions {
    /// Maximum number of rows of each table in memory. A row needs up to about 250 bytes.
    pub rows_in_memory: usize,
    /// Directory for the unlinked files with spilled rows. `None` for the system's temporary directory, which
    /// is in memory on some systems.
    pub spill_dir: Option<PathBuf>,
}

impl Default for SequencerOptions {
    fn default() -> SequencerOptions {
        SequencerOptions { rows_in_memory: 128 * 1024, spill_dir: None }
    }
}

/// A [`RowSink`] that sorts requests and bios and passes all rows on to another sink.
///
/// Requests are ordered by [`order_time`](Request::order_time) and id, and bios by queue time and id. The two
/// tables are interleaved by these times, a bio before a request of the same time. Replaying a recording
/// gives the same order. Rows of other tables are passed on immediately. The sink gets fewer `settled` marks
/// than the producer sends. Each mark applies to requests and bios.
///
/// In damaged traces, the time of a row can be before the producer's mark. Such a row is left out, and a
/// diagnostic reports the number of such rows.
pub struct Sequencer<'a> {
    ordered: Ordered,
    sink: &'a mut dyn RowSink,
}

impl<'a> Sequencer<'a> {
    /// Creates a sequencer that passes the sorted rows to `sink`.
    pub fn new(sink: &'a mut dyn RowSink, options: SequencerOptions) -> Sequencer<'a> {
        let spill_dir = options.spill_dir.unwrap_or_else(std::env::temp_dir);
        Sequencer { ordered: Ordered::new(options.rows_in_memory, &spill_dir), sink }
    }

    /// Passes on the remaining rows. Without this call, these rows are lost. Returns errors of the sink, and
    /// errors of reading spilled rows.
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
