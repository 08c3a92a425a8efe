//! The contract of trace readers: the requirements that the assembler and the recorder have for a source of
//! block events.

use std::io;

use crate::event::Batch;
use crate::meta::{Clock, Source};
use crate::units::DeviceId;

/// A reader of one trace format. A reader needs only bounded memory for any input, and no input makes a
/// reader panic.
pub trait TraceReader {
    /// Clears `batch`, fills it with some thousand events, and returns whether more events may follow.
    ///
    /// Damage in the input is not an error: the reader skips the unreadable parts, reports them in
    /// `batch.diagnostics`, and continues. Returns only errors of the underlying stream.
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool>;

    /// Reads a small input to its end. Returns only errors of the underlying stream.
    fn read_all(&mut self) -> io::Result<Batch> {
        let (mut all, mut batch) = (Batch::default(), Batch::default());
        loop {
            let more = self.next_batch(&mut batch)?;
            all.events.append(&mut batch.events);
            all.requests.append(&mut batch.requests);
            all.threads.append(&mut batch.threads);
            all.files.append(&mut batch.files);
            all.marks.append(&mut batch.marks);
            all.waits.append(&mut batch.waits);
            all.calls.append(&mut batch.calls);
            all.samples.append(&mut batch.samples);
            all.lost.append(&mut batch.lost);
            all.instants.add_all(batch.instants.runs());
            all.diagnostics.append(&mut batch.diagnostics);
            if !more {
                return Ok(all);
            }
        }
    }

    /// Returns the format, files and event kinds of the input. The result is complete only at the end of the
    /// input.
    fn source(&self) -> Source;

    /// Returns the clock of the timestamps. The result is complete only at the end of the input.
    fn clock(&self) -> Clock;

    /// Returns whether traces of the format can show waits of threads.
    fn may_show_waits(&self) -> bool {
        false
    }

    /// Returns the names of devices, if the input has names. The result is complete only at the end of the
    /// input.
    fn device_names(&self) -> Vec<(DeviceId, String)> {
        Vec::new()
    }
}
