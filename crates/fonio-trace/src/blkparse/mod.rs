//! Reads blkparse's default text output, including the final summary. Formats chosen with `-f` are not
//! supported.
//!
//! Times are relative to the trace's first event. The text has less information than the binary format:
//! commands have no sector, sizes are in sectors, and the wall clock is missing.

mod line;

use std::io;

use fonio_core::meta::{Clock, Source};
use fonio_core::threads::{NameOrigin, SeenThreads};
use fonio_core::{Batch, EventKind, LostEvents, Mark, Severity, Thread, Timestamp, TraceReader};
use rustc_hash::FxHashMap;

use self::line::Parsed;
use crate::blktrace::sequence::{Sequences, Verdict};
use crate::blktrace::shows::Categories;
use crate::blktrace::window::Window;
use crate::complaints::{Complaints, InputPlace};
use crate::input::Input;
use crate::lines::{Line, Lines};

/// Maximum number of lines in a batch.
const LINES_MAX: usize = 64 * 1024;
/// Maximum number of processors for which the last device is stored.
const PROCESSORS_MAX: usize = 16 * 1024;

/// Returns whether `head` is the start of blkparse's default text: one of its first lines must be an event.
pub fn recognise(head: &[u8]) -> bool {
    let lines = head.split(|byte| *byte == b'\n').take(100);
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).any(|line| line::parse(line).is_some())
}

/// Reads the text output of blkparse.
pub struct BlkparseReader {
    name: String,
    lines: Lines<Box<dyn io::Read + Send>>,
    state: State,
    ended: bool,
}

/// All state except the stream. This state is a separate type so that the reader can process a line that is
/// borrowed from the stream.
#[derive(Default)]
struct State {
    window: Window,
    threads: Vec<Thread>,
    marks: Vec<Mark>,
    lost: Vec<LostEvents>,
    complaints: Complaints,
    names: SeenThreads,
    sequences: Sequences,
    /// For each processor, the device of its last event that was not a remap.
    traced: FxHashMap<u32, u32>,
    categories: Categories,
    events: u64,
    lines: u64,
    /// Whether the final summary has begun. Unknown lines are expected in the summary.
    in_summary: bool,
}

impl BlkparseReader {
    /// Creates a reader of `input`.
    pub fn new(input: Input) -> BlkparseReader {
        BlkparseReader {
            name: input.name,
            lines: Lines::new(input.bytes),
            state: State::default(),
            ended: false,
        }
    }
}

impl TraceReader for BlkparseReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        let state = &mut self.state;
        state.window.begin(batch);
        for _ in 0..LINES_MAX {
            if self.ended || state.window.is_full() {
                break;
            }
            match self.lines.next()? {
                Some(line) => state.line(&self.name, line),
                None => self.ended = true,
            }
        }
        if self.ended || state.window.is_full() {
            state.window.give(batch, self.ended);
            if self.ended {
                state.finish(&self.name);
            }
        }
        batch.threads.append(&mut state.threads);
        batch.marks.append(&mut state.marks);
        batch.lost.append(&mut state.lost);
        batch.diagnostics.append(&mut state.complaints.ready);
        Ok(!self.ended)
    }

    fn source(&self) -> Source {
        Source {
            format: "blkparse".to_owned(),
            files: vec![self.name.clone()],
            shows: self.state.categories.names(),
        }
    }

    fn clock(&self) -> Clock {
        Clock { name: "unknown".to_owned(), unix_ns_at_zero: None }
    }
}

