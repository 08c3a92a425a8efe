//! Describes the requests and completions of the kernel's ublk driver (linux/ublk_cmd.h).

use std::fs::File;
use std::io;

use fonio_core::SECTOR_BYTES;
use rustix::ioctl::{Opcode, opcode};
use rustix::mm::{MapFlags, ProtFlags};

/// Fetches a request. The command completes when the driver has a request.
pub(super) const FETCH: Opcode = opcode::read_write::<Answer>(b'u', 0x20);

/// Completes a request and fetches another request with the same tag.
pub(super) const COMMIT_AND_FETCH: Opcode = opcode::read_write::<Answer>(b'u', 0x21);

const OP_READ: u32 = 0;
const OP_WRITE: u32 = 1;
const OP_FLUSH: u32 = 2;
const OP_DISCARD: u32 = 3;
const OP_WRITE_ZEROES: u32 = 5;
const FLAG_FUA: u32 = 1 << 13;

/// Offset of request data in the character node (`UBLKSRV_IO_BUF_OFFSET`).
const DATA_OFFSET: u64 = 0x8000_0000;

/// Base-2 logarithm of the bytes per tag in the character node (`UBLK_IO_BUF_BITS`).
const DATA_BITS: u32 = 25;

/// `struct ublksrv_io_cmd`: a completion, or the first fetch command of a tag.
#[repr(C)]
pub(super) struct Answer {
    queue: u16,
    tag: u16,
    result: i32,
    buffer: u64,
}

const _: () = assert!(size_of::<Answer>() == 16 && size_of::<Descriptor>() == 24);

impl Answer {
    pub(super) fn bytes(tag: u16, result: i32) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&result.to_ne_bytes());
        bytes
    }
}

/// `struct ublksrv_io_desc`: a request.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    op_and_flags: u32,
    sectors: u32,
    first_sector: u64,
    address: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
}

impl Descriptor {
    /// Returns the operation of the request; `None` if it is unknown.
    pub(super) fn kind(&self) -> Option<Kind> {
        Some(match self.op_and_flags & 0xff {
            OP_READ => Kind::Read,
            OP_WRITE => Kind::Write,
            OP_FLUSH => Kind::Flush,
            OP_DISCARD => Kind::Discard,
            OP_WRITE_ZEROES => Kind::WriteZeroes,
            _ => return None,
        })
    }

    pub(super) fn fua(&self) -> bool {
        self.op_and_flags & FLAG_FUA != 0
    }

    pub(super) fn offset(&self) -> u64 {
        self.first_sector.saturating_mul(SECTOR_BYTES)
    }

    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.sectors) * SECTOR_BYTES
    }
}

/// Returns the offset in the character node at which the data of the request with this tag begin.
pub(super) fn data_offset(tag: u16) -> u64 {
    DATA_OFFSET + (u64::from(tag) << DATA_BITS)
}

/// The table of requests, which the driver fills. The table has one entry per tag.
#[derive(Debug)]
pub(super) struct Descriptors {
    start: *const Descriptor,
    map_bytes: usize,
    depth: u16,
}

impl Descriptors {
    /// Maps the table of requests of the device's only queue.
    pub(super) fn map(node: &File, depth: u16) -> io::Result<Descriptors> {
        let table_bytes = usize::from(depth) * size_of::<Descriptor>();
        let map_bytes = table_bytes.next_multiple_of(rustix::param::page_size());
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses the address, so no memory of ours is replaced.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), map_bytes, ProtFlags::READ, flags, node, 0) };
        Ok(Descriptors { start: start?.cast(), map_bytes, depth })
    }

    /// Returns the descriptor of the request with this tag. The descriptor is valid from the completion of a
    /// fetch command until the request is completed. Panics if the queue has no request with this tag.
    pub(super) fn get(&self, tag: u16) -> Descriptor {
        assert!(tag < self.depth, "the queue of depth {} has no tag {tag}", self.depth);
        // SAFETY: the table has `depth` entries and is mapped until this value is dropped. Every bit pattern is a valid
        // descriptor. The read is volatile, because the driver writes the table.
        unsafe { self.start.add(usize::from(tag)).read_volatile() }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and no reference into it exists.
        let _ = unsafe { rustix::mm::munmap(self.start.cast_mut().cast(), self.map_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_from_its_descriptor() {
        let of = |op_and_flags| Descriptor { op_and_flags, sectors: 8, first_sector: 3, address: 0 };
        let write = of(1 | 1 << 13 | 1 << 9);
        assert_eq!((write.kind(), write.fua()), (Some(Kind::Write), true));
        assert_eq!((write.offset(), write.bytes()), (1536, 4096));
        let kinds = [0, 2, 3, 5, 4].map(|op| of(op).kind());
        let known = [Kind::Read, Kind::Flush, Kind::Discard, Kind::WriteZeroes].map(Some);
        assert_eq!(
            (&kinds[..4], kinds[4]),
            (known.as_slice(), None),
            "exactly the operation WRITE SAME must be unknown"
        );
    }

    #[test]
    fn codes_and_answers_are_those_of_the_kernels_header() {
        assert_eq!([FETCH, COMMIT_AND_FETCH], [0xc010_7520, 0xc010_7521]);
        let answer = Answer { queue: 0, tag: 258, result: -5, buffer: 0 };
        let bytes = Answer::bytes(answer.tag, answer.result);
        assert_eq!((&bytes[2..4], &bytes[4..8]), (&258_u16.to_ne_bytes()[..], &(-5_i32).to_ne_bytes()[..]));
        assert_eq!(bytes[..2], answer.queue.to_ne_bytes());
        assert_eq!(bytes[8..], answer.buffer.to_ne_bytes());
        assert_eq!(data_offset(2), 0x8400_0000);
    }
}
