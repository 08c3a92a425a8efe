//! Decodes block tracepoints: converts a record's bytes into a [`BlockEvent`], with the field offsets that
//! the kernel states.

use fonio_core::{
    BlockEvent, ByteCount, DeviceId, EventKind, Flags, KindSet, Op, SECTOR_BYTES, Sector, parse_rwbs,
};

use super::format::{EventFormat, FieldKind, until_nul};
use super::page::Record;
use super::{ByteOrder, Field};

/// The supported tracepoints of the `block` system. `block_rq_error` is omitted, because `block_rq_complete`
/// always accompanies it and contains the same error.
pub const BLOCK_EVENTS: [&str; 20] = [
    "block_bio_queue",
    "block_bio_backmerge",
    "block_bio_frontmerge",
    "block_bio_bounce",
    "block_bio_complete",
    "block_bio_remap",
    "block_split",
    "block_getrq",
    "block_sleeprq",
    "block_io_start",
    "block_io_done",
    "block_rq_insert",
    "block_rq_issue",
    "block_rq_requeue",
    "block_rq_complete",
    "block_rq_merge",
    "block_rq_remap",
    "block_plug",
    "block_unplug",
    // Linux 2.6.39 to 3.9 had two unplug events.
    "block_unplug_io",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Plain(EventKind),
    Split,
    Remap,
    RequestRemap,
    Unplug,
}

fn shape(name: &str) -> Option<Shape> {
    Some(match name {
        "block_bio_queue" => Shape::Plain(EventKind::BioQueue),
        "block_bio_backmerge" => Shape::Plain(EventKind::BackMerge),
        "block_bio_frontmerge" => Shape::Plain(EventKind::FrontMerge),
        "block_bio_bounce" => Shape::Plain(EventKind::Bounce),
        "block_bio_complete" => Shape::Plain(EventKind::BioComplete),
        "block_getrq" => Shape::Plain(EventKind::GetRequest),
        "block_sleeprq" => Shape::Plain(EventKind::SleepRequest),
        "block_io_start" => Shape::Plain(EventKind::IoStart),
        "block_io_done" => Shape::Plain(EventKind::IoDone),
        "block_rq_insert" => Shape::Plain(EventKind::Insert),
        "block_rq_issue" => Shape::Plain(EventKind::Issue),
        "block_rq_requeue" => Shape::Plain(EventKind::Requeue),
        "block_rq_complete" => Shape::Plain(EventKind::Complete),
        "block_rq_merge" => Shape::Plain(EventKind::RequestMerge),
        "block_plug" => Shape::Plain(EventKind::Plug),
        "block_split" => Shape::Split,
        "block_bio_remap" => Shape::Remap,
        "block_rq_remap" => Shape::RequestRemap,
        "block_unplug" | "block_unplug_io" => Shape::Unplug,
        _ => return None,
    })
}

/// The offset and size of a number in a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    offset: usize,
    size: usize,
}

impl Number {
    pub(super) fn of(format: &EventFormat, name: &str) -> Option<Number> {
        let field = format.field(name)?;
        let plain = field.kind == FieldKind::Plain && matches!(field.size, 1 | 2 | 4 | 8);
        plain.then_some(Number { offset: field.offset, size: field.size })
    }

    #[inline]
    pub(super) fn get(self, record: &[u8], order: ByteOrder) -> Option<u64> {
        // Nearly all fields begin at least eight bytes before the end of the record, so one load reads any size.
        let Some(bytes) = record.get(self.offset..).and_then(|rest| rest.first_chunk::<8>()) else {
            return order.unsigned(record, self.offset, self.size);
        };
        let unused = 8 * (8 - self.size as u32);
        Some(match order {
            ByteOrder::Little => u64::from_le_bytes(*bytes) << unused >> unused,
            ByteOrder::Big => u64::from_be_bytes(*bytes) >> unused,
        })
    }

