//! Reads Perfetto's traces (protocol buffers), as `perfetto`, the Perfetto UI, Android Studio and Android's
//! benchmarks write them.
//!
//! `packets.rs` splits the stream, `bundle.rs` and `block.rs` read events, `order.rs` sorts them by time,
//! `names.rs` follows the names of threads, `files.rs` the reads and writes of files, `frames.rs` the frames of apps,
//! `counters.rs` reads counters of the machine, `loss.rs` finds lost events, and `unused.rs` counts events of storage that
//! have no row. All other kinds of packets are skipped.
//!
//! Block events become requests like those of any other source. Most app developers' traces have no such events,
//! but show which threads were blocked: a row of [`Wait`](fonio_core::Wait) for each wait in state D.

mod block;
mod bundle;
mod counters;
#[cfg(any(test, feature = "oracle"))]
#[doc(hidden)]
pub mod encode;
mod files;
mod frames;
mod loss;
mod names;
mod order;
mod packets;
#[cfg(test)]
mod tests;
mod unused;
mod wire;

use std::io::{self, Cursor, Read, Take};

use flate2::read::ZlibDecoder;
use fonio_core::meta::{Clock, Source};
use fonio_core::{Batch, EventKind, KindSet, Severity, Timestamp, TraceReader};
use rustc_hash::FxHashMap;

use crate::complaints::{Complaints, InputPlace};
use crate::ftrace_text::marks::Marks;
use crate::input::Input;
use crate::scheduling::{Sleeps, Switch, WakeUp, left_of_state};
use crate::syncs::Syncs;
use bundle::{Event, FtraceClock, Item, Scratch};
use files::{FileEvent, Files};
use frames::Frames;
use loss::Loss;
use names::Names;
use order::Order;
use packets::{Found, Packets};
use unused::Unused;
use wire::{Fields, Value};

/// Maximum numbers of events and packets in a batch.
const BATCH_EVENTS: usize = 4096;
const BATCH_PACKETS: usize = 1024;

/// Maximum number of unpacked bytes of a compressed packet. The service compresses at most 512 KiB, which shrink to
/// a third.
const INFLATED_MAX: u64 = 64 << 20;

/// Minimum length of a head that may end within the first field of its first packet.
const LONG_HEAD: usize = 4096;

/// Maximum number of kernel functions that are kept.
const SYMBOLS_MAX: usize = 16 << 10;

/// Maximum number of packet sequences whose clock is kept.
const SEQUENCES_MAX: usize = 4096;

/// How to record the missing events.
const RECORD_BLOCKS: &str = "record again with the ftrace events block/block_rq_issue and block/block_rq_complete, which Android \
                             permits from version 9 on, and, on a machine that permits them, block/block_rq_insert and \
                             block/block_bio_queue";
const RECORD_SCHEDULER: &str =
    "record the ftrace events sched/sched_switch, sched/sched_waking and sched/sched_blocked_reason";

/// Clocks of a snapshot, from `protos/perfetto/common/builtin_clock.proto`.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
const MONOTONIC_RAW: u64 = 5;
const BOOTTIME: u64 = 6;

/// Returns whether `head` is the start of a Perfetto trace: packets in which all fields have the types that
/// Perfetto gives them.
pub fn recognise(head: &[u8]) -> bool {
    let mut rest = head;
    let mut known = 0;
    for packets in 0..8 {
        if rest.is_empty() {
            return packets > 0 && known > 0;
        }
        let Some((&0x0a, body)) = rest.split_first() else { return false };
        let Some((length, body)) = wire::varint(body) else { return packets > 0 && known > 0 };
        let Ok(length) = usize::try_from(length) else { return false };
        let is_cut = length > body.len();
        let mut fields = Fields::of(&body[..length.min(body.len())]);
        for (number, value) in fields.by_ref() {
            match field_type(number) {
                Some(expected) if expected == matches!(value, Value::Bytes(_)) => known += 1,
                Some(_) => return false,
                // New kinds of packets get new numbers.
                None => {}
            }
        }
        if is_cut {
            // The first field of a long packet can be longer than the head.
            return known > 0 || head.len() >= LONG_HEAD && begins_with_known_message(body);
        }
        if fields.is_damaged() {
            return false;
        }
        rest = &body[length..];
    }
    known > 0
}

