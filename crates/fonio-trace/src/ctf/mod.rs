//! Reads CTF traces, version 1.8: the folders that LTTng, `perf data convert --to-ctf`, babeltrace2 and barectf write.
//!
//! A trace has a description (`tsdl.rs`) and stream files, usually one per processor (`stream.rs`). The events of all streams
//! are merged by time. The reader knows the events of the block layer and of the scheduler, with the fields of LTTng's kernel
//! module (`include/instrumentation/events/block.h`, `sched.h`) and those of the kernel, which perf writes. LTTng writes
//! the kind of a request as bits, the kernel as letters.

mod decode;
mod stream;
mod tsdl;
mod types;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read};
use std::sync::Arc;

use fonio_core::event::KindSet;
use fonio_core::meta::{Clock, Source};
use fonio_core::threads::{NameOrigin, SeenThreads};
use fonio_core::{
    Batch, BlockEvent, ByteCount, DeviceId, EventKind, Flags, LostEvents, Op, Sector, Severity, Timestamp,
    TraceReader, parse_rwbs,
};
use rustc_hash::FxHashMap;

use self::decode::{Known, Values};
use self::stream::{Step, Stream};
use self::types::Description;
use crate::complaints::{Complaints, InputPlace};
use crate::input::Input;
use crate::refusal::Refusal;
use crate::scheduling::{Sleeps, Switch, WakeUp, left_of_state};

/// The beginning of a description as text, and of one in packets, in both byte orders.
const TEXT: &[u8] = b"/* CTF 1.8 */";
const PACKETS: [[u8; 4]; 2] = [[0x57, 0x1d, 0xd1, 0x75], [0x75, 0xd1, 0x1d, 0x57]];
/// The beginning of a stream, in both byte orders.
const STREAMS: [[u8; 4]; 2] = [[0xc1, 0x1f, 0xfc, 0xc1], [0xc1, 0xfc, 0x1f, 0xc1]];
/// Length of the header of a packet of a description.
const PACKET_HEADER_BYTES: usize = 37;
/// Maximum size of a description. That of all events of a kernel has about 1 MiB.
const DESCRIPTION_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of stream files. Each needs a buffer.
const STREAMS_MAX: usize = 4096;
/// Number of events after which a batch ends.
const BATCH_EVENTS: usize = 4096;
/// Maximum number of processors whose running thread is remembered.
const CPUS_MAX: usize = 8192;

const FOLDER: &str = "Give fonio the folder of the trace, with `metadata` and the stream files";
const RECORD: &str = "record with `lttng enable-event --kernel block_rq_issue,block_rq_complete,block_rq_insert,block_bio_queue,\
    sched_switch,sched_waking`";

/// Returns whether `head` is the start of a description, or of a stream that has a magic number.
pub fn recognise(head: &[u8]) -> bool {
    is_description(head) || STREAMS.iter().any(|magic| head.starts_with(magic))
}

fn is_description(head: &[u8]) -> bool {
    head.starts_with(TEXT) || PACKETS.iter().any(|magic| head.starts_with(magic))
}

/// A kind of event that the reader uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Block(EventKind),
    Switch,
    Waking,
    Created,
}

impl Kind {
    fn of(name: &str) -> Option<Kind> {
        let none = (DeviceId::default(), Sector(0));
        // perf writes `block:block_rq_issue`.
        Some(match name.rsplit(':').next().unwrap_or(name) {
            "block_rq_issue" => Kind::Block(EventKind::Issue),
            "block_rq_complete" => Kind::Block(EventKind::Complete),
            "block_rq_insert" => Kind::Block(EventKind::Insert),
            "block_rq_requeue" => Kind::Block(EventKind::Requeue),
            "block_rq_merge" => Kind::Block(EventKind::RequestMerge),
            "block_bio_queue" => Kind::Block(EventKind::BioQueue),
            "block_bio_backmerge" => Kind::Block(EventKind::BackMerge),
            "block_bio_frontmerge" => Kind::Block(EventKind::FrontMerge),
            "block_bio_bounce" => Kind::Block(EventKind::Bounce),
            "block_bio_complete" => Kind::Block(EventKind::BioComplete),
            "block_getrq" => Kind::Block(EventKind::GetRequest),
            "block_sleeprq" => Kind::Block(EventKind::SleepRequest),
            "block_split" => Kind::Block(EventKind::Split { new_sector: none.1 }),
            "block_bio_remap" => Kind::Block(EventKind::Remap { from_device: none.0, from_sector: none.1 }),
            "block_rq_remap" => {
                Kind::Block(EventKind::RequestRemap { from_device: none.0, from_sector: none.1 })
            }
            "sched_switch" => Kind::Switch,
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => Kind::Waking,
            "sched_process_fork" => Kind::Created,
            _ => return None,
        })
    }
}

