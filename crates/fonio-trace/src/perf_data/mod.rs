//! Reads perf.data, the file of `perf record`, with the tracepoints of the block layer, of the scheduler, and of sync calls.
//!
//! `header.rs` describes the parts of a file, `records.rs` the records, and `sample.rs` the fields of a record. perf writes
//! the records of each processor after each other, so `rounds.rs` sorts them. A sample of a tracepoint contains the record that
//! ftrace would write, so `fonio-tracefs` decodes it.
//!
//! perf leaves out an event that happens while perf itself handles an event of the same kind (its recursion guard), and does
//! not count it. So a completion can be missing in a file without reported losses.

pub mod encode;
mod header;
mod records;
mod rounds;
mod sample;

use std::io::{self, Read};

use fonio_core::meta::{Clock, Source};
use fonio_core::threads::{NameOrigin, SeenThreads};
use fonio_core::{Batch, BlockEvent, EventKind, LostEvents, Severity, Timestamp, TraceReader};
use fonio_tracefs::ring_buffer::{BlockDecoder, Left, Record, SchedDecoder, SchedEvent};
use rustc_hash::FxHashMap;

use self::header::{Data, Description, KIND, RECORD_BLOCKS};
use self::records::{
    COMM, FINISHED_ROUND, Found, HEADER_ATTR, HEADER_FEATURE, ID_INDEX, LOST, LOST_SAMPLES, Records, SAMPLE,
    TRACING_DATA,
};
use self::rounds::Rounds;
use self::sample::{Attributes, Numbers, Sample};
use crate::comm::Comm;
use crate::complaints::{Complaints, InputPlace};
use crate::input::Input;
use crate::random_access::RandomAccess;
pub use crate::refusal::Refusal;
use crate::scheduling::{Sleeps, Switch, WakeUp};
use crate::syncs::{SyncEvent, SyncFormats, Syncs};

/// Number of events, and of records, after which a batch ends.
const BATCH_EVENTS: usize = 4096;
const BATCH_RECORDS: usize = 32 * 1024;

/// Maximum numbers of threads and processors that are remembered.
const NAMES_MAX: usize = 64 << 10;
const CPUS_MAX: usize = 8192;

/// A flag of the record of lost samples: a filter of the user dropped them.
const LOST_BY_FILTER: u16 = 1 << 15;

/// Returns whether `head` is the start of a perf.data.
pub fn recognise(head: &[u8]) -> bool {
    head.starts_with(header::MAGIC_LITTLE) || head.starts_with(header::MAGIC_BIG)
}

/// Reads a perf.data.
pub struct PerfDataReader {
    records: Records,
    state: State,
    ended: bool,
    finished: bool,
}

/// An event, and where it happened.
#[derive(Debug)]
struct Event {
    time: u64,
    cpu: Option<u32>,
    tid: Option<u32>,
    pid: Option<u32>,
    item: Item,
}

#[derive(Debug)]
enum Item {
    Block {
        event: BlockEvent,
        comm: Comm,
    },
    Switch {
        from: u32,
        comm: Comm,
        left: Left,
        to: u32,
    },
    Waking {
        tid: u32,
        current: u32,
        /// Unknown if the event can happen on another processor than the waker's.
        is_interrupt: Option<bool>,
    },
    Created {
        tid: u32,
        by: u32,
    },
    BlockedReason {
        tid: u32,
        is_io: bool,
    },
    Sync(SyncEvent),
    /// The thread has this name from now on.
    Named {
        comm: Comm,
    },
    /// Events of the processor were lost after this time.
    Gap {
        after: u64,
        count: u64,
    },
}

/// Decodes the raw data of tracepoints.
struct Decoders {
    block: Option<BlockDecoder>,
    sched: Option<SchedDecoder>,
    syncs: SyncFormats,
}

