//! The assembler: block events in, requests, bios and links out.

use std::collections::BTreeMap;
use std::io;

use fonio_core::{Batch, Nanos, RowSink};

/// What the assembler may be told.
#[derive(Clone, Debug)]
pub struct AssemblerOptions {
    /// A request open for longer than this is given out without a completion.
    pub horizon: Nanos,
}

/// Turns block events into requests, bios and links, whatever the source.
pub struct Assembler {
    _options: AssemblerOptions,
}

impl Assembler {
    /// An assembler at the beginning of a trace.
    pub fn new(options: AssemblerOptions) -> Assembler {
        Assembler { _options: options }
    }
    /// Takes one batch.
    pub fn batch(&mut self, _batch: &Batch, _sink: &mut dyn RowSink) -> io::Result<()> {
        Ok(())
    }
    /// Ends the trace: gives out what is still open, and what was counted on the way, by name.
    pub fn finish(self, _sink: &mut dyn RowSink) -> io::Result<BTreeMap<String, u64>> {
        Ok(BTreeMap::new())
    }
}