    /// Reads a sector; a sector of -1 stays -1 even if `sector_t` has only 4 bytes.
    fn sector(self, record: &[u8], order: ByteOrder) -> Option<Sector> {
        let value = self.get(record, order)?;
        Some(Sector(if self.size == 4 && value == u64::from(u32::MAX) { u64::MAX } else { value }))
    }
}

/// For each field of [`BlockEvent`], its position in the records of one tracepoint; `None` if the tracepoint
/// lacks the field.
#[derive(Clone, Debug)]
struct Layout {
    shape: Shape,
    pid: Option<Number>,
    device: Option<Number>,
    sector: Option<Number>,
    sectors: Option<Number>,
    bytes: Option<Number>,
    rwbs: Option<Field>,
    comm: Option<Field>,
    ioprio: Option<Number>,
    error: Option<Number>,
    from_device: Option<Number>,
    from_sector: Option<Number>,
    new_sector: Option<Number>,
    count: Option<Number>,
}

/// Decodes the records of block tracepoints.
#[derive(Clone, Debug)]
pub struct BlockDecoder {
    order: ByteOrder,
    layouts: Vec<Layout>,
    /// For each event id, the index into `layouts`.
    by_id: Vec<Option<u8>>,
    /// `common_type` and `common_pid`, which have the same offset in every event.
    id: Number,
    pid: Number,
}