/// An event that the reader uses, and whether perf wrote it.
#[derive(Clone, Copy, Debug)]
struct Used {
    kind: Kind,
    is_of_perf: bool,
}

/// A stream and its next step.
struct Open {
    file: String,
    stream: Stream,
    next: Step,
    /// The number of its description's stream; events are numbered within it.
    is_ended: bool,
}

/// Reads a CTF trace.
pub struct CtfReader {
    files: Vec<String>,
    description: Arc<Description>,
    /// The fields that the reader uses, by the numbers of their names.
    names: Vec<Option<Known>>,
    used: FxHashMap<(u64, u64), Used>,
    streams: Vec<Open>,
    /// The time of the next step of each stream.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    has_begun: bool,
    running: FxHashMap<u32, u32>,
    threads: SeenThreads,
    sleeps: Sleeps,
    latest: u64,
    late: u64,
    has_blocks: bool,
    complaints: Complaints,
}

impl CtfReader {
    /// Opens a trace by its files with their first bytes. Fails if they are not one trace, or if the description cannot be read.
    pub fn open(inputs: Vec<(Vec<u8>, Input)>) -> Result<CtfReader, Refusal> {
        let files = inputs.iter().map(|(_, input)| input.name.clone()).collect();
        let (mut descriptions, streams): (Vec<_>, Vec<_>) =
            inputs.into_iter().partition(|(head, _)| is_description(head));
        if descriptions.len() > 1 {
            return Err(Refusal::is("several descriptions of CTF traces were given".into(), FOLDER));
        }
        let Some((_, description)) = descriptions.pop() else {
            return Err(Refusal::is("it is a stream of a CTF trace, without its description".into(), FOLDER));
        };
        let streams: Vec<Input> =
            streams.into_iter().filter(|(head, _)| !head.is_empty()).map(|(_, input)| input).collect();
        if streams.is_empty() {
            return Err(Refusal::is("it is the description of a CTF trace, without streams".into(), FOLDER));
        }
        if streams.len() > STREAMS_MAX {
            return Err(Refusal::is(
                format!("the trace has more than {STREAMS_MAX} streams"),
                "Give fonio a part of the streams",
            ));
        }
        let mut text = Vec::new();
        description.bytes.take(DESCRIPTION_BYTES_MAX + 1).read_to_end(&mut text)?;
        if text.len() as u64 > DESCRIPTION_BYTES_MAX {
            let found = "the description of the CTF trace has more than 16 MiB";
            return Err(Refusal::is(found.into(), "Record fewer kinds of events"));
        }
        let text = unpacked(&text).ok_or_else(|| {
            Refusal::is("the description of the CTF trace is damaged".into(), "Copy the trace again")
        })?;
        let description = tsdl::parse(&String::from_utf8_lossy(&text)).map_err(|wrong| {
            let found =
                format!("the description of the CTF trace cannot be read: line {}: {}", wrong.line, wrong.what);
            Refusal::is(found, "fonio reads CTF 1.8. Convert the trace: `babeltrace2 FOLDER --output-format=ctf --output=NEW`")
        })?;
        let used = description.events.iter().filter_map(|(number, event)| {
            Some((*number, Used { kind: Kind::of(&event.name)?, is_of_perf: event.name.contains(':') }))
        });
        Ok(CtfReader {
            files,
            names: description.names.iter().map(|name| Known::of(name)).collect(),
            used: used.collect(),
            description: Arc::new(description),
            streams: (streams.into_iter())
                .map(|input| Open {
                    file: input.name,
                    stream: Stream::new(input.bytes),
                    next: Step::End,
                    is_ended: false,
                })
                .collect(),
            order: BinaryHeap::new(),
            has_begun: false,
            running: FxHashMap::default(),
            threads: SeenThreads::default(),
            sleeps: Sleeps::default(),
            latest: 0,
            late: 0,
            has_blocks: false,
            complaints: Complaints::default(),
        })
    }