/// Returns whether the field with this number of a packet is a message or string; `None` if the number is unknown.
fn field_type(number: u32) -> Option<bool> {
    match number {
        1 | 2 | 6 | 7 | 9 | 11 | 12 | 33..=36 | 45 | 47 | 50 | 59 | 60 | 69 | 76 | 89 => Some(true),
        3 | 8 | 10 | 13 | 41 | 42 | 58 | 79 | 87 | 98 => Some(false),
        _ => None,
    }
}

fn begins_with_known_message(packet: &[u8]) -> bool {
    wire::varint(packet).is_some_and(|(tag, _)| {
        tag & 7 == 2 && u32::try_from(tag >> 3).ok().and_then(field_type) == Some(true)
    })
}

/// The unpacked contents of a compressed packet, up to [`INFLATED_MAX`] bytes.
type Inflated = Take<ZlibDecoder<Cursor<Vec<u8>>>>;

/// Reads a Perfetto trace.
pub struct PerfettoReader {
    outer: Packets<Box<dyn Read + Send>>,
    /// The contents of a compressed packet that are being read.
    inner: Option<Packets<Inflated>>,
    state: State,
    ended: bool,
    finished: bool,
}

/// All state except the streams.
struct State {
    file: String,
    /// Number and offset of the current packet of the file. A compressed packet counts as one.
    record: u64,
    offset: u64,
    order: Order,
    names: Names,
    sleeps: Sleeps,
    marks: Marks,
    syncs: Syncs,
    files: Files,
    frames: Frames,
    unused: Unused,
    /// The clock of the times of packets, for sequences that name one for all packets.
    packet_clocks: FxHashMap<u32, u64>,
    /// The time since boot minus the monotonic time, which stops in suspend.
    boot_over_monotonic: Option<i64>,
    /// Numbers of frames and of packets with counters whose time has an unknown clock.
    unclocked_frames: u64,
    unclocked_counters: u64,
    loss: Loss,
    complaints: Complaints,
    shows: KindSet,
    has_blocks: bool,
    clock: Option<FtraceClock>,
    /// Offsets of the time of day from the clocks of the kernel's trace buffer.
    unix_at_boot_zero: Option<i64>,
    unix_at_raw_zero: Option<i64>,
    /// The kernel's functions by sequence and number, and their names.
    symbols: FxHashMap<(u32, u64), u32>,
    symbol_names: Vec<String>,
    symbol_numbers: FxHashMap<String, u32>,
    other_machines: u64,
    has_bundles: bool,
    latest: Timestamp,
    /// Events of the current bundle; reused memory.
    events: Vec<Event>,
    scratch: Scratch,
}

impl PerfettoReader {
    /// Creates a reader of `input`.
    pub fn new(input: Input) -> PerfettoReader {
        PerfettoReader {
            outer: Packets::new(input.bytes),
            inner: None,
            state: State {
                file: input.name,
                record: 0,
                offset: 0,
                order: Order::default(),
                names: Names::default(),
                sleeps: Sleeps::default(),
                marks: Marks::default(),
                syncs: Syncs::default(),
                files: Files::default(),
                frames: Frames::default(),
                unused: Unused::default(),
                packet_clocks: FxHashMap::default(),
                boot_over_monotonic: None,
                unclocked_frames: 0,
                unclocked_counters: 0,
                loss: Loss::default(),
                complaints: Complaints::default(),
                shows: KindSet::default(),
                has_blocks: false,
                clock: None,
                unix_at_boot_zero: None,
                unix_at_raw_zero: None,
                symbols: FxHashMap::default(),
                symbol_names: Vec::new(),
                symbol_numbers: FxHashMap::default(),
                other_machines: 0,
                has_bundles: false,
                latest: Timestamp(0),
                events: Vec::new(),
                scratch: Scratch::default(),
            },
            ended: false,
            finished: false,
        }
    }

