//! Defines the structures shared with the BPF program, which repeat the structures in `bpf/calls.bpf.c`.

use std::mem::{offset_of, size_of};

use fonio_core::lives::Generation;

use crate::probes::bpf::read_record;

/// Size of a name in bytes, including the final zero (`TASK_COMM_LEN`).
const COMM_MAX: usize = 16;
/// Maximum number of bytes that the program reads from the beginning of the written data.
const HEAD_MAX: usize = 32;
/// Maximum size of a path in bytes, including the final zero.
pub(super) const PATH_MAX: usize = 256;
/// Number of entries in the table of call kinds.
#[cfg(test)]
pub(super) const CALLS_MAX: u32 = 512;
/// Size of the ring buffer for calls in bytes.
pub(super) const RING_BYTES: u64 = 8 << 20;

/// The values of the map `followed`.
pub(super) const FOLLOWED: u8 = 1;
pub(super) const ONLY_CHILDREN: u8 = 2;

/// The bits of `flags` in a call.
pub(super) const HAS_FILE: u32 = 1;
pub(super) const HAS_OFFSET: u32 = 2;
pub(super) const HAS_BYTES: u32 = 4;
pub(super) const IS_WAL: u32 = 8;
pub(super) const IS_JOURNAL: u32 = 16;
pub(super) const MADE_FILE: u32 = 32;
pub(super) const IS_FOLDER: u32 = 64;

/// The counters that the BPF program increments.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub ring_full: u64,
    pub not_noted: u64,
    pub not_followed: u64,
    pub compat: u64,
}

/// A call that has not returned yet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OpenCall {
    pub entered_ns: u64,
    pub number: i32,
    zero: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RawCall {
    pub entered_ns: u64,
    pub exited_ns: u64,
    pub result: i64,
    pub offset: u64,
    pub bytes: u64,
    pub inode: u64,
    pub device: u32,
    pub tid: u32,
    pub tgid: u32,
    pub number: i32,
    pub flags: u32,
    head_bytes: u32,
    pub file_flags: u32,
    pub generation: u32,
    pub comm: [u8; COMM_MAX],
    head: [u8; HEAD_MAX],
}

/// A finished system call that has a path.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct RawPathCall {
    call: RawCall,
    folder: u64,
    path_bytes: i32,
    folder_generation: u32,
    path: [u8; PATH_MAX],
}

const _: () = assert!(size_of::<Counters>() == 32 && size_of::<OpenCall>() == 16);
const _: () = assert!(size_of::<RawCall>() == 128 && offset_of!(RawCall, comm) == 80);
const _: () = assert!(size_of::<RawPathCall>() == 144 + PATH_MAX && offset_of!(RawPathCall, path) == 144);

// SAFETY: each is `repr(C)`, consists of integers and has no padding, so every sequence of bytes is a value.
unsafe impl aya::Pod for Counters {}
// SAFETY: the same holds as for `Counters`.
unsafe impl aya::Pod for OpenCall {}
// SAFETY: the same holds as for `Counters`.
unsafe impl aya::Pod for RawCall {}
// SAFETY: the same holds as for `Counters`.
unsafe impl aya::Pod for RawPathCall {}

/// The path that a program passed to a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawPath {
    /// The path without the final zero byte, possibly truncated.
    pub bytes: Vec<u8>,
    /// The inode number of an opened file's folder; 0 for other calls.
    pub folder: u64,
    /// The generation of the folder.
    pub folder_generation: Option<Generation>,
}

impl RawCall {
    /// Reads a record of the ring buffer; `None` if the record has another size.
    pub(super) fn read(bytes: &[u8]) -> Option<(RawCall, Option<RawPath>)> {
        if let Some(call) = read_record(bytes) {
            return Some((call, None));
        }
        let record: RawPathCall = read_record(bytes)?;
        let length = usize::try_from(record.path_bytes).unwrap_or(0).min(PATH_MAX);
        let path = record.path[..length].split(|byte| *byte == 0).next().unwrap_or_default();
        let folder_generation = Generation::new(record.folder_generation);
        let path = RawPath { bytes: path.to_vec(), folder: record.folder, folder_generation };
        Some((record.call, Some(path)))
    }

    /// Returns the first bytes that a write call passed to the kernel, as far as the BPF program could read
    /// them.
    pub(super) fn head(&self) -> &[u8] {
        &self.head[..(self.head_bytes as usize).min(HEAD_MAX)]
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::probes::calls) fn write_of(flags: u32, offset: u64, bytes: u64, head: &[u8]) -> RawCall {
        let mut call = RawCall { flags: flags | HAS_OFFSET | HAS_BYTES, offset, bytes, ..RawCall::default() };
        call.result = bytes as i64;
        call.head[..head.len()].copy_from_slice(head);
        call.head_bytes = head.len() as u32;
        call
    }

    #[test]
    fn records_are_told_apart_by_their_size() {
        let mut bytes = vec![0; size_of::<RawPathCall>()];
        bytes[128..136].copy_from_slice(&77_u64.to_ne_bytes());
        bytes[136..140].copy_from_slice(&5_i32.to_ne_bytes());
        bytes[140..144].copy_from_slice(&9_u32.to_ne_bytes());
        bytes[144..149].copy_from_slice(b"/a/b\0");
        let path = |bytes: &[u8]| RawCall::read(bytes).and_then(|(_, path)| path);
        let folder_generation = Generation::new(9);
        let expected = RawPath { bytes: b"/a/b".to_vec(), folder: 77, folder_generation };
        assert_eq!(path(&bytes), Some(expected));
        for (length, expected) in [(-14, 0), (300, 4), (3, 3)] {
            bytes[136..140].copy_from_slice(&i32::to_ne_bytes(length));
            assert_eq!(path(&bytes).map(|path| path.bytes.len()), Some(expected), "{length}");
        }
        assert!(RawCall::read(&bytes[..128]).is_some_and(|(_, path)| path.is_none()));
        assert_eq!(RawCall::read(&bytes[..127]), None);
        assert_eq!(RawCall::read(&[]), None);
    }

    #[test]
    fn a_head_has_the_length_that_the_program_gave() {
        let mut call = write_of(IS_WAL, 0, 24, &[7; 24]);
        assert_eq!(call.head(), [7; 24]);
        call.head_bytes = u32::MAX;
        assert_eq!(call.head().len(), HEAD_MAX);
    }
}
