//! Reads the text of biosnoop (of bcc and of libbpf-tools) and of iosnoop (of perf-tools).
//!
//! ```text
//! TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  QUE(ms) LAT(ms)
//! 0.000004    supervise      1950   xvda1   W 13092560   4096      0.01    0.74
//! ```
//!
//! `TIME(s)` is the time of completion, relative to the first line; `LAT(ms)` is the time from issue to
//! completion, and `QUE(ms)` the time from the request's allocation to its issue. iosnoop prints absolute
//! times with `-s` and `-t`. The process is the one that caused the request. The formats are those of
//! `tools/biosnoop.py` and `libbpf-tools/biosnoop.c` of bcc, and of `iosnoop` of perf-tools.

mod columns;

use std::collections::BTreeMap;
use std::io::{self, Read};

use fonio_core::meta::{Clock, Source};
use fonio_core::threads::{NameOrigin, SeenThreads};
use fonio_core::{
    Batch, ByteCount, DeviceId, Flags, LostEvents, Op, Request, Sector, Severity, Timestamp, TraceReader,
    parse_rwbs,
};

use self::columns::{Cells, Column, Header};
use crate::complaints::{Complaints, InputPlace};
use crate::csv::decimal;
use crate::input::Input;
use crate::lines::{Line, Lines};

/// Number of lines after which a batch ends.
const BATCH_LINES: usize = 4096;
/// Number of lines in which a header must occur. Messages of the tool and of the shell can precede it.
const HEADER_LINES: usize = 100;
/// Maximum number of disks.
const DISKS_MAX: usize = 1024;
/// Value of the trace's clock at the time of the first line. Requests of the first lines were issued before
/// this time, and times are never negative. No driver lets a request wait for so long.
const FIRST_LINE_NS: i64 = 1_000_000_000_000;
/// The text of a time less than two microseconds before the first line. libbpf-tools subtracts without sign.
const JUST_BEFORE: &[u8] = b"18446744073.709552";

/// Returns whether `head` is the start of such a text.
pub fn recognise(head: &[u8]) -> bool {
    let lines = head.split(|byte| *byte == b'\n').take(HEADER_LINES);
    lines.into_iter().any(|line| Header::parse(line).is_some())
}

/// Reads the text of biosnoop or iosnoop.
pub struct BiosnoopReader {
    lines: Lines<Box<dyn Read + Send>>,
    state: State,
}

/// All state except the stream, so that the reader can process a line that is borrowed from the stream.
struct State {
    file: String,
    header: Option<Header>,
    disks: BTreeMap<Vec<u8>, DeviceId>,
    threads: SeenThreads,
    /// The latest completion, and the latest message about lost events with the events lost after it.
    latest: Timestamp,
    lost: Vec<LostEvents>,
    rows: u64,
    complaints: Complaints,
    ended: bool,
}

/// The reason why a line is skipped.
enum BadRow {
    /// The column whose cell is not as expected.
    Cell(&'static str),
    EndsBeforeStart,
}

impl BiosnoopReader {
    /// Creates a reader of `input`.
    pub fn new(input: Input) -> BiosnoopReader {
        BiosnoopReader {
            lines: Lines::new(input.bytes),
            state: State {
                file: input.name,
                header: None,
                disks: BTreeMap::new(),
                threads: SeenThreads::default(),
                latest: Timestamp(0),
                lost: Vec::new(),
                rows: 0,
                complaints: Complaints::default(),
                ended: false,
            },
        }
    }
}

impl TraceReader for BiosnoopReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        for _ in 0..BATCH_LINES {
            if self.state.ended {
                break;
            }
            match self.lines.next()? {
                Some(line) => self.state.line(&line, batch),
                None => self.state.finish(batch),
            }
        }
        batch.diagnostics.append(&mut self.state.complaints.ready);
        Ok(!self.state.ended)
    }

    fn source(&self) -> Source {
        let has = |column| self.state.header.as_ref().is_some_and(|header| header.has(column));
        let kinds = [("queue", has(Column::Queued)), ("issue", true), ("complete", true)];
        Source {
            format: "biosnoop".into(),
            files: vec![self.state.file.clone()],
            shows: kinds.into_iter().filter(|(_, shown)| *shown).map(|(kind, _)| kind.into()).collect(),
        }
    }

    fn clock(&self) -> Clock {
        Clock { name: "unknown".into(), unix_ns_at_zero: None }
    }

    fn device_names(&self) -> Vec<(DeviceId, String)> {
        let names = self.state.disks.iter();
        names.map(|(name, device)| (*device, String::from_utf8_lossy(name).into_owned())).collect()
    }
}

