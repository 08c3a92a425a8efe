//! What every reader of a foreign format is.

use std::io::{self, Read};

use fonio_core::Batch;
use fonio_core::meta::{Clock, Source};

/// One stream of bytes with the name that diagnostics give it.
pub struct Input {
    /// The file's name as the user gave it, or `standard input`.
    pub name: String,
    /// The bytes.
    pub bytes: Box<dyn Read + Send>,
}

/// A reader of one format. It keeps bounded memory whatever the input, and it never panics on any bytes.
pub trait TraceReader {
    /// Clears `batch`, fills it with the next few thousand events, and returns whether there may be more.
    ///
    /// Damage in the input is not an error: the reader skips what it must, says so in `batch.diagnostics`, and goes on.
    ///
    /// # Errors
    /// Only what the underlying stream reports.
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool>;

    /// The format, the files, and the kinds of event that it can show. Complete once the input has ended.
    fn source(&self) -> Source;

    /// The clock of the timestamps. Complete once the input has ended.
    fn clock(&self) -> Clock;
}