    /// Reads the next packet. After the last packet, sets `ended`.
    fn packet(&mut self, packet: &mut Vec<u8>, batch: &mut Batch) -> io::Result<()> {
        let state = &mut self.state;
        if let Some(inner) = &mut self.inner {
            let found = match inner.next(packet) {
                Err(error) if is_damage(&error) => Found::NotAPacket,
                result => result?,
            };
            match found {
                Found::Packet => {
                    state.packet(packet, false, batch);
                }
                Found::TooLong(length) => state.too_long(length),
                Found::End if inner.source().limit() > 0 => {}
                Found::End | Found::Cut | Found::NotAPacket => {
                    state.report(Severity::Warning, "damaged-packet", || {
                        "The contents of this compressed packet are damaged, or larger than 64 MiB; the rest of the packet is not read."
                            .into()
                    });
                }
            }
            if !matches!(found, Found::Packet | Found::TooLong(_)) {
                self.inner = None;
            }
            return Ok(());
        }
        let found = self.outer.next(packet)?;
        (state.record, state.offset) = (self.outer.number, self.outer.offset);
        match found {
            Found::Packet => {
                if let Some(compressed) = state.packet(packet, true, batch) {
                    let inflated = ZlibDecoder::new(Cursor::new(compressed)).take(INFLATED_MAX);
                    self.inner = Some(Packets::new(inflated));
                }
            }
            Found::TooLong(length) => state.too_long(length),
            Found::End => self.ended = true,
            Found::Cut => {
                state.report(Severity::Warning, "cut-packet", || {
                    "The trace ends within this packet; the recorder was stopped or the file was cut. The packet is not read."
                        .into()
                });
                self.ended = true;
            }
            Found::NotAPacket => {
                state.report(Severity::Error, "not-a-packet", || {
                    "No packet of a Perfetto trace begins here; the rest of the file is not read.".into()
                });
                self.ended = true;
            }
        }
        Ok(())
    }
}

/// Returns whether an error of the decompression shows damaged data.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

impl TraceReader for PerfettoReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        let mut packet = Vec::new();
        let mut packets = 0;
        loop {
            let mut order = std::mem::take(&mut self.state.order);
            while batch.events.len() < BATCH_EVENTS
                && let Some((event, is_late)) = order.next()
            {
                self.state.event(event, is_late, batch);
            }
            self.state.order = order;
            if batch.events.len() >= BATCH_EVENTS || packets >= BATCH_PACKETS || self.finished {
                break;
            }
            if self.ended {
                self.state.order.finish();
                self.finished = true;
                continue;
            }
            self.packet(&mut packet, batch)?;
            packets += 1;
        }
        let more = !self.finished || batch.events.len() >= BATCH_EVENTS;
        if !more {
            self.state.finish(batch);
        }
        batch.diagnostics.append(&mut self.state.complaints.ready);
        Ok(more)
    }

    fn source(&self) -> Source {
        let mut shows = self.state.shows.names();
        self.state.sleeps.shows(&mut shows);
        Source { format: "perfetto".into(), files: vec![self.state.file.clone()], shows }
    }

    fn clock(&self) -> Clock {
        let clock = self.state.clock.unwrap_or_default();
        let unix_ns_at_zero = match clock {
            FtraceClock::Boot => self.state.unix_at_boot_zero,
            FtraceClock::MonoRaw => self.state.unix_at_raw_zero,
            FtraceClock::Unknown | FtraceClock::Global | FtraceClock::Local => None,
        };
        Clock { name: clock.name().into(), unix_ns_at_zero }
    }

    fn may_show_waits(&self) -> bool {
        true
    }
}

impl State {
    fn report(&mut self, severity: Severity, code: &'static str, message: impl FnOnce() -> String) {
        let place = InputPlace { file: &self.file, record: Some(self.record), offset: Some(self.offset) };
        self.complaints.add(severity, code, place, message);
    }

