//! The fields of a record, which depend on how its event was recorded.
//!
//! ```text
//! sample: [identifier] [ip] [pid, tid] [time] [address] [id] [stream] [cpu] [period] [values] [call chain] [raw data] …
//! others: the record's own fields | [pid, tid] [time] [id] [stream] [cpu] [identifier]
//! ```
//!
//! Each field in brackets is present if its bit is set in the event's `sample_type`. All have eight bytes except the values,
//! the call chain and the raw data. Source: `include/uapi/linux/perf_event.h`.

use fonio_tracefs::ring_buffer::ByteOrder;

/// Bits of `sample_type`.
const IP: u64 = 1;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
pub(super) const IDENTIFIER: u64 = 1 << 16;

/// Bits of `read_format`.
const TOTAL_TIME_ENABLED: u64 = 1;
const TOTAL_TIME_RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;

/// Bits of the flags of an event, counted from the first field.
const FREQUENCY: u32 = 10;
const SAMPLE_ID_ALL: u32 = 18;
const USE_CLOCKID: u32 = 25;

/// The type of events of tracepoints.
const TRACEPOINT: u32 = 2;

/// Minimum size of the description of an event (`PERF_ATTR_SIZE_VER0`).
const ATTRIBUTES_BYTES_MIN: usize = 64;

/// Reads numbers one after the other.
#[derive(Clone, Copy)]
pub(super) struct Numbers<'a> {
    pub rest: &'a [u8],
    pub order: ByteOrder,
}

impl<'a> Numbers<'a> {
    pub fn of(bytes: &'a [u8], order: ByteOrder) -> Numbers<'a> {
        Numbers { rest: bytes, order }
    }

    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        let bytes = self.bytes(2)?.try_into().ok()?;
        Some(match self.order {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        })
    }

    pub fn u32(&mut self) -> Option<u32> {
        let bytes = self.bytes(4)?.try_into().ok()?;
        Some(match self.order {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        })
    }

    pub fn u64(&mut self) -> Option<u64> {
        let bytes = self.bytes(8)?.try_into().ok()?;
        Some(match self.order {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        })
    }
}

/// How an event was recorded (`struct perf_event_attr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    pub sample_type: u64,
    read_format: u64,
    has_sample_ids: bool,
    pub is_tracepoint: bool,
    /// Whether only some of the events were recorded.
    pub is_sampled: bool,
    /// The clock of the times; `None` for the clock of perf.
    pub clock_id: Option<u32>,
}

/// The raw data of a tracepoint, and where it happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    pub time: Option<u64>,
    pub pid: Option<u32>,
    pub tid: Option<u32>,
    pub cpu: Option<u32>,
    pub raw: &'a [u8],
}

impl Attributes {
    /// Reads the description of an event.
    pub fn parse(bytes: &[u8], order: ByteOrder) -> Option<Attributes> {
        if bytes.len() < ATTRIBUTES_BYTES_MIN {
            return None;
        }
        let mut numbers = Numbers::of(bytes, order);
        let kind = numbers.u32()?;
        let size = numbers.u32()? as usize;
        let _config = numbers.u64()?;
        let period = numbers.u64()?;
        let (sample_type, read_format, flags) = (numbers.u64()?, numbers.u64()?, numbers.u64()?);
        // The flags are bit fields, whose order follows the byte order.
        let flag = |bit: u32| match order {
            ByteOrder::Little => flags >> bit & 1 != 0,
            ByteOrder::Big => flags >> (63 - bit) & 1 != 0,
        };
        let clock_id = Numbers::of(bytes.get(92..).unwrap_or_default(), order).u32();
        Some(Attributes {
            sample_type,
            read_format,
            has_sample_ids: flag(SAMPLE_ID_ALL),
            is_tracepoint: kind == TRACEPOINT,
            is_sampled: kind == TRACEPOINT && (flag(FREQUENCY) || period > 1),
            clock_id: clock_id.filter(|_| flag(USE_CLOCKID) && size >= 96),
        })
    }

    pub fn has_time(&self) -> bool {
        self.sample_type & TIME != 0
    }

    pub fn has_raw_data(&self) -> bool {
        self.sample_type & RAW != 0
    }

    /// Reads a sample; `None` if it is too short. Fields after the raw data are not read.
    pub fn sample<'a>(&self, body: &'a [u8], order: ByteOrder) -> Option<Sample<'a>> {
        let mut numbers = Numbers::of(body, order);
        let mut sample = Sample::default();
        let has = |bit| self.sample_type & bit != 0;
        for bit in [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD] {
            if has(bit) {
                self.field(bit, &mut numbers, &mut sample)?;
            }
        }
        if has(READ) {
            let formats = |bits: [u64; 2]| bits.iter().filter(|bit| self.read_format & **bit != 0).count();
            let times = formats([TOTAL_TIME_ENABLED, TOTAL_TIME_RUNNING]);
            let each = 1 + formats([READ_ID, READ_LOST]);
            let words = if self.read_format & GROUP != 0 {
                let count = usize::try_from(numbers.u64()?).ok()?;
                count.checked_mul(each)?.checked_add(times)?
            } else {
                times + each
            };
            numbers.bytes(words.checked_mul(8)?)?;
        }
        if has(CALLCHAIN) {
            let count = usize::try_from(numbers.u64()?).ok()?;
            numbers.bytes(count.checked_mul(8)?)?;
        }
        if has(RAW) {
            let size = numbers.u32()? as usize;
            sample.raw = numbers.bytes(size)?;
        }
        Some(sample)
    }

    /// Reads the fields at the end of a record that is not a sample. Without them, all are unknown.
    pub fn other<'a>(&self, body: &'a [u8], order: ByteOrder) -> Sample<'a> {
        const FIELDS: [u64; 6] = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];
        let present = || FIELDS.into_iter().filter(|bit| self.sample_type & bit != 0);
        let mut sample = Sample::default();
        let begin = body.len().checked_sub(8 * present().count()).filter(|_| self.has_sample_ids);
        if let Some(begin) = begin {
            let mut numbers = Numbers::of(&body[begin..], order);
            for bit in present() {
                self.field(bit, &mut numbers, &mut sample);
            }
        }
        sample
    }

    fn field(&self, bit: u64, numbers: &mut Numbers<'_>, sample: &mut Sample<'_>) -> Option<()> {
        match bit {
            TID => (sample.pid, sample.tid) = (Some(numbers.u32()?), Some(numbers.u32()?)),
            CPU => (sample.cpu, _) = (Some(numbers.u32()?), numbers.u32()?),
            TIME => sample.time = Some(numbers.u64()?),
            _ => drop(numbers.u64()?),
        }
        Some(())
    }
}
