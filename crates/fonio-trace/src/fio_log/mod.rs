//! Reads the logs of fio: `*_clat.1.log` and `*_lat.1.log` as calls with their latencies, `*_bw.1.log` and `*_iops.1.log` as
//! totals.
//!
//! ```text
//! 104, 295912, 0, 4096, 1011712, 0
//! ```
//!
//! A line has the millisecond since the start of the job, a value, the direction, the size of the call, with `log_offset` its
//! offset, and its priority. The value is a latency in ns, KiB/s, or calls per second; nothing in the line says which, so the
//! name of the file must. The time is that of the completion, rounded down; newer versions of fio can add a column with the
//! time of issue, which is not read. With `log_avg_msec`, a line is an average over an interval, and its size is 0.
//! Sources: fio's documentation, "Log File Formats", and logs of fio 3.33.

mod totals;

use std::io::{self, Read};

use fonio_core::meta::{Clock, SHOWS_TOTALS, Source};
use fonio_core::{
    Batch, ByteCount, DeviceId, Op, Request, SECTOR_BYTES, Sector, Severity, Timestamp, TraceReader,
};

use self::totals::Totals;
use crate::complaints::{Complaints, InputPlace};
use crate::input::Input;
use crate::lines::Lines;
use crate::refusal::Refusal;

const MS: u64 = 1_000_000;
/// Number of lines in a batch.
const BATCH_LINES: usize = 4096;
/// Number of lines of the head by which a log is recognised.
const LINES_EXAMINED: usize = 100;
/// Value of the trace's clock at the start of the job, in ms. Calls of the first lines began before their lines.
const BEGINNING_MS: u64 = 1_000_000;
/// Times from this number of ms on are of a clock since 1970 (`log_unix_epoch`): the year 1973.
const UNIX_FROM_MS: u64 = 100_000_000_000;
/// Maximum number of calls of a millisecond that are spread together.
const SPREAD_MAX: usize = 1 << 16;

/// What the values of a log are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From the issue of a call to its completion (`clat`).
    Completion,
    /// From the creation of a call to its completion (`lat`).
    Total,
    /// The time in which a call was submitted (`slat`).
    Submission,
    /// KiB per second.
    Bandwidth,
    /// Calls per second.
    Iops,
}

impl Kind {
    /// Returns what the log with this file name has: fio names it `NAME_clat.JOB.log`, or without the job.
    pub fn of(name: &str) -> Option<Kind> {
        let name = name.rsplit(['/', '\\']).next()?;
        let packed = [".gz", ".zst", ".xz", ".bz2"].into_iter().find_map(|end| name.strip_suffix(end));
        let stem = packed.unwrap_or(name).strip_suffix(".log")?;
        let is_job = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let stem = stem.rsplit_once('.').filter(|(_, job)| is_job(job)).map_or(stem, |(stem, _)| stem);
        match stem.rsplit_once('_').map_or(stem, |(_, kind)| kind) {
            "clat" => Some(Kind::Completion),
            "lat" => Some(Kind::Total),
            "slat" => Some(Kind::Submission),
            "bw" => Some(Kind::Bandwidth),
            "iops" => Some(Kind::Iops),
            _ => None,
        }
    }
}

/// A line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    time_ms: u64,
    value: u64,
    op: Op,
    bytes: u64,
    offset: Option<u64>,
    ioprio: Option<u16>,
}

impl Entry {
    /// Reads a line. `has_offset` says whether the fifth of six columns is an offset.
    fn parse(line: &[u8], has_offset: bool) -> Option<Entry> {
        let line = std::str::from_utf8(line).ok()?;
        let mut cells = [""; 8];
        let mut count = 0;
        for cell in line.split(',') {
            *cells.get_mut(count)? = cell.trim();
            count += 1;
        }
        if !(4..=7).contains(&count) {
            return None;
        }
        let op = match cells[2] {
            "0" => Op::Read,
            "1" => Op::Write,
            "2" => Op::Discard,
            "3" => Op::Flush,
            _ => return None,
        };
        let has_offset = has_offset && count >= 6;
        let priority = cells[if has_offset { 5 } else { 4 }];
        let ioprio = match priority.strip_prefix("0x") {
            Some(digits) => Some(u16::from_str_radix(digits, 16).ok()?),
            None if priority.is_empty() => None,
            // 1 only says that the call has a higher priority than others.
            None => priority.parse::<u64>().ok().map(|_| None)?,
        };
        Some(Entry {
            time_ms: cells[0].parse().ok()?,
            value: cells[1].parse().ok()?,
            op,
            bytes: cells[3].parse().ok()?,
            offset: if has_offset { Some(cells[4].parse().ok()?) } else { None },
            ioprio,
        })
    }
}

