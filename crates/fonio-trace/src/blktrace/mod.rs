//! Reads blktrace's binary traces, versions 7 and 8, in either byte order: one file per processor, one file
//! merged by `blkparse -d`, or the output of `blktrace -o -`.
//!
//! Several inputs are merged by time; events that are out of order within an input are sorted in a window.
//! Times are not converted: they are nanoseconds of the monotonic clock or, in the output of blkparse,
//! nanoseconds since the first event.
//!
//! Source: `include/uapi/linux/blktrace_api.h` and `kernel/trace/blktrace.c`.

mod ahead;
mod record;
pub(crate) mod sequence;
pub(crate) mod shows;
mod stream;
pub(crate) mod window;

use std::io;

use fonio_core::meta::{Clock, Source};
use fonio_core::{Batch, Severity, TraceReader};

use self::record::{Layout, TC_COMPLETE, TC_ISSUE, TC_QUEUE, TC_REQUEUE};
use self::shows::Categories;
use self::stream::{OtherOutput, Stream};
use self::window::Window;
use crate::complaints::InputPlace;
use crate::input::Input;

/// Returns whether `head` is the start of a blktrace binary that [`BlktraceReader`] reads. Such a head starts
/// with a record, which its first four bytes show, or it is damaged and contains a record later.
pub fn recognise(head: &[u8]) -> bool {
    head.first_chunk().is_some_and(|word| Layout::of(u32::from_le_bytes(*word)).is_some())
        || stream::next_record(head, 0, head.len(), false).is_some()
}

/// Reads one trace from one or more inputs.
pub struct BlktraceReader {
    streams: Vec<Stream>,
    /// The time of each stream's next event; `u64::MAX` after its end.
    keys: Vec<u64>,
    started: bool,
    finished: bool,
    window: Window,
    others: OtherOutput,
}

impl BlktraceReader {
    /// Creates a reader of one trace's inputs, in any order. The inputs are not yet read.
    pub fn new(inputs: Vec<Input>) -> BlktraceReader {
        let streams: Vec<Stream> = inputs.into_iter().map(Stream::new).collect();
        BlktraceReader {
            keys: vec![0; streams.len()],
            streams,
            started: false,
            finished: false,
            window: Window::default(),
            others: OtherOutput::default(),
        }
    }

    /// Returns the stream with the next event, and the time until which the events of this stream precede all
    /// others; `None` at the end.
    fn first(&self) -> Option<(usize, u64)> {
        let (mut first, mut key, mut second) = (0, u64::MAX, u64::MAX);
        for (at, k) in self.keys.iter().enumerate() {
            if *k < key {
                second = key;
                (first, key) = (at, *k);
            } else if *k < second {
                second = *k;
            }
        }
        (key != u64::MAX).then_some((first, second.min(u64::MAX - 1)))
    }

    fn finish(&mut self) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let records: u64 = self.streams.iter().map(Stream::records).sum();
        for stream in &mut self.streams {
            stream.finish(&mut self.others);
        }
        let complaints = &mut self.others.complaints;
        if records == 0 && complaints.count("no-records") == 0 {
            let file = self.streams.first().map_or("", |stream| stream.name.as_str());
            complaints.add(
                Severity::Error,
                "empty-input",
                InputPlace { file, ..InputPlace::default() },
                || "The trace is empty.".to_owned(),
            );
        }
        let late = self.window.late;
        if late > 0 {
            complaints.add(Severity::Warning, "out-of-order", InputPlace::default(), || {
                format!("{late} events came too late to be sorted by time.")
            });
        }
        complaints.finish();
    }
}

impl TraceReader for BlktraceReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        self.window.begin(batch);
        if !self.started {
            for (stream, key) in self.streams.iter_mut().zip(&mut self.keys) {
                *key = stream.advance(&mut self.others)?;
            }
            self.started = true;
        }
        let mut ended = false;
        while !self.window.is_full() {
            let Some((first, until)) = self.first() else {
                ended = true;
                break;
            };
            let stream = &mut self.streams[first];
            let others = &mut self.others;
            let key = match self.keys[first] {
                // The key is 0 if the window was full.
                0 => stream.advance(others)?,
                key => key,
            };
            self.keys[first] = stream.take(until, key, &mut self.window, others)?;
            if others.is_full() {
                break;
            }
        }
        if ended || self.window.is_full() {
            self.window.give(batch, ended);
        }
        if ended {
            self.finish();
        }
        batch.threads.append(&mut self.others.threads);
        batch.marks.append(&mut self.others.marks);
        batch.lost.append(&mut self.others.lost);
        batch.diagnostics.append(&mut self.others.complaints.ready);
        Ok(!ended)
    }

    fn source(&self) -> Source {
        let actions = self.streams.iter().fold(0, |all, stream| all | stream.actions);
        let categories = Categories {
            queue: actions & TC_QUEUE != 0,
            issue: actions & TC_ISSUE != 0,
            complete: actions & TC_COMPLETE != 0,
            requeue: actions & TC_REQUEUE != 0,
        };
        Source {
            format: "blktrace".to_owned(),
            files: self.streams.iter().map(|stream| stream.name.clone()).collect(),
            shows: categories.names(),
        }
    }

    fn clock(&self) -> Clock {
        let rebased = self.streams.iter().any(|stream| stream.rebased);
        let unix_ns_at_zero =
            if rebased { None } else { self.streams.iter().find_map(|stream| stream.unix_ns_at_zero) };
        let name = if rebased { "unknown" } else { "mono" };
        Clock { name: name.to_owned(), unix_ns_at_zero }
    }
}

#[cfg(test)]
mod tests;
