//! Reads trace.dat, the file of trace-cmd, in versions 6 and 7.
//!
//! The file contains the formats of the recorded events (`description.rs`) and the pages of the kernel's ring
//! buffer (`pages.rs`). `fonio-tracefs` decodes the pages, as in a live recording. The pages of the processors
//! follow each other in the file and are merged by time, so the file must allow random access; a stream is
//! kept in memory if it is small.

mod description;
pub mod encode;
mod packing;
mod pages;
mod symbols;

use std::io;

use fonio_core::meta::{Clock, Source};
use fonio_core::threads::{NameOrigin, SeenThreads};
use fonio_core::{Batch, EventKind, Severity, Timestamp, TraceReader};
use fonio_tracefs::ring_buffer::{
    BlockDecoder, ByteOrder, EventFormat, MergedRecords, PageSource, Record, SchedDecoder, SchedEvent,
    SchedRecord,
};
use rustc_hash::FxHashMap;

use self::description::{Buffer, Description, KIND, MAGIC};
use self::pages::Pages;
use self::symbols::Symbols;
use crate::complaints::{Complaints, InputPlace};
use crate::event_formats::{is_of, thread};
use crate::ftrace_text::marks::Marks;
use crate::input::Input;
use crate::random_access::RandomAccess;
pub use crate::refusal::Refusal;
use crate::scheduling::{Sleeps, Switch, WakeUp};
use crate::syncs::{SyncFormats, Syncs};

/// How to record the missing events.
const RECORD: &str = "Record again with `trace-cmd record -e block -C mono`";

/// Number of records in which a buffer must have a block event to be chosen.
const RECORDS_EXAMINED: usize = 100_000;

/// Number of events in a batch, and of records that are examined for one.
const BATCH_EVENTS: usize = 4096;
const BATCH_RECORDS: usize = 64 * 1024;

/// Maximum size of the pages of all processors together that are kept in memory. A page has at most 4 MiB.
const PAGES_BYTES_MAX: usize = 64 << 20;