impl State {
    fn line(&mut self, file: &str, line: Line<'_>) {
        self.lines += 1;
        match if line.cut { None } else { line::parse(line.bytes) } {
            Some(Parsed::Event { event, sequence, comm }) => {
                self.in_summary = false;
                self.events += 1;
                self.categories.see(event.kind);
                let cpu = event.cpu.unwrap_or_default();
                if let (Some(comm), Some(tid)) = (comm, event.tid) {
                    let row = self.names.seen(tid, None, Some(comm), NameOrigin::Event, event.time);
                    self.threads.extend(row);
                }
                let is_remap = matches!(event.kind, EventKind::Remap { .. });
                self.number(event.device.0, cpu, sequence, event.time, is_remap, file);
                self.window.push(event);
            }
            Some(Parsed::Message { time, tid, text }) => {
                self.in_summary = false;
                let name = String::from_utf8_lossy(text).into_owned();
                self.marks.push(Mark { at: time, until: None, name, tid });
            }
            Some(Parsed::NotShown) => {}
            None => self.no_event(file, line),
        }
    }

    /// Checks the sequence number of an event. blkparse prints a remap with the target device, but with the
    /// traced device's sequence number.
    fn number(&mut self, device: u32, cpu: u32, sequence: u32, time: Timestamp, is_remap: bool, file: &str) {
        let mut traced = device;
        if !is_remap {
            if self.traced.len() < PROCESSORS_MAX || self.traced.contains_key(&cpu) {
                self.traced.insert(cpu, device);
            }
        } else if !self.sequences.expects(device, cpu, sequence) {
            traced = self.traced.get(&cpu).copied().unwrap_or(device);
        }
        match self.sequences.see(traced, cpu, sequence, time) {
            Verdict::Fine => {}
            Verdict::Lost(lost) => self.lost.push(lost),
            Verdict::Filtered => {
                let place = InputPlace { file, ..InputPlace::default() };
                self.complaints.add(Severity::Note, "filtered-trace", place, || {
                    format!(
                        "The numbers of processor {cpu}'s lines have gaps everywhere, as in a filtered trace; gaps no longer count as lost events."
                    )
                });
            }
        }
    }

    fn no_event(&mut self, file: &str, line: Line<'_>) {
        let place = InputPlace { file, record: Some(line.number), offset: Some(line.offset) };
        if line.cut || line::begins_with_device(line.bytes) {
            self.complaints.add(Severity::Warning, "damaged-line", place, || {
                "The line starts like an event but is not one; it was skipped.".to_owned()
            });
            return;
        }
        self.in_summary |= begins_summary(line.bytes);
        if !self.in_summary && !is_known(line.bytes) {
            self.complaints.add(Severity::Warning, "foreign-line", place, || {
                "The line is neither an event nor part of the summary; it was skipped.".to_owned()
            });
        }
    }

    fn finish(&mut self, file: &str) {
        let State { sequences, lost, complaints, .. } = self;
        sequences.finish(|gap| lost.push(gap));
        let place = InputPlace { file, ..InputPlace::default() };
        if self.events == 0 {
            let lines = self.lines;
            complaints.add(Severity::Error, "no-records", place, || {
                format!("None of the {lines} lines is an event in blkparse's default format.")
            });
        }
        let late = self.window.late;
        if late > 0 {
            complaints.add(Severity::Warning, "out-of-order", place, || {
                format!("{late} events came too late to be sorted by time.")
            });
        }
        complaints.finish();
    }
}

/// Returns whether the line begins the summary: `CPU0 (sda):`, or, with `-s`, a program's name and id, such
/// as `cp (123)` or `cp (123, ...)`.
fn begins_summary(line: &[u8]) -> bool {
    let end = line.strip_suffix(b":").unwrap_or(line);
    let Some(inner) = end.strip_suffix(b")").and_then(|end| {
        let open = end.iter().rposition(|byte| *byte == b'(')?;
        end[..open].ends_with(b" ").then_some(&end[open + 1..])
    }) else {
        return false;
    };
    end.len() < line.len() || inner.first().is_some_and(u8::is_ascii_digit)
}

/// Returns whether the line is other known output of blkparse, or a comment.
fn is_known(line: &[u8]) -> bool {
    line.trim_ascii().is_empty() || line.starts_with(b"#") || line.starts_with(b"Input file ")
}

#[cfg(test)]
mod tests;
