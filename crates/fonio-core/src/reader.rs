//! The contract of a trace reader: the requirements of the assembler and the recorder on every source of
//! block events.

use std::io;

use crate::event::Batch;
use crate::meta::{Clock, Source};

/// A reader of one format. Its memory is bounded for any input, and no input makes it panic.
pub trait TraceReader {
    /// Clears `batch`, fills it with the next few thousand events, and returns whether there may be more.
    ///
    /// Damage in the input is not an error: the reader skips unreadable parts, reports that in `batch.diagnostics`,
    /// and goes on.
    ///
    /// # Errors
    /// Only errors of the underlying stream.
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool>;

    /// The format, the files, and the event kinds that it can show. Complete once the input has ended.
    fn source(&self) -> Source;

    /// The clock of the timestamps. Complete once the input has ended.
    fn clock(&self) -> Clock;
}