/// All state except the stream.
struct State {
    file: String,
    record: u64,
    offset: u64,
    description: Description,
    decoders: Option<Decoders>,
    rounds: Rounds<Event>,
    /// The latest time of each processor in the order of the file.
    latest: FxHashMap<Option<u32>, u64>,
    first: Option<u64>,
    last: u64,
    /// The process and the name of each thread.
    names: FxHashMap<u32, (u32, Comm)>,
    threads: SeenThreads,
    sleeps: Sleeps,
    syncs: Syncs,
    has_blocks: bool,
    /// Number of lost events in records with a place, and in the counts that perf reads at the end. The latter include the
    /// former.
    lost_in_place: u64,
    lost_in_total: u64,
    complaints: Complaints,
}

impl PerfDataReader {
    /// Opens a file and reads its description. Fails if the file cannot be read or has no tracepoints.
    pub fn open(mut input: Input) -> Result<PerfDataReader, Refusal> {
        let name = input.name.clone();
        let mut head = Vec::new();
        (&mut input.bytes).take(16).read_to_end(&mut head)?;
        let (order, is_pipe) = header::beginning(&head)
            .ok_or_else(|| Refusal::is("it is not a perf.data".into(), "Choose another format"))?;
        input.bytes = Box::new(io::Cursor::new(head).chain(input.bytes));
        let (description, data, source): (_, _, Box<dyn Read>) = if is_pipe {
            let mut bytes = input.bytes;
            io::copy(&mut (&mut bytes).take(16), &mut io::sink())?;
            (Description::of_pipe(order), Data::Pipe(16), bytes)
        } else {
            let file = RandomAccess::of(input, KIND)?;
            let (description, data) = Description::read(&file, order)?;
            let source: Box<dyn Read> = match data {
                Data::File(at, size) => Box::new(file.part(at, size)),
                Data::Pipe(at) => Box::new(file.part(at, u64::MAX)),
            };
            (description, data, source)
        };
        let (Data::File(at, _) | Data::Pipe(at)) = data;
        let mut reader = PerfDataReader {
            records: Records::new(source, order, at),
            state: State {
                file: name,
                record: 0,
                offset: 0,
                description,
                decoders: None,
                rounds: Rounds::default(),
                latest: FxHashMap::default(),
                first: None,
                last: 0,
                names: FxHashMap::default(),
                threads: SeenThreads::default(),
                sleeps: Sleeps::default(),
                syncs: Syncs::default(),
                has_blocks: false,
                lost_in_place: 0,
                lost_in_total: 0,
                complaints: Complaints::default(),
            },
            ended: false,
            finished: false,
        };
        // In a pipe, the formats come first.
        let mut body = Vec::new();
        while is_pipe && !reader.ended && reader.state.description.formats.is_none() {
            reader.record(&mut body)?;
        }
        reader.state.decide()?;
        Ok(reader)
    }

    /// Reads the next record. After the last one, sets `ended`.
    fn record(&mut self, body: &mut Vec<u8>) -> Result<(), Refusal> {
        let state = &mut self.state;
        let found = self.records.next(body)?;
        (state.record, state.offset) = (self.records.number, self.records.offset);
        let (code, message) = match found {
            Found::Record { kind: TRACING_DATA, .. } => {
                let size = Numbers::of(body, state.description.order).u32().unwrap_or(0);
                let data = self.records.data(u64::from(size), header::TRACING_DATA_BYTES_MAX)?;
                if state.description.formats.is_none() {
                    state.description.formats = Some(header::tracing_data(data.unwrap_or_default())?);
                }
                return Ok(());
            }
            Found::Record { kind, flags } => {
                state.read(kind, flags, body);
                return Ok(());
            }
            Found::DamagedZstd => {
                let message = "The compressed records are damaged from here on; they are not read.";
                state.report(Severity::Error, "damaged-zstd", message);
                return Ok(());
            }
            Found::ExpandsTooFar => {
                let message = crate::expansion::describe("compressed records");
                state.report(
                    Severity::Error,
                    "expands-too-far",
                    &format!("{message}; the rest is not read."),
                );
                self.ended = true;
                return Ok(());
            }
            Found::End => {
                self.ended = true;
                return Ok(());
            }
            Found::Cut => {
                ("cut-record", "The file ends within this record; perf was killed or the file was cut.")
            }
            Found::NotARecord => {
                ("not-a-record", "No record of perf begins here; the rest of the file is not read.")
            }
        };
        state.report(Severity::Error, code, message);
        self.ended = true;
        Ok(())
    }
}

