//! Reads the text of ext4slower and its relatives (xfsslower, btrfsslower, nfsslower, zfsslower, f2fsslower, fsslower) of bcc
//! and libbpf-tools, and of fileslower of bcc.
//!
//! ```text
//! Tracing ext4 operations slower than 10 ms
//! TIME     COMM           PID    T BYTES   OFF_KB   LAT(ms) FILENAME
//! 06:35:01 cron           16464  R 1249    0          16.05 common-auth
//! ```
//!
//! A line is a call of a file system that took longer than a limit: the time of its end, the program, the operation, the file
//! and its latency. So the rows are calls, not requests: the text has no device and no queue, and fast calls are missing. The
//! name of a file has no folder and at most 31 bytes. The process is known, and the thread is not. The formats are those of
//! `tools/ext4slower.py`, `tools/fileslower.py` and `libbpf-tools/fsslower.c` of bcc.

mod line;

use std::io::{self, Read};

use fonio_core::meta::{Clock, SHOWS_SLOW_CALLS, SLOW_CALLS, Source};
use fonio_core::{
    Batch, ByteCount, Call, Content, File, LostEvents, Mark, Severity, Thread, Timestamp, TraceReader,
};
use rustc_hash::FxHashMap;

use self::line::{Layout, Operation, Shown, Traced};
use crate::biosnoop;
use crate::complaints::{Complaints, InputPlace};
use crate::csv::decimal;
use crate::input::Input;
use crate::lines::{Line, Lines};

/// Number of lines after which a batch ends.
const BATCH_LINES: usize = 4096;
/// Number of lines in which a header must occur. Messages of the tool and of the shell can precede it.
const HEADER_LINES: usize = 100;
/// Maximum number of files with a name of their own; calls on further files have no file.
const FILES_MAX: usize = 1 << 16;
/// Maximum number of processes whose names are remembered. Further processes are named again at each call.
const PROCESSES_MAX: usize = 1 << 16;
/// Maximum number of bytes of a name that are kept. The tools print at most 32.
const NAME_BYTES_MAX: usize = 255;
/// Value of the trace's clock at the midnight before the first line, or at the tool's start. The first calls began before
/// their lines, and times are never negative.
const BEGINNING_NS: u64 = DAY_NS;
const DAY_S: u64 = 86_400;
const DAY_NS: u64 = DAY_S * NS;
/// Lines are in the order of their times up to this many seconds.
const NEARLY_S: u64 = 60;
const NS: u64 = 1_000_000_000;
/// Results from this number on are negative errnos, printed without sign.
const ERRNOS_FROM: i64 = (1 << 32) - 4096;

/// Returns whether `head` is the start of such a text.
pub fn recognise(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').take(HEADER_LINES).any(|line| Layout::of(line).is_some())
}

/// Reads the text of ext4slower, its relatives, or fileslower.
pub struct FsSlowerReader {
    lines: Lines<Box<dyn Read + Send>>,
    state: State,
}

/// All state except the stream, so that the reader can process a line that is borrowed from the stream.
struct State {
    file: String,
    traced: Option<Traced>,
    layout: Option<Layout>,
    files: FxHashMap<Vec<u8>, u32>,
    /// The latest name of each process, and whether it had several: a program names its threads.
    processes: FxHashMap<u32, (Vec<u8>, bool)>,
    /// The time of day of the latest line with it, and the number of midnights before it.
    seconds: u64,
    days: u64,
    /// The latest end of a call.
    latest: Timestamp,
    lost: Vec<LostEvents>,
    rows: u64,
    complaints: Complaints,
    ended: bool,
}

/// The column whose cell is not as expected.
struct BadCell(&'static str);

impl FsSlowerReader {
    /// Creates a reader of `input`.
    pub fn new(input: Input) -> FsSlowerReader {
        FsSlowerReader {
            lines: Lines::new(input.bytes),
            state: State {
                file: input.name,
                traced: None,
                layout: None,
                files: FxHashMap::default(),
                processes: FxHashMap::default(),
                seconds: 0,
                days: 0,
                latest: Timestamp(0),
                lost: Vec::new(),
                rows: 0,
                complaints: Complaints::default(),
                ended: false,
            },
        }
    }
}

impl TraceReader for FsSlowerReader {
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
        Source {
            format: "fs-slower".into(),
            files: vec![self.state.file.clone()],
            shows: vec![SHOWS_SLOW_CALLS.to_owned()],
        }
    }

    fn clock(&self) -> Clock {
        let is_kernel = matches!(self.state.layout, Some(Layout::Commas { .. }));
        Clock { name: if is_kernel { "mono" } else { "unknown" }.into(), unix_ns_at_zero: None }
    }
}

