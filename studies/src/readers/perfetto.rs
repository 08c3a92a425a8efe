//! Repeats a Perfetto trace with later times.
//!
//! The numbers of fields are those of Perfetto's definitions (`TracePacket`, `FtraceEventBundle`, `FtraceEvent`,
//! `CompactSched`).

use std::path::Path;

use anyhow::{Context, Result, ensure};

/// A recording of the whole system in a guest with F2FS: block events, bios, scheduling and page cache.
const SAMPLE: &str = "guest-6.12/guest-f2fs.pftrace";

/// Fields of a packet.
const BUNDLE: u64 = 1;
const TIME: u64 = 8;
/// Field of a bundle.
const EVENT: u64 = 2;
const COMPACT: u64 = 4;
const PREVIOUS_END: u64 = 10;
/// Fields of `CompactSched`: a first time and then differences.
const SWITCH_TIMES: u64 = 1;
const WAKING_TIMES: u64 = 7;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Packet,
    Bundle,
    Event,
    Compact,
}

/// A trace in memory.
#[derive(Debug)]
pub struct Trace {
    packets: Vec<Vec<u8>>,
}

impl Trace {
    /// Reads the sample; `None` if it does not exist.
    pub fn read(samples: &Path) -> Result<Option<Trace>> {
        let path = samples.join(SAMPLE);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut packets = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let field = Field::next(&mut rest);
            let Some(Field { number: 1, value: Value::Bytes(packet) }) = field else {
                anyhow::bail!("{} is damaged after {} packets", path.display(), packets.len());
            };
            packets.push(packet.to_vec());
        }
        ensure!(!packets.is_empty(), "{} has no packet", path.display());
        Ok(Some(Trace { packets }))
    }

    /// Adds the trace to `to`, with times that are later by so many nanoseconds. What describes the recording, its clocks and
    /// processes is written once, with the times of the recording.
    pub fn write(&self, later_ns: u64, to: &mut Vec<u8>) {
        for packet in &self.packets {
            if later_ns > 0 && !is_repeated(packet) {
                continue;
            }
            let packet = later(packet, Kind::Packet, later_ns);
            varint(1 << 3 | 2, to);
            varint(packet.len() as u64, to);
            to.extend(packet);
        }
    }
}

/// Returns whether a packet has events.
fn is_repeated(mut packet: &[u8]) -> bool {
    std::iter::from_fn(|| Field::next(&mut packet)).any(|field| field.number == BUNDLE)
}

/// Returns a message with later times.
fn later(mut message: &[u8], kind: Kind, by: u64) -> Vec<u8> {
    let mut to = Vec::with_capacity(message.len() + message.len() / 16);
    while let Some(Field { number, value }) = Field::next(&mut message) {
        let is_time =
            matches!((kind, number), (Kind::Packet, TIME) | (Kind::Bundle, PREVIOUS_END) | (Kind::Event, 1));
        match value {
            Value::Varint(value) => {
                varint(number << 3, &mut to);
                varint(if is_time { value + by } else { value }, &mut to);
            }
            Value::Fixed(wire_type, bytes) => {
                varint(number << 3 | wire_type, &mut to);
                to.extend(bytes);
            }
            Value::Bytes(bytes) => {
                let changed = match (kind, number) {
                    (Kind::Packet, BUNDLE) => later(bytes, Kind::Bundle, by),
                    (Kind::Bundle, EVENT) => later(bytes, Kind::Event, by),
                    (Kind::Bundle, COMPACT) => later(bytes, Kind::Compact, by),
                    (Kind::Compact, SWITCH_TIMES | WAKING_TIMES) => later_column(bytes, by),
                    _ => bytes.to_vec(),
                };
                varint(number << 3 | 2, &mut to);
                varint(changed.len() as u64, &mut to);
                to.extend(changed);
            }
        }
    }
    to
}

/// Returns a column of times with a later first time.
fn later_column(mut column: &[u8], by: u64) -> Vec<u8> {
    let mut to = Vec::with_capacity(column.len() + 2);
    if let Some(first) = number(&mut column) {
        varint(first + by, &mut to);
    }
    to.extend(column);
    to
}

struct Field<'a> {
    number: u64,
    value: Value<'a>,
}

enum Value<'a> {
    Varint(u64),
    /// Four or eight bytes, and the wire type that says so.
    Fixed(u64, &'a [u8]),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn next(rest: &mut &'a [u8]) -> Option<Field<'a>> {
        let tag = number(rest)?;
        let mut take = |bytes: u64| {
            let (value, behind) = rest.split_at_checked(usize::try_from(bytes).ok()?)?;
            *rest = behind;
            Some(value)
        };
        let value = match tag & 7 {
            1 => Value::Fixed(1, take(8)?),
            5 => Value::Fixed(5, take(4)?),
            0 => Value::Varint(number(rest)?),
            2 => {
                let length = number(rest)?;
                let (value, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                *rest = behind;
                Value::Bytes(value)
            }
            _ => return None,
        };
        Some(Field { number: tag >> 3, value })
    }
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_change() {
        // A packet: a bundle of processor 1 with an event at 300 ns and compact switches at 5 and 5 + 3 ns; number 7 in field 4.
        let packet = |event: &[u8], column: &[u8]| {
            let event = [&[1 << 3], event, &[2 << 3, 9]].concat();
            let compact = [&[1 << 3 | 2, column.len() as u8], column].concat();
            let mut bundle = vec![1 << 3, 1, 2 << 3 | 2, event.len() as u8];
            bundle.extend(event);
            bundle.extend([4 << 3 | 2, compact.len() as u8]);
            bundle.extend(compact);
            [&[1 << 3 | 2, bundle.len() as u8], bundle.as_slice(), &[4 << 3, 7]].concat()
        };
        let before = packet(&[0xac, 2], &[5, 3]);
        assert_eq!(later(&before, Kind::Packet, 0), before);
        assert_eq!(later(&before, Kind::Packet, 200), packet(&[0xf4, 3], &[0xcd, 1, 3]));
    }
}