impl TraceReader for PerfDataReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        let mut body = Vec::new();
        let mut records = 0;
        loop {
            let mut rounds = std::mem::take(&mut self.state.rounds);
            while batch.events.len() < BATCH_EVENTS
                && let Some((event, is_late)) = rounds.next()
            {
                self.state.event(event, is_late, batch);
            }
            self.state.rounds = rounds;
            if batch.events.len() >= BATCH_EVENTS || records >= BATCH_RECORDS || self.finished {
                break;
            }
            if self.ended {
                self.state.rounds.finish();
                self.finished = true;
                continue;
            }
            match self.record(&mut body) {
                Ok(()) => {}
                Err(Refusal::Read(error)) => return Err(error),
                // Formats in the middle of a stream are never read.
                Err(Refusal::Is { .. }) => self.ended = true,
            }
            records += 1;
        }
        let more = !self.finished || batch.events.len() >= BATCH_EVENTS;
        if !more {
            self.state.finish(batch);
        }
        batch.diagnostics.append(&mut self.state.complaints.ready);
        Ok(more)
    }

    fn source(&self) -> Source {
        let decoder = self.state.decoders.as_ref().and_then(|decoders| decoders.block.as_ref());
        let mut shows = decoder.map(BlockDecoder::shows).unwrap_or_default();
        self.state.sleeps.shows(&mut shows);
        Source { format: "perf-data".into(), files: vec![self.state.file.clone()], shows }
    }

    fn may_show_waits(&self) -> bool {
        true
    }

    fn clock(&self) -> Clock {
        let events = self.state.description.events.all();
        let name = match events.iter().find_map(|event| event.clock_id) {
            // The numbers of `clock_gettime`.
            Some(0) => "realtime",
            Some(1) => "mono",
            Some(4) => "mono_raw",
            Some(7) => "boot",
            Some(11) => "tai",
            Some(_) => "unknown",
            None => "perf",
        };
        Clock { name: name.into(), unix_ns_at_zero: self.state.description.unix_ns_at_zero }
    }
}

impl State {
    fn report(&mut self, severity: Severity, code: &'static str, message: &str) {
        let place = InputPlace { file: &self.file, record: Some(self.record), offset: Some(self.offset) };
        self.complaints.add(severity, code, place, || message.to_owned());
    }

    /// Creates the decoders, or refuses a file that has no events for them.
    fn decide(&mut self) -> Result<(), Refusal> {
        let events = self.description.events.all();
        let tracepoints: Vec<Attributes> =
            events.iter().copied().filter(|event| event.is_tracepoint).collect();
        let again = |to_see: &str| format!("To see {to_see}, record with {RECORD_BLOCKS}");
        if tracepoints.is_empty() {
            let found = "it is a perf.data without tracepoints, such as samples of processors";
            return Err(Refusal::is(found.into(), &again("requests")));
        }
        let Some(formats) = &self.description.formats else {
            let found = "it is a perf.data in which the formats of its tracepoints are missing";
            return Err(Refusal::is(found.into(), KIND.record_again));
        };
        let order = self.description.order;
        let decoders = Decoders {
            block: BlockDecoder::new(&formats.formats, order),
            sched: SchedDecoder::new(&formats.formats, order),
            syncs: SyncFormats::of(&formats.formats),
        };
        if decoders.block.is_none() && decoders.sched.is_none() {
            let systems: Vec<String> =
                formats.systems.iter().map(|system| system.escape_debug().to_string()).collect();
            let has = if systems.is_empty() { "none".to_owned() } else { systems.join(", ") };
            return Err(Refusal::is(
                format!(
                    "it is a perf.data without events of the block layer and the scheduler (its tracepoints: {has})"
                ),
                &again("requests"),
            ));
        }
        if !tracepoints.iter().any(|event| event.has_time() && event.has_raw_data()) {
            let found = "it is a perf.data without the times or the contents of its events";
            return Err(Refusal::is(
                found.into(),
                &format!("Add the options `--timestamp --raw-samples`, or record with {RECORD_BLOCKS}"),
            ));
        }
        let is_sampled = tracepoints.iter().any(|event| event.is_sampled);
        let has_block = decoders.block.is_some();
        self.decoders = Some(decoders);
        if is_sampled {
            self.report(
                Severity::Error,
                "sampled-events",
                "perf recorded only a part of the events (`-c` or `-F`), so requests are missing and latencies can be wrong. \
                 Record without these options.",
            );
        }
        if self.description.has_other_files {
            self.report(
                Severity::Error,
                "other-files",
                "perf wrote the events of each processor to a file of its own (`--threads`), and only this file is read. \
                 Record without this option.",
            );
        }
        if !has_block {
            self.report(
                Severity::Note,
                "no-block-events",
                &format!("The trace has no events of the block layer. {}.", again("requests")),
            );
        }
        Ok(())
    }