    fn too_long(&mut self, length: u64) {
        self.report(Severity::Note, "long-packet", || {
            format!("This packet of {length} bytes is larger than 4 MiB; it was skipped.")
        });
    }

    /// Reads a packet. Returns the compressed packets in it, if it `may_be_compressed`.
    fn packet(&mut self, packet: &[u8], may_be_compressed: bool, batch: &mut Batch) -> Option<Vec<u8>> {
        let (mut sequence, mut time, mut machine, mut packet_clock) = (0, None, 0, None);
        let (mut is_first, mut dropped, mut cleared) = (false, false, false);
        let mut fields = Fields::of(packet);
        for (number, value) in fields.by_ref() {
            let Some(value) = value.number() else { continue };
            match number {
                8 => time = Some(Timestamp(value)),
                10 => sequence = value as u32,
                13 => cleared |= value & 1 != 0,
                41 => cleared |= value != 0,
                42 => dropped = value != 0,
                58 => packet_clock = Some(value),
                87 => is_first = value != 0,
                98 => machine = value,
                _ => {}
            }
        }
        if fields.is_damaged() {
            self.report(Severity::Warning, "damaged-packet", || {
                "This packet is damaged; only the fields before the damage are read.".into()
            });
        }
        if machine != 0 {
            self.other_machines += 1;
            return None;
        }
        if cleared {
            self.symbols.retain(|(of, _), _| *of != sequence);
        }
        if dropped && self.loss.dropped(sequence, is_first) {
            self.report(Severity::Warning, "dropped-packets", || {
                "The recorder lost ftrace packets before this one, because its buffers were full.".into()
            });
        }
        // Interned names can come after the events in the packet that use them.
        for (number, value) in Fields::of(packet) {
            if let (12, Value::Bytes(interned)) = (number, value) {
                self.interned(sequence, interned);
            }
        }
        let mut compressed = None;
        for (number, value) in Fields::of(packet) {
            let Value::Bytes(message) = value else { continue };
            match number {
                1 => self.bundle(sequence, message, batch),
                2 => {
                    let at = time.filter(|_| self.clock.unwrap_or_default() == FtraceClock::Boot);
                    self.names.process_tree(message, at.unwrap_or(self.latest), &mut batch.threads);
                }
                6 => self.clock_snapshot(message),
                7 => {
                    let clock = packet_clock.or_else(|| self.packet_clocks.get(&sequence).copied());
                    let time = time.and_then(|time| self.boot_time(time, clock.unwrap_or(BOOTTIME)));
                    let is_boot = self.clock.unwrap_or_default() == FtraceClock::Boot;
                    match counters::time(message, time).filter(|_| is_boot) {
                        Some(at) => counters::read(message, at, &mut batch.samples),
                        None => self.unclocked_counters += 1,
                    }
                }
                34 => self.loss.ftrace_stats(message),
                35 => self.loss.trace_stats(message),
                47 => self.names.packages(message, &mut batch.threads),
                59 => self.packet_defaults(sequence, message),
                76 => {
                    let clock = packet_clock.or_else(|| self.packet_clocks.get(&sequence).copied());
                    match time.and_then(|time| self.boot_time(time, clock.unwrap_or(BOOTTIME))) {
                        Some(at) => batch.marks.extend(self.frames.event(message, at)),
                        None => self.unclocked_frames += 1,
                    }
                }
                50 if may_be_compressed => compressed = Some(message.to_vec()),
                50 => self.report(Severity::Warning, "nested-compression", || {
                    "This compressed packet contains another compressed packet; it was skipped.".into()
                }),
                133 => self.report(Severity::Warning, "zstd-packets", || {
                    "These packets are compressed with zstd, which is not supported; they were skipped. Record again \
                     with `compression_type: COMPRESSION_TYPE_DEFLATE`."
                        .into()
                }),
                _ => {}
            }
        }
        compressed
    }

