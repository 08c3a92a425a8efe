//! Times, rates and sizes of a flash device.

use fonio_core::Nanos;

/// Times, rates and sizes of a flash device. All of them come from a profile (`crate::profile`).
#[derive(Clone, Debug)]
pub struct Flash {
    /// The piece that the translation layer maps.
    pub unit_bytes: u64,
    /// A page of all planes, which are programmed together.
    pub page_bytes: u64,
    /// Dies on all channels together.
    pub dies: u32,
    /// Channels; die `n` is on channel `n mod channels`.
    pub channels: u32,
    /// A channel's rate in bytes per second; `None` if its transfers take no time.
    pub channel_rate: Option<u64>,
    /// Time to read a page into its register.
    pub t_read: Nanos,
    /// Time to program a page.
    pub t_program: Nanos,
    /// Time to erase an erase block.
    pub t_erase: Nanos,
    /// The operations that a read waits for while its die is busy.
    pub reads_wait_for: ReadsWaitFor,
    /// The interface and the controller.
    pub interface: Interface,
    /// A write-back buffer in the controller's RAM.
    pub buffer: Option<Buffer>,
    /// A part of the flash that is used with one bit per cell, to take writes quickly.
    pub slc: Option<Slc>,
    /// How far the device reads ahead of a sequential reader.
    pub read_ahead_bytes: u64,
    /// Parts of the map that fit into RAM, nearest first.
    pub map_levels: Vec<MapReach>,
}

/// The interface and the controller.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Bytes per second to the host.
    pub read_rate: u64,
    /// Bytes per second from the host.
    pub write_rate: u64,
    /// Whether it sends and receives at the same time.
    pub full_duplex: bool,
    /// The controller's time for a read.
    pub read_command: Nanos,
    /// The controller's time for a write.
    pub write_command: Nanos,
    /// The controller's time for a flush, without the time to program buffered data.
    pub flush_command: Nanos,
    /// The time that forced unit access adds to a write, without the time to program its data.
    pub fua: Nanos,
    /// The controller's additional time for a read that continues no stream.
    pub random_read: Nanos,
    /// The controller's additional time for a write that continues no stream.
    pub random_write: Nanos,
    /// The delay of a read that keeps no resource busy.
    pub read_latency: Nanos,
    /// The delay of a write that keeps no resource busy.
    pub write_latency: Nanos,
    /// The additional delay of a read that continues no stream.
    pub random_read_latency: Nanos,
    /// The additional delay of a write that continues no stream.
    pub random_write_latency: Nanos,
    /// Sequential readers that the controller can tell apart.
    pub read_streams: u32,
    /// Sequential writers that the controller can tell apart.
    pub write_streams: u32,
    /// Whether programming begins when the first page has arrived, rather than the last.
    pub programs_while_receiving: bool,
}

/// A write-back buffer.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// The number of pages that it can hold until they are in flash.
    pub pages: u32,
    /// The number of partly written units that it can hold until the rest has been written. With 0, the rest
    /// of a partly written unit is read from flash at once.
    pub gathered_units: u32,
}

/// A cache in SLC mode.
#[derive(Clone, Copy, Debug)]
pub struct Slc {
    /// The number of pages that it holds.
    pub pages: u64,
    /// Time to program one of them.
    pub t_program: Nanos,
}

/// The data that the part of the map in RAM covers.
#[derive(Clone, Copy, Debug)]
pub struct MapReach {
    /// Data that one piece of the map covers.
    pub piece_bytes: u64,
    /// Data that all pieces in RAM together cover.
    pub reach_bytes: u64,
    /// The time to fetch a piece that is not there.
    pub miss: Nanos,
}

/// The operations for which a read waits while its die programs or erases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadsWaitFor {
    /// All operations that the die was given before.
    Queue,
    /// The operation in progress; the read goes before those that have not begun.
    Operation,
    /// The suspension of the operation in progress, which takes this long.
    Suspension(Nanos),
}

/// The time that `bytes` take at `rate` bytes per second, in nanoseconds.
pub(super) fn nanos_for(bytes: u64, rate: u64) -> u64 {
    bytes * 1_000_000_000 / rate
}
