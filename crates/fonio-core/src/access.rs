//! Defines the four access patterns of flash benchmarks.

use serde::{Deserialize, Serialize};

use crate::op::Op;

/// The access pattern of a process: its operation and its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Access {
    SeqRead,
    SeqWrite,
    RandRead,
    RandWrite,
}

impl Access {
    /// All four access patterns.
    pub const ALL: [Access; 4] = [Access::SeqRead, Access::SeqWrite, Access::RandRead, Access::RandWrite];

    /// Returns the operation of the pattern: read or write.
    pub fn op(self) -> Op {
        if self.writes() { Op::Write } else { Op::Read }
    }

    /// Whether the pattern changes data on the device.
    pub fn writes(self) -> bool {
        matches!(self, Access::SeqWrite | Access::RandWrite)
    }

    /// Whether each request of the pattern begins where the previous request ended.
    pub fn is_sequential(self) -> bool {
        matches!(self, Access::SeqRead | Access::SeqWrite)
    }

    /// Returns the plural form of the pattern in texts, such as "random reads".
    pub fn words(self) -> &'static str {
        match self {
            Access::SeqRead => "sequential reads",
            Access::SeqWrite => "sequential writes",
            Access::RandRead => "random reads",
            Access::RandWrite => "random writes",
        }
    }

    /// Returns the singular form of the pattern in texts, such as "random read".
    pub fn word(self) -> &'static str {
        match self {
            Access::SeqRead => "sequential read",
            Access::SeqWrite => "sequential write",
            Access::RandRead => "random read",
            Access::RandWrite => "random write",
        }
    }

    /// Returns the pattern's name, as it occurs in the names of tests and figures.
    pub fn name(self) -> &'static str {
        match self {
            Access::SeqRead => "seq_read",
            Access::SeqWrite => "seq_write",
            Access::RandRead => "rand_read",
            Access::RandWrite => "rand_write",
        }
    }
}
