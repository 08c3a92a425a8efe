//! Repeats a Perfetto trace with later times.
//!
//! The numbers of fields are those of Perfetto's definitions (`TracePacket`, `FtraceEventBundle`, `FtraceEvent`,
//! `CompactSched`).

use std::path::Path;

use anyhow::{Context, Result, ensure};

/// A recording of the whole system in a guest with F2FS: block events, bios, scheduling and page cache.
const SAMPLE: &str = "guest-6.12/guest-f2fs.pftrace";

/// Field of a trace.
const PACKET: u32 = 1;
/// Fields of a packet.
const BUNDLE: u32 = 1;
const TIME: u32 = 8;
/// Fields of a bundle.
const EVENT: u32 = 2;
const COMPACT: u32 = 4;
const PREVIOUS_END: u32 = 10;
/// Field of an event.
const EVENT_TIME: u32 = 1;
/// Fields of `CompactSched`: a first time and then differences.
const SWITCH_TIMES: u32 = 1;
const WAKING_TIMES: u32 = 7;

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
            let Some(Field { number: PACKET, value: Value::Bytes(packet), .. }) = field else {
                anyhow::bail!("{} is damaged after {} packets", path.display(), packets.len());
            };
            packets.push(packet.to_vec());
        }
        ensure!(!packets.is_empty(), "{} has no packet", path.display());
        Ok(Some(Trace { packets }))
    }

    /// Appends the trace to `to`, moved later by this many nanoseconds. Packets that describe the recording, its clocks and its
    /// processes are written only once, when `later_ns` is 0.
    pub fn write(&self, later_ns: u64, to: &mut Vec<u8>) {
        for packet in &self.packets {
            if later_ns > 0 && !is_repeated(packet) {
                continue;
            }
            let packet = later(packet, Kind::Packet, later_ns);
            to.extend(Message::default().bytes(PACKET, &packet.0).0);
        }
    }
}

/// Returns whether a packet has events.
fn is_repeated(mut packet: &[u8]) -> bool {
    std::iter::from_fn(|| Field::next(&mut packet)).any(|field| field.number == BUNDLE)
}

/// Returns a message whose times are later by this many nanoseconds.
fn later(mut message: &[u8], kind: Kind, by: u64) -> Message {
    let mut to = Message::default();
    while let Some(Field { number, value, raw }) = Field::next(&mut message) {
        to = match (kind, number, value) {
            (Kind::Packet, TIME, Value::Varint(time))
            | (Kind::Bundle, PREVIOUS_END, Value::Varint(time))
            | (Kind::Event, EVENT_TIME, Value::Varint(time)) => to.number(number, time + by),
            (Kind::Packet, BUNDLE, Value::Bytes(bytes)) => {
                to.bytes(number, &later(bytes, Kind::Bundle, by).0)
            }
            (Kind::Bundle, EVENT, Value::Bytes(bytes)) => to.bytes(number, &later(bytes, Kind::Event, by).0),
            (Kind::Bundle, COMPACT, Value::Bytes(bytes)) => {
                to.bytes(number, &later(bytes, Kind::Compact, by).0)
            }
            (Kind::Compact, SWITCH_TIMES | WAKING_TIMES, Value::Bytes(mut column)) => {
                let mut times: Vec<u64> = std::iter::from_fn(|| varint(&mut column)).collect();
                times.iter_mut().take(1).for_each(|first| *first += by);
                to.packed(number, &times)
            }
            _ => {
                to.0.extend_from_slice(raw);
                to
            }
        };
    }
    to
}

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(mut self, field: u32, value: u64) -> Message {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u32, value: &[u8]) -> Message {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn packed(self, field: u32, values: &[u64]) -> Message {
        let mut list = Message::default();
        values.iter().for_each(|value| list.varint(*value));
        self.bytes(field, &list.0)
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

struct Field<'a> {
    number: u32,
    value: Value<'a>,
    /// The whole field, with its number and type.
    raw: &'a [u8],
}

enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// Four or eight bytes.
    Fixed,
}

impl<'a> Field<'a> {
    fn next(rest: &mut &'a [u8]) -> Option<Field<'a>> {
        let whole = *rest;
        let tag = varint(rest)?;
        let value = match tag & 7 {
            0 => Value::Varint(varint(rest)?),
            1 => take(rest, 8).map(|_| Value::Fixed)?,
            2 => {
                let length = varint(rest)?;
                Value::Bytes(take(rest, usize::try_from(length).ok()?)?)
            }
            5 => take(rest, 4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        let raw = &whole[..whole.len() - rest.len()];
        Some(Field { number: u32::try_from(tag >> 3).ok()?, value, raw })
    }
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(bytes)?;
    *rest = behind;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_change() {
        // A packet with a bundle of processor 1, and another field.
        let packet = |event: u64, switch: u64| {
            let compact = Message::default().packed(SWITCH_TIMES, &[switch, 3]).packed(2, &[1, 2]);
            let bundle = Message::default()
                .number(1, 1)
                .bytes(EVENT, &Message::default().number(1, event).number(2, 9).0);
            Message::default().bytes(BUNDLE, &bundle.bytes(COMPACT, &compact.0).0).number(10, 7)
        };
        let before = packet(300, 5).0;
        assert_eq!(later(&before, Kind::Packet, 0).0, before);
        assert_eq!(later(&before, Kind::Packet, 200).0, packet(500, 205).0);
    }
}