    /// Reads a record.
    fn read(&mut self, kind: u32, flags: u16, body: &[u8]) {
        let order = self.description.order;
        match kind {
            SAMPLE => self.sample(body),
            FINISHED_ROUND => self.rounds.end(),
            HEADER_ATTR => {
                let size =
                    body.get(4..).and_then(|rest| Numbers::of(rest, order).u32()).unwrap_or(0) as usize;
                if let Some((attributes, ids)) = body.split_at_checked(size)
                    && let Some(event) = Attributes::parse(attributes, order)
                {
                    let ids = ids.chunks_exact(8).filter_map(|id| Numbers::of(id, order).u64());
                    self.description.events.add(event, ids);
                }
            }
            HEADER_FEATURE => {
                let number = Numbers::of(body, order).u64().and_then(|number| u32::try_from(number).ok());
                // A damaged part is like a part that perf did not write.
                if let Some((number, part)) = number.zip(body.get(8..))
                    && number != header::TRACING_DATA
                {
                    drop(self.description.part(number, part.to_vec()));
                }
            }
            COMM => self.comm(body),
            LOST => {
                let mut numbers = Numbers::of(body, order);
                let Some((_, count)) = numbers.u64().zip(numbers.u64()) else { return };
                let at = self.description.events.of_other(body, order);
                let at = at.map(|event| event.other(numbers.rest, order)).unwrap_or_default();
                self.lost_in_place = self.lost_in_place.saturating_add(count);
                let before = at.time.unwrap_or(self.rounds.latest());
                let after = self.latest.get(&at.cpu).or(self.first.as_ref()).copied().unwrap_or(0);
                let after = after.min(before);
                self.add(Event {
                    time: before,
                    cpu: at.cpu,
                    tid: None,
                    pid: None,
                    item: Item::Gap { after, count },
                });
                self.report(
                    Severity::Warning,
                    "lost-events",
                    "perf lost events of this processor before this record. Record with larger buffers: `perf record -m 16M`.",
                );
            }
            LOST_SAMPLES if flags & LOST_BY_FILTER == 0 => {
                let count = Numbers::of(body, order).u64().unwrap_or(0);
                self.lost_in_total = self.lost_in_total.saturating_add(count);
            }
            // The ids of events are in the description, too.
            ID_INDEX => {}
            _ => {}
        }
    }

    /// Adds an event to be sorted.
    #[inline]
    fn add(&mut self, event: Event) {
        if self.latest.len() < CPUS_MAX || self.latest.contains_key(&event.cpu) {
            self.latest.insert(event.cpu, event.time);
        }
        self.first = Some(self.first.map_or(event.time, |first| first.min(event.time)));
        self.rounds.add(event.time, event);
    }