impl State {
    fn line(&mut self, line: &Line<'_>, batch: &mut Batch) {
        let (number, offset) = (line.number, line.offset);
        let place = |file| InputPlace { file, record: Some(number), offset: Some(offset) };
        if line.cut {
            self.complaints.add(Severity::Warning, "long-line", place(&self.file), || {
                "The line is longer than 65536 bytes; it was skipped.".into()
            });
            return;
        }
        if let Some(layout) = Layout::of(line.bytes) {
            if self.rows > 0 {
                self.complaints.add(Severity::Warning, "second-run", place(&self.file), || {
                    "Another run begins with this header. Its limit and its times can differ, so it was not read; put it into a \
                     file of its own."
                        .into()
                });
                return self.finish(batch);
            }
            self.layout = Some(layout);
            return;
        }
        if let (0, Some(traced)) = (self.rows, Traced::of(line.bytes)) {
            self.traced = Some(traced);
            return;
        }
        if let Some(lost) = biosnoop::lost(line.bytes) {
            self.lost.push(LostEvents { after: self.latest, ..lost });
            return;
        }
        let Some(layout) = self.layout else { return };
        match line::parse(layout, line.bytes) {
            Some(shown) => {
                if let Err(BadCell(column)) = self.row(layout, &shown, batch) {
                    self.complaints.add(Severity::Warning, "unreadable-row", place(&self.file), || {
                        format!("The {column} cannot be read; the line was skipped.")
                    });
                }
            }
            None if line.bytes.trim_ascii().is_empty() => {}
            None => self.complaints.add(Severity::Note, "no-call", place(&self.file), || {
                "The line does not have the columns of a call; it was skipped.".into()
            }),
        }
    }

    /// Adds the call of one line.
    fn row(&mut self, layout: Layout, shown: &Shown<'_>, batch: &mut Batch) -> Result<(), BadCell> {
        let ended = self.time(layout, shown.time).ok_or(BadCell("time"))?;
        let entered = ended.checked_sub(shown.latency_ns).ok_or(BadCell("latency"))?;
        let (entered, ended) = (Timestamp(entered), Timestamp(ended));
        if self.rows == 0 {
            let name = format!("{SLOW_CALLS}{}", self.which(layout));
            batch.marks.push(Mark { at: entered, until: None, name, tid: None });
        }
        self.rows += 1;
        self.latest = self.latest.max(ended);
        for gap in self.lost.drain(..) {
            batch.lost.push(LostEvents { before: ended.max(gap.after), ..gap });
        }
        batch.threads.extend(self.thread(layout, shown, entered));
        let file_id = self.file(shown.file, entered, batch);
        let is_data = matches!(shown.operation, Operation::Read | Operation::Write);
        // fileslower prints the bytes that the program asked for, the others those that were moved, or an error.
        let error = shown.bytes.and_then(|bytes| match bytes {
            ERRNOS_FROM..=0xffff_ffff => Some(bytes - (1 << 32)),
            -4095..0 => Some(bytes),
            _ => None,
        });
        let error = error.filter(|_| layout != Layout::OfFileslower);
        let bytes = shown.bytes.filter(|_| is_data && error.is_none());
        batch.calls.push(Call {
            call_id: 0,
            name: shown.operation.name().to_owned(),
            tid: shown.pid,
            file_id,
            offset: shown.offset.filter(|_| is_data),
            bytes: bytes.and_then(|bytes| u64::try_from(bytes).ok()).map(ByteCount),
            entered,
            exited: Some(ended),
            result: error.or(bytes.filter(|_| layout != Layout::OfFileslower)),
            sqlite_write: None,
            file_flags: None,
        });
        [entered, ended].into_iter().for_each(|time| batch.instants.see(time));
        Ok(())
    }

