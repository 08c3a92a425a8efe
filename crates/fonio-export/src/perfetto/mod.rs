//! Exports Perfetto's protocol buffers, for <https://ui.perfetto.dev> and its `trace_processor`.
//!
//! ```text
//! mmcblk0 (179:0)              a track for each device
//!   in flight 1, 2, …          from first issue to completion; as many lanes as requests were in flight at once
//!   queued 1, 2, …             from queueing to first issue
//!   requests in flight         a counter
//!   requests/s, …              counters of completed requests and bytes
//! fio 77                       a process
//!   fio 78                     a thread
//!     waits                    the waits of this thread
//!     calls, statements
//! ```
//!
//! A flow leads from a request to the wait that it ended. trace_processor draws a flow from the earlier slice to the later,
//! so both slices name the flow in `flow_ids`. Slices of one track must nest, so requests, waits and calls that overlap get
//! lanes of their own.
//!
//! All packets belong to one sequence. The first gives the clocks, and the second says which one the times have. The
//! numbers of fields are those of `protos/perfetto/trace/` (google/perfetto, Apache-2.0, copyright The Android Open Source
//! Project).

mod message;
mod rates;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::io::{self, Write};

use fonio_core::meta::{Clock, Device};
use fonio_core::{
    BlockedIn, Call, DeviceId, Mark, Metric, Request, RowSink, Sample, Statement, Thread, Timestamp, Wait,
    WaitReason, ignore_rows,
};

use crate::lanes::Lanes;
use crate::names::Names;
use crate::perfetto_json::flag_names;
use message::Message;
use rates::Rates;

/// The number of the only packet sequence.
const SEQUENCE: u64 = 1;

/// Flags of a packet: it begins the sequence, or it uses names of earlier packets.
const CLEARED: u64 = 1;
const NEEDS_NAMES: u64 = 2;

/// Clocks, from `builtin_clock.proto`.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
const BOOTTIME: u64 = 6;

/// Types of events, from `track_event.proto`.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// Fields of the list of names: those of categories, of events and of details.
const CATEGORIES: u32 = 1;
const EVENTS: u32 = 2;
const DETAILS: u32 = 3;

/// The order of a device's tracks is explicit.
const EXPLICIT: u64 = 3;
/// Places of a device's tracks: lanes of requests come before lanes of queued requests, and counters come first.
const FIRST_IN_FLIGHT: u64 = 16;
const FIRST_QUEUED: u64 = 100_000;

/// Maximum numbers of devices, threads, counters of samples, names, and waits with a flow. Rows beyond them are left out or
/// written without a name of the list or a flow.
const DEVICES_MAX: usize = 4096;
const THREADS_MAX: usize = 1 << 16;
const COUNTERS_MAX: usize = 4096;
const NAMES_MAX: usize = 1 << 16;
const NAME_BYTES_MAX: usize = 256;
const FLOWS_MAX: usize = 1 << 20;
/// Maximum number of requests in flight that are counted.
const DEPTH_MAX: usize = 1 << 20;

/// A detail of a slice.
#[derive(Clone, Copy)]
enum Detail<'a> {
    Number(i64),
    Text(&'a str),
}

/// Lanes of one kind, and their tracks.
#[derive(Default)]
struct LaneTracks {
    lanes: Lanes,
    tracks: Vec<u64>,
}

struct DeviceTracks {
    track: u64,
    in_flight: LaneTracks,
    queued: LaneTracks,
    unended: Option<u64>,
    depth_track: Option<u64>,
    /// The completions of the requests in flight.
    ends: BinaryHeap<Reverse<u64>>,
}

struct ThreadTracks {
    track: u64,
    waits: LaneTracks,
    calls: LaneTracks,
    statements: LaneTracks,
}

/// A counter of samples.
struct SampleCounter {
    track: u64,
    /// The previous reading of a counter whose differences are exported.
    before: Option<(Timestamp, i64)>,
}