    fn bundle(&mut self, sequence: u32, message: &[u8], batch: &mut Batch) {
        self.has_bundles = true;
        let source = self.order.source(sequence);
        let mut events = std::mem::take(&mut self.events);
        let bundle = bundle::parse(message, source, &mut self.scratch, &mut events, &mut self.unused);
        // The numbers of functions belong to the packet sequence and change over time.
        for event in &mut events {
            if let Item::BlockedReason { caller, .. } = &mut event.item {
                *caller = caller
                    .and_then(|number| self.symbols.get(&(sequence, number)))
                    .map(|symbol| u64::from(*symbol));
            }
        }
        if bundle.damaged > 0 {
            let count = bundle.damaged;
            self.report(Severity::Warning, "unreadable-event", || {
                format!("{count} events of this packet are damaged; they were skipped.")
            });
        }
        let clock = *self.clock.get_or_insert(bundle.clock);
        if clock != bundle.clock {
            self.report(Severity::Warning, "second-clock", || {
                format!(
                    "The times of this packet are of the clock {}, those before of {}; they were not converted.",
                    bundle.clock.name(),
                    clock.name()
                )
            });
        }
        if let Some(gap) = self.loss.bundle(sequence, &bundle) {
            let (code, message) = match gap.is_start {
                true => (
                    "overwritten-events",
                    "Events before this packet were overwritten in the recorder's buffer.",
                ),
                false => (
                    "lost-events",
                    "The kernel or the recorder lost events of this processor before this packet.",
                ),
            };
            self.report(Severity::Warning, code, || message.to_owned());
            batch.lost.push(gap.lost);
            let (after, time) = (gap.lost.after.0, gap.lost.before.0);
            let item = Item::Gap { after };
            events.insert(0, Event { time, cpu: bundle.cpu, source, item });
        }
        if let Some((first, last)) = bundle.span {
            batch.instants.see_all([Timestamp(first), Timestamp(last)].into_iter());
        }
        self.order.bundle(source, bundle.cpu, &mut events);
        events.clear();
        self.events = events;
    }

    /// Reads the names of kernel functions.
    fn interned(&mut self, sequence: u32, message: &[u8]) {
        for (number, value) in Fields::of(message) {
            let (26, Value::Bytes(symbol)) = (number, value) else { continue };
            let (mut id, mut name) = (None, None);
            for (number, value) in Fields::of(symbol) {
                match number {
                    1 => id = value.number(),
                    2 => name = value.bytes(),
                    _ => {}
                }
            }
            let (Some(id), Some(name)) = (id, name) else { continue };
            if self.symbols.len() >= SYMBOLS_MAX || self.symbol_names.len() >= SYMBOLS_MAX {
                continue;
            }
            let name = String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned();
            let next = self.symbol_names.len() as u32;
            let symbol = *self.symbol_numbers.entry(name.clone()).or_insert(next);
            if symbol == next {
                self.symbol_names.push(name);
            }
            self.symbols.insert((sequence, id), symbol);
        }
    }

    fn clock_snapshot(&mut self, message: &[u8]) {
        let mut times = FxHashMap::default();
        for (number, value) in Fields::of(message) {
            let (1, Value::Bytes(clock)) = (number, value) else { continue };
            let (mut id, mut time) = (0, None);
            for (number, value) in Fields::of(clock) {
                match number {
                    1 => id = value.number().unwrap_or(0),
                    2 => time = value.number(),
                    _ => {}
                }
            }
            if let (REALTIME | MONOTONIC | MONOTONIC_RAW | BOOTTIME, Some(time)) = (id, time) {
                times.insert(id, time);
            }
        }
        let zero = |clock: u64| {
            let (unix, at) = (times.get(&REALTIME)?, times.get(&clock)?);
            i64::try_from(*unix).ok()?.checked_sub(i64::try_from(*at).ok()?)
        };
        self.unix_at_boot_zero = self.unix_at_boot_zero.or_else(|| zero(BOOTTIME));
        self.unix_at_raw_zero = self.unix_at_raw_zero.or_else(|| zero(MONOTONIC_RAW));
        let over =
            |boot: u64, monotonic: u64| i64::try_from(boot).ok()?.checked_sub(i64::try_from(monotonic).ok()?);
        if let (Some(boot), Some(monotonic)) = (times.get(&BOOTTIME), times.get(&MONOTONIC)) {
            self.boot_over_monotonic = over(*boot, *monotonic);
        }
    }

