//! The records of a file, also those in compressed records.
//!
//! ```text
//! u32 kind | u16 flags | u16 size with these eight bytes | fields
//! ```
//!
//! Some kinds have data behind the record, of which the size is in the first field. The contents of all compressed records
//! together are one zstd stream, and the stream's content is again a sequence of records.

use std::io::{self, BufRead, BufReader, Read};

use fonio_tracefs::ring_buffer::ByteOrder;
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::sample::Numbers;
use crate::expansion;

pub(super) const LOST: u32 = 2;
pub(super) const COMM: u32 = 3;
pub(super) const SAMPLE: u32 = 9;
pub(super) const LOST_SAMPLES: u32 = 13;
pub(super) const HEADER_ATTR: u32 = 64;
pub(super) const TRACING_DATA: u32 = 66;
pub(super) const FINISHED_ROUND: u32 = 68;
pub(super) const ID_INDEX: u32 = 69;
const AUXTRACE: u32 = 71;
pub(super) const HEADER_FEATURE: u32 = 80;
pub(super) const COMPRESSED: u32 = 81;
const COMPRESSED_2: u32 = 83;

/// Size of the beginning of a record.
const HEADER_BYTES: usize = 8;

/// Size of the buffer of the file, and number of bytes unpacked at a time.
const BUFFER_BYTES: usize = 256 << 10;
const UNPACKED_BYTES: usize = 64 << 10;

/// Maximum window of zstd, as a power of two: 128 MiB, as for files that are packed with zstd.
const WINDOW_LOG_MAX: u32 = 27;

/// What comes next in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Record {
        kind: u32,
        flags: u16,
    },
    End,
    /// The file ends within a record.
    Cut,
    /// A size that is impossible. The next record cannot be found.
    NotARecord,
    /// The compressed records are damaged from here on.
    DamagedZstd,
    /// The compressed records unpack to too much.
    ExpandsTooFar,
}

/// Reads records.
pub(super) struct Records {
    source: BufReader<Box<dyn Read>>,
    order: ByteOrder,
    /// The number of the current record in the file, from 1, and its offset.
    pub number: u64,
    pub offset: u64,
    next_offset: u64,
    unpacking: Unpacking,
}

impl Records {
    /// Creates a reader of records from a stream that is at this offset of the file.
    pub fn new(source: Box<dyn Read>, order: ByteOrder, offset: u64) -> Records {
        Records {
            source: BufReader::with_capacity(BUFFER_BYTES, source),
            order,
            number: 0,
            offset,
            next_offset: offset,
            unpacking: Unpacking::default(),
        }
    }

    /// Reads the next record; its fields are then in `body`.
    pub fn next(&mut self, body: &mut Vec<u8>) -> io::Result<Found> {
        loop {
            if let Some(found) = self.unpacking.next(body, self.order)? {
                return Ok(found);
            }
            self.offset = self.next_offset;
            if self.source.fill_buf()?.is_empty() {
                return Ok(Found::End);
            }
            self.number += 1;
            let mut start = [0; HEADER_BYTES];
            if let Some(bytes) = self.source.buffer().first_chunk() {
                start = *bytes;
                self.source.consume(HEADER_BYTES);
                self.next_offset += HEADER_BYTES as u64;
            } else if self.take(HEADER_BYTES, body)? {
                start.copy_from_slice(body);
            } else {
                return Ok(Found::Cut);
            }
            let Some((kind, flags, size)) = header(&start, self.order) else { return Ok(Found::NotARecord) };
            if !self.take(size - HEADER_BYTES, body)? {
                return Ok(Found::Cut);
            }
            match kind {
                COMPRESSED => self.unpacking.add(body),
                COMPRESSED_2 => {
                    // The record ends with padding.
                    let mut numbers = Numbers::of(body, self.order);
                    let size = numbers.u64().and_then(|size| usize::try_from(size).ok());
                    match size.and_then(|size| numbers.bytes(size)) {
                        Some(packed) => self.unpacking.add(packed),
                        None => return Ok(Found::NotARecord),
                    }
                }
                AUXTRACE => {
                    let size = Numbers::of(body, self.order).u64().unwrap_or(0);
                    self.skip(size)?;
                }
                _ => return Ok(Found::Record { kind, flags }),
            }
        }
    }

    /// Reads the data behind the current record, of which there must be at most `most` bytes; `None` if it is cut or larger.
    pub fn data(&mut self, size: u64, most: u64) -> io::Result<Option<Vec<u8>>> {
        let mut data = Vec::new();
        if size > most {
            self.skip(size)?;
            return Ok(None);
        }
        let is_whole = self.take(size as usize, &mut data)?;
        Ok(is_whole.then_some(data))
    }

