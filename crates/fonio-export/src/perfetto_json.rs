//! Exports JSON trace events in Chrome's format, for <https://ui.perfetto.dev> and `chrome://tracing`.
//!
//! Each device is shown as a process. Slices on one track must be nested or disjoint, but requests in flight
//! can overlap in any way. So a device has as many tracks as its maximum number of requests in flight. `in
//! flight 1`, `in flight 2`, … show the time from first issue to completion; `queued 1`, … the time from
//! queue to first issue. A request goes on the first free track, so the number of tracks in use is close to
//! the queue depth. (Events with `ph` `b` and `e` would not show the depth: Perfetto gives each id its own
//! track and groups tracks by name.) The arguments of a slice describe the request.
//!
//! The file also contains marks, samples (as counters), and calls and waits (on the tracks of their threads).
//!
//! The file contains times in microseconds with three decimals. Perfetto reads times as doubles, which are
//! exact to the nanosecond up to about 100 days. For later times (wall clock), the export subtracts the start
//! of the trace, rounded down to a full hour; `otherData` contains the subtracted time.
//!
//! The format is documented in "Trace Event Format" by N. Duca and D. Sinclair; Perfetto's
//! `json_trace_parser.cc`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use fonio_core::meta::Device;
use fonio_core::{
    Call, DeviceId, Flags, Mark, Request, RowSink, Sample, Statement, Thread, Timestamp, Wait, ignore_rows,
};

use crate::lanes::Lanes;
use crate::names::Names;

/// The first process number for devices, above the largest Linux process number (2^22).
const DEVICE_PIDS: u32 = 10_000_000;

/// The process numbers for marks and for samples.
const MARKS_PID: u32 = 9_000_000;
const SAMPLES_PID: u32 = 9_000_001;

/// The first thread number for tracks of queued requests; tracks of requests in flight have lower numbers.
const QUEUED_TIDS: u32 = 100_000;

/// Maximum number of devices. Requests of further devices are left out.
const DEVICES_MAX: usize = 4096;
/// Maximum number of threads whose written name is kept. A name can be written again.
const THREADS_MAX: usize = 1 << 18;

/// Nanoseconds in an hour, and the time up to which microseconds in a double are exact to the nanosecond.
const HOUR: u64 = 3_600_000_000_000;
const EXACT_UNTIL: u64 = 1 << 53;

#[derive(Default)]
struct DeviceTracks {
    pid: u32,
    in_flight: Lanes,
    queued: Lanes,
    /// Whether the track for slices without an end exists.
    unended: bool,
}

/// Writes rows as Chrome's JSON trace events.
pub struct PerfettoJson<W> {
    to: W,
    began: Option<Timestamp>,
    /// The time that is subtracted from all times; known from the first row on.
    origin: Option<u64>,
    names: Names,
    device_names: BTreeMap<DeviceId, String>,
    devices: BTreeMap<DeviceId, DeviceTracks>,
    marks: Lanes,
    samples: bool,
    /// For each thread, the track name that was written.
    threads: BTreeMap<u32, Option<String>>,
    left_out: u64,
}

impl<W: Write> PerfettoJson<W> {
    /// Creates an export to `to`. The export shows the name of a device from `devices`, or the number of a
    /// device without a name.
    pub fn new(to: W, devices: &[Device]) -> PerfettoJson<W> {
        let device_names =
            devices.iter().filter_map(|device| Some((device.id, device.name.clone()?))).collect();
        PerfettoJson {
            to,
            began: None,
            origin: None,
            names: Names::default(),
            device_names,
            devices: BTreeMap::new(),
            marks: Lanes::default(),
            samples: false,
            threads: BTreeMap::new(),
            left_out: 0,
        }
    }

    /// Returns the number of requests, marks and names of threads that were left out, because there are too many
    /// at once.
    pub fn left_out(&self) -> u64 {
        self.left_out + self.names.left_out
    }

