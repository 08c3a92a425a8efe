//! Defines the structures shared with the BPF programs, which repeat the structures in
//! `bpf/statements.bpf.h`.

use std::mem::{offset_of, size_of};

use crate::probes::bpf::read_record;

/// Maximum number of bytes read from a statement, including the final zero.
pub(super) const SQL_MAX: usize = 512;

/// Size of the ring buffer for statements in bytes.
pub(super) const RING_BYTES: u64 = 4 << 20;

/// The counters that the BPF programs increment.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub ring_full: u64,
    pub texts_lost: u64,
    pub not_noted: u64,
}

/// Consecutive steps of a thread on the same SQL statement.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RawStatement {
    pub text: u64,
    pub connection: u64,
    pub entered_ns: u64,
    pub exited_ns: u64,
    pub steps: u64,
    pub stepping_ns: u64,
    pub tid: u32,
    pub tgid: u32,
}

/// The SQL statement that a thread is stepping.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Stepping {
    pub last: RawStatement,
    /// The stack pointer at the call; 0 between steps.
    pub stack: u64,
    pub began_ns: u64,
    text: [u64; SQL_MAX / 8],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct RawText {
    hash: u64,
    bytes: u32,
    zero: u32,
    text: [u8; SQL_MAX],
}

const _: () = assert!(size_of::<Counters>() == 24 && size_of::<RawStatement>() == 56);
const _: () = assert!(size_of::<Stepping>() == 72 + SQL_MAX && offset_of!(RawText, text) == 16);

// SAFETY: each is `repr(C)`, consists of integers and has no padding, so every sequence of bytes is a value.
unsafe impl aya::Pod for Counters {}
// SAFETY: the same holds as for `Counters`.
unsafe impl aya::Pod for Stepping {}
// SAFETY: the same holds as for `Counters`.
unsafe impl aya::Pod for RawStatement {}
// SAFETY: the same holds as for `Counters`.
unsafe impl aya::Pod for RawText {}

/// A record in the ring buffer of the BPF programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Statement(RawStatement),
    /// A statement's text with its hash. `is_cut` means that the statement may be longer.
    Text {
        hash: u64,
        text: Vec<u8>,
        is_cut: bool,
    },
}

impl Record {
    /// Reads a record. Returns `None` if the bytes do not have the size of a record.
    pub(super) fn read(bytes: &[u8]) -> Option<Record> {
        if let Some(statement) = read_record(bytes) {
            return Some(Record::Statement(statement));
        }
        let record: RawText = read_record(bytes)?;
        let length = (record.bytes as usize).min(SQL_MAX);
        let text = record.text[..length].split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        Some(Record::Text { hash: record.hash, text, is_cut: length == SQL_MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_told_apart_by_their_size() {
        let mut bytes = vec![0; size_of::<RawText>()];
        bytes[..8].copy_from_slice(&7_u64.to_ne_bytes());
        bytes[8..12].copy_from_slice(&6_u32.to_ne_bytes());
        bytes[16..24].copy_from_slice(b"BEGIN\0xx");
        let text = |is_cut, text: &[u8]| Some(Record::Text { hash: 7, text: text.to_vec(), is_cut });
        assert_eq!(Record::read(&bytes), text(false, b"BEGIN"));
        bytes[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        bytes[16..].fill(b'a');
        assert_eq!(Record::read(&bytes), text(true, &[b'a'; SQL_MAX]));
        let statement = Record::read(&bytes[..56]);
        assert!(matches!(statement, Some(Record::Statement(RawStatement { text: 7, .. }))), "{statement:?}");
        assert_eq!((Record::read(&bytes[..55]), Record::read(&[])), (None, None));
    }
}
