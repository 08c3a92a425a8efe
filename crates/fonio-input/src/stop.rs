//! Stops the reading of an input.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use fonio_core::{Request, RowSink, Wait, forward_rows};

/// Passes rows on until a stop is requested, for example by a signal. After the request, this sink returns an
/// error, so that the next sink removes its output.
pub struct UntilStopped<'a> {
    sink: &'a mut dyn RowSink,
    stop: &'a AtomicBool,
}

impl<'a> UntilStopped<'a> {
    /// Creates a sink that passes rows to `sink` until `stop` is set.
    pub fn new(sink: &'a mut dyn RowSink, stop: &'a AtomicBool) -> UntilStopped<'a> {
        UntilStopped { sink, stop }
    }
}

impl RowSink for UntilStopped<'_> {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("stopped by a signal"));
        }
        self.sink.request(row)
    }

    fn wait_left_out(&mut self, row: &Wait) -> io::Result<()> {
        self.sink.wait_left_out(row)
    }

    fn wants_bios(&self) -> bool {
        self.sink.wants_bios()
    }

    forward_rows! {
        sink: began, bio, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic, settled
    }
}
