//! Defines the operation of a request and its flags (the kernel's `REQ_*`).

use std::ops::{BitOr, BitOrAssign};

use serde::{Deserialize, Serialize};

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Op {
    /// Transfers data to the host.
    Read,
    /// Transfers data to the device.
    Write,
    /// An empty request that flushes the device's volatile write cache.
    Flush,
    /// Informs the device that the host no longer needs a range of data (TRIM, UNMAP).
    Discard,
    /// A discard that makes the data unrecoverable.
    SecureErase,
    /// Writes zeroes to a range without sending data.
    WriteZeroes,
    /// A write to a zone; the device chooses the sector.
    ZoneAppend,
    /// Resets, opens, closes or finishes a zone.
    ZoneManagement,
    /// Any other operation, including passthrough commands.
    Other,
}

impl Op {
    /// All operations, in the order in which tables show them.
    pub const ALL: [Op; 9] = [
        Op::Read,
        Op::Write,
        Op::Flush,
        Op::Discard,
        Op::SecureErase,
        Op::WriteZeroes,
        Op::ZoneAppend,
        Op::ZoneManagement,
        Op::Other,
    ];

    /// Name of the operation in the recording, in JSON and in filters.
    pub fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Discard => "discard",
            Op::SecureErase => "secure_erase",
            Op::WriteZeroes => "write_zeroes",
            Op::ZoneAppend => "zone_append",
            Op::ZoneManagement => "zone_management",
            Op::Other => "other",
        }
    }

    /// Parses a [`name`](Op::name).
    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL.into_iter().find(|op| op.name() == name)
    }
}

/// A set of request flags. They correspond to the kernel's `REQ_*` flags (`include/linux/blk_types.h`).
///
/// fonio defines its own bits, because kernel bits change between versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Flags(pub u32);

impl Flags {
    /// The empty set of flags.
    pub const NONE: Flags = Flags(0);
    /// The request is synchronous: a program waits for it (`REQ_SYNC`).
    pub const SYNC: Flags = Flags(1);
    /// The request accesses file system metadata (`REQ_META`).
    pub const META: Flags = Flags(1 << 1);
    /// The request's data are durable when it completes (`REQ_FUA`).
    pub const FUA: Flags = Flags(1 << 2);
    /// The device flushes its cache before the request (`REQ_PREFLUSH`).
    pub const PREFLUSH: Flags = Flags(1 << 3);
    /// The request is readahead: no program has asked for the data yet (`REQ_RAHEAD`).
    pub const READAHEAD: Flags = Flags(1 << 4);
    /// The scheduler prefers the request (`REQ_PRIO`).
    pub const PRIO: Flags = Flags(1 << 5);
    /// The request is background work (`REQ_BACKGROUND`).
    pub const BACKGROUND: Flags = Flags(1 << 6);
    /// The request swaps memory in or out (`REQ_SWAP`).
    pub const SWAP: Flags = Flags(1 << 7);
    /// The device must write either all of the request's data or none of it (`REQ_ATOMIC`).
    pub const ATOMIC: Flags = Flags(1 << 8);
    /// The request fails if it would have to wait for a free request slot (`REQ_NOWAIT`).
    pub const NOWAIT: Flags = Flags(1 << 9);

    /// Each flag with its name, from the lowest bit to the highest bit.
    pub const NAMES: [(Flags, &'static str); 10] = [
        (Flags::SYNC, "sync"),
        (Flags::META, "meta"),
        (Flags::FUA, "fua"),
        (Flags::PREFLUSH, "preflush"),
        (Flags::READAHEAD, "readahead"),
        (Flags::PRIO, "prio"),
        (Flags::BACKGROUND, "background"),
        (Flags::SWAP, "swap"),
        (Flags::ATOMIC, "atomic"),
        (Flags::NOWAIT, "nowait"),
    ];

    /// The flags that the letters of `rwbs` can show: sync, meta, FUA, preflush and readahead.
    pub const KNOWN_FROM_RWBS: Flags = Flags(0b1_1111);

    /// Whether this set contains every flag of `other`.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

/// Parses the `rwbs` letters of blkparse and of the block tracepoints, for example `WSM` or `FFWFS`.
///
/// Kernel source: `blk_fill_rwbs` in `kernel/trace/blktrace.c`. An `F` before the op letter means preflush,
/// and an `F` after it means FUA; `F` alone (or `FF`, `FN`) is a flush request without data. Older Android
/// kernels write the same letters. Unknown letters are skipped, because new kernels add some.
pub fn parse_rwbs(rwbs: &[u8]) -> (Op, Flags) {
    let mut flags = Flags::NONE;
    let mut op = None;
    for (at, letter) in rwbs.iter().enumerate() {
        match letter {
            b'R' if op.is_none() => op = Some(Op::Read),
            b'W' if op.is_none() => op = Some(Op::Write),
            b'D' if op.is_none() => {
                // "DE" is a secure erase; a discard is "D" followed by anything else.
                op = Some(if rwbs.get(at + 1) == Some(&b'E') { Op::SecureErase } else { Op::Discard });
            }
            b'Z' if op.is_none() => {
                op = Some(if rwbs.get(at + 1) == Some(&b'A') { Op::ZoneAppend } else { Op::ZoneManagement });
            }
            b'N' if op.is_none() => op = Some(Op::Other),
            b'F' if op.is_none() => flags |= Flags::PREFLUSH,
            b'F' => flags |= Flags::FUA,
            b'S' => flags |= Flags::SYNC,
            b'M' => flags |= Flags::META,
            b'A' if op == Some(Op::Read) || op == Some(Op::Write) => flags |= Flags::READAHEAD,
            b'Z' if op == Some(Op::Write) => op = Some(Op::WriteZeroes),
            b'U' => flags |= Flags::ATOMIC,
            _ => {}
        }
    }
    match op {
        Some(Op::Other) | None if flags.contains(Flags::PREFLUSH) => (Op::Flush, flags),
        Some(op) => (op, flags),
        None => (Op::Other, flags),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rwbs_letters() {
        let cases: &[(&str, Op, Flags)] = &[
            ("R", Op::Read, Flags::NONE),
            ("RA", Op::Read, Flags::READAHEAD),
            ("WS", Op::Write, Flags::SYNC),
            ("WSM", Op::Write, Flags::SYNC | Flags::META),
            ("WFS", Op::Write, Flags::FUA | Flags::SYNC),
            ("FWFS", Op::Write, Flags::PREFLUSH | Flags::FUA | Flags::SYNC),
            ("FF", Op::Flush, Flags::PREFLUSH),
            ("F", Op::Flush, Flags::PREFLUSH),
            ("FN", Op::Flush, Flags::PREFLUSH),
            ("FWS", Op::Write, Flags::PREFLUSH | Flags::SYNC),
            ("DS", Op::Discard, Flags::SYNC),
            ("DE", Op::SecureErase, Flags::NONE),
            ("ZAS", Op::ZoneAppend, Flags::SYNC),
            ("ZR", Op::ZoneManagement, Flags::NONE),
            ("WZS", Op::WriteZeroes, Flags::SYNC),
            ("N", Op::Other, Flags::NONE),
            ("", Op::Other, Flags::NONE),
        ];
        for (letters, op, flags) in cases {
            assert_eq!(parse_rwbs(letters.as_bytes()), (*op, *flags), "{letters}");
        }
    }

    #[test]
    fn op_names_come_back() {
        for op in Op::ALL {
            assert_eq!(Op::from_name(op.name()), Some(op));
        }
    }
}
