//! Parses one record of a blktrace stream: a header in one of two layouts, and the event that the action word
//! means.
//!
//! Layouts, from `include/uapi/linux/blktrace_api.h`; every field is in the byte order of the traced machine:
//!
//! | field | v7 `blk_io_trace`, 48 bytes | v8 `blk_io_trace2`, 64 bytes |
//! |---|---|---|
//! | magic << 8, version | 0..4 | 0..4 |
//! | sequence | 4..8 | 4..8 |
//! | time, ns | 8..16 | 8..16 |
//! | sector | 16..24 | 16..24 |
//! | bytes | 24..28 | 24..28 |
//! | action | 28..32 | 32..40 |
//! | pid (the kernel's: a thread) | 32..36 | 28..32 |
//! | device | 36..40 | 40..44 |
//! | cpu | 40..44 | 44..48 |
//! | error | 44..46 | 48..50 |
//! | pdu_len | 46..48 | 50..52 |
//!
//! `pdu_len` bytes follow: the cgroup's id (8 bytes) if the action has [`TA_CGROUP`], then the payload.
//! Integers in the payload are big-endian except in notes.

use fonio_core::{BlockEvent, ByteCount, DeviceId, EventKind, Flags, Op, Sector, Timestamp};

/// The upper 24 bits of a record's first word.
pub(super) const MAGIC: u32 = 0x6561_7400;
/// Maximum payload size: the length field has 16 bits.
pub(super) const PDU_MAX: usize = u16::MAX as usize;
/// Bytes of the cgroup id that may precede a payload.
const CGROUP_ID: usize = 8;
/// The size of the longest header.
pub(super) const HEADER_MAX: usize = 64;

/// Action bit: the cgroup's id precedes the payload.
pub(super) const TA_CGROUP: u64 = 1 << 8;

const fn category(bit: u32) -> u64 {
    1 << (bit + 16)
}
const TC_WRITE: u64 = category(1);
const TC_FLUSH: u64 = category(2);
const TC_SYNC: u64 = category(3);
pub(super) const TC_QUEUE: u64 = category(4);
pub(super) const TC_REQUEUE: u64 = category(5);
pub(super) const TC_ISSUE: u64 = category(6);
pub(super) const TC_COMPLETE: u64 = category(7);
const TC_PC: u64 = category(9);
pub(super) const TC_NOTIFY: u64 = category(10);
const TC_AHEAD: u64 = category(11);
const TC_META: u64 = category(12);
const TC_DISCARD: u64 = category(13);
const TC_FUA: u64 = category(15);
const TC_ZONE_APPEND: u64 = category(16);
/// The categories of zone reset, reset all, finish, open and close.
const TC_ZONE_MANAGEMENT: u64 = category(17) | category(18) | category(19) | category(20) | category(21);
const TC_WRITE_ZEROES: u64 = category(22);

const TA_UNPLUG_IO: u64 = 10;
const TA_UNPLUG_TIMER: u64 = 11;
const TA_SPLIT: u64 = 13;
const TA_REMAP: u64 = 15;
const TA_ABORT: u64 = 16;
const TA_DRV_DATA: u64 = 17;
const TA_ZONE_PLUG: u64 = 18;
const TA_ZONE_UNPLUG: u64 = 19;

/// Note (a record with [`TC_NOTIFY`]): a thread's name.
pub(super) const TN_PROCESS: u64 = 0;
/// Note: the wall clock at the record's time.
pub(super) const TN_TIMESTAMP: u64 = 1;
/// Note: text from a scheduler or from a program that wrote to the trace's `msg` file.
pub(super) const TN_MESSAGE: u64 = 2;

/// For each action number, the event kind if the event needs only the header. For all other actions, the
/// entry is [`EventKind::Plug`].
const PLAIN: [EventKind; 16] = {
    let mut kinds = [EventKind::Plug; 16];
    kinds[1] = EventKind::BioQueue;
    kinds[2] = EventKind::BackMerge;
    kinds[3] = EventKind::FrontMerge;
    kinds[4] = EventKind::GetRequest;
    kinds[5] = EventKind::SleepRequest;
    kinds[6] = EventKind::Requeue;
    kinds[7] = EventKind::Issue;
    kinds[8] = EventKind::Complete;
    kinds[9] = EventKind::Plug;
    kinds[12] = EventKind::Insert;
    kinds[14] = EventKind::Bounce;
    kinds
};
/// The actions of [`PLAIN`], one bit per action number.
const PLAIN_ACTIONS: u32 = 0b0101_0011_1111_1110;
/// Actions with an error field: requeue and complete.
const WITH_ERROR: u32 = 1 << 6 | 1 << 8;