/// Writes rows as a trace of Perfetto.
pub struct Perfetto<W> {
    to: W,
    clock: Clock,
    began: Option<Timestamp>,
    is_begun: bool,
    names: Names,
    device_names: BTreeMap<DeviceId, String>,
    next_track: u64,
    devices: BTreeMap<DeviceId, DeviceTracks>,
    rates: Rates,
    processes: BTreeMap<u32, u64>,
    threads: BTreeMap<(u32, u32), ThreadTracks>,
    marks: LaneTracks,
    samples: BTreeMap<(&'static str, Option<String>), SampleCounter>,
    /// The numbers of names, by list and name, and the new names of the next packet.
    numbers: BTreeMap<(u32, String), u64>,
    fresh: Option<Message>,
    /// The requests that ended waits.
    waited: BTreeSet<u64>,
    left_out: u64,
}

impl<W: Write> Perfetto<W> {
    /// Creates an export to `to`. The export shows the name of a device from `devices`, or the number of a device without a
    /// name. `clock` is the clock of the rows, if it is known.
    pub fn new(to: W, devices: &[Device], clock: Clock) -> Perfetto<W> {
        let device_names =
            devices.iter().filter_map(|device| Some((device.id, device.name.clone()?))).collect();
        Perfetto {
            to,
            clock,
            began: None,
            is_begun: false,
            names: Names::default(),
            device_names,
            next_track: 1,
            devices: BTreeMap::new(),
            rates: Rates::default(),
            processes: BTreeMap::new(),
            threads: BTreeMap::new(),
            marks: LaneTracks::default(),
            samples: BTreeMap::new(),
            numbers: BTreeMap::new(),
            fresh: None,
            waited: BTreeSet::new(),
            left_out: 0,
        }
    }

    /// Returns the number of requests, waits, marks and names of threads that were left out, because there are too many
    /// at once.
    pub fn left_out(&self) -> u64 {
        self.left_out + self.names.left_out
    }

    /// Writes the remaining counters and returns the output. Returns errors of writing to the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.begin(Timestamp(0))?;
        let ids: Vec<DeviceId> = self.devices.keys().copied().collect();
        for id in ids {
            self.complete_until(id, u64::MAX)?;
        }
        let rates = std::mem::take(&mut self.rates);
        let width_s = rates.width_s();
        let mut tracks = BTreeMap::new();
        for (device, at, sum) in rates.steps() {
            let counters = [
                ("requests/s", "requests/s", sum.requests),
                ("bytes read/s", "B/s", sum.read_bytes),
                ("bytes written/s", "B/s", sum.write_bytes),
            ];
            for (place, (name, unit, value)) in counters.into_iter().enumerate() {
                let track = match tracks.get(&(device, place)) {
                    Some(track) => *track,
                    None => {
                        let parent = self.devices[&device].track;
                        let track = self.counter_track(name, unit, Some((parent, 2 + place as u64)))?;
                        tracks.insert((device, place), track);
                        track
                    }
                };
                self.counted(track, at, Message::new().double(44, value as f64 / width_s))?;
            }
        }
        self.to.flush()?;
        Ok(self.to)
    }

