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

use std::io;

use fonio_core::meta::{Clock, Source};
use fonio_core::threads::{NameOrigin, SeenThreads};
use fonio_core::{Batch, BlockEvent, Severity, Thread, Timestamp, TraceReader};
use fonio_tracefs::ring_buffer::{
    BlockDecoder, MergedRecords, PageSource, Record, RingBufferReader, SchedDecoder, SchedEvent,
};
use rustc_hash::FxHashMap;

use self::description::{Buffer, Description, KIND, MAGIC};
use self::pages::Pages;
use crate::complaints::{Complaints, InputPlace};
use crate::input::Input;
use crate::random_access::RandomAccess;
pub use crate::refusal::Refusal;

/// Number of records in which a buffer must have a block event to be chosen.
const RECORDS_EXAMINED: usize = 100_000;

/// Maximum size of the pages of all processors together that are kept in memory. A page has at most 4 MiB.
const PAGES_BYTES_MAX: usize = 64 << 20;

/// Returns whether `head` is the start of a trace.dat.
pub fn recognise(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// Reads a trace.dat.
pub struct TraceDatReader {
    records: RingBufferReader<Pages>,
    decoder: BlockDecoder,
    sched: Option<SchedDecoder>,
    names: FxHashMap<u32, String>,
    threads: SeenThreads,
    complaints: Complaints,
    ended: bool,
}

impl TraceDatReader {
    /// Opens a file and reads its description. Fails if the file cannot be read or has no block events.
    pub fn open(input: Input) -> Result<TraceDatReader, Refusal> {
        let name = input.name.clone();
        let file = RandomAccess::of(input, KIND)?;
        let description = Description::read(&file)?;
        let mut complaints = Complaints::default();
        let Some(decoder) = BlockDecoder::new(&description.formats, description.order) else {
            let systems: Vec<String> =
                description.systems.iter().map(|system| system.escape_debug().to_string()).collect();
            let has = if systems.is_empty() { "none".to_owned() } else { systems.join(", ") };
            return Err(Refusal::is(
                format!("it is a trace.dat of trace-cmd without block events (its events: {has})"),
                "Record again with `trace-cmd record -e block -C mono`",
            ));
        };
        let filled: Vec<&Buffer> = description.buffers.iter().filter(|buffer| buffer.size() > 0).collect();
        let chosen = match filled[..] {
            [one] => one,
            _ => {
                let mut with_blocks = None;
                for buffer in &filled {
                    if has_block_event(&file, &description, buffer, &decoder)? {
                        with_blocks = Some(*buffer);
                        break;
                    }
                }
                with_blocks.or(filled.first().copied()).ok_or_else(|| {
                    Refusal::is(
                        "it is a trace.dat of trace-cmd without any event".into(),
                        "Record again with `trace-cmd record -e block -C mono`",
                    )
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
        let source = Source { format: "trace-dat".into(), files: vec![name.clone()], shows: decoder.shows() };
        let records = RingBufferReader::new(
            description.layout.clone(),
            decoder.clone(),
            streams(&file, &description, chosen, &name),
            source,
            Clock { name: clock, unix_ns_at_zero: None },
            began(&file, &description, chosen)?,
        );
        Ok(TraceDatReader {
            records,
            sched: SchedDecoder::new(&description.formats, description.order),
            decoder,
            names: description.names.into_iter().collect(),
            threads: SeenThreads::default(),
            complaints,
            ended: false,
        })
    }
}

impl TraceReader for TraceDatReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        if self.ended {
            batch.clear();
            return Ok(false);
        }
        let mut rows: Vec<Thread> = Vec::new();
        let (decoder, sched, names, threads) = (&self.decoder, &self.sched, &self.names, &mut self.threads);
        let mut look = |record: Record<'_>, block: Option<&BlockEvent>| {
            if let Some(event) = block {
                let Some(tid) = event.tid else { return };
                let (comm, origin) = match decoder.comm(record.data) {
                    Some(comm) => (Some(comm), NameOrigin::Event),
                    None => (names.get(&tid).map(|name| name.as_bytes()), NameOrigin::Columns),
                };
                rows.extend(threads.seen(tid, None, comm, origin, event.time));
            } else if let Some(SchedEvent::Switch { prev, prev_comm, .. }) =
                sched.as_ref().and_then(|sched| sched.decode(record.data)).map(|record| record.event)
            {
                rows.extend(threads.seen(prev, None, Some(prev_comm), NameOrigin::Event, record.time));
            }
        };
        let more = self.records.next_batch_with(batch, &mut look)?;
        // The rows above also have the names in scheduler events and at the end of the file.
        batch.threads = rows;
        if !more {
            self.ended = true;
            self.complaints.finish();
        }
        batch.diagnostics.append(&mut self.complaints.ready);
        Ok(more)
    }

    fn source(&self) -> Source {
        self.records.source()
    }

    fn clock(&self) -> Clock {
        self.records.clock()
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
    decoder: &BlockDecoder,
) -> io::Result<bool> {
    let streams = streams(file, description, buffer, "");
    let mut records = MergedRecords::new(description.layout.clone(), streams, Timestamp(0));
    let mut found = false;
    for _ in 0..RECORDS_EXAMINED {
        let more = records.next(|cpu, record| found = decoder.decode(record, Some(cpu)).is_some())?;
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