    /// Reads the name of a thread. perf writes the names of all threads at the beginning, with the time 0.
    fn comm(&mut self, body: &[u8]) {
        let order = self.description.order;
        let mut numbers = Numbers::of(body, order);
        let Some((pid, tid)) = numbers.u32().zip(numbers.u32()) else { return };
        let at = self.description.events.of_other(body, order);
        let time = at.and_then(|event| event.other(numbers.rest, order).time).unwrap_or(0);
        let name = numbers.rest.split(|byte| *byte == 0).next().unwrap_or_default();
        let comm = Comm::of(name);
        if time == 0 {
            self.name(tid, pid, comm);
        } else {
            let item = Item::Named { comm };
            self.rounds.add(time, Event { time, cpu: None, tid: Some(tid), pid: Some(pid), item });
        }
    }

    fn name(&mut self, tid: u32, pid: u32, comm: Comm) {
        if self.names.len() < NAMES_MAX || self.names.contains_key(&tid) {
            self.names.insert(tid, (pid, comm));
        }
    }

    fn sample(&mut self, body: &[u8]) {
        let order = self.description.order;
        let Some(event) = self.description.events.of_sample(body, order) else { return };
        let Some(sample) = event.sample(body, order) else {
            self.report(Severity::Warning, "damaged-record", "This sample is damaged; it was skipped.");
            return;
        };
        let (Some(decoders), Some(time)) = (&self.decoders, sample.time) else { return };
        if let Some(item) = decoders.item(&sample, time, order) {
            self.add(Event { time, cpu: sample.cpu, tid: sample.tid, pid: sample.pid, item });
        }
    }

    /// Handles the next event in the order of time.
    fn event(&mut self, event: &Event, is_late: bool, batch: &mut Batch) {
        let at = Timestamp(event.time);
        self.last = self.last.max(event.time);
        batch.instants.see(at);
        let cpu = event.cpu.unwrap_or(u32::MAX);
        if is_late {
            // The state of the threads between this event and the ones before it is unknown.
            self.sleeps.forget();
            self.syncs.forget();
        }
        match event.item {
            Item::Block { event: ref block, comm } => {
                self.has_blocks = true;
                if let Some(tid) = block.tid {
                    let pid = event.pid.filter(|_| event.tid == Some(tid));
                    self.seen(tid, pid, comm, at, batch);
                }
                if block.kind == EventKind::Complete && !is_late {
                    self.sleeps.completion(cpu, at);
                }
                batch.events.push(*block);
            }
            Item::Switch { from, comm, left, to } => {
                let pid = event.pid.filter(|_| event.tid == Some(from));
                self.seen(from, pid, comm, at, batch);
                if !is_late {
                    let is_in_sync = self.syncs.is_in(to);
                    let switch = Switch { cpu, at, from: Some(from), left, to, is_in_sync };
                    self.sleeps.switch(switch, &mut batch.waits);
                }
            }
            Item::Waking { tid, current, is_interrupt } => {
                if !is_late {
                    let current = Some(current);
                    self.sleeps.waking(WakeUp { cpu, at, tid, current, is_interrupt });
                }
            }
            Item::Created { tid, by } => {
                if !is_late {
                    self.sleeps.created(at, tid, by);
                }
            }
            Item::BlockedReason { tid, is_io } => {
                if !is_late {
                    self.sleeps.reason(tid, is_io, None);
                }
            }
            Item::Sync(sync) => {
                let Some(tid) = event.tid else { return };
                self.seen(tid, event.pid, Comm::default(), at, batch);
                if sync.is_begin {
                    self.syncs.enter(tid, at, sync.is_data);
                } else {
                    batch.calls.extend(self.syncs.exit(tid, at, sync.is_data, sync.result));
                }
            }
            Item::Named { comm } => {
                let (tid, pid) = (event.tid.unwrap_or(0), event.pid.unwrap_or(0));
                self.name(tid, pid, comm);
                self.seen(tid, Some(pid), comm, at, batch);
            }
            Item::Gap { after, count } => {
                let after = Timestamp(after);
                batch.lost.push(LostEvents { cpu: event.cpu, count: Some(count), after, before: at });
                self.sleeps.gap(event.cpu, after, at);
                self.syncs.forget();
            }
        }
    }