    /// Writes the end of the file and returns the output. Returns errors of writing to the output.
    pub fn finish(mut self) -> io::Result<W> {
        if self.origin.is_none() {
            self.header(Timestamp(0))?;
        }
        writeln!(self.to, "\n]}}")?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn header(&mut self, first: Timestamp) -> io::Result<u64> {
        let first = self.began.unwrap_or(first).0;
        let origin = if first < EXACT_UNTIL { 0 } else { first / HOUR * HOUR };
        self.origin = Some(origin);
        writeln!(
            self.to,
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"writer\":\"fonio\",\"origin_ns\":\"{origin}\"}},\"traceEvents\":["
        )?;
        // No comma precedes the first event; a comma precedes every other event.
        write!(
            self.to,
            "{{\"ph\":\"M\",\"pid\":{MARKS_PID},\"name\":\"process_name\",\"args\":{{\"name\":\"marks\"}}}}"
        )?;
        Ok(origin)
    }

    /// Returns the time `at` relative to the start of the trace, in the format of the file.
    fn micros(&mut self, at: Timestamp) -> io::Result<Micros> {
        let origin = match self.origin {
            Some(origin) => origin,
            None => self.header(at)?,
        };
        Ok(Micros(i128::from(at.0) - i128::from(origin)))
    }

    fn name_thread(&mut self, pid: u32, tid: u32, name: &str) -> io::Result<()> {
        write!(
            self.to,
            ",\n{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}}}",
            Json(name)
        )?;
        write!(
            self.to,
            ",\n{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{tid}}}}}"
        )
    }

    fn name_process(&mut self, pid: u32, name: &str) -> io::Result<()> {
        write!(
            self.to,
            ",\n{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_name\",\"args\":{{\"name\":{}}}}}",
            Json(name)
        )
    }

    /// Writes an event up to its arguments: a slice if the event has an end, else an instant event.
    fn begin(
        &mut self,
        pid: u32,
        tid: u32,
        name: &str,
        from: Timestamp,
        until: Option<Timestamp>,
    ) -> io::Result<()> {
        let at = self.micros(from)?;
        match until {
            Some(until) => {
                let dur = Micros(i128::from(until.0.saturating_sub(from.0)));
                write!(
                    self.to,
                    ",\n{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":{at},\"dur\":{dur},\"name\":{}",
                    Json(name)
                )
            }
            None => write!(
                self.to,
                ",\n{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{pid},\"tid\":{tid},\"ts\":{at},\"name\":{}",
                Json(name)
            ),
        }
    }

    /// Returns the process number of the device; the first call for a device writes the names of its tracks.
    /// Returns `None` if there are too many devices.
    fn device(&mut self, id: DeviceId) -> io::Result<Option<u32>> {
        if let Some(tracks) = self.devices.get(&id) {
            return Ok(Some(tracks.pid));
        }
        if self.devices.len() == DEVICES_MAX {
            return Ok(None);
        }
        let pid = DEVICE_PIDS + self.devices.len() as u32;
        self.devices.insert(id, DeviceTracks { pid, ..DeviceTracks::default() });
        let name = match self.device_names.get(&id) {
            Some(name) => format!("{name} ({id})"),
            None => id.to_string(),
        };
        self.name_process(pid, &name)?;
        Ok(Some(pid))
    }

    fn request_args(&mut self, row: &Request) -> io::Result<()> {
        let comm = row.tid.and_then(|tid| self.names.comm(tid, row.order_time()));
        let to = &mut self.to;
        write!(
            to,
            ",\"cat\":\"block\",\"args\":{{\"request_id\":{},\"bytes\":{}",
            row.request_id, row.bytes.0
        )?;
        if let Some(sector) = row.sector {
            write!(to, ",\"sector\":{}", sector.0)?;
        }
        write!(to, ",\"flags\":{}", Json(&flag_names(row.flags)))?;
        if let Some(comm) = comm {
            write!(to, ",\"process\":{}", Json(comm))?;
        }
        let numbers = [
            ("tid", row.tid.map(i64::from)),
            ("cpu", row.cpu.map(i64::from)),
            ("ioprio", row.ioprio.map(i64::from)),
            ("requeues", row.requeues.map(i64::from)),
            ("error", row.error.map(i64::from)),
            ("file_id", row.file_id.map(i64::from)),
            ("queue_ns", row.queue().map(|span| span.0 as i64)),
            ("service_ns", row.service().map(|span| span.0 as i64)),
        ];
        for (name, value) in numbers {
            if let Some(value) = value {
                write!(to, ",\"{name}\":{value}")?;
            }
        }
        to.write_all(b"}}")
    }

    /// Returns the process of a thread; also writes the name of the thread's track.
    fn thread_track(&mut self, tid: u32, at: Timestamp) -> io::Result<u32> {
        // Write the header first, because track names must follow it.
        self.micros(at)?;
        let (pid, comm) = match self.names.at(tid, at) {
            Some(row) => (row.pid.unwrap_or(tid), row.comm.as_deref().map(str::to_owned)),
            None => (tid, None),
        };
        if self.threads.get(&tid) != Some(&comm) {
            if let Some(comm) = &comm {
                write!(
                    self.to,
                    ",\n{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}}}",
                    Json(comm)
                )?;
            }
            if self.threads.len() == THREADS_MAX {
                self.threads.clear();
            }
            self.threads.insert(tid, comm);
        }
        Ok(pid)
    }
}

impl<W: Write> RowSink for PerfettoJson<W> {
    fn began(&mut self, at: Timestamp) -> io::Result<()> {
        self.began = Some(at);
        Ok(())
    }

    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        self.names.add(row);
        Ok(())
    }

    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.micros(row.queued.or(row.issued).unwrap_or(row.order_time()))?;
        let Some(pid) = self.device(row.device)? else {
            self.left_out += 1;
            return Ok(());
        };
        let flags = flag_names(row.flags);
        let name =
            if flags.is_empty() { row.op.name().to_owned() } else { format!("{} {flags}", row.op.name()) };
        // In damaged traces, completions can precede issues; such requests become empty slices.
        let spans = [
            (true, row.queued, row.issued.map(|issued| issued.max(row.queued.unwrap_or(issued)))),
            (
                false,
                row.issued,
                row.completed.map(|completed| completed.max(row.issued.unwrap_or(completed))),
            ),
        ];
        let mut drawn = false;
        for (queued, from, until) in spans {
            let (Some(from), Some(until)) = (from, until) else { continue };
            let tracks = self.devices.get_mut(&row.device).expect("a device is announced before its slices");
            let (lanes, first_tid, kind) = if queued {
                (&mut tracks.queued, QUEUED_TIDS, "queued")
            } else {
                (&mut tracks.in_flight, 1, "in flight")
            };
            let Some((lane, new)) = lanes.take(from.0, until.0) else {
                self.left_out += 1;
                return Ok(());
            };
            let tid = first_tid + lane;
            if new {
                self.name_thread(pid, tid, &format!("{kind} {}", lane + 1))?;
            }
            self.begin(pid, tid, &name, from, Some(until))?;
            self.request_args(row)?;
            drawn = true;
        }
        if !drawn || row.completed.is_none() {
            let tracks = self.devices.get_mut(&row.device).expect("a device is announced before its slices");
            if !std::mem::replace(&mut tracks.unended, true) {
                self.name_thread(pid, 0, "without a known end")?;
            }
            self.begin(pid, 0, &name, row.order_time(), None)?;
            self.request_args(row)?;
        }
        Ok(())
    }

    fn call(&mut self, row: &Call) -> io::Result<()> {
        let pid = self.thread_track(row.tid, row.entered)?;
        self.begin(pid, row.tid, &row.name, row.entered, row.exited.or(Some(row.entered)))?;
        write!(self.to, ",\"cat\":\"call\",\"args\":{{\"call_id\":{}", row.call_id)?;
        let numbers = [
            ("file_id", row.file_id.map(i128::from)),
            ("offset", row.offset.map(i128::from)),
            ("bytes", row.bytes.map(|bytes| i128::from(bytes.0))),
            ("result", row.result.map(i128::from)),
        ];
        for (name, value) in numbers {
            if let Some(value) = value {
                write!(self.to, ",\"{name}\":{value}")?;
            }
        }
        self.to.write_all(b"}}")
    }

    fn statement(&mut self, row: &Statement) -> io::Result<()> {
        let pid = self.thread_track(row.tid, row.entered)?;
        let name = row.text.as_deref().unwrap_or("SQL statement");
        self.begin(pid, row.tid, name, row.entered, row.exited.or(Some(row.entered)))?;
        let (steps, stepping_ms) = (row.steps, row.stepping.0 as f64 / 1e6);
        write!(self.to, ",\"cat\":\"sql\",\"args\":{{\"steps\":{steps},\"stepping_ms\":{stepping_ms}")?;
        if let Some(connection) = row.connection {
            write!(self.to, ",\"connection\":{connection}")?;
        }
        self.to.write_all(b"}}")
    }

    fn wait(&mut self, row: &Wait) -> io::Result<()> {
        let pid = self.thread_track(row.tid, row.began)?;
        self.begin(
            pid,
            row.tid,
            &format!("blocked: {}", row.reason.name()),
            row.began,
            row.ended.or(Some(row.began)),
        )?;
        write!(self.to, ",\"cat\":\"wait\",\"args\":{{")?;
        let numbers = [("request_id", row.request_id), ("waker_tid", row.waker_tid.map(u64::from))];
        for (at, (name, value)) in
            numbers.into_iter().filter_map(|(name, value)| Some((name, value?))).enumerate()
        {
            write!(self.to, "{}\"{name}\":{value}", if at > 0 { "," } else { "" })?;
        }
        self.to.write_all(b"}}")
    }

    fn mark(&mut self, row: &Mark) -> io::Result<()> {
        self.micros(row.at)?;
        let until = row.until.map(|until| until.max(row.at));
        let Some((lane, new)) = self.marks.take(row.at.0, until.unwrap_or(row.at).0) else {
            self.left_out += 1;
            return Ok(());
        };
        if new {
            self.name_thread(MARKS_PID, lane + 1, &format!("marks {}", lane + 1))?;
        }
        self.begin(MARKS_PID, lane + 1, &row.name, row.at, until)?;
        write!(self.to, ",\"cat\":\"mark\"")?;
        if let Some(tid) = row.tid {
            write!(self.to, ",\"args\":{{\"tid\":{tid}}}")?;
        }
        self.to.write_all(b"}")
    }

    fn sample(&mut self, row: &Sample) -> io::Result<()> {
        let at = self.micros(row.time)?;
        if !std::mem::replace(&mut self.samples, true) {
            self.name_process(SAMPLES_PID, "samples")?;
        }
        let name = match &row.subject {
            Some(subject) => format!("{} {subject}", row.metric.name()),
            None => row.metric.name().to_owned(),
        };
        write!(
            self.to,
            ",\n{{\"ph\":\"C\",\"pid\":{SAMPLES_PID},\"ts\":{at},\"name\":{},\"args\":{{\"value\":{}}}}}",
            Json(&name),
            row.value
        )
    }

    // A count of waits has no time, so no event is written for it.
    ignore_rows!(bio, link, blocked_count, file, diagnostic, settled);

    fn wants_bios(&self) -> bool {
        false
    }
}

pub(crate) fn flag_names(flags: Flags) -> String {
    let set = Flags::NAMES.iter().filter(|(flag, _)| flags.contains(*flag));
    set.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

struct Micros(i128);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}.{:03}", size / 1000, size % 1000)
    }
}

struct Json<'a>(&'a str);

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                control if control < ' ' => write!(f, "\\u{:04x}", control as u32)?,
                other => f.write_char(other)?,
            }
        }
        f.write_char('"')
    }
}
