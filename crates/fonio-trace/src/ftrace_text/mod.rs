//! Reads ftrace text from the tracefs files `trace` and `trace_pipe` of kernels 3.4 to 6.18, with or without
//! a header.
//!
//! `trace-cmd report` and Perfetto's `traceconv systrace` write the same columns. `line.rs` reads the
//! columns, also those of `perf script`, and `block.rs` reads the block tracepoints. From other events, the reader takes only thread
//! names, marks and samples of a metric.

mod block;
mod keyed;
mod line;
mod lost;
pub(crate) mod marks;
mod other;

use std::io::{self, Read};

use fonio_core::meta::{Clock, Source};
use fonio_core::threads::{NameOrigin, SeenThreads};
use fonio_core::{
    Batch, BlockEvent, Diagnostic, EventKind, Flags, KindSet, Severity, Timestamp, TraceReader,
};
use memchr::memmem;

use crate::complaints::{Complaints, InputPlace};
use crate::input::Input;
use crate::lines::{Line, Lines};
use crate::scheduling::{Sleeps, Switch, WakeUp};
use crate::syncs::Syncs;
use block::Parsed;
use lost::Gaps;
use marks::Marks;

/// Maximum numbers of events and lines in a batch.
const BATCH_EVENTS: usize = 4096;
const BATCH_LINES: usize = 32 * 1024;

/// Returns whether the start of a file looks like ftrace text.
pub fn recognise(head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.by_ref().take(1000).any(|line| {
        line.starts_with(b"# tracer:") || line::parse(line).is_some_and(|head| !head.event.is_empty())
    })
}

/// Returns whether the start of a file looks like the text of `perf script` with tracepoints.
pub fn recognise_perf(head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    // Only tracepoints have a system before the name.
    lines.by_ref().take(1000).any(|line| {
        line::parse_perf(line).is_some_and(|found| {
            let name = [b":".as_slice(), found.event, b": "].concat();
            !found.event.is_empty() && memmem::find(line, &name).is_some()
        })
    })
}

/// Reads ftrace text, or the text of `perf script`.
pub struct FtraceReader {
    text: FtraceText<Box<dyn Read + Send>>,
    file: String,
    format: &'static str,
}

impl FtraceReader {
    /// Creates a reader of `input`.
    pub fn new(input: Input) -> FtraceReader {
        let text = FtraceText::new(input.bytes, Some(input.name.clone()));
        FtraceReader { text, file: input.name, format: "ftrace" }
    }

    /// Creates a reader of the text of `perf script`.
    pub fn of_perf(input: Input) -> FtraceReader {
        let mut text = FtraceText::new(input.bytes, Some(input.name.clone()));
        text.state.columns = line::parse_perf;
        FtraceReader { text, file: input.name, format: "perf-script" }
    }
}

impl TraceReader for FtraceReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        self.text.next_batch(batch)
    }

    fn source(&self) -> Source {
        Source { format: self.format.into(), files: vec![self.file.clone()], shows: self.text.shows() }
    }

    fn clock(&self) -> Clock {
        self.text.clock()
    }

    fn may_show_waits(&self) -> bool {
        true
    }
}

/// Reads ftrace text from a stream that may be part of another file.
pub(crate) struct FtraceText<R> {
    lines: Lines<R>,
    state: State,
}

/// All state except the stream. This state is a separate type so that the reader can process a line that is
/// borrowed from the stream.
struct State {
    file: Option<String>,
    /// Reads the columns of a line.
    columns: for<'a> fn(&'a [u8]) -> Option<line::Head<'a>>,
    /// Whether lines have the text `\n\` before their line end, as in a JavaScript string.
    escaped: bool,
    shows: KindSet,
    counter: bool,
    unix_ns_at_zero: Option<i64>,
    /// Number of lines that are neither events nor comments, and the position of the first such line.
    strange: u64,
    first_strange: Option<(u64, u64)>,
    latest: Timestamp,
    threads: SeenThreads,
    marks: Marks,
    sleeps: Sleeps,
    syncs: Syncs,
    gaps: Gaps,
    complaints: Complaints,
    finished: bool,
}

