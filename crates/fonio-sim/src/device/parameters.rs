//! Times, rates and sizes of a flash device.

use fonio_core::Nanos;

/// Times, rates and sizes of a flash device, all from a profile (`crate::profile`).
#[derive(Clone, Debug)]
pub struct Flash {
    /// Size of the translation layer's mapping unit.
    pub unit_bytes: u64,
    /// Size of a page of all planes, which are programmed together.
    pub page_bytes: u64,
    /// Total number of dies on all channels.
    pub dies: u32,
    /// Number of channels; die `n` is on channel `n mod channels`.
    pub channels: u32,
    /// A channel's rate in bytes per second; `None` if its transfers take no time.
    pub channel_rate: Option<u64>,
    /// Time to read a page into its register.
    pub t_read: Nanos,
    /// Time to program a page.
    pub t_program: Nanos,
    /// Time to erase an erase block.
    pub t_erase: Nanos,
    /// The operations that a read waits for if its die is busy.
    pub reads_wait_for: ReadsWaitFor,
    /// Parameters of the interface and the controller.
    pub interface: Interface,
    /// A write-back buffer in the controller's RAM.
    pub buffer: Option<Buffer>,
    /// A part of the flash that stores one bit per cell, for fast writes.
    pub slc: Option<Slc>,
    /// Amount of data read ahead for a sequential reader.
    pub read_ahead_bytes: u64,
    /// Map caches in RAM, nearest first.
    pub map_levels: Vec<MapReach>,
}

/// Parameters of the interface and the controller.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Transfers from the device to the host.
    pub read: Direction,
    /// Transfers from the host to the device.
    pub write: Direction,
    /// Whether the interface sends and receives at the same time.
    pub full_duplex: bool,
    /// The controller's time for a flush, without the time to program buffered data.
    pub flush_command: Nanos,
    /// The time that forced unit access adds to a write, without the time to program its data.
    pub fua: Nanos,
    /// Whether programming begins when the first page has arrived, rather than when the last page has.
    pub programs_while_receiving: bool,
}

/// One direction of the interface, and the controller's work for commands in this direction.
#[derive(Clone, Copy, Debug)]
pub struct Direction {
    /// Transfer rate in bytes per second.
    pub rate: u64,
    /// The controller's time for a command that continues a stream.
    pub command: Nanos,
    /// The controller's additional time for a command that does not continue a stream.
    pub random: Nanos,
    /// The part of a command's delay that keeps no resource busy.
    pub latency: Nanos,
    /// The additional delay of a command that does not continue a stream.
    pub random_latency: Nanos,
    /// Number of sequential readers or writers that the controller can tell apart.
    pub streams: u32,
}

/// Parameters of a write-back buffer.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// The number of pages that the buffer can hold. A page leaves the buffer when it is in flash.
    pub pages: u32,
    /// The number of partly written units that the buffer can hold until the rest of their data arrives. If
    /// the number is 0, the missing part of a unit is read from flash at once.
    pub gathered_units: u32,
}

/// Parameters of an SLC cache.
#[derive(Clone, Copy, Debug)]
pub struct Slc {
    /// The number of pages that the cache holds.
    pub pages: u64,
    /// Time to program a page in SLC mode.
    pub t_program: Nanos,
}

/// The amounts of data that the part of the map in RAM covers.
#[derive(Clone, Copy, Debug)]
pub struct MapReach {
    /// Amount of data that one segment of the map covers.
    pub piece_bytes: u64,
    /// Amount of data that all map segments in RAM cover.
    pub reach_bytes: u64,
    /// The time to fetch a map segment that is not in RAM.
    pub miss: Nanos,
}

/// The operations that a read waits for while its die programs or erases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadsWaitFor {
    /// A read waits for all operations queued at the die.
    Queue,
    /// A read waits for the operation in progress, and overtakes operations that have not begun.
    Operation,
    /// A read waits until the operation in progress is suspended. The suspension takes this time.
    Suspension(Nanos),
}

/// Returns the time in nanoseconds to transfer `bytes` at `rate` bytes per second.
pub(super) fn nanos_for(bytes: u64, rate: u64) -> u64 {
    bytes * 1_000_000_000 / rate
}