impl BlockDecoder {
    /// Creates a decoder for those `formats` that describe [`BLOCK_EVENTS`]. Other formats are skipped.
    /// Returns `None` if all formats were skipped.
    pub fn new<'f>(
        formats: impl IntoIterator<Item = &'f EventFormat>,
        order: ByteOrder,
    ) -> Option<BlockDecoder> {
        let mut decoder = BlockDecoder {
            order,
            layouts: Vec::new(),
            by_id: Vec::new(),
            id: Number { offset: 0, size: 2 },
            pid: Number { offset: 4, size: 4 },
        };
        for format in formats {
            let Some(shape) = shape(&format.name) else { continue };
            let number = |name| Number::of(format, name);
            if decoder.layouts.is_empty() {
                decoder.id = number("common_type").unwrap_or(decoder.id);
                decoder.pid = number("common_pid").unwrap_or(decoder.pid);
            }
            let index = u8::try_from(decoder.layouts.len()).ok()?;
            decoder.layouts.push(Layout {
                shape,
                pid: number("common_pid"),
                device: number("dev"),
                sector: number("sector"),
                sectors: number("nr_sector"),
                bytes: number("bytes"),
                rwbs: format.field("rwbs").cloned(),
                comm: format.field("comm").cloned(),
                ioprio: number("ioprio"),
                error: number("error").or(number("errors")),
                from_device: number("old_dev"),
                from_sector: number("old_sector"),
                new_sector: number("new_sector"),
                count: number("nr_rq"),
            });
            let id = usize::from(format.id);
            if decoder.by_id.len() <= id {
                decoder.by_id.resize(id + 1, None);
            }
            decoder.by_id[id] = Some(index);
        }
        (!decoder.layouts.is_empty()).then_some(decoder)
    }

    fn layout(&self, record: &[u8]) -> Option<&Layout> {
        let id = self.id.get(record, self.order)?;
        let index = (*self.by_id.get(usize::try_from(id).ok()?)?)?;
        self.layouts.get(usize::from(index))
    }

    /// Returns the decoded kinds of events, for [`Source::shows`](fonio_core::meta::Source::shows).
    pub fn shows(&self) -> Vec<String> {
        let mut kinds = KindSet::default();
        for layout in &self.layouts {
            // The name of an event kind does not depend on the values of its fields.
            kinds.insert(match layout.shape {
                Shape::Plain(kind) => kind,
                Shape::Split => EventKind::Split { new_sector: Sector(0) },
                Shape::Remap => EventKind::Remap { from_device: DeviceId(0), from_sector: Sector(0) },
                Shape::RequestRemap => {
                    EventKind::RequestRemap { from_device: DeviceId(0), from_sector: Sector(0) }
                }
                Shape::Unplug => EventKind::Unplug { count: 0 },
            });
        }
        kinds.names()
    }

    /// Returns the thread that was running when the event happened.
    pub fn tid(&self, record: &[u8]) -> Option<u32> {
        self.pid.get(record, self.order).and_then(|pid| u32::try_from(pid).ok())
    }

    /// Returns the running thread if it caused the event. Returns `None` for a completion, because a
    /// completion can interrupt any thread.
    pub fn causing_tid(&self, record: &[u8]) -> Option<u32> {
        match self.layout(record)?.shape {
            Shape::Plain(EventKind::BioQueue | EventKind::Insert) => self.tid(record),
            _ => None,
        }
    }

    /// Decodes one record; `None` if the record is too short or is not a block event.
    pub fn decode(&self, record: Record<'_>, cpu: Option<u32>) -> Option<BlockEvent> {
        self.decode_named(record, cpu).map(|(event, _)| event)
    }

    /// Decodes one record as [`BlockDecoder::decode`] does, and also returns the name of the running thread, if the event
    /// contains it.
    #[inline]
    pub fn decode_named<'r>(
        &self,
        record: Record<'r>,
        cpu: Option<u32>,
    ) -> Option<(BlockEvent, Option<&'r [u8]>)> {
        let (data, order) = (record.data, self.order);
        let layout = self.layout(data)?;
        let number = |field: Option<Number>| field.and_then(|field| field.get(data, order));
        let sector = |field: Option<Number>| field.and_then(|field| field.sector(data, order));
        let device_of = |value: u64| DeviceId(value as u32);

        let has_no_device = matches!(layout.shape, Shape::Unplug | Shape::Plain(EventKind::Plug));
        let device = match layout.device {
            Some(field) => device_of(field.get(data, order)?),
            None if has_no_device => DeviceId::default(),
            None => return None,
        };
        let at = match layout.sector {
            Some(field) => field.sector(data, order)?,
            None => Sector(0),
        };
        let (op, flags, flags_known) = match &layout.rwbs {
            Some(field) => {
                let (op, flags) = parse_rwbs(until_nul(field.bytes(data, order)?));
                (op, flags, Flags::KNOWN_FROM_RWBS)
            }
            None => (Op::Other, Flags::NONE, Flags::NONE),
        };
        // Passthrough commands have bytes but no sectors. Old kernels report bytes only for these commands.
        let mut bytes = match number(layout.sectors) {
            Some(sectors) if sectors > 0 => ByteCount::from_sectors(sectors),
            _ => ByteCount(number(layout.bytes).unwrap_or(0)),
        };
        let kind = match layout.shape {
            Shape::Plain(kind) => kind,
            Shape::Split => {
                let new_sector = sector(layout.new_sector)?;
                bytes = ByteCount(new_sector.0.saturating_sub(at.0).saturating_mul(SECTOR_BYTES));
                EventKind::Split { new_sector }
            }
            Shape::Remap => EventKind::Remap {
                from_device: device_of(number(layout.from_device)?),
                from_sector: sector(layout.from_sector)?,
            },
            Shape::RequestRemap => EventKind::RequestRemap {
                from_device: device_of(number(layout.from_device)?),
                from_sector: sector(layout.from_sector)?,
            },
            Shape::Unplug => EventKind::Unplug { count: number(layout.count).unwrap_or(0) as u32 },
        };
        let event = BlockEvent {
            time: record.time,
            kind,
            device,
            sector: at,
            bytes,
            op,
            flags,
            flags_known,
            cpu,
            tid: number(layout.pid).and_then(|pid| u32::try_from(pid).ok()),
            ioprio: number(layout.ioprio).map(|ioprio| ioprio as u16),
            error: number(layout.error).map(|error| error as u32 as i32),
        };
        Some((event, layout.comm.as_ref().and_then(|field| field.text(data, order))))
    }
}