/// Returns whether six columns of the head have an offset: then the sixth is a priority, which is 0, 1 or hexadecimal. Without
/// an offset, the sixth is a time of issue.
fn has_offset(head: &[u8]) -> bool {
    let lines = head.split(|byte| *byte == b'\n').take(LINES_EXAMINED);
    lines.into_iter().all(|line| {
        let Some(sixth) = line.split(|byte| *byte == b',').nth(5) else { return true };
        let sixth = sixth.trim_ascii();
        matches!(sixth, b"0" | b"1") || sixth.starts_with(b"0x")
    })
}

/// Returns whether `head` is the start of a log of fio, whatever its values are.
pub fn recognise(head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let is_entry = |line: &[u8]| {
        // fio puts a blank after each comma.
        memchr::memmem::find(line, b", ").is_some() && Entry::parse(line, true).is_some()
    };
    let first = lines.next().is_some_and(is_entry);
    // The last line of a head can be cut.
    first
        && lines.take(LINES_EXAMINED).take_while(|line| is_entry(line)).count() + 1
            >= LINES_EXAMINED.min(count(head))
}

/// Returns the number of complete lines of a head.
fn count(head: &[u8]) -> usize {
    head.iter().filter(|byte| **byte == b'\n').count().max(1)
}

/// Reads a log of fio.
pub struct FioLogReader {
    lines: Lines<Box<dyn Read + Send>>,
    file: String,
    kind: Kind,
    has_offset: bool,
    /// The calls of one millisecond, in the order of the log.
    together: Vec<Entry>,
    totals: Totals,
    is_unix: bool,
    rows: u64,
    complaints: Complaints,
    ended: bool,
}

impl FioLogReader {
    /// Creates a reader of `input`, whose first bytes are `head`. Fails if the log does not have latencies of calls or totals.
    pub fn open(input: Input, head: &[u8]) -> Result<FioLogReader, Refusal> {
        let Some(kind) = Kind::of(&input.name) else {
            return Err(Refusal::is(
                "it is a log of fio, and its name does not say whether the values are latencies, bandwidths or IOPS".into(),
                "Give the file the name that fio gave it, such as `log_clat.1.log`, `log_lat.1.log` or `log_bw.1.log`",
            ));
        };
        let has_offset = has_offset(head);
        let first = head.split(|byte| *byte == b'\n').find_map(|line| Entry::parse(line, has_offset));
        let is_average = first.is_some_and(|first| first.bytes == 0 && first.op != Op::Flush);
        match kind {
            Kind::Submission => Err(Refusal::is(
                "it is a log of fio's submission latencies: the time of the submitting call, not of the I/O".into(),
                "Give fonio the log of the same job with `_clat` or `_lat` in its name",
            )),
            Kind::Completion | Kind::Total if is_average => Err(Refusal::is(
                "it is a log of fio with averages (`log_avg_msec`): each line has the mean latency of an interval, so no latency \
                 of a call and no percentile is known"
                    .into(),
                "Run fio again without `log_avg_msec`, or record the requests while it runs: `fonio record -- fio job.fio`",
            )),
            _ => Ok(FioLogReader {
                lines: Lines::new(input.bytes),
                file: input.name,
                kind,
                has_offset,
                together: Vec::new(),
                totals: Totals::new(kind, is_average),
                is_unix: false,
                rows: 0,
                complaints: Complaints::default(),
                ended: false,
            }),
        }
    }

    fn has_latencies(&self) -> bool {
        matches!(self.kind, Kind::Completion | Kind::Total)
    }

    fn entry(&mut self, entry: Entry, batch: &mut Batch) {
        if self.rows == 0 {
            self.is_unix = entry.time_ms >= UNIX_FROM_MS;
        }
        self.rows += 1;
        if !self.has_latencies() {
            self.totals.add(&entry, batch);
            return;
        }
        let is_other = self.together.first().is_some_and(|first| first.time_ms != entry.time_ms);
        if is_other || self.together.len() >= SPREAD_MAX {
            self.spread(batch);
        }
        self.together.push(entry);
    }