    /// Reads the defaults of the packets of a sequence.
    fn packet_defaults(&mut self, sequence: u32, message: &[u8]) {
        for (number, value) in Fields::of(message) {
            if let (58, Some(clock)) = (number, value.number())
                && (self.packet_clocks.len() < SEQUENCES_MAX || self.packet_clocks.contains_key(&sequence))
            {
                self.packet_clocks.insert(sequence, clock);
            }
        }
    }

    /// Converts the time of a packet to the clock of the events; `None` if the clocks cannot be converted.
    fn boot_time(&self, time: Timestamp, clock: u64) -> Option<Timestamp> {
        if self.clock.unwrap_or_default() != FtraceClock::Boot {
            return None;
        }
        match clock {
            BOOTTIME => Some(time),
            MONOTONIC => time.0.checked_add_signed(self.boot_over_monotonic?).map(Timestamp),
            _ => None,
        }
    }

    /// Handles the next event in the order of time.
    fn event(&mut self, event: &Event, is_late: bool, batch: &mut Batch) {
        let at = Timestamp(event.time);
        self.latest = self.latest.max(at);
        if is_late {
            // The state of the threads between this event and the ones before it is unknown.
            self.sleeps.forget();
            self.syncs.forget();
            self.files.forget();
        } else {
            self.scheduled(event, at, batch);
        }
        let mut name = |tid, comm| batch.threads.extend(self.names.event(tid, comm, at));
        match &event.item {
            Item::Gap { .. } | Item::BlockedReason { .. } => {}
            Item::Switch { from, to, comm, .. } => {
                if let Some(stopped) = from {
                    name(stopped.0, &stopped.1);
                }
                name(*to, comm);
            }
            Item::Waking { tid, comm, .. } | Item::Named { tid, comm } | Item::Created { tid, comm, .. } => {
                name(*tid, comm);
            }
            Item::Print { tid, text } => {
                self.sleeps.launches.wrote(text, at);
                batch.marks.extend(self.marks.wrote(text, *tid, at));
            }
            Item::SyncEnter { tid, is_data } => self.syncs.enter(*tid, at, *is_data),
            Item::SyncExit { tid, is_data, result } => {
                batch.calls.extend(self.syncs.exit(*tid, at, *is_data, Some(*result)));
            }
            Item::File(event) => match &**event {
                FileEvent::Begun(begun) => {
                    name(begun.tid, &begun.comm);
                    self.files.begin(begun, at, &mut batch.files);
                }
                FileEvent::Ended(place) => batch.calls.extend(self.files.end(*place, at)),
                FileEvent::SyncBegun(begun) => {
                    name(begun.tid, &begun.comm);
                    let file_id = self.files.file(begun, at, &mut batch.files);
                    self.syncs.enter_file(begun.tid, at, false, file_id);
                }
                FileEvent::SyncEnded { tid } => batch.calls.extend(self.syncs.exit(*tid, at, false, None)),
            },
            Item::Block { event, comm } => {
                if let Some(tid) = event.tid {
                    name(tid, comm);
                }
                self.shows.insert(event.kind);
                self.has_blocks = true;
                batch.events.push(**event);
            }
        }
    }