impl State {
    fn line(&mut self, line: &Line<'_>, batch: &mut Batch) {
        let place = InputPlace { file: &self.file, record: Some(line.number), offset: Some(line.offset) };
        if line.cut {
            self.complaints.add(Severity::Warning, "long-line", place, || {
                "The line is longer than 65536 bytes; it was skipped.".into()
            });
            return;
        }
        if let Some(header) = Header::parse(line.bytes) {
            if self.rows > 0 {
                self.complaints.add(Severity::Warning, "second-run", place, || {
                    "Another run begins with this header. Its times have another beginning, so it was not read; \
                     put it into a file of its own."
                        .into()
                });
                return self.finish(batch);
            }
            self.header = Some(header);
            return;
        }
        if let Some(lost) = lost(line.bytes) {
            self.lost.push(LostEvents { after: self.latest, ..lost });
            return;
        }
        let Some(header) = self.header.take() else { return };
        match header.split(line.bytes) {
            Some(cells) => {
                if let Err(reason) = self.row(&header, &cells, batch) {
                    let place =
                        InputPlace { file: &self.file, record: Some(line.number), offset: Some(line.offset) };
                    self.complaints.add(Severity::Warning, "unreadable-row", place, || match reason {
                        BadRow::Cell(column) => format!("The {column} cannot be read; the line was skipped."),
                        BadRow::EndsBeforeStart => {
                            "The request ends before it starts; the line was skipped.".into()
                        }
                    });
                }
            }
            None if line.bytes.trim_ascii().is_empty() => {}
            None => self.complaints.add(Severity::Note, "no-event", place, || {
                "The line has too few columns for a request; it was skipped.".into()
            }),
        }
        self.header = Some(header);
    }

    /// Adds the request of one line.
    fn row(&mut self, header: &Header, cells: &Cells<'_, '_>, batch: &mut Batch) -> Result<(), BadRow> {
        let bytes = decimal(cells.get(Column::Bytes), 1).ok_or(BadRow::Cell("number of bytes"))?;
        let latency = cells.get(Column::Latency);
        let latency_ns = decimal(latency, 1_000_000).ok_or(BadRow::Cell("latency"))?;
        let latency_ns = i64::try_from(latency_ns).map_err(|_| BadRow::Cell("latency"))?;
        let zero = if header.is_iosnoop { 0 } else { FIRST_LINE_NS };
        let at = |column| {
            let known = header.has(column).then(|| signed_nanos(cells.get(column)));
            known.map(|at| at.and_then(|at| at.checked_add(zero)).ok_or(BadRow::Cell("time"))).transpose()
        };
        let (issued, completed) = (at(Column::Issued)?, at(Column::Completed)?);
        let issued = issued.or(completed.and_then(|at| at.checked_sub(latency_ns)));
        let completed = completed.or(issued.and_then(|at| at.checked_add(latency_ns)));
        let time = |time: Option<i64>| time.and_then(|at| u64::try_from(at).ok()).map(Timestamp);
        let (issued, completed) = time(issued)
            .zip(time(completed))
            .ok_or(BadRow::Cell("time, or its difference to the latency,"))?;
        if completed < issued {
            return Err(BadRow::EndsBeforeStart);
        }

        let op = cells.get(Column::Op);
        if op.is_empty() || !op.iter().all(u8::is_ascii_uppercase) {
            return Err(BadRow::Cell("operation"));
        }
        let (op, flags, flags_known) = if header.has_rwbs || op.len() > 1 {
            let (op, flags) = parse_rwbs(op);
            (op, flags, Flags::KNOWN_FROM_RWBS)
        } else {
            let plain = match op {
                b"W" => Op::Write,
                b"R" if bytes == 0 => Op::Flush,
                b"R" => Op::Read,
                _ => return Err(BadRow::Cell("operation")),
            };
            (plain, Flags::NONE, Flags::NONE)
        };
        let device = self.disk(cells.get(Column::Disk)).ok_or(BadRow::Cell("disk (after 1024 others)"))?;
        let mut request = Request::new(device, op, ByteCount(bytes));
        (request.flags, request.flags_known) = (flags, flags_known);
        // A flush without data has the sector -1.
        let sector = cells.get(Column::Sector);
        if sector != b"-1" {
            let sector = decimal(sector, 1).ok_or(BadRow::Cell("sector"))?;
            request.sector = Some(Sector(sector)).filter(|_| op != Op::Flush || bytes > 0);
        }
        request.issued = Some(issued);
        request.completed = Some(completed);
        if let Some(queued) = decimal(cells.get(Column::Queued), 1_000_000) {
            request.queued = Some(Timestamp(issued.0.saturating_sub(queued)));
        }
        let comm = cells.get(Column::Comm);
        if comm != b"?" {
            let pid = decimal(cells.get(Column::Pid), 1).and_then(|pid| u32::try_from(pid).ok());
            let pid = pid.ok_or(BadRow::Cell("process id"))?;
            request.tid = Some(pid);
            let row = self.threads.seen(pid, Some(pid), Some(comm), NameOrigin::Event, issued);
            batch.threads.extend(row);
        }
        for gap in self.lost.drain(..) {
            batch.lost.push(LostEvents { before: completed.max(gap.after), ..gap });
        }
        self.latest = self.latest.max(completed);
        if self.rows == 0 {
            let has_both = header.has(Column::Issued) && header.has(Column::Completed);
            self.say_resolution(if has_both { "1 µs" } else { resolution(latency) });
        }
        self.rows += 1;
        batch.requests.push(request);
        Ok(())
    }

