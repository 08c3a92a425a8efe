//! Reads events of the block layer.
//!
//! Two things differ from the kernel's text. The device number is that of the C library's `makedev`, not the
//! kernel's; see Perfetto's `TranslateBlockDeviceIDToUserspace`. Only `block_io_start` and `block_io_done` have the
//! I/O priority.

use fonio_core::{BlockEvent, ByteCount, DeviceId, EventKind, Flags, Op, Sector, Timestamp, parse_rwbs};

use super::wire::{Fields, Value};
use crate::comm::Comm;

/// The result of reading an event.
pub(super) enum Parsed {
    /// The event is not needed to follow a request.
    Other,
    Damaged,
    /// The event, without its time, processor and thread, and the name of the running thread.
    Block(BlockEvent, Comm),
}

/// The numbers of the fields of an event; 0 if the event lacks the field. `dev`, `sector` and `nr_sector` are
/// 1, 2 and 3 in all events except plugs.
struct Layout {
    kind: EventKind,
    bytes: u32,
    error: u32,
    ioprio: u32,
    rwbs: u32,
    comm: u32,
    cmd: u32,
    /// The device and sector before a remap.
    from: [u32; 2],
}

/// Returns the layout of the event with this number in `FtraceEvent`.
fn layout(number: u32) -> Option<Layout> {
    let of = |kind, bytes, error, rwbs, comm, cmd| Layout {
        kind,
        bytes,
        error,
        ioprio: 0,
        rwbs,
        comm,
        cmd,
        from: [0; 2],
    };
    let none = (DeviceId::default(), Sector(0));
    Some(match number {
        45 => of(EventKind::Issue, 4, 0, 5, 6, 7),
        115 => of(EventKind::BackMerge, 0, 0, 4, 5, 0),
        116 => of(EventKind::Bounce, 0, 0, 4, 5, 0),
        117 => of(EventKind::BioComplete, 0, 4, 5, 0, 0),
        118 => of(EventKind::FrontMerge, 0, 0, 4, 5, 0),
        119 => of(EventKind::BioQueue, 0, 0, 4, 5, 0),
        120 => Layout {
            from: [4, 5],
            ..of(EventKind::Remap { from_device: none.0, from_sector: none.1 }, 0, 0, 6, 0, 0)
        },
        122 => of(EventKind::GetRequest, 0, 0, 4, 5, 0),
        // Kernels before 4.13 have `errors` (field 4), later ones `error` (field 7).
        125 => of(EventKind::Complete, 0, 4, 5, 0, 6),
        126 => of(EventKind::Insert, 4, 0, 5, 6, 7),
        128 => Layout {
            from: [4, 5],
            ..of(EventKind::RequestRemap { from_device: none.0, from_sector: none.1 }, 0, 0, 7, 0, 0)
        },
        129 => of(EventKind::Requeue, 0, 4, 5, 0, 6),
        130 => of(EventKind::SleepRequest, 0, 0, 4, 5, 0),
        131 => of(EventKind::Split { new_sector: none.1 }, 0, 0, 4, 5, 0),
        546 => Layout { ioprio: 5, ..of(EventKind::IoStart, 4, 0, 6, 7, 8) },
        547 => Layout { ioprio: 5, ..of(EventKind::IoDone, 4, 0, 6, 7, 8) },
        _ => return None,
    })
}

/// Number of the fields that are read: those of `block_io_start` are the most.
const FIELDS: usize = 9;

/// Stands for a field that an event does not have. No field has this number, so it is always absent.
const ABSENT: u32 = 0;
/// Fields of all events.
const DEVICE: u32 = 1;
const SECTOR: u32 = 2;
/// The size in sectors, or the new sector of a split.
const THIRD: u32 = 3;

/// Field of the completion's status in kernels since 4.13; kernels before have `errors` in field 4.
const COMPLETE_ERROR: u32 = 7;

/// Reads the event `message` with this number in `FtraceEvent`.
#[inline(always)]
pub(super) fn parse(number: u32, message: &[u8]) -> Parsed {
    let Some(layout) = layout(number) else { return Parsed::Other };
    let mut numbers = [0; FIELDS];
    let mut texts: [Option<&[u8]>; FIELDS] = [None; FIELDS];
    let mut present = 0_u32;
    let mut fields = Fields::of(message);
    for (field, value) in fields.by_ref() {
        let place = field as usize;
        if place >= FIELDS {
            continue;
        }
        match value {
            Value::Varint(value) => {
                numbers[place] = value;
                present |= 1 << place;
            }
            Value::Bytes(text) => texts[place] = Some(text),
            Value::Fixed64(_) | Value::Fixed32(_) => {}
        }
    }
    if fields.is_damaged() {
        return Parsed::Damaged;
    }
    let number = |field: u32| numbers[field as usize];
    let is_present = |field: u32| present & 1 << field != 0;
    let text = |field: u32| texts[field as usize];
    let mut event = BlockEvent::new(Timestamp(0), layout.kind, device(number(DEVICE)));
    event.flags_known = Flags::KNOWN_FROM_RWBS;
    event.sector = Sector(number(SECTOR));
    if let Some(text) = text(layout.rwbs) {
        (event.op, event.flags) = parse_rwbs(text);
    }
    let comm = text(layout.comm).map(Comm::of).unwrap_or_default();
    if text(layout.cmd).is_some_and(|command| !command.trim_ascii().is_empty()) {
        event.op = Op::Other;
    }
    if is_present(layout.ioprio) {
        event.ioprio = u16::try_from(number(layout.ioprio)).ok();
    }
    // Fields with the value 0 may be absent.
    if layout.error != ABSENT {
        let is_new = matches!(layout.kind, EventKind::Complete) && is_present(COMPLETE_ERROR);
        let error = number(if is_new { COMPLETE_ERROR } else { layout.error });
        // Negative numbers have ten bytes; their low 32 bits are the number.
        event.error = Some(errno(error as i32));
    }
    let third = number(THIRD);
    match &mut event.kind {
        EventKind::Split { new_sector } => *new_sector = Sector(third),
        EventKind::Remap { from_device, from_sector }
        | EventKind::RequestRemap { from_device, from_sector } => {
            (*from_device, *from_sector) = (device(number(layout.from[0])), Sector(number(layout.from[1])));
        }
        _ => {}
    }
    let bytes = number(layout.bytes);
    // Old kernels store a size of 0 bytes for all requests except passthrough commands.
    if bytes > 0 {
        event.bytes = ByteCount(bytes);
    } else if !matches!(event.kind, EventKind::Split { .. }) {
        // The kernel's field has 32 bits; a damaged one must not overflow the size in bytes.
        event.bytes = ByteCount::from_sectors(third.min(u64::from(u32::MAX)));
    }
    Parsed::Block(event, comm)
}

/// Converts the C library's device number. The recorder widens the kernel's 12 bits of major and 20 bits of
/// minor number.
fn device(dev: u64) -> DeviceId {
    let (major, minor) = (dev >> 8 & 0xfff, (dev & 0xff) | (dev >> 12 & 0xf_ff00));
    DeviceId::new(major as u32, minor as u32)
}

/// Returns a completion's status as 0 or a negative errno. A positive status is specific to the driver; the
/// block layer of kernels that have such a status converts it to `EIO`.
fn errno(status: i32) -> i32 {
    const EIO: i32 = 5;
    if status > 0 { -EIO } else { status }
}
