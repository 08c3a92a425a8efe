//! What every device model offers: commands in, completion times out.

pub mod buffered;
mod dies;
pub mod flash;
mod gather;
pub mod memory;
pub mod raid0;
mod slots;
mod streams;

pub use dies::ReadsWaitFor;

use fonio_core::{ByteCount, Nanos, Op, Sector, Timestamp};
use serde::{Deserialize, Serialize};

/// One command as the host sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// What is asked for; a device answers at once to what it does not know.
    pub op: Op,
    /// Where it begins. Zero for a flush.
    pub sector: Sector,
    /// How much of the device it covers. Zero for a flush.
    pub bytes: ByteCount,
    /// The write must be durable when it completes (forced unit access). Only where [`Limits::fua`] says so.
    pub fua: bool,
}

/// A device in virtual time.
///
/// Instants given to [`Device::submit`] must not go backwards. A completion's time is settled when its command is
/// submitted: commands share dies, channels and the bus in the order in which they came, as firmware without
/// reordering does. That is what lets one model run at millions of commands a second and behind a wall clock alike.
pub trait Device: Send {
    /// Accepts `command` at `now` and says when it completes, never before `now`.
    ///
    /// A command that arrives while all of [`Limits::depth`] are in use waits inside for a place.
    ///
    /// # Panics
    ///
    /// Where the command lies beyond [`Limits::capacity`], or `now` is earlier than that of the command before.
    fn submit(&mut self, command: &Command, now: Timestamp) -> Timestamp;

    /// What the host has to know of the device.
    fn limits(&self) -> &Limits;

    /// What the device has done since it was made or since its counters were last reset.
    fn counters(&self) -> Counters;

    /// Starts the counters again; the state of the flash stays.
    fn reset_counters(&mut self);
}

/// What a device tells its host: the queue limits of the kernel's block layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The size that the host sees.
    pub capacity: ByteCount,
    /// How many commands the device takes at once; 1 for SD cards without a command queue.
    pub depth: u32,
    /// The largest single command (`max_sectors_kb`).
    pub command_max: ByteCount,
    /// The unit of a discard; `None` where the device has no discard.
    pub discard_granularity: Option<ByteCount>,
    /// It takes writes with forced unit access; else the host adds a flush.
    pub fua: bool,
    /// It holds acknowledged writes in volatile memory, so that a power cut loses what was not flushed.
    pub volatile_cache: bool,
    /// Nothing else proceeds while a flush is under way.
    pub flush_blocks_all: bool,
}

/// What a device has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that the host wrote.
    pub host_written: ByteCount,
    /// Bytes that the host read.
    pub host_read: ByteCount,
    /// Bytes programmed into flash, copies included. Over `host_written` it is the write amplification.
    pub programmed: ByteCount,
    /// Erase blocks erased.
    pub erases: u64,
    /// Log blocks that became data blocks as they were.
    pub switch_merges: u64,
    /// Merges that copied the rest of a block behind what stood there in order.
    pub partial_merges: u64,
    /// Merges that copied a whole block.
    pub full_merges: u64,
    /// Pages copied by garbage collection and merges.
    pub pages_copied: u64,
    /// Time for which at least one command was under way.
    pub busy: Nanos,
}

/// Holds a command against what [`Device::submit`] demands.
fn assert_fits(command: &Command, now: Timestamp, last: u64, limits: &Limits) {
    assert!(now.0 >= last, "a command at {} ns came after one at {last} ns", now.0);
    let end = command.sector.after(command.bytes);
    let sectors = limits.capacity.0 / fonio_core::SECTOR_BYTES;
    assert!(end.0 <= sectors, "a command up to sector {} on a device of {sectors} sectors", end.0);
}

#[cfg(test)]
mod tests;
