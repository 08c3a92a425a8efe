//! The kinds of remedies, by which programs and tests can compare advice.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a remedy: what is changed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RemedyKind {
    /// Find out more, for example in a table of the report.
    #[default]
    Look,
    /// SQLite's write-ahead log.
    WalMode,
    /// Several changes in one transaction.
    LargerTransactions,
    /// A setting of a program that syncs less, with less durability.
    LowerDurability,
    /// End the reader that keeps a write-ahead log from being reset.
    EndReader,
    /// A lower I/O class for the programs that are in the way.
    Ionice,
    /// A smaller share of the disk for a unit.
    IoWeight,
    /// A limit for the rate of the programs that are in the way.
    LimitRate,
    /// Another time for the programs that are in the way.
    OtherTime,
    /// Another I/O scheduler.
    Scheduler,
    /// Smaller requests, or fewer in the device.
    QueueSize,
    /// Lower limits for dirty pages.
    DirtyLimits,
    /// Read-ahead.
    ReadAhead,
    /// An overlay without syncs.
    VolatileOverlay,
    /// Fewer syncs.
    SyncLess,
    /// No discards in line, and a periodic trim.
    Trim,
    /// Fewer writes of access times.
    Noatime,
    /// More memory.
    AddMemory,
    /// A higher memory limit of a control group.
    RaiseGroupLimit,
    /// Less use of memory.
    LessMemory,
    /// Swap in compressed memory.
    Zram,
    /// A longer commit interval of the file system.
    MountCommit,
    /// A faster device.
    FasterDevice,
    /// The device's power states.
    DevicePower,
    /// The device's health: cable, contacts, replacement.
    DeviceHealth,
    /// A larger cache of the program.
    BiggerCache,
    /// Fewer or other reads: an index, larger reads.
    ReadLess,
    /// Another file system.
    OtherFileSystem,
    /// Another place for a file: memory, or another disk.
    MoveFile,
    /// Several files in one, or several writes in one.
    Batch,
    /// Fewer writes.
    WriteLess,
    /// A cheaper cipher, or other settings of the encryption.
    Cipher,
    /// The program that holds a lock.
    FixLock,
    /// The peer in the network.
    FasterPeer,
    /// A higher quota of processor time.
    RaiseQuota,
    /// More or faster processors, or less computation.
    MoreCpu,
    /// Better cooling.
    Cooling,
    /// The settings of the recording.
    RecordAgain,
}