    /// Reads the next step of a stream.
    fn advance(&mut self, number: usize) -> io::Result<()> {
        let open = &mut self.streams[number];
        while !open.is_ended {
            let step = open.stream.step(&self.description, &self.names)?;
            let time = match &step {
                Step::Event { time, .. } => *time,
                Step::Lost { after, .. } => *after,
                Step::End => {
                    open.is_ended = true;
                    break;
                }
                Step::Damaged { at, why } => {
                    let place = InputPlace { file: &open.file, record: None, offset: Some(*at) };
                    self.complaints.add(Severity::Warning, "damaged-packet", place, || {
                        format!("The packet is damaged: {why}; the rest of it was skipped.")
                    });
                    continue;
                }
            };
            open.next = step;
            self.order.push(Reverse((time, number)));
            break;
        }
        Ok(())
    }

    /// Converts cycles of the clock to nanoseconds.
    fn nanos(&self, cycles: u64) -> Timestamp {
        let frequency = self.description.clock.as_ref().map_or(NANOS, |clock| clock.frequency);
        if frequency == NANOS {
            return Timestamp(cycles);
        }
        let nanos = u128::from(cycles) * u128::from(NANOS) / u128::from(frequency.max(1));
        Timestamp(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Handles the next step of a stream.
    fn take(&mut self, number: usize, batch: &mut Batch) {
        let step = std::mem::replace(&mut self.streams[number].next, Step::End);
        let cpu = self.streams[number].stream.cpu;
        match step {
            Step::Lost { count, after, before } => {
                let (after, before) = (self.nanos(after), self.nanos(before));
                batch.lost.push(LostEvents { cpu, count, after, before: before.max(after) });
                self.sleeps.gap(cpu, after, before.max(after));
                match cpu {
                    Some(cpu) => {
                        self.running.remove(&cpu);
                    }
                    None => self.running.clear(),
                }
            }
            Step::Event { id, time } => {
                let at = self.nanos(time);
                batch.instants.see(at);
                if time < self.latest {
                    self.late += 1;
                    self.sleeps.forget();
                }
                self.latest = self.latest.max(time);
                let stream = self.streams[number].stream.number(&self.description);
                let Some(used) = self.used.get(&(stream, id)).copied() else { return };
                let values = std::mem::take(&mut self.streams[number].stream.values);
                self.event(used, &values, cpu, at, batch);
                self.streams[number].stream.values = values;
            }
            Step::Damaged { .. } | Step::End => {}
        }
    }

    fn event(&mut self, used: Used, values: &Values, cpu: Option<u32>, at: Timestamp, batch: &mut Batch) {
        let tid = |field| values.get(field).and_then(|tid| u32::try_from(tid).ok());
        // perf counts processors in the fields of an event.
        let cpu = cpu.or_else(|| tid(Known::Cpu));
        let running = cpu.and_then(|cpu| self.running.get(&cpu).copied());
        match used.kind {
            Kind::Block(kind) => {
                let mut event = block(kind, values);
                event.time = at;
                event.cpu = cpu;
                event.tid = tid(Known::Tid).or(running);
                if let Some(tid) = event.tid {
                    let pid = tid_of_process(values);
                    let row = self.threads.seen(tid, pid, values.comm.known(), NameOrigin::Event, at);
                    batch.threads.extend(row);
                }
                self.has_blocks = true;
                if let (EventKind::Complete, Some(cpu)) = (kind, cpu) {
                    self.sleeps.completion(cpu, at);
                }
                batch.events.push(event);
            }
            Kind::Switch => {
                let (Some(cpu), Some(to)) = (cpu, tid(Known::NextTid)) else { return };
                let from = tid(Known::PrevTid);
                if let Some(from) = from {
                    let row = self.threads.seen(from, None, values.prev_comm.known(), NameOrigin::Event, at);
                    batch.threads.extend(row);
                }
                let left = left_of_state(values.get(Known::PrevState).unwrap_or(0));
                self.sleeps.switch(Switch { cpu, at, from, left, to, is_in_sync: false }, &mut batch.waits);
                if self.running.len() < CPUS_MAX || self.running.contains_key(&cpu) {
                    self.running.insert(cpu, to);
                }
            }
            Kind::Waking => {
                let woken = tid(if used.is_of_perf { Known::Pid } else { Known::Tid });
                let (Some(cpu), Some(woken)) = (cpu, woken) else { return };
                let row = self.threads.seen(woken, None, values.comm.known(), NameOrigin::Event, at);
                batch.threads.extend(row);
                // The trace does not show interrupts.
                self.sleeps.waking(WakeUp { cpu, at, tid: woken, current: running, is_interrupt: None });
            }
            Kind::Created => {
                if let (Some(child), Some(parent)) = (tid(Known::ChildTid), tid(Known::ParentTid)) {
                    self.sleeps.created(at, child, parent);
                }
            }
        }
    }

    fn finish(&mut self, batch: &mut Batch) {
        self.sleeps.finish(&mut batch.waits);
        let whole = InputPlace::default();
        let mut add = |severity, code, message: String| {
            self.complaints.add(severity, code, whole, || message);
        };
        if self.late > 0 {
            add(
                Severity::Warning,
                "out-of-order",
                format!("{} events are not in the order of time.", self.late),
            );
        }
        if self.sleeps.cut > 0 {
            let message = format!(
                "{} waits were left out, because events were lost before their end.",
                self.sleeps.cut
            );
            add(Severity::Note, "cut-waits", message);
        }
        if !self.has_blocks {
            let message = match self.sleeps.seen {
                true => format!("The trace has no events of the block layer. To see requests, {RECORD}."),
                false => {
                    format!("The trace has events of neither the block layer nor the scheduler; {RECORD}.")
                }
            };
            let severity = if self.sleeps.seen { Severity::Note } else { Severity::Warning };
            add(severity, "no-block-events", message);
        }
        self.complaints.finish();
    }
}

const NANOS: u64 = 1_000_000_000;

impl TraceReader for CtfReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        if !self.has_begun {
            self.has_begun = true;
            for number in 0..self.streams.len() {
                self.advance(number)?;
            }
        }
        let mut count = 0;
        while count < BATCH_EVENTS
            && let Some(Reverse((_, number))) = self.order.pop()
        {
            self.take(number, batch);
            self.advance(number)?;
            count += 1;
        }
        let more = !self.order.is_empty();
        if !more {
            self.finish(batch);
        }
        batch.diagnostics.append(&mut self.complaints.ready);
        Ok(more)
    }

