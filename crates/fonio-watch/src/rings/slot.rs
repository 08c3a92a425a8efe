//! One slot of a ring: length, checksum, sequence number, then compressed summaries.
//!
//! | bytes | contents (little-endian) |
//! |---|---|
//! | 0..4 | length of the compressed summaries |
//! | 4..8 | CRC-32 of the rest of the header and of the summaries |
//! | 8..16 | sequence number of the slot |

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use crate::summary::{Bounds, Summary};

pub(super) const HEADER_BYTES: usize = 16;
/// Maximum decompressed size of a slot; a full slot has about 100 KiB.
const DECODED_MAX: u64 = 4 << 20;
const PAGE: usize = 4096;

/// Encodes summaries without merging. The encoded bytes are padded to full pages, so that the file system
/// need not read the rest of a page.
pub(crate) fn encode(summaries: &[Summary], number: u64) -> Vec<u8> {
    let plain = postcard::to_stdvec(summaries).expect("summaries can be encoded");
    let mut slot = vec![0; HEADER_BYTES];
    let mut encoder = DeflateEncoder::new(&mut slot, Compression::best());
    encoder.write_all(&plain).and_then(|()| encoder.finish().map(|_| ())).expect("memory can be written");
    let length = (slot.len() - HEADER_BYTES) as u32;
    slot[..4].copy_from_slice(&length.to_le_bytes());
    slot[8..16].copy_from_slice(&number.to_le_bytes());
    let sum = crc32fast::hash(&slot[8..]);
    slot[4..8].copy_from_slice(&sum.to_le_bytes());
    slot.resize(slot.len().next_multiple_of(PAGE), 0);
    slot
}

/// Decodes the number and the summaries of a slot; returns `None` if the slot is damaged.
pub(crate) fn decode(slot: &[u8]) -> Option<(u64, Vec<Summary>)> {
    let header: &[u8; HEADER_BYTES] = slot.get(..HEADER_BYTES)?.try_into().ok()?;
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let end = HEADER_BYTES.checked_add(word(0) as usize)?;
    let contents = slot.get(8..end)?;
    if crc32fast::hash(contents) != word(4) {
        return None;
    }
    let mut plain = Vec::new();
    DeflateDecoder::new(&slot[HEADER_BYTES..end]).take(DECODED_MAX).read_to_end(&mut plain).ok()?;
    let number = u64::from(word(8)) | u64::from(word(12)) << 32;
    Some((number, postcard::from_bytes(&plain).ok()?))
}

/// Encodes summaries in at most `bytes`: first drops rows, then merges neighbouring summaries until they fit.
pub(super) fn fitting(summaries: &[Summary], bounds: Bounds, bytes: u64, number: u64) -> Vec<u8> {
    let mut summaries = summaries.to_vec();
    let mut bounds = bounds;
    loop {
        summaries.iter_mut().for_each(|summary| summary.trim(bounds));
        let slot = encode(&summaries, number);
        if slot.len() as u64 <= bytes {
            return slot;
        }
        if bounds.parties > 4 {
            let less = |rows: usize| (rows * 3 / 4).max(1);
            bounds = Bounds {
                parties: less(bounds.parties),
                files: less(bounds.files),
                stalls: less(bounds.stalls),
                events: less(bounds.events),
            };
        } else if summaries.len() > 1 {
            let joined = summaries.chunks(2).map(|pair| {
                let mut first = pair[0].clone();
                pair[1..].iter().for_each(|second| first.merge(second));
                first
            });
            summaries = joined.collect();
        } else {
            // Names have a bounded length, so only a very large number of devices can make a summary this
            // large.
            let summary = &mut summaries[0];
            summary.devices.truncate(summary.devices.len() / 2);
            summary.parties.truncate(summary.parties.len() / 2);
            summary.blocked.truncate(summary.blocked.len() / 2);
            summary.files.truncate(summary.files.len() / 2);
            summary.stalls.truncate(summary.stalls.len() / 2);
            summary.events.truncate(summary.events.len() / 2);
        }
    }
}
