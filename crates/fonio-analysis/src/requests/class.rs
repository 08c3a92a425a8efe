//! Defines the classes of requests that the studies distinguish, and the groups of classes that tables list.

use fonio_core::{Flags, Op, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a request. Every request has exactly one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Class {
    /// A read that is not known to be readahead.
    Read,
    /// A read of data that no program has requested yet.
    Readahead,
    /// A synchronous write: a program waits for it.
    WriteSync,
    /// Write-back: a write that no program waits for.
    WriteAsync,
    /// A write for which the source does not show whether it is synchronous.
    WriteUnknown,
    /// A flush request without data.
    Flush,
    /// A discard or secure erase.
    Discard,
    /// Write zeroes, zone management, passthrough.
    Other,
}

impl Class {
    /// All classes, in the order of tables.
    pub const ALL: [Class; 8] = [
        Class::Read,
        Class::Readahead,
        Class::WriteSync,
        Class::WriteAsync,
        Class::WriteUnknown,
        Class::Flush,
        Class::Discard,
        Class::Other,
    ];
    /// The number of request classes.
    pub const COUNT: usize = Class::ALL.len();

    /// Returns the class of a request.
    pub fn of(request: &Request) -> Class {
        match request.op {
            Op::Read if request.flags.contains(Flags::READAHEAD) => Class::Readahead,
            Op::Read => Class::Read,
            Op::Write | Op::ZoneAppend if request.flags.contains(Flags::SYNC) => Class::WriteSync,
            Op::Write | Op::ZoneAppend if request.flags_known.contains(Flags::SYNC) => Class::WriteAsync,
            Op::Write | Op::ZoneAppend => Class::WriteUnknown,
            Op::Flush => Class::Flush,
            Op::Discard | Op::SecureErase => Class::Discard,
            Op::WriteZeroes | Op::ZoneManagement | Op::Other => Class::Other,
        }
    }

    /// Returns the name of the class in JSON and in figures.
    pub fn name(self) -> &'static str {
        Group::from(self).name()
    }

    /// Describes one request of the class, such as "a synchronous write".
    pub fn one(self) -> &'static str {
        match self {
            Class::Read => "a read",
            Class::Readahead => "a readahead request",
            Class::WriteSync => "a synchronous write",
            Class::WriteAsync => "a write-back request",
            Class::WriteUnknown => "a write",
            Class::Flush => "a flush",
            Class::Discard => "a discard",
            Class::Other => "a request",
        }
    }

    /// Whether requests of the class transfer data to the host.
    pub fn is_read(self) -> bool {
        matches!(self, Class::Read | Class::Readahead)
    }

    /// Whether requests of the class transfer data to the device.
    pub fn is_write(self) -> bool {
        matches!(self, Class::WriteSync | Class::WriteAsync | Class::WriteUnknown)
    }
}

/// A row of a table: one class of requests, or several classes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// All requests.
    All,
    /// Reads and readahead.
    Reads,
    /// Reads that are not known to be readahead.
    Read,
    /// Reads of data that no program has requested yet.
    Readahead,
    /// All writes.
    Writes,
    /// Synchronous writes.
    WriteSync,
    /// Write-back.
    WriteAsync,
    /// Writes for which the source does not show whether they are synchronous.
    WriteUnknown,
    /// Flush requests without data.
    Flush,
    /// Discards and secure erases.
    Discard,
    /// Write zeroes, zone management, passthrough.
    Other,
}

impl Group {
    /// All groups, in the order of tables.
    pub const ALL: [Group; 11] = [
        Group::All,
        Group::Reads,
        Group::Read,
        Group::Readahead,
        Group::Writes,
        Group::WriteSync,
        Group::WriteAsync,
        Group::WriteUnknown,
        Group::Flush,
        Group::Discard,
        Group::Other,
    ];

    /// Returns the group's name in JSON and figures, its plural noun, and its attributive form.
    fn words(self) -> [&'static str; 3] {
        match self {
            Group::All => ["all", "requests", "request"],
            Group::Reads => ["reads", "reads", "read"],
            Group::Read => ["read", "reads without readahead", "read (without readahead)"],
            Group::Readahead => ["readahead", "readahead", "readahead"],
            Group::Writes => ["writes", "writes", "write"],
            Group::WriteSync => ["write_sync", "synchronous writes", "sync write"],
            Group::WriteAsync => ["write_async", "write-back", "write-back"],
            Group::WriteUnknown => ["write_unknown", "writes of unknown kind", "write (of unknown kind)"],
            Group::Flush => ["flush", "flushes", "flush"],
            Group::Discard => ["discard", "discards", "discard"],
            Group::Other => ["other", "other requests", "other"],
        }
    }

    /// The name in JSON and in figures.
    pub fn name(self) -> &'static str {
        self.words()[0]
    }

    /// Returns the plural noun for labels of figures.
    pub(crate) fn requests(self) -> &'static str {
        self.words()[1]
    }

    /// Returns the attributive form for labels of figures: `sync write` in `sync write response`.
    pub(crate) fn adjective(self) -> &'static str {
        self.words()[2]
    }

    pub(crate) fn classes(self) -> impl Iterator<Item = Class> {
        Class::ALL.into_iter().filter(move |class| self.includes(*class))
    }

    /// Whether the group includes `class`.
    pub fn includes(self, class: Class) -> bool {
        match self {
            Group::All => true,
            Group::Reads => class.is_read(),
            Group::Writes => class.is_write(),
            single => single == Group::from(class),
        }
    }
}

impl From<Class> for Group {
    fn from(class: Class) -> Group {
        match class {
            Class::Read => Group::Read,
            Class::Readahead => Group::Readahead,
            Class::WriteSync => Group::WriteSync,
            Class::WriteAsync => Group::WriteAsync,
            Class::WriteUnknown => Group::WriteUnknown,
            Class::Flush => Group::Flush,
            Class::Discard => Group::Discard,
            Class::Other => Group::Other,
        }
    }
}
