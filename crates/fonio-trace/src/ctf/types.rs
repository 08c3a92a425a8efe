//! The types of fields in a CTF trace, and the description of the trace.

use std::sync::Arc;

use fonio_tracefs::ring_buffer::ByteOrder;

/// The number of a name; names are compared often, and a trace has some hundred.
pub(super) type Name = u32;

/// The type of a field. Types are shared, because a name of a type stands for the same type everywhere. `depth` is the number of
/// types within each other; it is limited, because types are read recursively.
#[derive(Clone, Debug)]
pub(super) enum Type {
    Integer(Integer),
    /// A number with this many bits and this alignment, which is skipped.
    Float {
        bits: u32,
        align: u32,
    },
    /// Bytes until a zero.
    Text,
    Enum {
        of: Integer,
        labels: Arc<Vec<Label>>,
    },
    Struct {
        fields: Arc<Vec<Field>>,
        align: u32,
        depth: u32,
    },
    /// One of these options, chosen by the value of an earlier enumeration with this name.
    Variant {
        tag: Option<Name>,
        options: Arc<Vec<Field>>,
        depth: u32,
    },
    Array {
        of: Arc<Type>,
        count: Count,
        depth: u32,
    },
}

/// An integer in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Integer {
    pub bits: u32,
    pub align: u32,
    pub signed: bool,
    pub order: ByteOrder,
    /// Whether its value is a time of the trace's clock.
    pub is_clock: bool,
}

/// Values of an enumeration with a name, from the first to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub name: Name,
    pub first: i128,
    pub last: i128,
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub name: Name,
    pub of: Arc<Type>,
}

/// The number of elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Fixed(u64),
    /// The value of an earlier field with this name.
    Of(Name),
}

impl Type {
    /// Returns the number of types within each other.
    pub fn depth(&self) -> u32 {
        match self {
            Type::Struct { depth, .. } | Type::Variant { depth, .. } | Type::Array { depth, .. } => *depth,
            Type::Integer(_) | Type::Float { .. } | Type::Text | Type::Enum { .. } => 1,
        }
    }

    /// Returns the alignment in bits.
    pub fn align(&self) -> u32 {
        match self {
            Type::Integer(integer) | Type::Enum { of: integer, .. } => integer.align,
            Type::Float { align, .. } | Type::Struct { align, .. } => *align,
            Type::Text => 8,
            Type::Variant { .. } => 1,
            Type::Array { of, .. } => of.align(),
        }
    }
}

/// The clock of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    pub name: String,
    /// Cycles per second.
    pub frequency: u64,
    /// The time since 1970 at the value 0.
    pub offset_seconds: i64,
    pub offset_cycles: i64,
}

/// An event that streams can have.
#[derive(Clone, Debug)]
pub(super) struct EventType {
    pub name: String,
    pub context: Option<Arc<Type>>,
    pub fields: Option<Arc<Type>>,
}

/// A kind of stream.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamType {
    pub packet_context: Option<Arc<Type>>,
    pub event_header: Option<Arc<Type>>,
    pub event_context: Option<Arc<Type>>,
}

/// The description of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Description {
    pub packet_header: Option<Arc<Type>>,
    /// The kinds of streams by their numbers.
    pub streams: Vec<(u64, StreamType)>,
    /// The events by the numbers of their stream and of their own.
    pub events: rustc_hash::FxHashMap<(u64, u64), EventType>,
    pub clock: Option<Clock>,
    /// `env`: hostname, tracer_name, …
    pub environment: Vec<(String, String)>,
    /// The names, by their numbers.
    pub names: Vec<String>,
}
