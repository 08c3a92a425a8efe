//! The parts of a file that describe its records.
//!
//! ```text
//! file: "PERFILE2" | u64 size of this header | u64 size of an event | events, data, names (each u64 offset, u64 size) |
//!       u64 × 4 bits of the parts behind the data
//! event: description (sample.rs) | u64 offset, u64 size of its ids
//! behind the data: u64 offset, u64 size of each part
//! pipe: "PERFILE2" | u64 16 | records, of which the first describe the events
//! ```
//!
//! The numbers are in the byte order of the recorded machine. The part 1, "tracing data", has the formats of the tracepoints
//! as a trace.dat of trace-cmd has them. Source: `tools/perf/Documentation/perf.data-file-format.txt` in Linux 6.18.

use fonio_tracefs::ring_buffer::{BLOCK_EVENTS, ByteOrder};
use rustc_hash::FxHashMap;

use super::sample::{Attributes, IDENTIFIER, Numbers};
use crate::event_formats::EventFormats;
use crate::random_access::{FileKind, Place, RandomAccess};
use crate::refusal::Refusal;
use crate::syncs::sync_event;

/// The first bytes of a file in each byte order.
pub(super) const MAGIC_LITTLE: &[u8] = b"PERFILE2";
pub(super) const MAGIC_BIG: &[u8] = b"2ELIFREP";

/// The kind of the file.
pub(super) const KIND: &FileKind = &FileKind {
    name: "a perf.data",
    record_again: "Record again, and let perf end by itself or with Ctrl-C",
};

/// How to record requests.
pub(super) const RECORD_BLOCKS: &str = "`perf record -a -k CLOCK_MONOTONIC -e block:block_rq_issue,block:block_rq_complete,block:block_rq_insert`";

/// Size of the header of a file that perf wrote into a pipe.
const PIPE_HEADER_BYTES: u64 = 16;

/// Maximum sizes. perf describes an event with 136 bytes, and has one id for each event and processor. The formats of all
/// events of Linux 6.18 have 4 MiB, but perf also writes the kernel's symbols.
pub(super) const TRACING_DATA_BYTES_MAX: u64 = 32 << 20;
const EVENT_BYTES_MAX: u64 = 4096;
const EVENTS_MAX: u64 = 4096;
const IDS_MAX: usize = 1 << 20;
const CLOCK_BYTES_MAX: u64 = 4096;

/// The numbers of the parts behind the data.
pub(super) const TRACING_DATA: u32 = 1;
const DIRECTORY: u32 = 24;
const CLOCK_DATA: u32 = 29;
const PARTS_MAX: u32 = 256;

/// What a file says about its records.
#[derive(Debug)]
pub(super) struct Description {
    pub order: ByteOrder,
    /// The formats of the events that fonio reads, and all systems; `None` before the file shows them.
    pub formats: Option<EventFormats>,
    pub events: Events,
    /// The time of day at the time 0 of the clock.
    pub unix_ns_at_zero: Option<i64>,
    /// Whether perf wrote the records of each processor to a file of its own.
    pub has_other_files: bool,
}

/// How the recorded events were recorded.
#[derive(Debug, Default)]
pub(super) struct Events {
    all: Vec<Attributes>,
    /// The number of the event with each id.
    by_id: FxHashMap<u64, u16>,
}

impl Events {
    /// Adds an event with its ids.
    pub fn add(&mut self, event: Attributes, ids: impl Iterator<Item = u64>) {
        let Some(number) =
            u16::try_from(self.all.len()).ok().filter(|number| u64::from(*number) < EVENTS_MAX)
        else {
            return;
        };
        self.all.push(event);
        let left = IDS_MAX.saturating_sub(self.by_id.len());
        self.by_id.extend(ids.take(left).map(|id| (id, number)));
    }

    pub fn all(&self) -> &[Attributes] {
        &self.all
    }

    /// Returns how the event of a sample was recorded. Files of one event, and of perf before 3.13, have no identifiers; then
    /// all events have the same fields.
    pub fn of_sample(&self, body: &[u8], order: ByteOrder) -> Option<&Attributes> {
        let first = self.all.first()?;
        if first.sample_type & IDENTIFIER == 0 {
            return Some(first);
        }
        self.with_id(Numbers::of(body, order).u64()?)
    }

    /// Returns how the event of another record was recorded. Its identifier is at the end.
    pub fn of_other(&self, body: &[u8], order: ByteOrder) -> Option<&Attributes> {
        let first = self.all.first()?;
        if first.sample_type & IDENTIFIER == 0 {
            return Some(first);
        }
        let id = Numbers::of(body.last_chunk::<8>()?, order).u64()?;
        self.with_id(id)
    }

    fn with_id(&self, id: u64) -> Option<&Attributes> {
        // Records that perf itself made can have the id 0.
        let number = self.by_id.get(&id).copied().unwrap_or(0);
        self.all.get(usize::from(number))
    }
}

/// Where the records of a file are.
pub(super) enum Data {
    /// At this offset, with this size.
    File(u64, u64),
    /// From this offset to the end of the stream.
    Pipe(u64),
}

/// Returns the byte order of a file that begins with `head`, and whether perf wrote it into a pipe.
pub(super) fn beginning(head: &[u8]) -> Option<(ByteOrder, bool)> {
    let order = match head.get(..8)? {
        MAGIC_LITTLE => ByteOrder::Little,
        MAGIC_BIG => ByteOrder::Big,
        _ => return None,
    };
    let size = Numbers::of(head.get(8..)?, order).u64()?;
    Some((order, size == PIPE_HEADER_BYTES))
}