    /// Reads `count` bytes; returns false at the end of the file.
    fn take(&mut self, count: usize, to: &mut Vec<u8>) -> io::Result<bool> {
        to.clear();
        if let Some(bytes) = self.source.buffer().get(..count) {
            to.extend_from_slice(bytes);
            self.source.consume(count);
        } else {
            (&mut self.source).take(count as u64).read_to_end(to)?;
        }
        self.next_offset += to.len() as u64;
        Ok(to.len() == count)
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        self.next_offset += io::copy(&mut (&mut self.source).take(count), &mut io::sink())?;
        Ok(())
    }
}

/// Returns the kind, the flags and the size in the beginning of a record; `None` if the size is impossible.
fn header(bytes: &[u8], order: ByteOrder) -> Option<(u32, u16, usize)> {
    let mut numbers = Numbers::of(bytes, order);
    let (kind, flags, size) = (numbers.u32()?, numbers.u16()?, usize::from(numbers.u16()?));
    (size >= HEADER_BYTES).then_some((kind, flags, size))
}

/// The stream in the compressed records.
#[derive(Default)]
struct Unpacking {
    decoder: Option<Decoder<'static>>,
    /// The compressed bytes of the current record, and the index of the next.
    packed: Vec<u8>,
    packed_at: usize,
    /// Whether the decoder may have more bytes than it gave.
    has_more: bool,
    /// Unpacked bytes, and the index of the next.
    unpacked: Vec<u8>,
    at: usize,
    packed_count: u64,
    unpacked_count: u64,
    is_damaged: bool,
}

impl Unpacking {
    /// Adds the compressed bytes of a record. All bytes of the record before it must have been unpacked.
    fn add(&mut self, packed: &[u8]) {
        assert!(self.packed_at == self.packed.len(), "a compressed record was not unpacked");
        self.packed.clear();
        self.packed_at = 0;
        if !self.is_damaged {
            self.packed.extend_from_slice(packed);
            self.packed_count += packed.len() as u64;
        }
    }

    /// Returns the next complete record, unpacking more if needed.
    fn next(&mut self, body: &mut Vec<u8>, order: ByteOrder) -> io::Result<Option<Found>> {
        loop {
            let rest = &self.unpacked[self.at..];
            if rest.len() >= HEADER_BYTES {
                let Some((kind, flags, size)) = header(rest, order) else { return Ok(Some(self.damaged())) };
                if let Some(record) = rest.get(..size) {
                    self.at += size;
                    if matches!(kind, COMPRESSED | COMPRESSED_2) {
                        return Ok(Some(self.damaged()));
                    }
                    body.clear();
                    body.extend_from_slice(&record[HEADER_BYTES..]);
                    return Ok(Some(Found::Record { kind, flags }));
                }
            }
            if self.packed_at == self.packed.len() && !self.has_more {
                return Ok(None);
            }
            if let Some(found) = self.unpack()? {
                return Ok(Some(found));
            }
        }
    }

    /// Unpacks some bytes behind those that are not yet a complete record.
    fn unpack(&mut self) -> io::Result<Option<Found>> {
        self.unpacked.drain(..self.at);
        self.at = 0;
        let begin = self.unpacked.len();
        self.unpacked.resize(begin + UNPACKED_BYTES, 0);
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            None => {
                let mut decoder = Decoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))?;
                self.decoder.insert(decoder)
            }
        };
        let mut input = InBuffer::around(&self.packed[self.packed_at..]);
        let mut output = OutBuffer::around(&mut self.unpacked[begin..]);
        let result = decoder.run(&mut input, &mut output);
        let (read, written) = (input.pos(), output.pos());
        self.packed_at += read;
        self.unpacked.truncate(begin + written);
        self.unpacked_count += written as u64;
        self.has_more = written == UNPACKED_BYTES;
        if result.is_err() || (read == 0 && written == 0 && self.packed_at < self.packed.len()) {
            return Ok(Some(self.damaged()));
        }
        if expansion::is_too_far(self.packed_count, self.unpacked_count) {
            self.damaged();
            return Ok(Some(Found::ExpandsTooFar));
        }
        Ok(None)
    }

    /// Leaves out all further compressed records.
    fn damaged(&mut self) -> Found {
        *self = Unpacking { is_damaged: true, ..Unpacking::default() };
        Found::DamagedZstd
    }
}