/// Returns whether `head` is the start of a trace.dat.
pub fn recognise(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// Reads a trace.dat.
pub struct TraceDatReader {
    records: MergedRecords<Pages>,
    state: State,
    clock: String,
    ended: bool,
}

/// All state except the records.
struct State {
    file: String,
    blocks: Option<BlockDecoder>,
    sched: Option<SchedDecoder>,
    sync_formats: SyncFormats,
    print: Option<EventFormat>,
    order: ByteOrder,
    symbols: Symbols,
    names: FxHashMap<u32, String>,
    threads: SeenThreads,
    sleeps: Sleeps,
    syncs: Syncs,
    marks: Marks,
    complaints: Complaints,
}

impl TraceDatReader {
    /// Opens a file and reads its description. Fails if the file cannot be read, or has events of neither the block
    /// layer nor the scheduler.
    pub fn open(input: Input) -> Result<TraceDatReader, Refusal> {
        let name = input.name.clone();
        let file = RandomAccess::of(input, KIND)?;
        let description = Description::read(&file)?;
        let mut complaints = Complaints::default();
        let blocks = BlockDecoder::new(&description.formats, description.order);
        let sched = SchedDecoder::new(&description.formats, description.order);
        if blocks.is_none() && sched.is_none() {
            let systems: Vec<String> =
                description.systems.iter().map(|system| system.escape_debug().to_string()).collect();
            let has = if systems.is_empty() { "none".to_owned() } else { systems.join(", ") };
            return Err(Refusal::is(
                format!("it is a trace.dat of trace-cmd without block events (its events: {has})"),
                RECORD,
            ));
        }
        let filled: Vec<&Buffer> = description.buffers.iter().filter(|buffer| buffer.size() > 0).collect();
        let chosen = match filled[..] {
            [one] => one,
            _ => {
                let mut with_blocks = None;
                for buffer in filled.iter().filter(|_| blocks.is_some()) {
                    if has_block_event(&file, &description, buffer, blocks.as_ref())? {
                        with_blocks = Some(*buffer);
                        break;
                    }
                }
                with_blocks.or(filled.first().copied()).ok_or_else(|| {
                    Refusal::is("it is a trace.dat of trace-cmd without any event".into(), RECORD)
                })?
            }
        };
        let place = InputPlace { file: &name, ..InputPlace::default() };
        for other in filled.iter().filter(|other| **other != chosen) {
            complaints.add(Severity::Warning, "other-buffer", place, || {
                format!(
                    "The file has several buffers. The buffer {} was read; the buffer {} was left out. To read it: \
                     `trace-cmd report -B NAME trace.dat > trace.txt`.",
                    quoted(&chosen.name),
                    quoted(&other.name)
                )
            });
        }
        let clock = clock(chosen, &description, &mut complaints, place);
        let records = MergedRecords::new(
            description.layout.clone(),
            streams(&file, &description, chosen, &name),
            began(&file, &description, chosen)?,
        );
        let sync_formats = SyncFormats::of(&description.formats);
        let Description { symbols, names, print, order, .. } = description;
        let names = names.into_iter().collect();
        let state = State {
            file: name.clone(),
            blocks,
            sched,
            sync_formats,
            print,
            order,
            symbols,
            names,
            threads: SeenThreads::default(),
            sleeps: Sleeps::default(),
            syncs: Syncs::default(),
            marks: Marks::default(),
            complaints,
        };
        Ok(TraceDatReader { records, state, clock, ended: false })
    }
}

impl State {
    /// Handles a record in the order of time.
    fn record(&mut self, cpu: u32, record: Record<'_>, batch: &mut Batch) {
        let block = self.blocks.as_ref().and_then(|blocks| blocks.decode_named(record, Some(cpu)));
        if let Some((event, comm)) = block {
            if let Some(tid) = event.tid {
                let (comm, origin) = match comm {
                    Some(comm) => (Some(comm), NameOrigin::Event),
                    None => (self.names.get(&tid).map(|name| name.as_bytes()), NameOrigin::Columns),
                };
                batch.threads.extend(self.threads.seen(tid, None, comm, origin, event.time));
            }
            if event.kind == EventKind::Complete {
                self.sleeps.completion(cpu, event.time);
            }
            batch.events.push(event);
            return;
        }
        batch.instants.see(record.time);
        if let Some(scheduled) = self.sched.as_ref().and_then(|sched| sched.decode(record.data)) {
            self.scheduled(cpu, record.time, &scheduled, batch);
        } else {
            self.program(record, batch);
        }
    }

    /// Handles the begin or end of a sync call, or the text of a program.
    fn program(&mut self, record: Record<'_>, batch: &mut Batch) {
        let (at, data) = (record.time, record.data);
        if let Some(sync) = self.sync_formats.decode(data, self.order)
            && let Some(tid) = sync.tid
        {
            self.named(tid, at, batch);
            if sync.is_begin {
                self.syncs.enter(tid, at, sync.is_data);
            } else {
                batch.calls.extend(self.syncs.exit(tid, at, sync.is_data, sync.result));
            }
            return;
        }
        if let Some(print) = self.print.as_ref().filter(|print| is_of(print, data, self.order))
            && let Some(tid) = thread(print, data, self.order)
            && let Some(text) = print.field("buf").and_then(|field| data.get(field.offset..))
        {
            let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
            self.sleeps.launches.wrote(text, at);
            batch.marks.extend(self.marks.wrote(text, tid, at));
            self.named(tid, at, batch);
        }
    }

    /// Records a thread with its name from the list of threads.
    fn named(&mut self, tid: u32, at: Timestamp, batch: &mut Batch) {
        let comm = self.names.get(&tid).map(|name| name.as_bytes());
        batch.threads.extend(self.threads.seen(tid, None, comm, NameOrigin::Columns, at));
    }

    fn scheduled(&mut self, cpu: u32, at: Timestamp, record: &SchedRecord<'_>, batch: &mut Batch) {
        let current = Some(record.current);
        match record.event {
            SchedEvent::Switch { prev, prev_comm, left, next } => {
                let comm = Some(prev_comm);
                batch.threads.extend(self.threads.seen(prev, None, comm, NameOrigin::Event, at));
                let is_in_sync = self.syncs.is_in(next);
                let switch = Switch { cpu, at, from: Some(prev), left, to: next, is_in_sync };
                self.sleeps.switch(switch, &mut batch.waits);
            }
            SchedEvent::Waking { tid } => {
                let is_interrupt = Some(record.interrupt.is_some());
                self.sleeps.waking(WakeUp { cpu, at, tid, current, is_interrupt });
            }
            // The event can happen on another processor than the waker's.
            SchedEvent::Woken { tid } => {
                self.sleeps.waking(WakeUp { cpu, at, tid, current, is_interrupt: None });
            }
            SchedEvent::BlockedReason { tid, caller, is_io } => {
                let function = self.symbols.function(caller).map(str::to_owned);
                self.sleeps.reason(tid, is_io, function);
            }
            SchedEvent::Fork { parent, child } => self.sleeps.created(at, child, parent),
            SchedEvent::Ran { .. } | SchedEvent::Stack(_) => {}
        }
    }

    fn finish(&mut self, batch: &mut Batch) {
        self.sleeps.finish(&mut batch.waits);
        batch.marks.extend(self.marks.finish());
        let (file, cut) = (self.file.clone(), self.sleeps.cut);
        if cut > 0 {
            let place = InputPlace { file: &file, ..InputPlace::default() };
            self.complaints.add(Severity::Note, "cut-waits", place, || {
                format!("{cut} waits were left out, because events were lost before their end.")
            });
        }
        self.complaints.finish();
    }
}

impl TraceReader for TraceDatReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        if self.ended {
            return Ok(false);
        }
        for _ in 0..BATCH_RECORDS {
            let state = &mut self.state;
            let more = self.records.next(|cpu, record| state.record(cpu, record, batch))?;
            if self.records.has_trouble() {
                let trouble = self.records.take_trouble();
                for gap in &trouble.lost {
                    state.sleeps.gap(gap.cpu, gap.after, gap.before);
                    state.syncs.forget();
                }
                batch.lost.extend(trouble.lost);
                batch.diagnostics.extend(trouble.diagnostics);
            }
            if !more {
                self.ended = true;
                state.finish(batch);
                break;
            }
            if batch.events.len() >= BATCH_EVENTS {
                break;
            }
        }
        batch.diagnostics.append(&mut self.state.complaints.ready);
        Ok(!self.ended)
    }

    fn source(&self) -> Source {
        let mut shows = self.state.blocks.as_ref().map(BlockDecoder::shows).unwrap_or_default();
        self.state.sleeps.shows(&mut shows);
        Source { format: "trace-dat".into(), files: vec![self.state.file.clone()], shows }
    }

    fn clock(&self) -> Clock {
        Clock { name: self.clock.clone(), unix_ns_at_zero: None }
    }

    fn may_show_waits(&self) -> bool {
        true
    }
}

