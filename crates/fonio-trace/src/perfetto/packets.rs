//! Splits a stream into packets.
//!
//! ```text
//! Trace  = packet*
//! packet = 0x0a (field 1, length-delimited), length (varint), TracePacket
//! ```
//!
//! There is no header, index or footer. If the recorder was killed, the last packet can be incomplete.

use std::io::{self, BufRead, BufReader, Read};

/// Maximum number of bytes of a packet. An ftrace packet holds at most 256 pages of the kernel's buffer
/// (1 MiB), which grow to about 2 MiB if every event repeats its names. Larger packets contain heap dumps.
pub(super) const PACKET_BYTES_MAX: u64 = 4 << 20;

/// Size of the buffer of a stream.
const BUFFER_BYTES: usize = 64 << 10;

/// The start of each packet: field 1, length-delimited.
const TAG: u8 = 0x0a;

/// The result of reading the next packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The packet was stored.
    Packet,
    /// The packet has this length, which is greater than [`PACKET_BYTES_MAX`]; it was skipped.
    TooLong(u64),
    /// The stream ends within the packet.
    Cut,
    /// No packet begins here, so the place of the next one is unknown.
    NotAPacket,
    End,
}

/// A stream of packets.
pub(super) struct Packets<R> {
    source: BufReader<R>,
    /// Number of bytes read.
    position: u64,
    /// Position of the last packet.
    pub offset: u64,
    /// Number of packets so far.
    pub number: u64,
}

impl<R: Read> Packets<R> {
    pub fn new(source: R) -> Packets<R> {
        Packets { source: BufReader::with_capacity(BUFFER_BYTES, source), position: 0, offset: 0, number: 0 }
    }

    /// Returns the underlying stream.
    pub fn source(&self) -> &R {
        self.source.get_ref()
    }

    /// Reads the next packet into `packet`. After [`Found::Cut`] and [`Found::NotAPacket`], the stream has
    /// no more packets.
    pub fn next(&mut self, packet: &mut Vec<u8>) -> io::Result<Found> {
        packet.clear();
        self.offset = self.position;
        let Some(tag) = self.byte()? else { return Ok(Found::End) };
        self.number += 1;
        if tag != TAG {
            return Ok(Found::NotAPacket);
        }
        let (mut length, mut shift) = (0, 0);
        loop {
            let Some(byte) = self.byte()? else { return Ok(Found::Cut) };
            length |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 56 {
                return Ok(Found::NotAPacket);
            }
        }
        let mut body = (&mut self.source).take(length);
        let too_long = length > PACKET_BYTES_MAX;
        let read =
            if too_long { io::copy(&mut body, &mut io::sink())? } else { body.read_to_end(packet)? as u64 };
        self.position += read;
        Ok(match read < length {
            true => Found::Cut,
            false if too_long => Found::TooLong(length),
            false => Found::Packet,
        })
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        let byte = loop {
            match self.source.fill_buf() {
                Ok(buffer) => break buffer.first().copied(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        if byte.is_some() {
            self.source.consume(1);
            self.position += 1;
        }
        Ok(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_and_their_damage() {
        let read = |bytes: &[u8]| {
            let mut packets = Packets::new(bytes);
            let (mut all, mut packet) = (Vec::new(), Vec::new());
            loop {
                let found = packets.next(&mut packet).expect("memory reads");
                let ends = !matches!(found, Found::Packet | Found::TooLong(_));
                all.push((found, packets.offset, packet.len()));
                if ends {
                    return all;
                }
            }
        };
        assert_eq!(read(&[]), [(Found::End, 0, 0)]);
        assert_eq!(
            read(&[0x0a, 2, 1, 2, 0x0a, 0]),
            [(Found::Packet, 0, 2), (Found::Packet, 4, 0), (Found::End, 6, 0)]
        );
        assert_eq!(read(&[0x0a, 0, 0x0a, 3, 1]), [(Found::Packet, 0, 0), (Found::Cut, 2, 1)]);
        assert_eq!(read(&[0x0a, 0, 0x0a]), [(Found::Packet, 0, 0), (Found::Cut, 2, 0)]);
        assert_eq!(read(&[0x0a, 0, 0x12, 0]), [(Found::Packet, 0, 0), (Found::NotAPacket, 2, 0)]);
        assert_eq!(read(&[[0x0a].as_slice(), &[0xff; 12]].concat()), [(Found::NotAPacket, 0, 0)]);
        let long = PACKET_BYTES_MAX as usize + 1;
        let bytes = [&[0x0a, 0x81, 0x80, 0x80, 0x02], vec![7; long].as_slice(), &[0x0a, 1, 5]].concat();
        assert_eq!(
            read(&bytes),
            [
                (Found::TooLong(long as u64), 0, 0),
                (Found::Packet, 5 + long as u64, 1),
                (Found::End, 8 + long as u64, 0)
            ]
        );
    }
}