    /// Writes the clocks before the first packet.
    fn begin(&mut self, at: Timestamp) -> io::Result<()> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        let at = self.began.unwrap_or(at).0;
        let clock = |id: u64, time: u64| Message::new().number(1, id).number(2, time);
        let mut snapshot = Message::new().message(1, &clock(BOOTTIME, at)).message(1, &clock(MONOTONIC, at));
        let unix = self.clock.unix_ns_at_zero.and_then(|zero| at.checked_add_signed(zero));
        if let Some(unix) = unix {
            snapshot = snapshot.message(1, &clock(REALTIME, unix));
        }
        let snapshot = snapshot.number(2, BOOTTIME);
        Message::new().message(6, &snapshot).number(10, SEQUENCE).write_as_packet(&mut self.to)?;
        let of_times = if self.clock.name == "boot" { BOOTTIME } else { MONOTONIC };
        let defaults = Message::new().number(58, of_times);
        let first = Message::new().number(10, SEQUENCE).number(13, CLEARED).message(59, &defaults);
        first.write_as_packet(&mut self.to)
    }

    /// Writes a track with these properties, and returns its number.
    fn track(&mut self, properties: &Message, parent: Option<(u64, u64)>) -> io::Result<u64> {
        let track = self.next_track;
        self.next_track += 1;
        let mut descriptor = properties.clone().number(1, track);
        if let Some((parent, rank)) = parent {
            descriptor = descriptor.number(5, parent).number(12, rank);
        }
        let packet = Message::new().number(10, SEQUENCE).message(60, &descriptor);
        packet.write_as_packet(&mut self.to)?;
        Ok(track)
    }

    fn counter_track(&mut self, name: &str, unit: &str, parent: Option<(u64, u64)>) -> io::Result<u64> {
        let counter = Message::new().text(6, unit);
        self.track(&Message::new().text(2, name).message(8, &counter), parent)
    }

    /// Returns the number of a name in a list; `None` if the list is full, or the name is long.
    fn number(&mut self, list: u32, name: &str) -> Option<u64> {
        if let Some(number) = self.numbers.get(&(list, name.to_owned())) {
            return Some(*number);
        }
        if self.numbers.len() >= NAMES_MAX || name.len() > NAME_BYTES_MAX {
            return None;
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert((list, name.to_owned()), number);
        let entry = Message::new().number(1, number).text(2, name);
        self.fresh = Some(self.fresh.take().unwrap_or_default().message(list, &entry));
        Some(number)
    }

    /// Writes an event of a track, with the new names.
    fn event(&mut self, at: Timestamp, event: &Message) -> io::Result<()> {
        let mut packet =
            Message::new().number(8, at.0).number(10, SEQUENCE).number(13, NEEDS_NAMES).message(11, event);
        if let Some(names) = self.fresh.take() {
            packet = packet.message(12, &names);
        }
        packet.write_as_packet(&mut self.to)
    }

    /// Writes the value of a counter.
    fn counted(&mut self, track: u64, at: Timestamp, value: Message) -> io::Result<()> {
        self.event(at, &value.number(9, COUNTER).number(11, track))
    }

    /// Writes a slice, or an instant if it has no end.
    fn slice(
        &mut self,
        track: u64,
        (category, name): (&str, &str),
        (from, until): (Timestamp, Option<Timestamp>),
        flow: Option<u64>,
        details: &[(&str, Option<Detail<'_>>)],
    ) -> io::Result<()> {
        let kind = if until.is_some() { BEGIN } else { INSTANT };
        let mut event = Message::new().number(9, kind).number(11, track);
        event = match self.number(CATEGORIES, category) {
            Some(number) => event.number(3, number),
            None => event.text(22, category),
        };
        event = match self.number(EVENTS, name) {
            Some(number) => event.number(10, number),
            None => event.text(23, name),
        };
        if let Some(flow) = flow {
            event = event.fixed(47, flow);
        }
        for (name, value) in details {
            let Some(value) = value else { continue };
            let mut detail = match self.number(DETAILS, name) {
                Some(number) => Message::new().number(1, number),
                None => Message::new().text(10, name),
            };
            detail = match value {
                Detail::Number(value) => detail.signed(4, *value),
                Detail::Text(text) => detail.text(6, text),
            };
            event = event.message(4, &detail);
        }
        self.event(from, &event)?;
        match until {
            // In damaged traces, an end can precede its begin.
            Some(until) => self.event(until.max(from), &Message::new().number(9, END).number(11, track)),
            None => Ok(()),
        }
    }

    /// Announces the device; returns whether there is room for it.
    fn device(&mut self, id: DeviceId) -> io::Result<bool> {
        if self.devices.contains_key(&id) {
            return Ok(true);
        }
        if self.devices.len() == DEVICES_MAX {
            return Ok(false);
        }
        let name = match self.device_names.get(&id) {
            Some(name) => format!("{name} ({id})"),
            None => id.to_string(),
        };
        let track = self.track(&Message::new().text(2, &name).number(11, EXPLICIT), None)?;
        let tracks = DeviceTracks {
            track,
            in_flight: LaneTracks::default(),
            queued: LaneTracks::default(),
            unended: None,
            depth_track: None,
            ends: BinaryHeap::new(),
        };
        self.devices.insert(id, tracks);
        Ok(true)
    }

    /// Returns the track of a free lane, and the lanes; the track is `None` if there are too many lanes. The tracks have
    /// the parent, and places in it from `first` on.
    fn lane(
        &mut self,
        mut of: LaneTracks,
        (kind, parent, first): (&str, Option<u64>, u64),
        (from, until): (Timestamp, Timestamp),
    ) -> io::Result<(LaneTracks, Option<u64>)> {
        let Some((lane, is_new)) = of.lanes.take(from.0, until.0) else {
            self.left_out += 1;
            return Ok((of, None));
        };
        if is_new {
            // A thread seldom needs a second lane.
            let name = match (lane, first) {
                (0, 0) => kind.to_owned(),
                _ => format!("{kind} {}", lane + 1),
            };
            let parent = parent.map(|parent| (parent, first + u64::from(lane)));
            let track = self.track(&Message::new().text(2, &name), parent)?;
            of.tracks.push(track);
        }
        let track = of.tracks[lane as usize];
        Ok((of, Some(track)))
    }

    /// Counts the completions of a device until the time `until`.
    fn complete_until(&mut self, id: DeviceId, until: u64) -> io::Result<()> {
        loop {
            let Some(tracks) = self.devices.get_mut(&id) else { return Ok(()) };
            let Some(&Reverse(end)) = tracks.ends.peek().filter(|end| end.0 <= until) else {
                return Ok(());
            };
            // Several completions at once are one value.
            while tracks.ends.peek().is_some_and(|next| next.0 == end) {
                tracks.ends.pop();
            }
            let (depth, track) = (tracks.ends.len() as i64, tracks.depth_track);
            if let Some(track) = track {
                self.counted(track, Timestamp(end), Message::new().signed(30, depth))?;
            }
        }
    }

    /// Counts a request in flight. Requests come in the order of their issues.
    fn issued(&mut self, id: DeviceId, issued: Timestamp, completed: Timestamp) -> io::Result<()> {
        self.complete_until(id, issued.0)?;
        let tracks = &self.devices[&id];
        let (parent, known) = (tracks.track, tracks.depth_track);
        let track = match known {
            Some(track) => track,
            None => self.counter_track("requests in flight", "requests", Some((parent, 1)))?,
        };
        let tracks = self.devices.get_mut(&id).expect("a device is announced before its requests");
        tracks.depth_track = Some(track);
        if tracks.ends.len() >= DEPTH_MAX {
            self.left_out += 1;
            return Ok(());
        }
        tracks.ends.push(Reverse(completed.0));
        let depth = tracks.ends.len() as i64;
        self.counted(track, issued, Message::new().signed(30, depth))
    }

    /// Announces the process and the thread; returns the process, or `None` if there are too many threads.
    fn thread_tracks(&mut self, tid: u32, at: Timestamp) -> io::Result<Option<u32>> {
        self.begin(at)?;
        let (pid, comm) = match self.names.at(tid, at) {
            Some(row) => (row.pid.unwrap_or(tid), row.comm.as_deref().map(str::to_owned)),
            None => (tid, None),
        };
        if self.threads.contains_key(&(pid, tid)) {
            return Ok(Some(pid));
        }
        if self.threads.len() == THREADS_MAX {
            self.left_out += 1;
            return Ok(None);
        }
        let process = match self.processes.get(&pid) {
            Some(track) => *track,
            None => {
                let mut process = Message::new().number(1, u64::from(pid));
                let name = self.names.comm(pid, at).map(str::to_owned);
                if let Some(name) = name.or_else(|| comm.clone()) {
                    process = process.text(6, &name);
                }
                let track = self.track(&Message::new().message(3, &process), None)?;
                self.processes.insert(pid, track);
                track
            }
        };
        let mut thread = Message::new().number(1, u64::from(pid)).number(2, u64::from(tid));
        if let Some(comm) = &comm {
            thread = thread.text(5, comm);
        }
        // A thread is found by its ids; the parent is for readers that only follow tracks.
        let descriptor = Message::new().message(4, &thread).number(5, process);
        let track = self.track(&descriptor, None)?;
        let tracks = ThreadTracks {
            track,
            waits: LaneTracks::default(),
            calls: LaneTracks::default(),
            statements: LaneTracks::default(),
        };
        self.threads.insert((pid, tid), tracks);
        Ok(Some(pid))
    }

    /// Returns the track for an interval of a thread; `None` if there are too many threads or lanes.
    fn of_thread(
        &mut self,
        tid: u32,
        kind: &'static str,
        of: fn(&mut ThreadTracks) -> &mut LaneTracks,
        span: (Timestamp, Timestamp),
    ) -> io::Result<Option<u64>> {
        let Some(pid) = self.thread_tracks(tid, span.0)? else { return Ok(None) };
        let Some(tracks) = self.threads.get_mut(&(pid, tid)) else { return Ok(None) };
        let (parent, lanes) = (tracks.track, std::mem::take(of(tracks)));
        let (lanes, track) = self.lane(lanes, (kind, Some(parent), 0), span)?;
        if let Some(tracks) = self.threads.get_mut(&(pid, tid)) {
            *of(tracks) = lanes;
        }
        Ok(track)
    }

    /// Returns the track for a request of a device; `None` if there are too many lanes.
    fn of_device(
        &mut self,
        id: DeviceId,
        is_queued: bool,
        span: (Timestamp, Timestamp),
    ) -> io::Result<Option<u64>> {
        let of = |tracks: &mut DeviceTracks| -> LaneTracks {
            std::mem::take(if is_queued { &mut tracks.queued } else { &mut tracks.in_flight })
        };
        let Some((parent, lanes)) = self.devices.get_mut(&id).map(|tracks| (tracks.track, of(tracks))) else {
            return Ok(None);
        };
        let (kind, first) = if is_queued { ("queued", FIRST_QUEUED) } else { ("in flight", FIRST_IN_FLIGHT) };
        let (lanes, track) = self.lane(lanes, (kind, Some(parent), first), span)?;
        if let Some(tracks) = self.devices.get_mut(&id) {
            *(if is_queued { &mut tracks.queued } else { &mut tracks.in_flight }) = lanes;
        }
        Ok(track)
    }

    /// Returns the track of requests without a known end.
    fn unended(&mut self, id: DeviceId) -> io::Result<u64> {
        let tracks = &self.devices[&id];
        if let Some(track) = tracks.unended {
            return Ok(track);
        }
        let parent = (tracks.track, 2 * FIRST_QUEUED);
        let track = self.track(&Message::new().text(2, "without a known end"), Some(parent))?;
        self.devices.get_mut(&id).expect("a device is announced before its requests").unended = Some(track);
        Ok(track)
    }
}

/// Returns whether only differences of the metric's values are meaningful.
fn is_total(metric: Metric) -> bool {
    use Metric::{
        CpuActiveTicks, CpuIdleTicks, CpuIowaitTicks, CpuStealTicks, DiskBusyMs, DiskReadBytes,
        DiskWriteBytes, FileReactivatedPages, FileRefaultPages, MajorFaults, NetReceiveBytes,
        NetTransmitBytes, PressureFullUs, PressureSomeUs, ProcessorActiveTicks, SwapInPages, SwapOutPages,
    };
    matches!(
        metric,
        CpuActiveTicks
            | CpuIdleTicks
            | CpuIowaitTicks
            | CpuStealTicks
            | SwapInPages
            | SwapOutPages
            | MajorFaults
            | DiskBusyMs
            | DiskReadBytes
            | DiskWriteBytes
            | NetReceiveBytes
            | NetTransmitBytes
            | PressureSomeUs
            | PressureFullUs
            | ProcessorActiveTicks
            | FileRefaultPages
            | FileReactivatedPages
    )
}

/// Names a wait by its operation or, if that is unknown, by its reason.
fn wait_name(row: &Wait) -> String {
    match (row.blocked_in, row.reason) {
        (None, WaitReason::Cpu) => "ready, no processor".to_owned(),
        (None | Some(BlockedIn::Unknown), reason) => format!("blocked: {}", reason.name()),
        (Some(operation), _) => format!("blocked: {}", operation.name()),
    }
}

/// Returns the number of a flow; 0 means none.
fn flow_number(request_id: u64) -> u64 {
    request_id.wrapping_add(1)
}

impl<W: Write> RowSink for Perfetto<W> {
    fn began(&mut self, at: Timestamp) -> io::Result<()> {
        self.began = Some(at);
        Ok(())
    }

    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        self.names.add(row);
        Ok(())
    }

    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.begin(row.queued.unwrap_or(row.order_time()))?;
        if !self.device(row.device)? {
            self.left_out += 1;
            return Ok(());
        }
        self.rates.add(row);
        let flags = flag_names(row.flags);
        let name =
            if flags.is_empty() { row.op.name().to_owned() } else { format!("{} {flags}", row.op.name()) };
        let comm = row.tid.and_then(|tid| self.names.comm(tid, row.order_time())).map(str::to_owned);
        let number = |value: u64| Detail::Number(i64::try_from(value).unwrap_or(i64::MAX));
        let details = [
            ("request_id", Some(number(row.request_id))),
            ("bytes", Some(number(row.bytes.0))),
            ("sector", row.sector.map(|sector| number(sector.0))),
            ("process", comm.as_deref().map(Detail::Text)),
            ("tid", row.tid.map(|tid| number(u64::from(tid)))),
            ("cpu", row.cpu.map(|cpu| number(u64::from(cpu)))),
            ("ioprio", row.ioprio.map(|ioprio| number(u64::from(ioprio)))),
            ("requeues", row.requeues.map(|requeues| number(u64::from(requeues)))),
            ("error", row.error.map(|error| Detail::Number(i64::from(error)))),
            ("file_id", row.file_id.map(|file| number(u64::from(file)))),
            ("queue_ns", row.queue().map(|time| number(time.0))),
            ("service_ns", row.service().map(|time| number(time.0))),
        ];
        // In damaged traces, completions can precede issues; such requests become empty slices.
        let spans = [
            (true, row.queued, row.issued.map(|issued| issued.max(row.queued.unwrap_or(issued)))),
            (
                false,
                row.issued,
                row.completed.map(|completed| completed.max(row.issued.unwrap_or(completed))),
            ),
        ];
        let flow = self.waited.contains(&row.request_id).then(|| flow_number(row.request_id));
        let mut drawn = false;
        for (is_queued, from, until) in spans {
            let (Some(from), Some(until)) = (from, until) else { continue };
            let Some(track) = self.of_device(row.device, is_queued, (from, until))? else { return Ok(()) };
            if !is_queued {
                self.issued(row.device, from, until)?;
            }
            // The flow leads from the request in flight.
            let flow = flow.filter(|_| !is_queued);
            self.slice(track, ("block", &name), (from, Some(until)), flow, &details)?;
            drawn = true;
        }
        if !drawn || row.completed.is_none() {
            let track = self.unended(row.device)?;
            self.slice(track, ("block", &name), (row.order_time(), None), None, &details)?;
        }
        Ok(())
    }

    fn call(&mut self, row: &Call) -> io::Result<()> {
        let span = (row.entered, row.exited.unwrap_or(row.entered));
        let Some(track) = self.of_thread(row.tid, "calls", |tracks| &mut tracks.calls, span)? else {
            return Ok(());
        };
        let number = |value: u64| Detail::Number(i64::try_from(value).unwrap_or(i64::MAX));
        let details = [
            ("call_id", Some(number(row.call_id))),
            ("file_id", row.file_id.map(|file| number(u64::from(file)))),
            ("offset", row.offset.map(number)),
            ("bytes", row.bytes.map(|bytes| number(bytes.0))),
            ("result", row.result.map(Detail::Number)),
        ];
        self.slice(track, ("call", &row.name), (row.entered, row.exited), None, &details)
    }

    fn statement(&mut self, row: &Statement) -> io::Result<()> {
        let span = (row.entered, row.exited.unwrap_or(row.entered));
        let Some(track) = self.of_thread(row.tid, "statements", |tracks| &mut tracks.statements, span)?
        else {
            return Ok(());
        };
        let number = |value: u64| Detail::Number(i64::try_from(value).unwrap_or(i64::MAX));
        let details = [
            ("steps", Some(number(row.steps))),
            ("stepping_ns", Some(number(row.stepping.0))),
            ("connection", row.connection.map(|connection| number(u64::from(connection)))),
        ];
        let name = row.text.as_deref().unwrap_or("SQL statement");
        self.slice(track, ("sql", name), (row.entered, row.exited), None, &details)
    }

    fn wait(&mut self, row: &Wait) -> io::Result<()> {
        let span = (row.began, row.ended.unwrap_or(row.began));
        let Some(track) = self.of_thread(row.tid, "waits", |tracks| &mut tracks.waits, span)? else {
            return Ok(());
        };
        let flow = row.request_id.filter(|request| {
            let has_room = self.waited.len() < FLOWS_MAX;
            if has_room {
                self.waited.insert(*request);
            }
            has_room || self.waited.contains(request)
        });
        let waker = row.waker_tid.and_then(|tid| self.names.comm(tid, span.1)).map(str::to_owned);
        let number = |value: u64| Detail::Number(i64::try_from(value).unwrap_or(i64::MAX));
        let details = [
            ("reason", Some(Detail::Text(row.reason.name()))),
            ("request_id", row.request_id.map(number)),
            ("waker_tid", row.waker_tid.map(|tid| number(u64::from(tid)))),
            ("waker", waker.as_deref().map(Detail::Text)),
            ("file_id", row.file_id.map(|file| number(u64::from(file)))),
            ("counted_as_io", row.io_wait.map(|account| Detail::Text(account.name()))),
            ("function", row.function.as_deref().map(Detail::Text)),
        ];
        let name = wait_name(row);
        self.slice(track, ("wait", &name), (row.began, row.ended), flow.map(flow_number), &details)
    }

    fn mark(&mut self, row: &Mark) -> io::Result<()> {
        self.begin(row.at)?;
        let until = row.until.map(|until| until.max(row.at));
        let lanes = std::mem::take(&mut self.marks);
        let (lanes, track) = self.lane(lanes, ("marks", None, 0), (row.at, until.unwrap_or(row.at)))?;
        self.marks = lanes;
        let Some(track) = track else { return Ok(()) };
        let details = [("tid", row.tid.map(|tid| Detail::Number(i64::from(tid))))];
        self.slice(track, ("mark", &row.name), (row.at, until), None, &details)
    }

    fn sample(&mut self, row: &Sample) -> io::Result<()> {
        self.begin(row.time)?;
        let is_total = is_total(row.metric);
        let key = (row.metric.name(), row.subject.clone());
        if !self.samples.contains_key(&key) {
            if self.samples.len() == COUNTERS_MAX {
                self.left_out += 1;
                return Ok(());
            }
            let name = match &row.subject {
                Some(subject) => format!("{} {subject}", row.metric.name()),
                None => row.metric.name().to_owned(),
            };
            let (name, unit) = if is_total { (format!("{name}/s"), "per second") } else { (name, "") };
            let track = self.counter_track(&name, unit, None)?;
            self.samples.insert(key.clone(), SampleCounter { track, before: None });
        }
        let Some(counter) = self.samples.get_mut(&key) else { return Ok(()) };
        let track = counter.track;
        if !is_total {
            return self.counted(track, row.time, Message::new().signed(30, row.value));
        }
        // The rate is that of the interval before the reading, so it stands at its begin.
        let Some((at, before)) = counter.before.replace((row.time, row.value)) else { return Ok(()) };
        let Some(time) = row.time.since(at).filter(|time| time.0 > 0) else { return Ok(()) };
        let rate = row.value.saturating_sub(before) as f64 / time.as_secs_f64();
        self.counted(track, at, Message::new().double(44, rate))
    }

    // A count of waits has no time, so no event is written for it.
    ignore_rows!(bio, link, blocked_count, file, diagnostic, settled);

    fn wants_bios(&self) -> bool {
        false
    }
}
