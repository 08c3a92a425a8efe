//! Defines the types that fonio's crates exchange: units, ids and the rows of a recording.
//!
//! A *producer* passes [`rows`] to a [`RowSink`]. Producers are a [`TraceReader`] with the assembler, and the
//! live recorder. A *consumer* (the recording writer, the analysis) is a [`RowSink`]. This crate is
//! independent of Arrow and trace formats, does no I/O and reads no clock.

mod access;
mod collected;
mod device_identity;
mod device_kind;
pub mod event;
mod figure;
mod file_flags;
pub mod lives;
pub mod meta;
mod names;
mod nearest;
pub mod op;
pub mod prometheus;
pub mod quantity;
pub mod random;
mod reader;
mod relation;
pub mod rows;
mod sink;
pub mod sql;
pub mod statistics;
pub mod threads;
mod unit_name;
pub mod units;
pub mod untrusted;

pub use access::Access;
pub use collected::CollectedRows;
pub use device_identity::DeviceIdentity;
pub use device_kind::DeviceKind;
pub use event::{Batch, BlockEvent, EventKind, Instants, KindSet, LostEvents, SeenWait};
pub use figure::{Better, Figure};
pub use file_flags::FileFlags;
pub use lives::{FileLife, Inode, SeenFile};
pub use meta::Meta;
pub use nearest::nearest;
pub use op::{Flags, Op, parse_rwbs};
pub use quantity::{Quantity, QuantityError, Unit};
pub use random::Random;
pub use reader::TraceReader;
pub use relation::Relation;
pub use rows::{
    Bio, BlockedCount, BlockedIn, Call, Content, Diagnostic, File, IoWait, Link, LinkEnd, LinkKind, Mark,
    Metric, Request, Sample, Severity, SqliteWrite, Statement, Thread, Wait, WaitReason,
};
pub use sink::RowSink;
pub use unit_name::{CgroupUnit, Engine, unit_name};
pub use units::{ByteCount, DeviceId, Nanos, SECTOR_BYTES, Sector, Timestamp};
pub use untrusted::{printable, printable_json, printable_line, shortened};