/// One of the four formats of a record. The first word of a record shows its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub big_endian: bool,
    /// Whether the record has version 8, with a header of 64 bytes.
    pub wide: bool,
}

impl Layout {
    /// Returns the layout for a record's first word, read as little-endian.
    #[inline]
    pub fn of(word: u32) -> Option<Layout> {
        const NARROW: u32 = MAGIC | 7;
        const WIDE: u32 = MAGIC | 8;
        const NARROW_BIG: u32 = NARROW.swap_bytes();
        const WIDE_BIG: u32 = WIDE.swap_bytes();
        match word {
            NARROW => Some(Layout { big_endian: false, wide: false }),
            WIDE => Some(Layout { big_endian: false, wide: true }),
            NARROW_BIG => Some(Layout { big_endian: true, wide: false }),
            WIDE_BIG => Some(Layout { big_endian: true, wide: true }),
            _ => None,
        }
    }

    /// Returns the version of a record that has the magic but a version other than 7 and 8.
    pub fn foreign_version(word: u32) -> Option<u8> {
        [word, word.swap_bytes()].into_iter().find(|w| w & !0xff == MAGIC).map(|w| w as u8)
    }

    #[inline]
    pub fn header_len(self) -> usize {
        if self.wide { 64 } else { 48 }
    }
}

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub sequence: u32,
    pub time: Timestamp,
    pub sector: Sector,
    pub bytes: u32,
    pub action: u64,
    pub pid: u32,
    pub device: u32,
    pub cpu: u32,
    pub error: u16,
    pub pdu_len: u16,
}

impl Header {
    /// Reads a header; `None` if `bytes` is too short for it.
    #[inline]
    pub fn read(layout: Layout, bytes: &[u8]) -> Option<Header> {
        match (layout.wide, layout.big_endian) {
            (false, false) => bytes.first_chunk().map(Header::narrow::<false>),
            (false, true) => bytes.first_chunk().map(Header::narrow::<true>),
            (true, false) => bytes.first_chunk().map(Header::wide::<false>),
            (true, true) => bytes.first_chunk().map(Header::wide::<true>),
        }
    }

    /// Reads a header in a layout known at compile time.
    #[inline(always)]
    pub fn read_as<const WIDE: bool, const BIG: bool>(bytes: &[u8]) -> Option<Header> {
        if WIDE {
            bytes.first_chunk().map(Header::wide::<BIG>)
        } else {
            bytes.first_chunk().map(Header::narrow::<BIG>)
        }
    }

    #[inline(always)]
    fn narrow<const BIG: bool>(b: &[u8; 48]) -> Header {
        Header {
            sequence: u32_at::<BIG>(b, 4),
            time: Timestamp(u64_at::<BIG>(b, 8)),
            sector: Sector(u64_at::<BIG>(b, 16)),
            bytes: u32_at::<BIG>(b, 24),
            action: u64::from(u32_at::<BIG>(b, 28)),
            pid: u32_at::<BIG>(b, 32),
            device: u32_at::<BIG>(b, 36),
            cpu: u32_at::<BIG>(b, 40),
            error: u16_at::<BIG>(b, 44),
            pdu_len: u16_at::<BIG>(b, 46),
        }
    }

    #[inline(always)]
    fn wide<const BIG: bool>(b: &[u8; 64]) -> Header {
        Header {
            sequence: u32_at::<BIG>(b, 4),
            time: Timestamp(u64_at::<BIG>(b, 8)),
            sector: Sector(u64_at::<BIG>(b, 16)),
            bytes: u32_at::<BIG>(b, 24),
            pid: u32_at::<BIG>(b, 28),
            action: u64_at::<BIG>(b, 32),
            device: u32_at::<BIG>(b, 40),
            cpu: u32_at::<BIG>(b, 44),
            error: u16_at::<BIG>(b, 48),
            pdu_len: u16_at::<BIG>(b, 50),
        }
    }

