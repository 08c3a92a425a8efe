//! Creates the block device through which the host uses the emulated device.

use std::path::Path;

use fonio_host::{HostError, Ledger, LoopDevice, LoopOptions, UBLK_DEPTH_MAX, UblkDevice, UblkOptions};
use fonio_sim::device::Limits;
use serde::Serialize;

/// Minimum and maximum queue depth of a loop device.
const LOOP_DEPTH_MIN: u32 = 4;
const LOOP_DEPTH_MAX: u32 = 128;

/// The kernel driver that provides the block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Through {
    /// A loop device on a file of fonio's FUSE file system. Every kernel has loop devices. The queue depth of
    /// a loop device is 4 to 128.
    Loop,
    /// A ublk device (Linux 6.5 or later), with the queue depth and FUA support of the emulated device.
    Ublk,
}

#[derive(Debug)]
pub(crate) struct BlockDevice {
    kind: Kind,
    pub(crate) depth: u32,
}

#[derive(Debug)]
enum Kind {
    Loop(LoopDevice),
    Ublk(UblkDevice),
}

impl BlockDevice {
    /// Creates a loop device that is bound to `file`. The queue of the loop device gets the emulated device's
    /// limits as far as the driver supports them.
    pub(crate) fn on_file(
        ledger: &mut Ledger,
        file: &Path,
        limits: &Limits,
        scheduler: &str,
    ) -> Result<BlockDevice, HostError> {
        let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
        let device = LoopDevice::attach(ledger, file, &options)?;
        let (depth, queue) = (limits.depth.clamp(LOOP_DEPTH_MIN, LOOP_DEPTH_MAX), device.queue());
        queue.set_depth(depth, scheduler)?;
        queue.set_request_max_kib(limits.command_max.0 >> 10)?;
        queue.set_volatile_cache(limits.volatile_cache)?;
        if limits.discard_granularity.is_none() {
            queue.set_discard_max(0)?;
        }
        Ok(BlockDevice { kind: Kind::Loop(device), depth })
    }

    /// Creates a ublk device with these limits of the emulated device. `serve` makes the process `server`
    /// serve the device's requests.
    pub(crate) fn served<E: From<HostError>>(
        ledger: &mut Ledger,
        limits: &Limits,
        scheduler: &str,
        server: u32,
        serve: impl FnOnce(u32) -> Result<(), E>,
    ) -> Result<BlockDevice, E> {
        let depth = limits.depth.clamp(1, UBLK_DEPTH_MAX);
        let options = UblkOptions {
            capacity: limits.capacity,
            depth,
            command_max: limits.command_max,
            volatile_cache: limits.volatile_cache,
            fua: limits.fua,
            discard_granularity: limits.discard_granularity,
        };
        let device = UblkDevice::add(ledger, &options)?;
        serve(device.number())?;
        device.start(server)?;
        device.queue().set_scheduler(scheduler)?;
        device.queue().set_request_max_kib(limits.command_max.0 >> 10)?;
        Ok(BlockDevice { kind: Kind::Ublk(device), depth })
    }

    pub(crate) fn path(&self) -> &Path {
        match &self.kind {
            Kind::Loop(device) => device.path(),
            Kind::Ublk(device) => device.path(),
        }
    }

    pub(crate) fn through(&self) -> Through {
        match self.kind {
            Kind::Loop(_) => Through::Loop,
            Kind::Ublk(_) => Through::Ublk,
        }
    }

    pub(crate) fn detach(self, ledger: &mut Ledger) -> Result<(), HostError> {
        match self.kind {
            Kind::Loop(device) => device.detach(ledger),
            Kind::Ublk(device) => device.detach(ledger),
        }
    }
}