impl Description {
    /// Creates the description of a file that perf wrote into a pipe. Its records describe it.
    pub fn of_pipe(order: ByteOrder) -> Description {
        Description {
            order,
            formats: None,
            events: Events::default(),
            unix_ns_at_zero: None,
            has_other_files: false,
        }
    }

    /// Reads the description of a file.
    pub fn read(file: &RandomAccess, order: ByteOrder) -> Result<(Description, Data), Refusal> {
        let mut description = Description::of_pipe(order);
        let mut place = Place::of_file(file, 16, order);
        let event_bytes = place.number(8, "the size of an event")?;
        let mut part =
            |what| -> Result<(u64, u64), Refusal> { Ok((place.number(8, what)?, place.number(8, what)?)) };
        let (events_at, events_size) = part("the place of its events")?;
        let (data_at, data_size) = part("the place of its records")?;
        part("the place of its names")?;
        let mut bits = Vec::new();
        for _ in 0..4 {
            bits.push(place.number(8, "the list of its parts")?);
        }
        if data_size == 0 && bits.iter().all(|bits| *bits == 0) {
            return Err(Refusal::is(
                "it is a perf.data whose recording did not end, so the formats of its events are missing"
                    .into(),
                KIND.record_again,
            ));
        }
        if !(80..=EVENT_BYTES_MAX).contains(&event_bytes) || events_size / event_bytes > EVENTS_MAX {
            return Err(place.damaged("the size of its events"));
        }
        for number in 0..events_size / event_bytes {
            let mut place = Place::of_file(file, events_at.saturating_add(number * event_bytes), order);
            let bytes = place.bytes(event_bytes - 16, EVENT_BYTES_MAX, "an event")?;
            let event = Attributes::parse(&bytes, order).ok_or_else(|| place.damaged("an event"))?;
            let (ids_at, ids_size) =
                (place.number(8, "the ids of an event")?, place.number(8, "the ids of an event")?);
            let mut place = Place::of_file(file, ids_at, order);
            let ids = place.bytes(ids_size, 8 * IDS_MAX as u64, "the ids of an event")?;
            let ids = ids.chunks_exact(8).filter_map(|id| Numbers::of(id, order).u64());
            description.events.add(event, ids);
        }
        let data_end = data_at.checked_add(data_size).ok_or_else(|| place.damaged("the size of its data"))?;
        let mut list = Place::of_file(file, data_end, order);
        for number in 0..PARTS_MAX {
            if bits[number as usize / 64] >> (number % 64) & 1 == 0 {
                continue;
            }
            let what = "the list of the parts behind its records";
            let (at, size) = (list.number(8, what)?, list.number(8, what)?);
            if matches!(number, TRACING_DATA | CLOCK_DATA | DIRECTORY) {
                let most = if number == TRACING_DATA { TRACING_DATA_BYTES_MAX } else { CLOCK_BYTES_MAX };
                let part = Place::of_file(file, at, order).bytes(size, most, "a part behind its records")?;
                description.part(number, part)?;
            }
        }
        Ok((description, Data::File(data_at, data_size)))
    }

    /// Reads one of the parts that are behind the data of a file, or in a record of a stream.
    pub fn part(&mut self, number: u32, part: Vec<u8>) -> Result<(), Refusal> {
        match number {
            TRACING_DATA => self.formats = Some(tracing_data(part)?),
            DIRECTORY => self.has_other_files = true,
            CLOCK_DATA => {
                self.unix_ns_at_zero = unix_ns_at_zero(Numbers::of(&part, self.order));
            }
            _ => {}
        }
        Ok(())
    }
}

/// The part with the formats of tracepoints.
pub(super) fn tracing_data(bytes: Vec<u8>) -> Result<EventFormats, Refusal> {
    // The beginning is that of a trace.dat: 3 magic bytes, "tracing", the version, NUL, the byte order of the numbers.
    let mut place = Place::of_memory(bytes, ByteOrder::Little, KIND);
    place.bytes(10, 10, "the formats of its events")?;
    place.text("the formats of its events")?;
    let order = match place.number(1, "the byte order of its formats")? {
        0 => ByteOrder::Little,
        _ => ByteOrder::Big,
    };
    place.set_order(order);
    place.number(1, "the size of a long")?;
    place.number(4, "the page size")?;
    for what in ["the header of its pages", "the header of its events"] {
        place.text(what)?;
        let size = place.number(8, what)?;
        place.skip(size, what)?;
    }
    let count = place.number(4, "the number of ftrace's events")?;
    for _ in 0..count.min(EventFormats::COUNT_MAX) {
        let size = place.number(8, "the size of a format")?;
        place.skip(size, "a format")?;
    }
    let mut formats = EventFormats::default();
    formats.read(&mut place, |system, name| match system {
        "block" => BLOCK_EVENTS.contains(&name),
        "sched" => SCHED_WANTED.contains(&name),
        "ext4" | "f2fs" => sync_event(name).is_some(),
        _ => false,
    })?;
    Ok(formats)
}

/// The events of the scheduler that fonio reads.
const SCHED_WANTED: [&str; 5] =
    ["sched_switch", "sched_waking", "sched_wakeup", "sched_blocked_reason", "sched_process_fork"];

/// Returns the time since 1970 at which the trace's clock was 0, from the part with the times of both clocks.
fn unix_ns_at_zero(mut numbers: Numbers<'_>) -> Option<i64> {
    // The number of the clock.
    numbers.u64()?;
    let (unix, clock) = (numbers.u64()?, numbers.u64()?);
    i64::try_from(unix).ok()?.checked_sub(i64::try_from(clock).ok()?)
}