    /// Returns whether this is a note about the trace, not an event.
    #[inline]
    pub fn is_note(&self) -> bool {
        self.action & TC_NOTIFY != 0
    }

    /// Returns whether the fields are plausible, to distinguish a header from random bytes in damaged data.
    pub fn is_plausible(&self) -> bool {
        let action = self.action & 0xff;
        if self.is_note() { action <= TN_MESSAGE } else { (1..=TA_ZONE_UNPLUG).contains(&action) }
    }

    /// Returns the payload without the cgroup's id.
    pub fn payload<'a>(&self, pdu: &'a [u8]) -> &'a [u8] {
        if self.action & TA_CGROUP != 0 { pdu.get(CGROUP_ID..).unwrap_or_default() } else { pdu }
    }

    /// Returns whether [`plain_event`](Header::plain_event) returns the complete event.
    #[inline]
    pub fn is_plain(&self) -> bool {
        let action = (self.action & 0xff) as u32;
        action < 16 && PLAIN_ACTIONS >> action & 1 != 0
    }

    /// Returns the event of a record for which [`is_plain`](Header::is_plain) is true.
    #[inline(always)]
    pub fn plain_event(&self) -> BlockEvent {
        let action = (self.action & 15) as u32;
        // The kernel stores the negative errno in 16 bits without a sign.
        let error = (WITH_ERROR >> action & 1 != 0).then_some(i32::from(self.error as i16));
        self.event_of_kind(PLAIN[action as usize], DeviceId(self.device), error)
    }

    /// Returns the event that the record contains.
    pub fn event(&self, pdu: &[u8]) -> Result<BlockEvent, NoEvent> {
        if self.is_plain() {
            return Ok(self.plain_event());
        }
        let mut device = DeviceId(self.device);
        let kind = self.kind_with_payload(pdu, &mut device)?;
        Ok(self.event_of_kind(kind, device, None))
    }

    #[inline(always)]
    fn event_of_kind(&self, kind: EventKind, device: DeviceId, error: Option<i32>) -> BlockEvent {
        let (op, flags) = self.op();
        BlockEvent {
            time: self.time,
            kind,
            device,
            sector: self.sector,
            bytes: ByteCount(u64::from(self.bytes)),
            op,
            flags,
            flags_known: Flags::KNOWN_FROM_RWBS,
            cpu: Some(self.cpu),
            tid: Some(self.pid),
            ioprio: None,
            error,
        }
    }

    fn kind_with_payload(&self, pdu: &[u8], device: &mut DeviceId) -> Result<EventKind, NoEvent> {
        let payload = self.payload(pdu);
        match self.action & 0xff {
            TA_UNPLUG_IO | TA_UNPLUG_TIMER => {
                let count = be64(payload).ok_or(NoEvent::ShortPayload)?;
                Ok(EventKind::Unplug { count: u32::try_from(count).unwrap_or(u32::MAX) })
            }
            TA_SPLIT => {
                let new_sector = be64(payload).ok_or(NoEvent::ShortPayload)?;
                Ok(EventKind::Split { new_sector: Sector(new_sector) })
            }
            TA_REMAP => {
                // device_from, device_to, sector_from
                let head: &[u8; 8] = payload.first_chunk().ok_or(NoEvent::ShortPayload)?;
                let from_sector = be64(&payload[8..]).ok_or(NoEvent::ShortPayload)?;
                *device = DeviceId(u32_at::<true>(head, 4));
                Ok(EventKind::Remap {
                    from_device: DeviceId(u32_at::<true>(head, 0)),
                    from_sector: Sector(from_sector),
                })
            }
            TA_ABORT | TA_DRV_DATA | TA_ZONE_PLUG | TA_ZONE_UNPLUG => Err(NoEvent::NotShown),
            _ => Err(NoEvent::UnknownAction),
        }
    }

    /// Returns the op and flags, by the rules of `blk_fill_rwbs` and blkparse's `fill_rwbs`. A request
    /// without the write bit and without data is not a read, but a flush or a command that the trace shows
    /// incompletely.
    #[inline]
    fn op(&self) -> (Op, Flags) {
        const RARE: u64 = TC_PC | TC_ZONE_APPEND | TC_ZONE_MANAGEMENT | TC_WRITE_ZEROES;
        let common = COMMON[usize::from(self.bytes != 0)][Common::of(self.action)];
        if self.action & RARE == 0 { (common.op, Flags(u32::from(common.flags))) } else { self.rare_op() }
    }

    #[cold]
    fn rare_op(&self) -> (Op, Flags) {
        let op = if self.action & TC_PC != 0 {
            Op::Other
        } else if self.action & TC_ZONE_APPEND != 0 {
            Op::ZoneAppend
        } else if self.action & TC_WRITE_ZEROES != 0 {
            Op::WriteZeroes
        } else {
            Op::ZoneManagement
        };
        (op, Flags(u32::from(flags_of(self.action, op))))
    }
}