    /// Returns the number of a disk. iosnoop prints numbers; biosnoop prints names, which get numbers.
    fn disk(&mut self, name: &[u8]) -> Option<DeviceId> {
        if let Some(number) = crate::csv::device(name).filter(|_| name.contains(&b',')) {
            return Some(number);
        }
        let name = if name.is_empty() { b"unknown disk" } else { &name[..name.len().min(64)] };
        if let Some(device) = self.disks.get(name) {
            return Some(*device);
        }
        let number = self.disks.len();
        if number >= DISKS_MAX {
            return None;
        }
        let device = DeviceId::new(0, number as u32);
        self.disks.insert(name.to_vec(), device);
        Some(device)
    }

    fn say_resolution(&mut self, step: &str) {
        let place = InputPlace { file: &self.file, ..InputPlace::default() };
        self.complaints.add(Severity::Note, "coarse-latencies", place, || {
            format!("The latencies have a resolution of {step}; smaller differences cannot be seen.")
        });
    }

    fn finish(&mut self, batch: &mut Batch) {
        self.ended = true;
        let latest = self.latest;
        batch.lost.extend(self.lost.drain(..).map(|gap| LostEvents { before: latest.max(gap.after), ..gap }));
        if self.rows == 0 {
            let place = InputPlace { file: &self.file, ..InputPlace::default() };
            self.complaints.add(Severity::Error, "no-records", place, || {
                "The text has no request after a header such as `TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)`.".into()
            });
        }
        self.complaints.finish();
    }
}

/// Reads seconds with a fraction. A time before the first line is negative, or, from libbpf-tools, almost
/// 2^64 nanoseconds.
fn signed_nanos(text: &[u8]) -> Option<i64> {
    if text == JUST_BEFORE {
        return Some(0);
    }
    if let Some(positive) = text.strip_prefix(b"-") {
        return i64::try_from(decimal(positive, 1_000_000_000)?).ok().map(|nanos| -nanos);
    }
    decimal(text, 1_000_000_000).map(|nanos| nanos as i64)
}

/// Returns the smallest difference between two latencies in milliseconds, as the number of decimals shows it.
fn resolution(latency: &[u8]) -> &'static str {
    let decimals = latency.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    match decimals {
        _ if !latency.contains(&b'.') => "1 ms",
        1 => "100 µs",
        2 => "10 µs",
        _ => "1 µs",
    }
}

/// Reads a message about lost events: `lost 3 events on CPU #1`, or `Possibly lost 3 samples`. The tools
/// print it to standard error, which can be in the same file.
pub(crate) fn lost(line: &[u8]) -> Option<LostEvents> {
    memchr::memmem::find(line, b"lost ")?;
    let line = std::str::from_utf8(line).ok()?.trim();
    let rest = line.strip_prefix("lost ").or_else(|| line.strip_prefix("Possibly lost "))?;
    let (count, rest) = rest.split_once(' ')?;
    let cpu = rest.strip_prefix("events on CPU #").and_then(|cpu| cpu.parse().ok());
    if cpu.is_none() && rest != "samples" {
        return None;
    }
    let count = Some(count.parse().ok()?);
    Some(LostEvents { cpu, count, after: Timestamp(0), before: Timestamp(0) })
}

#[cfg(test)]
mod tests;