/// Returns the pages of each processor of a buffer.
fn streams<'a>(
    file: &'a RandomAccess,
    description: &'a Description,
    buffer: &'a Buffer,
    name: &'a str,
) -> impl Iterator<Item = (u32, String, Pages)> + 'a {
    let page_bytes = description.layout.page_bytes().max(buffer.page_bytes);
    let page_bytes = page_bytes.min(PAGES_BYTES_MAX / buffer.cpus.len().max(16));
    buffer.cpus.iter().map(move |(cpu, at, size)| {
        let place = (*at, *size);
        let pages =
            Pages::new(file, description.order, page_bytes, description.packing, place, buffer.cpus.len());
        (*cpu, name.to_owned(), pages)
    })
}

/// Returns the time of the first page. Before it, the trace is not complete.
fn began(file: &RandomAccess, description: &Description, buffer: &Buffer) -> io::Result<Timestamp> {
    let mut began = None;
    let mut page = Vec::new();
    for (_, _, mut pages) in streams(file, description, buffer, "") {
        if pages.next_page(&mut page)?.is_some()
            && let Ok((header, _)) = description.layout.open(&page)
        {
            began = Some(began.map_or(header.time, |began: Timestamp| began.min(header.time)));
        }
    }
    Ok(began.unwrap_or_default())
}

/// Returns whether the first records of a buffer contain a block event.
fn has_block_event(
    file: &RandomAccess,
    description: &Description,
    buffer: &Buffer,
    blocks: Option<&BlockDecoder>,
) -> io::Result<bool> {
    let streams = streams(file, description, buffer, "");
    let mut records = MergedRecords::new(description.layout.clone(), streams, Timestamp(0));
    let mut found = false;
    for _ in 0..RECORDS_EXAMINED {
        let more = records.next(|cpu, record| {
            found = blocks.is_some_and(|blocks| blocks.decode(record, Some(cpu)).is_some());
        })?;
        if found || !more {
            break;
        }
    }
    Ok(found)
}

/// Returns the name of a buffer's clock, and reports clocks that do not give comparable times.
fn clock(
    buffer: &Buffer,
    description: &Description,
    complaints: &mut Complaints,
    place: InputPlace<'_>,
) -> String {
    // trace-cmd 3.1 writes `local` for the buffer of each instance in version 7, whatever clock it has.
    let clock = match (&buffer.clock, &description.clock) {
        (Some(own), Some(all)) if own == "local" => all,
        (Some(clock), _) | (None, Some(clock)) => clock,
        (None, None) => return "unknown".into(),
    };
    match clock.as_str() {
        "local" => complaints.add(Severity::Warning, "local-clock", place, || {
            "The trace has the clock `local`, which is not the same on all processors. The latency of a request that was \
             issued on one processor and completed on another can be wrong. Record again with `trace-cmd record -C mono`."
                .into()
        }),
        "counter" | "uptime" | "x86-tsc" => complaints.add(Severity::Warning, "counter-clock", place, || {
            format!(
                "The trace has the clock `{clock}`, which does not count nanoseconds. Its times are treated as \
                 nanoseconds, so all durations are in its units. Record again with `trace-cmd record -C mono`."
            )
        }),
        _ => {}
    }
    clock.clone()
}

fn quoted(name: &str) -> String {
    if name.is_empty() { "of the main trace".into() } else { format!("`{}`", name.escape_debug()) }
}

#[cfg(test)]
mod tests;