    /// Makes calls of the lines of one millisecond. Their completions are spread over it in their order, because at the same
    /// time they would look like calls at once.
    fn spread(&mut self, batch: &mut Batch) {
        let count = self.together.len() as u64;
        for (number, entry) in (0..).zip(self.together.drain(..)) {
            let start_ms =
                if self.is_unix { Some(entry.time_ms) } else { entry.time_ms.checked_add(BEGINNING_MS) };
            let within = (2 * number + 1) * MS / (2 * count);
            let completed = start_ms.and_then(|ms| ms.checked_mul(MS)?.checked_add(within));
            let began = completed.and_then(|completed| completed.checked_sub(entry.value));
            let (Some(began), Some(completed)) = (began, completed) else {
                let place = InputPlace { file: &self.file, ..InputPlace::default() };
                self.complaints.add(Severity::Warning, "absurd-latency", place, || {
                    format!(
                        "A latency of {} ns at {} ms is not possible; the line was skipped.",
                        entry.value, entry.time_ms
                    )
                });
                continue;
            };
            let mut request = Request::new(DeviceId(0), entry.op, ByteCount(entry.bytes));
            request.sector =
                entry.offset.filter(|_| entry.op != Op::Flush).map(|offset| Sector(offset / SECTOR_BYTES));
            request.ioprio = entry.ioprio;
            let began = Some(Timestamp(began));
            if self.kind == Kind::Completion {
                request.issued = began;
            } else {
                request.queued = began;
            }
            request.completed = Some(Timestamp(completed));
            batch.requests.push(request);
        }
    }

    fn finish(&mut self, batch: &mut Batch) {
        self.spread(batch);
        let has_latencies = self.has_latencies();
        self.totals.finish(batch);
        let place = InputPlace { file: &self.file, ..InputPlace::default() };
        if self.rows == 0 {
            self.complaints.add(Severity::Error, "no-records", place, || {
                "The file has no line of a log of fio, such as `104, 295912, 0, 4096, 0`.".into()
            });
        } else if has_latencies {
            self.complaints.add(Severity::Warning, "calls-of-fio", place, || {
                "These are the calls of fio, not the requests of a device. Their latencies are exact. Their times have \
                 milliseconds, and the calls of each are spread over it: queue depth and busy time are estimates."
                    .into()
            });
        }
        self.complaints.finish();
        self.ended = true;
    }
}

impl TraceReader for FioLogReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        for _ in 0..BATCH_LINES {
            if self.ended {
                break;
            }
            let Some(line) = self.lines.next()? else {
                self.finish(batch);
                break;
            };
            let (number, offset) = (line.number, line.offset);
            match Entry::parse(line.bytes, self.has_offset) {
                Some(entry) => self.entry(entry, batch),
                None if line.bytes.trim_ascii().is_empty() => {}
                None => {
                    let place = InputPlace { file: &self.file, record: Some(number), offset: Some(offset) };
                    self.complaints.add(Severity::Warning, "unreadable-line", place, || {
                        "The line is not of a log of fio; it was skipped.".into()
                    });
                }
            }
        }
        batch.diagnostics.append(&mut self.complaints.ready);
        Ok(!self.ended)
    }

    fn source(&self) -> Source {
        let shows: &[&str] = match self.kind {
            Kind::Completion => &["issue", "complete"],
            Kind::Total | Kind::Submission => &["queue", "complete"],
            Kind::Bandwidth | Kind::Iops => &[SHOWS_TOTALS],
        };
        let shows = shows.iter().map(|kind| (*kind).to_owned()).collect();
        Source { format: "fio-log".into(), files: vec![self.file.clone()], shows }
    }

    fn clock(&self) -> Clock {
        let name = if self.is_unix { "wall" } else { "unknown" };
        Clock { name: name.into(), unix_ns_at_zero: self.is_unix.then_some(0) }
    }

    fn device_names(&self) -> Vec<(DeviceId, String)> {
        vec![(DeviceId(0), "fio".to_owned())]
    }
}

#[cfg(test)]
mod tests;