    /// Returns the time at which a call ended, in ns on the trace's clock.
    fn time(&mut self, layout: Layout, text: &[u8]) -> Option<u64> {
        match layout {
            Layout::Commas { time_ns } => decimal(text, time_ns),
            Layout::OfFileslower => decimal(text, NS)?.checked_add(BEGINNING_NS),
            Layout::Words => {
                let seconds = line::time_of_day(text)?;
                // Lines of different processors come nearly in order, so a much earlier time is of the next day. Around
                // midnight, a line of the day before can follow.
                let is_late = self.days > 0 && self.seconds < NEARLY_S && seconds + NEARLY_S > DAY_S;
                if !is_late {
                    self.days += u64::from(seconds + DAY_S / 2 < self.seconds);
                    self.seconds = seconds;
                }
                let days = self.days - u64::from(is_late);
                days.checked_mul(DAY_NS)?.checked_add(seconds * NS + BEGINNING_NS)
            }
        }
    }

    /// Returns the row of the process of a call, unless its name is the known one.
    fn thread(&mut self, layout: Layout, shown: &Shown<'_>, at: Timestamp) -> Option<Thread> {
        let comm = &shown.comm[..shown.comm.len().min(NAME_BYTES_MAX)];
        let has_room = self.processes.len() < PROCESSES_MAX;
        match self.processes.get_mut(&shown.pid) {
            Some((known, false)) if known == comm => return None,
            Some((known, is_several)) => {
                *is_several = true;
                known.clear();
                known.extend_from_slice(comm);
            }
            None if has_room => {
                self.processes.insert(shown.pid, (comm.to_vec(), false));
            }
            None => {}
        }
        Some(Thread {
            tid: shown.pid,
            from: at,
            // fileslower prints the thread.
            pid: (layout != Layout::OfFileslower).then_some(shown.pid),
            comm: (!comm.is_empty()).then(|| String::from_utf8_lossy(comm).into_owned()),
            ..Thread::default()
        })
    }

    /// Returns the number of a file, with its row if it is new.
    fn file(&mut self, name: &[u8], from: Timestamp, batch: &mut Batch) -> Option<u32> {
        let name = &name[..name.len().min(NAME_BYTES_MAX)];
        if name.is_empty() {
            return None;
        }
        if let Some(known) = self.files.get(name) {
            return Some(*known);
        }
        if self.files.len() >= FILES_MAX {
            let place = InputPlace { file: &self.file, ..InputPlace::default() };
            self.complaints.add(Severity::Warning, "many-files", place, || {
                format!("The text names more than {FILES_MAX} files; calls on further files have no file.")
            });
            return None;
        }
        let file_id = self.files.len() as u32;
        self.files.insert(name.to_vec(), file_id);
        let path = Some(String::from_utf8_lossy(name).into_owned());
        batch.files.push(File { file_id, from, device: None, inode: None, path, content: Content::Unknown });
        Some(file_id)
    }

    /// Says which calls the text has.
    fn which(&self, layout: Layout) -> String {
        let what = self.traced.as_ref().map_or("calls", |traced| &traced.what);
        match (&self.traced, layout) {
            (Some(Traced { slower_than_ms: Some(ms), .. }), _) => format!("{what} slower than {ms} ms"),
            (Some(_), _) => what.to_owned(),
            (None, Layout::OfFileslower) => "sync read/writes slower than an unknown limit".to_owned(),
            (None, _) => format!("{what} slower than an unknown limit"),
        }
    }

    fn finish(&mut self, batch: &mut Batch) {
        let place = InputPlace { file: &self.file, ..InputPlace::default() };
        if self.rows == 0 {
            self.complaints.add(Severity::Error, "no-calls", place, || {
                "The text has no call after a header such as `TIME COMM PID T BYTES OFF_KB LAT(ms) FILENAME`."
                    .into()
            });
        }
        let latest = self.latest;
        batch.lost.extend(self.lost.drain(..).map(|gap| LostEvents { before: latest.max(gap.after), ..gap }));
        self.complaints.finish();
        self.ended = true;
    }
}

#[cfg(test)]
mod tests;