    /// Records a thread with its name from an event, if the event has one.
    fn seen(&mut self, tid: u32, pid: Option<u32>, comm: Comm, at: Timestamp, batch: &mut Batch) {
        let known = self.names.get(&tid);
        let pid = pid.or(known.map(|(pid, _)| *pid));
        let row = match comm.known() {
            Some(name) => self.threads.seen(tid, pid, Some(name), NameOrigin::Event, at),
            None => {
                let name = known.and_then(|(_, comm)| comm.known());
                self.threads.seen(tid, pid, name, NameOrigin::Columns, at)
            }
        };
        let Some(row) = row else { return };
        batch.threads.push(row);
        // A process has the name of its main thread, which need not have events.
        if let Some(pid) = pid.filter(|pid| *pid != tid)
            && let Some((_, comm)) = self.names.get(&pid)
        {
            let row = self.threads.seen(pid, Some(pid), comm.known(), NameOrigin::Columns, at);
            batch.threads.extend(row);
        }
    }

    fn finish(&mut self, batch: &mut Batch) {
        self.sleeps.finish(&mut batch.waits);
        let file = self.file.clone();
        let whole = InputPlace { file: &file, record: None, offset: None };
        let mut add = |severity, code, message: String| {
            self.complaints.add(severity, code, whole, || message);
        };
        let lost = self.lost_in_total.saturating_sub(self.lost_in_place);
        if lost > 0 {
            let (after, before) = (Timestamp(self.first.unwrap_or(0).min(self.last)), Timestamp(self.last));
            batch.lost.push(LostEvents { cpu: None, count: Some(lost), after, before });
            let message = format!(
                "perf lost {lost} events and does not say when. Record with larger buffers: `perf record -m 16M`."
            );
            add(Severity::Warning, "lost-events-anywhere", message);
        }
        if self.rounds.late > 0 {
            let message = format!("{} events came too late to be sorted by time.", self.rounds.late);
            add(Severity::Warning, "out-of-order", message);
        }
        if self.sleeps.cut > 0 {
            let message = format!(
                "{} waits were left out, because events were lost before their end.",
                self.sleeps.cut
            );
            add(Severity::Note, "cut-waits", message);
        }
        let has_block = self.decoders.as_ref().is_some_and(|decoders| decoders.block.is_some());
        if has_block && !self.has_blocks {
            let message = "No event of the block layer happened during the recording, or perf recorded only one process: add `-a`.";
            add(Severity::Warning, "no-block-events", message.to_owned());
        }
        self.complaints.finish();
    }
}

impl Decoders {
    /// Decodes the raw data of a sample; `None` for other tracepoints.
    fn item(
        &self,
        sample: &Sample<'_>,
        time: u64,
        order: fonio_tracefs::ring_buffer::ByteOrder,
    ) -> Option<Item> {
        if let Some(decoder) = &self.block {
            let record = Record { time: Timestamp(time), data: sample.raw };
            if let Some((event, comm)) = decoder.decode_named(record, sample.cpu) {
                return Some(Item::Block { event, comm: Comm::of(comm.unwrap_or_default()) });
            }
        }
        if let Some(record) = self.sched.as_ref().and_then(|sched| sched.decode(sample.raw)) {
            return match record.event {
                SchedEvent::Switch { prev, prev_comm, left, next } => {
                    Some(Item::Switch { from: prev, comm: Comm::of(prev_comm), left, to: next })
                }
                SchedEvent::Waking { tid } => Some(Item::Waking {
                    tid,
                    current: record.current,
                    is_interrupt: Some(record.interrupt.is_some()),
                }),
                SchedEvent::Woken { tid } => {
                    Some(Item::Waking { tid, current: record.current, is_interrupt: None })
                }
                SchedEvent::Fork { parent, child } => Some(Item::Created { tid: child, by: parent }),
                SchedEvent::BlockedReason { tid, is_io, .. } => Some(Item::BlockedReason { tid, is_io }),
                _ => None,
            };
        }
        self.syncs.decode(sample.raw, order).map(Item::Sync)
    }
}

#[cfg(test)]
mod tests;