impl<R: Read> FtraceText<R> {
    pub(crate) fn new(source: R, file: Option<String>) -> FtraceText<R> {
        FtraceText {
            lines: Lines::new(source),
            state: State {
                file,
                columns: line::parse,
                escaped: false,
                shows: KindSet::default(),
                counter: false,
                unix_ns_at_zero: None,
                strange: 0,
                first_strange: None,
                latest: Timestamp(0),
                threads: SeenThreads::default(),
                marks: Marks::default(),
                sleeps: Sleeps::default(),
                syncs: Syncs::default(),
                gaps: Gaps::default(),
                complaints: Complaints::default(),
                finished: false,
            },
        }
    }

    /// Accepts text that is embedded in JavaScript and has lines that may end in `\n\`.
    pub(crate) fn with_escaped_line_ends(mut self) -> FtraceText<R> {
        self.state.escaped = true;
        self
    }

    /// Returns the underlying stream.
    pub(crate) fn source_mut(&mut self) -> &mut R {
        self.lines.source_mut()
    }

    pub(crate) fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        for _ in 0..BATCH_LINES {
            let Some(line) = self.lines.next()? else {
                self.state.finish(batch);
                batch.diagnostics.append(&mut self.state.complaints.ready);
                return Ok(false);
            };
            self.state.line(&line, batch);
            if batch.events.len() >= BATCH_EVENTS {
                break;
            }
        }
        batch.diagnostics.append(&mut self.state.complaints.ready);
        Ok(true)
    }

    pub(crate) fn shows(&self) -> Vec<String> {
        let mut shows = self.state.shows.names();
        self.state.sleeps.shows(&mut shows);
        shows
    }

    pub(crate) fn clock(&self) -> Clock {
        // The text does not show which trace clock was used, only whether this clock measured time.
        let name = if self.state.counter { "counter" } else { "unknown" };
        Clock { name: name.into(), unix_ns_at_zero: self.state.unix_ns_at_zero }
    }
}

impl State {
    fn line(&mut self, line: &Line<'_>, batch: &mut Batch) {
        let mut bytes = line.bytes;
        if self.escaped {
            bytes = bytes.strip_suffix(b"\\n\\").unwrap_or(bytes);
        }
        if line.cut {
            let message = "The line is longer than 65536 bytes; it was skipped.";
            self.report(line, "long-line", || message.into());
            return;
        }
        if bytes.first() == Some(&b'#') {
            self.gaps.comment(bytes);
            return;
        }
        let Some(head) = (self.columns)(bytes) else {
            if self.gaps.lost_line(bytes) || bytes.trim_ascii().is_empty() {
                return;
            }
            if memmem::find(bytes, b": block_").is_some() {
                let message = "The line names a block event, but its columns cannot be read; it was skipped.";
                self.report(line, "unreadable-line", || message.into());
            } else {
                self.strange += 1;
                self.first_strange.get_or_insert((line.number, line.offset));
            }
            return;
        };
        self.event(&head, line, batch);
    }