    fn finish(&mut self, batch: &mut Batch) {
        batch.marks.extend(self.marks.finish());
        self.sleeps.finish(&mut batch.waits);
        let file = self.file.clone();
        let whole = InputPlace { file: &file, record: None, offset: None };
        let mut add = |severity, code, message: String| {
            self.complaints.add(severity, code, whole, || message);
        };
        if !self.has_bundles {
            let message = "The trace has no ftrace events, so it shows neither requests nor blocked threads; record \
                           again with the data source linux.ftrace.";
            add(Severity::Error, "no-ftrace", message.to_owned());
        }
        if self.other_machines > 0 {
            let count = self.other_machines;
            let message = format!(
                "{count} packets are of another machine (such as a virtual machine of the phone) with its own clock; they were left out."
            );
            add(Severity::Note, "other-machine", message);
        }
        if self.order.late > 0 {
            let message = format!("{} events came too late to be sorted by time.", self.order.late);
            add(Severity::Warning, "out-of-order", message);
        }
        if self.order.repeated > 0 {
            let count = self.order.repeated;
            let message = format!("{count} events were recorded by two data sources; each was counted once.");
            add(Severity::Note, "repeated-events", message);
        }
        for (severity, code, message) in self.loss.finish(self.latest, &mut batch.lost) {
            add(severity, code, message);
        }
        if self.unclocked_frames > 0 {
            let count = self.unclocked_frames;
            let message = format!(
                "{count} events of the frame timeline were left out, because their clock cannot be converted to that of the kernel's events."
            );
            add(Severity::Note, "unclocked-frames", message);
        }
        if self.unclocked_counters > 0 {
            let message = format!(
                "{} packets with counters of the machine were left out, because their clock cannot be converted to \
                 the clock of the kernel's events.",
                self.unclocked_counters
            );
            add(Severity::Note, "unclocked-counters", message);
        }
        self.files.forget();
        if self.files.without_end > 0 {
            let message = format!(
                "{} reads and writes of files were left out, because their end is unknown.",
                self.files.without_end
            );
            add(Severity::Note, "calls-without-end", message);
        }
        if self.files.are_many {
            let message = "The trace names more than 65536 files; calls on further files have no file.";
            add(Severity::Warning, "many-files", message.to_owned());
        }
        if let Some(message) = self.unused.message() {
            add(Severity::Note, "unused-events", message);
        }
        if self.sleeps.cut > 0 {
            let message = format!(
                "{} waits were left out, because events were lost before their end.",
                self.sleeps.cut
            );
            add(Severity::Note, "cut-waits", message);
        }
        if self.has_bundles && !self.has_blocks {
            let message = match self.sleeps.seen {
                true => format!("The trace has no events of the block layer; {RECORD_BLOCKS}."),
                false => format!(
                    "The trace has events of neither the scheduler nor the block layer. To see who was blocked, {RECORD_SCHEDULER}; \
                     to see requests, {RECORD_BLOCKS}."
                ),
            };
            let severity = if self.sleeps.seen { Severity::Note } else { Severity::Warning };
            add(severity, "no-block-events", message);
        }
        self.complaints.finish();
    }

    /// Follows the threads through an event.
    fn scheduled(&mut self, event: &Event, at: Timestamp, batch: &mut Batch) {
        let cpu = event.cpu;
        match &event.item {
            Item::Gap { after } => {
                self.sleeps.gap(Some(cpu), Timestamp(*after), at);
                self.syncs.forget();
                self.files.forget();
            }
            Item::Switch { from, state, to, .. } => {
                let is_in_sync = self.syncs.is_in(*to);
                let (from, left, to) = (from.as_ref().map(|from| from.0), left_of_state(*state), *to);
                self.sleeps.switch(Switch { cpu, at, from, left, to, is_in_sync }, &mut batch.waits);
            }
            Item::Waking { tid, current, is_interrupt, .. } => {
                let (tid, current, is_interrupt) = (*tid, *current, *is_interrupt);
                self.sleeps.waking(WakeUp { cpu, at, tid, current, is_interrupt });
            }
            Item::Created { tid, by, .. } => self.sleeps.created(at, *tid, *by),
            Item::BlockedReason { tid, is_io, caller } => {
                let name = caller.and_then(|symbol| self.symbol_names.get(symbol as usize));
                self.sleeps.reason(*tid, *is_io, name.cloned());
            }
            Item::Block { event, .. } if event.kind == EventKind::Complete => self.sleeps.completion(cpu, at),
            Item::Block { .. }
            | Item::Named { .. }
            | Item::Print { .. }
            | Item::SyncEnter { .. }
            | Item::SyncExit { .. }
            | Item::File(_) => {}
        }
    }
}