    fn source(&self) -> Source {
        let mut kinds = KindSet::default();
        for used in self.used.values() {
            if let Kind::Block(kind) = used.kind {
                kinds.insert(kind);
            }
        }
        let mut shows = kinds.names();
        self.sleeps.shows(&mut shows);
        Source { format: "ctf".into(), files: self.files.clone(), shows }
    }

    fn may_show_waits(&self) -> bool {
        true
    }

    fn clock(&self) -> Clock {
        let Some(clock) = &self.description.clock else {
            return Clock { name: "unknown".into(), unix_ns_at_zero: None };
        };
        let name = match clock.name.as_str() {
            "monotonic" => "mono",
            "" => "unknown",
            name => name,
        };
        let cycles = i128::from(clock.offset_cycles) * i128::from(NANOS) / i128::from(clock.frequency.max(1));
        let offset = i128::from(clock.offset_seconds) * i128::from(NANOS) + cycles;
        let is_known = offset != 0;
        Clock {
            name: fonio_core::shortened(name, 64).to_owned(),
            unix_ns_at_zero: i64::try_from(offset).ok().filter(|_| is_known),
        }
    }
}

/// Returns the process of the thread of an event, which a context can have.
fn tid_of_process(values: &Values) -> Option<u32> {
    let pid = values.get(Known::Process).or(values.get(Known::Pid))?;
    u32::try_from(pid).ok()
}

