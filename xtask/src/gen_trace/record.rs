//! A record of a capture and its bytes: `struct blk_io_trace` of `include/uapi/linux/blktrace_api.h`, little-endian.

use std::cmp::Ordering;
use std::io::{self, Write};

// Categories and actions.
pub const TC_READ: u32 = 1 << 16;
pub const TC_WRITE: u32 = 1 << 17;
pub const TC_FLUSH: u32 = 1 << 18;
pub const TC_SYNC: u32 = 1 << 19;
pub const TC_QUEUE: u32 = 1 << 20;
pub const TC_REQUEUE: u32 = 1 << 21;
pub const TC_ISSUE: u32 = 1 << 22;
pub const TC_COMPLETE: u32 = 1 << 23;
pub const TC_FS: u32 = 1 << 24;
pub const TC_NOTIFY: u32 = 1 << 26;
pub const TC_AHEAD: u32 = 1 << 27;
pub const TC_META: u32 = 1 << 28;
pub const TC_DISCARD: u32 = 1 << 29;
pub const TC_FUA: u32 = 1 << 31;

pub const QUEUE: u32 = 1 | TC_QUEUE;
pub const BACK_MERGE: u32 = 2 | TC_QUEUE;
pub const FRONT_MERGE: u32 = 3 | TC_QUEUE;
pub const GET_REQUEST: u32 = 4 | TC_QUEUE;
pub const REQUEUE: u32 = 6 | TC_REQUEUE;
pub const ISSUE: u32 = 7 | TC_ISSUE;
pub const COMPLETE: u32 = 8 | TC_COMPLETE;
pub const PLUG: u32 = 9 | TC_QUEUE;
pub const UNPLUG: u32 = 10 | TC_QUEUE;
pub const INSERT: u32 = 12 | TC_QUEUE;
pub const NOTE_PROCESS: u32 = TC_NOTIFY;
pub const NOTE_CLOCK: u32 = 1 | TC_NOTIFY;
pub const NOTE_MESSAGE: u32 = 2 | TC_NOTIFY;

/// The traced disk: 8,0.
const DEVICE: u32 = 8 << 20;
/// The wall-clock time of the clock note, in seconds since 1970.
const BEGINS_UNIX: u32 = 1_700_000_000;

/// The data after the header.
#[derive(Clone, Copy)]
pub enum Payload {
    None,
    Unplug(u64),
    Clock,
    Name(&'static str),
    Message,
}

/// One record.
#[derive(Clone, Copy)]
pub struct Record {
    pub time: u64,
    /// Position in the plan; it orders records with the same time.
    pub order: u64,
    pub cpu: u64,
    pub sector: u64,
    pub bytes: u32,
    pub action: u32,
    pub pid: u32,
    pub payload: Payload,
}

impl PartialEq for Record {
    fn eq(&self, other: &Record) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Record {}
impl PartialOrd for Record {
    fn partial_cmp(&self, other: &Record) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Record {
    fn cmp(&self, other: &Record) -> Ordering {
        (self.time, self.order).cmp(&(other.time, other.order))
    }
}

impl Record {
    /// Returns whether the record is a note about the trace, not an event; notes have no sequence number.
    pub fn is_note(&self) -> bool {
        self.action & TC_NOTIFY != 0
    }

    /// Writes the record and returns its length.
    pub fn write(&self, sequence: u32, out: &mut impl Write) -> io::Result<u64> {
        let mut name = [0; 16];
        let unplug;
        let mut clock = [0; 8];
        let payload: &[u8] = match self.payload {
            Payload::None => &[],
            Payload::Unplug(count) => {
                unplug = count.to_be_bytes();
                &unplug
            }
            Payload::Clock => {
                clock[..4].copy_from_slice(&BEGINS_UNIX.to_le_bytes());
                &clock
            }
            Payload::Name(comm) => {
                name[..comm.len()].copy_from_slice(comm.as_bytes());
                &name
            }
            Payload::Message => b"end of the generated trace",
        };
        let mut header = [0; 48];
        header[0..4].copy_from_slice(&0x6561_7407u32.to_le_bytes());
        header[4..8].copy_from_slice(&sequence.to_le_bytes());
        header[8..16].copy_from_slice(&self.time.to_le_bytes());
        header[16..24].copy_from_slice(&self.sector.to_le_bytes());
        header[24..28].copy_from_slice(&self.bytes.to_le_bytes());
        header[28..32].copy_from_slice(&self.action.to_le_bytes());
        header[32..36].copy_from_slice(&self.pid.to_le_bytes());
        header[36..40].copy_from_slice(&DEVICE.to_le_bytes());
        header[40..44].copy_from_slice(&(self.cpu as u32).to_le_bytes());
        header[46..48].copy_from_slice(&(payload.len() as u16).to_le_bytes());
        out.write_all(&header)?;
        out.write_all(payload)?;
        Ok((header.len() + payload.len()) as u64)
    }
}

/// Number of written records of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counts {
    pub records: u64,
    pub bytes: u64,
    pub queued: u64,
    pub merged: u64,
    pub issued: u64,
    pub completed: u64,
    pub requeued: u64,
    pub unplugged: u64,
    pub notes: u64,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} records, {} bytes; {} bios queued, {} merged; {} requests issued, {} requeued, {} completed; {} unplugs, {} notes",
            self.records,
            self.bytes,
            self.queued,
            self.merged,
            self.issued,
            self.requeued,
            self.completed,
            self.unplugged,
            self.notes
        )
    }
}

impl Counts {
    /// Counts one record of `bytes`.
    pub fn add(&mut self, record: &Record, bytes: u64) {
        self.records += 1;
        self.bytes += bytes;
        let counted = match record.action & 0xffff {
            _ if record.is_note() => &mut self.notes,
            1 => &mut self.queued,
            2 | 3 => &mut self.merged,
            6 => &mut self.requeued,
            7 => &mut self.issued,
            8 => &mut self.completed,
            10 => &mut self.unplugged,
            _ => return,
        };
        *counted += 1;
    }
}