/// The op and flags of common categories of an action.
#[derive(Clone, Copy)]
struct Common {
    op: Op,
    /// The lowest byte of [`Flags`].
    flags: u8,
}

/// Common properties, indexed by whether the request has data, and by [`Common::of`].
static COMMON: [[Common; 256]; 2] = {
    let mut table = [[Common { op: Op::Other, flags: 0 }; 256]; 2];
    let mut at = 0;
    while at < 512 {
        let (has_data, categories) = (at / 256, at % 256);
        let action = ((categories & 7) as u64) << 17 | ((categories >> 3) as u64) << 27;
        let op = if action & TC_DISCARD != 0 {
            Op::Discard
        } else if action & TC_WRITE != 0 {
            Op::Write
        } else if has_data == 1 {
            Op::Read
        } else if action & TC_FLUSH != 0 {
            Op::Flush
        } else {
            Op::Other
        };
        table[has_data][categories] = Common { op, flags: flags_of(action, op) };
        at += 1;
    }
    table
};

impl Common {
    /// The bits of write, flush and sync are adjacent. The bits of readahead, metadata, discard and FUA are
    /// also adjacent, except for one other bit among them.
    #[inline]
    const fn of(action: u64) -> usize {
        const LOW: u64 = TC_WRITE | TC_FLUSH | TC_SYNC;
        const HIGH: u64 = TC_AHEAD | TC_META | TC_DISCARD | 1 << 30 | TC_FUA;
        const { assert!(LOW == 7 << 17 && HIGH == 31 << 27) };
        (action >> 17 & 7 | (action >> 27 & 31) << 3) as usize
    }
}

/// Returns the flags of an action's categories.
const fn flags_of(action: u64, op: Op) -> u8 {
    const fn flag(action: u64, category: u64, flag: Flags) -> u32 {
        if action & category != 0 { flag.0 } else { 0 }
    }
    let ahead = if matches!(op, Op::Read | Op::Write) { TC_AHEAD } else { 0 };
    let flags = flag(action, TC_SYNC, Flags::SYNC)
        | flag(action, TC_META, Flags::META)
        | flag(action, TC_FUA, Flags::FUA)
        | flag(action, TC_FLUSH, Flags::PREFLUSH)
        | flag(action, ahead, Flags::READAHEAD);
    assert!(flags <= 0xff);
    flags as u8
}

/// The reason why a record gives no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoEvent {
    /// A known action for which fonio has no event, such as driver data or the write plug of a zone.
    NotShown,
    /// An action number that is not part of the format.
    UnknownAction,
    /// The payload is too short for the action.
    ShortPayload,
}

#[inline]
fn u16_at<const BIG: bool>(b: &[u8], at: usize) -> u16 {
    let raw = [b[at], b[at + 1]];
    if BIG { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) }
}

#[inline]
pub(super) fn u32_at<const BIG: bool>(b: &[u8], at: usize) -> u32 {
    let raw = [b[at], b[at + 1], b[at + 2], b[at + 3]];
    if BIG { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) }
}

#[inline]
pub(super) fn u64_at<const BIG: bool>(b: &[u8], at: usize) -> u64 {
    let raw = [b[at], b[at + 1], b[at + 2], b[at + 3], b[at + 4], b[at + 5], b[at + 6], b[at + 7]];
    if BIG { u64::from_be_bytes(raw) } else { u64::from_le_bytes(raw) }
}

fn be64(b: &[u8]) -> Option<u64> {
    b.first_chunk().map(|raw| u64::from_be_bytes(*raw))
}
