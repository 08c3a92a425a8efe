//! The ring-buffer pages of one processor.
//!
//! Pages without compression follow each other. Compressed pages are in chunks of several pages:
//!
//! ```text
//! u32 number of chunks | u32 packed size, u32 unpacked size, packed pages | …
//! ```

use std::io;

use fonio_tracefs::ring_buffer::{ByteOrder, PageSource};

use super::packing::Packing;
use crate::random_access::RandomAccess;

/// Maximum size of the chunks of all processors together that are kept in memory. trace-cmd writes chunks of
/// ten pages.
const CHUNKS_BYTES_MAX: usize = 64 << 20;

/// Reads the pages of one processor.
pub(super) struct Pages {
    file: RandomAccess,
    order: ByteOrder,
    page_bytes: usize,
    packing: Packing,
    /// The offsets of the next and of the last byte in the file.
    at: u64,
    end: u64,
    /// The number of chunks not yet read; `None` before the first.
    chunks: Option<u64>,
    chunk_bytes_max: usize,
    packed: Vec<u8>,
    /// The pages of the current chunk, and the index of the next byte in them.
    chunk: Vec<u8>,
    chunk_at: usize,
}

impl Pages {
    /// Creates a source of `size` bytes of the file from `at`, for one of `cpus` processors.
    pub fn new(
        file: &RandomAccess,
        order: ByteOrder,
        page_bytes: usize,
        packing: Packing,
        (at, size): (u64, u64),
        cpus: usize,
    ) -> Pages {
        // The size of compressed pages does not include the number of chunks.
        let size = if packing == Packing::None { size } else { size.saturating_add(4) };
        Pages {
            file: file.clone(),
            order,
            page_bytes,
            packing,
            at,
            end: at.saturating_add(size),
            chunks: None,
            chunk_bytes_max: CHUNKS_BYTES_MAX / cpus.max(16),
            packed: Vec::new(),
            chunk: Vec::new(),
            chunk_at: 0,
        }
    }

    /// Reads a number from the file; `None` at the end.
    fn number(&mut self) -> io::Result<Option<u64>> {
        if self.end - self.at < 4 {
            return Ok(None);
        }
        self.file.read(self.at, 4, &mut self.packed)?;
        let Ok(bytes) = <[u8; 4]>::try_from(self.packed.as_slice()) else { return Ok(None) };
        self.at += 4;
        Ok(Some(u64::from(match self.order {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        })))
    }

    /// Reads the next chunk; returns `false` at the end. A damaged chunk is empty.
    fn next_chunk(&mut self) -> io::Result<bool> {
        self.chunk.clear();
        self.chunk_at = 0;
        if self.chunks.is_none() {
            self.chunks = Some(self.number()?.unwrap_or(0));
        }
        let left = self.chunks.unwrap_or(0);
        if left == 0 {
            return Ok(false);
        }
        self.chunks = Some(left - 1);
        let (Some(packed), Some(unpacked)) = (self.number()?, self.number()?) else {
            self.chunks = Some(0);
            return Ok(true);
        };
        let max = self.chunk_bytes_max as u64;
        let is_whole = packed <= self.end - self.at && packed <= max && unpacked <= max;
        if !is_whole {
            // The next chunk cannot be found.
            self.chunks = Some(0);
            return Ok(true);
        }
        self.file.read(self.at, packed as usize, &mut self.packed)?;
        self.at += packed;
        self.chunk = self.packing.unpack(&self.packed, unpacked as usize).unwrap_or_default();
        Ok(true)
    }
}

impl PageSource for Pages {
    fn next_page(&mut self, page: &mut Vec<u8>) -> io::Result<Option<u64>> {
        page.clear();
        if self.packing == Packing::None {
            let offset = self.at;
            let count = (self.end - self.at).min(self.page_bytes as u64);
            if count == 0 {
                return Ok(None);
            }
            self.file.read(offset, count as usize, page)?;
            self.at += count;
            if page.is_empty() {
                // The file is cut off here. The empty page is reported once.
                self.at = self.end;
            }
            return Ok(Some(offset));
        }
        let offset = self.at;
        if self.chunk_at == self.chunk.len() && !self.next_chunk()? {
            return Ok(None);
        }
        let end = (self.chunk_at + self.page_bytes).min(self.chunk.len());
        page.extend_from_slice(&self.chunk[self.chunk_at..end]);
        self.chunk_at = end;
        Ok(Some(offset))
    }
}