    fn event<'a>(&mut self, head: &line::Head<'a>, line: &Line<'a>, batch: &mut Batch) {
        if head.counter && !self.counter {
            self.counter = true;
            let message = "The times are whole numbers, so the trace clock was a counter (`counter`, `x86-tsc`, \
                           `uptime`); they are treated as nanoseconds, so all durations are in its units.";
            self.report(line, "counter-clock", || message.into());
        }
        // Tools write a dummy event at the end of the HTML file, without a thread and with time 0.
        let real = head.time.0 > 0 || head.comm != b"dummy";
        if real {
            self.latest = self.latest.max(head.time);
            batch.instants.see(head.time);
            let known = batch.lost.len();
            self.gaps.event(head.cpu, head.time, &mut batch.lost);
            for gap in &batch.lost[known..] {
                self.sleeps.gap(gap.cpu, gap.after, gap.before);
                self.syncs.forget();
            }
            let row = self.threads.seen(head.tid, head.pid, Some(head.comm), NameOrigin::Columns, head.time);
            batch.threads.extend(row);
        }
        if !head.event.starts_with(b"block_") {
            return self.other(head, batch);
        }
        match block::parse(head.event, head.payload) {
            Parsed::Ignored => {}
            Parsed::Unreadable => {
                let event = String::from_utf8_lossy(head.event);
                self.report(line, "unreadable-event", || {
                    format!("This `{event}` is in a format that no known kernel writes; it was skipped.")
                });
            }
            Parsed::Block(block) => {
                self.shows.insert(block.kind);
                if block.kind == EventKind::Complete {
                    self.sleeps.completion(head.cpu, head.time);
                }
                if let Some(comm) = block.comm {
                    let row = self.threads.seen(head.tid, head.pid, Some(comm), NameOrigin::Event, head.time);
                    batch.threads.extend(row);
                }
                batch.events.push(BlockEvent {
                    time: head.time,
                    kind: block.kind,
                    device: block.device,
                    sector: block.sector,
                    bytes: block.bytes,
                    op: block.op,
                    flags: block.flags,
                    flags_known: Flags::KNOWN_FROM_RWBS,
                    cpu: Some(head.cpu),
                    tid: Some(head.tid),
                    ioprio: block.ioprio,
                    error: block.error,
                });
            }
        }
    }

    fn other(&mut self, head: &line::Head<'_>, batch: &mut Batch) {
        match other::parse(head.event, head.payload) {
            other::Other::Nothing => {}
            other::Other::Mark(text) => {
                if let Some(zero) = other::unix_ns_at_zero(text, head.time) {
                    self.unix_ns_at_zero = Some(zero);
                }
                self.sleeps.launches.wrote(text, head.time);
                batch.marks.extend(self.marks.wrote(text, head.tid, head.time));
            }
            other::Other::Names(names) => {
                for (tid, pid, comm) in names.into_iter().flatten() {
                    let row = self.threads.seen(tid, pid, Some(comm), NameOrigin::Event, head.time);
                    batch.threads.extend(row);
                }
            }
            other::Other::Switch { from, to, left } => {
                for (tid, pid, comm) in [from, to] {
                    let row = self.threads.seen(tid, pid, Some(comm), NameOrigin::Event, head.time);
                    batch.threads.extend(row);
                }
                let switch = Switch {
                    cpu: head.cpu,
                    at: head.time,
                    from: Some(from.0),
                    left,
                    to: to.0,
                    is_in_sync: self.syncs.is_in(to.0),
                };
                self.sleeps.switch(switch, &mut batch.waits);
            }
            other::Other::Waking { woken: (tid, pid, comm), is_by_waker } => {
                let row = self.threads.seen(tid, pid, Some(comm), NameOrigin::Event, head.time);
                batch.threads.extend(row);
                let is_interrupt = head.is_interrupt.filter(|_| is_by_waker);
                let (cpu, at, current) = (head.cpu, head.time, Some(head.tid));
                self.sleeps.waking(WakeUp { cpu, at, tid, current, is_interrupt });
            }
            other::Other::Created((tid, pid, comm)) => {
                let row = self.threads.seen(tid, pid, Some(comm), NameOrigin::Event, head.time);
                batch.threads.extend(row);
                self.sleeps.created(head.time, tid, head.tid);
            }
            other::Other::BlockedReason { tid, is_io, function } => {
                let function = function.map(|name| String::from_utf8_lossy(name).into_owned());
                self.sleeps.reason(tid, is_io, function);
            }
            other::Other::SyncEnter { is_data } => self.syncs.enter(head.tid, head.time, is_data),
            other::Other::SyncExit { is_data, result } => {
                batch.calls.extend(self.syncs.exit(head.tid, head.time, is_data, result));
            }
            other::Other::Sample(metric, subject, value) => batch.samples.push(fonio_core::Sample {
                time: head.time,
                metric,
                subject: Some(String::from_utf8_lossy(subject).into_owned()),
                value,
            }),
        }
    }

    fn finish(&mut self, batch: &mut Batch) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        self.gaps.finish(self.latest, &mut batch.lost);
        batch.marks.extend(self.marks.finish());
        self.sleeps.finish(&mut batch.waits);
        self.complaints.finish();
        if self.sleeps.cut > 0 {
            batch.diagnostics.push(Diagnostic {
                severity: Severity::Note,
                code: "cut-waits".into(),
                message: "Waits were left out, because events were lost before their end.".into(),
                file: self.file.clone(),
                record: None,
                offset: None,
                count: self.sleeps.cut,
            });
        }
        if let Some((record, offset)) = self.first_strange {
            batch.diagnostics.push(Diagnostic {
                severity: Severity::Note,
                code: "no-event".into(),
                message: "Lines that are not ftrace events were skipped, the first at this position.".into(),
                file: self.file.clone(),
                record: Some(record),
                offset: Some(offset),
                count: self.strange,
            });
        }
    }

    fn report(&mut self, line: &Line<'_>, code: &'static str, message: impl FnOnce() -> String) {
        let file = self.file.as_deref().unwrap_or_default();
        let place = InputPlace { file, record: Some(line.number), offset: Some(line.offset) };
        self.complaints.add(Severity::Warning, code, place, message);
    }
}