/// Returns a block event without its time, processor and thread.
fn block(kind: EventKind, values: &Values) -> BlockEvent {
    let number = |field| values.get(field).unwrap_or(0);
    let device = |field| DeviceId(number(field) as u32);
    let kind = match kind {
        EventKind::Split { .. } => EventKind::Split { new_sector: Sector(number(Known::NewSector)) },
        EventKind::Remap { .. } => EventKind::Remap {
            from_device: device(Known::OldDev),
            from_sector: Sector(number(Known::OldSector)),
        },
        EventKind::RequestRemap { .. } => EventKind::RequestRemap {
            from_device: device(Known::OldDev),
            from_sector: Sector(number(Known::OldSector)),
        },
        kind => kind,
    };
    let mut event = BlockEvent::new(Timestamp(0), kind, device(Known::Dev));
    event.sector = Sector(number(Known::Sector));
    // Old kernels write a size of 0 bytes. The kernel's fields have 32 bits.
    let sectors = number(Known::Sectors).min(u64::from(u32::MAX));
    event.bytes = match number(Known::Bytes).min(u64::from(u32::MAX)) {
        0 => ByteCount::from_sectors(sectors),
        bytes => ByteCount(bytes),
    };
    (event.op, event.flags) = match (values.rwbs.known(), values.get(Known::Rwbs)) {
        (Some(letters), _) => parse_rwbs(letters),
        (None, Some(bits)) => of_bits(bits),
        (None, None) => (Op::Other, Flags::NONE),
    };
    // Old kernels call a passthrough command a read or a write, and LTTng 2.1 calls a flush a write.
    if number(Known::CommandBytes) > 0 && sectors == 0 {
        event.op = Op::Other;
    } else if event.sector == Sector(u64::MAX) && sectors == 0 && event.op == Op::Write {
        event.op = Op::Flush;
    }
    event.flags_known = Flags::KNOWN_FROM_RWBS;
    event.error = values.get(Known::Error).map(|error| match error as i32 {
        // A positive status is specific to the driver.
        1.. => -5,
        error => error,
    });
    event
}

/// Converts the bits of a request's kind, as LTTng writes them. LTTng 2.1 has the bit of synchronous requests where later
/// versions have that of barriers, which Linux has not had since 2.6.37.
fn of_bits(bits: u64) -> (Op, Flags) {
    const WRITE: u64 = 1;
    const DISCARD: u64 = 1 << 1;
    const READ: u64 = 1 << 2;
    const SECURE: u64 = 1 << 7;
    const FLUSH: u64 = 1 << 8;
    const PREFLUSH: u64 = 1 << 10;
    const FLAGS: [(u64, Flags); 7] = [
        (1 << 3, Flags::READAHEAD),
        (1 << 4, Flags::SYNC),
        (1 << 5, Flags::SYNC),
        (1 << 6, Flags::META),
        (FLUSH, Flags::PREFLUSH),
        (1 << 9, Flags::FUA),
        (PREFLUSH, Flags::PREFLUSH),
    ];
    let has = |bit: u64| bits & bit != 0;
    let mut flags = Flags::NONE;
    for (bit, flag) in FLAGS {
        if has(bit) {
            flags |= flag;
        }
    }
    let op = match () {
        () if has(DISCARD) && has(SECURE) => Op::SecureErase,
        () if has(DISCARD) => Op::Discard,
        () if has(WRITE) => Op::Write,
        () if has(READ) => Op::Read,
        () if has(FLUSH) || has(PREFLUSH) => Op::Flush,
        () => Op::Other,
    };
    (op, flags)
}

/// Returns the text of a description, which can be in packets; `None` if a packet is damaged.
fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    let is_big = match bytes.first_chunk::<4>() {
        Some(magic) if PACKETS.contains(magic) => *magic == PACKETS[1],
        _ => return Some(bytes.to_vec()),
    };
    let number = |packet: &[u8], at: usize| {
        let number: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
        Some(if is_big { u32::from_be_bytes(number) } else { u32::from_le_bytes(number) })
    };
    let (mut text, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        // After the magic number come 16 bytes of a UUID and a checksum. The sizes are in bits.
        if number(rest, 0)? != 0x75d1_1d57 {
            return None;
        }
        let content = (number(rest, 24)? / 8) as usize;
        let size = (number(rest, 28)? / 8) as usize;
        // Compression, encryption and checksum are not used.
        if rest.get(32..35)? != [0, 0, 0] || content < PACKET_HEADER_BYTES || size < content {
            return None;
        }
        text.extend_from_slice(rest.get(PACKET_HEADER_BYTES..content)?);
        rest = rest.get(size..).unwrap_or(&[]);
    }
    Some(text)
}

#[cfg(test)]
mod tests;
