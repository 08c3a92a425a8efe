//! Creates ublk devices: block devices whose requests a process serves.
//!
//! Two processes take part. This module sends the commands that add, start, stop and delete a device. The
//! server process opens the device's character node `/dev/ublkcN`; see `fonio-emulator`.
//!
//! 1. [`UblkDevice::add`] records and adds the device, which creates the character node.
//! 2. The server opens this node and submits fetch commands for requests.
//! 3. [`UblkDevice::start`] creates the block device `/dev/ublkbN`.
//! 4. [`UblkDevice::detach`], or the ledger of a killed owner, stops and deletes the device. If the server
//!    was killed, the kernel has already removed the block device, but the character node remains until the
//!    device is deleted.
//!
//! With each device, the kernel stores a number that the device's owner chooses. fonio stores a tag that is
//! unique for each owner, so that the ledger never deletes another program's device.

mod control;

use std::path::{Path, PathBuf};
use std::time::Duration;

use fonio_core::{ByteCount, SECTOR_BYTES};
use fonio_system::ProcessId;
use rustix::io::Errno;

use crate::error::HostError;
use crate::ledger::{Entry, Ledger, Step};
use crate::loop_device::driver::open_node;
use crate::numbered;
use crate::queue::Queue;
use control::{Basic, Control, DevInfo, Discard, Params};

/// Maximum queue depth of a ublk device (`UBLK_MAX_QUEUE_DEPTH` of linux/ublk_cmd.h).
pub const UBLK_DEPTH_MAX: u32 = 4096;

/// Maximum request size of a ublk device: `UBLK_IO_BUF_BITS` of linux/ublk_cmd.h is 25.
const COMMAND_MAX: u64 = 1 << 25;

/// Minimum request size limit that the kernel accepts: one page.
const COMMAND_MIN: u64 = 4096;

/// The server copies the data itself, with reads and writes on the character node (`UBLK_F_USER_COPY`).
const FLAG_USER_COPY: u64 = 1 << 7;

/// Time limit for the server's first fetch commands and for the partition scan's requests, all of which
/// complete at once.
const START_WITHIN: Duration = Duration::from_secs(30);

/// The time limit for completing the requests in flight. On a slow device, a request can take seconds.
const STOP_WITHIN: Duration = Duration::from_secs(120);

/// Time limit for all users to close the block device, and for the server to close the character node. The
/// server closes this node when the device stops.
const DELETE_WITHIN: Duration = Duration::from_secs(2);

/// The properties of a ublk device. The device has logical blocks of 512 bytes, and is non-rotational.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UblkOptions {
    /// The size of the device.
    pub capacity: ByteCount,
    /// The queue depth, which is clamped to the range from 1 to [`UBLK_DEPTH_MAX`].
    pub depth: u32,
    /// Maximum size of a read or write, which is clamped to the range from 4 KiB to 32 MiB.
    pub command_max: ByteCount,
    /// Whether the device has a volatile cache, so that the kernel sends flushes.
    pub volatile_cache: bool,
    /// Whether the kernel sends writes with forced unit access instead of writes followed by flushes.
    pub fua: bool,
    /// The unit of a discard; `None` if the kernel must not send discards.
    pub discard_granularity: Option<ByteCount>,
}

/// A ublk device that this process added. Undoing its ledger deletes the device.
#[derive(Debug)]
pub struct UblkDevice {
    number: u32,
    path: PathBuf,
    entry: Entry,
}

/// Checks that ublk devices can be created on this machine. Fails with [`HostError::NoUblk`] if the driver is
/// not loaded or this process may not use io_uring.
pub fn check_ublk() -> Result<(), HostError> {
    Control::open().map(drop)
}

impl UblkDevice {
    /// Adds a device with one hardware queue. The block device exists only after [`UblkDevice::start`]. Fails
    /// with [`HostError::NotRoot`], [`HostError::NoUblk`], [`HostError::NoNumber`], or [`HostError::System`].
    pub fn add(ledger: &mut Ledger, options: &UblkOptions) -> Result<UblkDevice, HostError> {
        HostError::check_root("a ublk device")?;
        check_ublk()?;
        let tag = tag_of(ProcessId::own());
        let mut info = DevInfo::default();
        let step = |number| Step::Ublk { number, tag };
        let (number, entry) = numbered::add(ledger, "ublk", control::NODE, sysfs, step, |number| {
            info = DevInfo {
                hardware_queues: 1,
                depth: u16::try_from(options.depth.clamp(1, UBLK_DEPTH_MAX)).expect("the maximum fits"),
                command_bytes_max: u32::try_from(command_max(options)).expect("the maximum fits"),
                number,
                flags: FLAG_USER_COPY,
                owner_tag: tag,
                ..DevInfo::default()
            };
            // The control node existed when it was checked above.
            Control::open().map_err(|_| Errno::NODEV)?.add(&mut info)
        })?;
        let device = UblkDevice { number, path: format!("/dev/ublkb{number}").into(), entry };
        let prepared = device.prepare(&info, options);
        if prepared.is_err() {
            // Return the first error. If undoing fails too, the device stays in the ledger.
            let _ = ledger.undo(entry);
        }
        prepared.map(|()| device)
    }

    fn prepare(&self, info: &DevInfo, options: &UblkOptions) -> Result<(), HostError> {
        if info.flags & FLAG_USER_COPY == 0 {
            let reason =
                "the kernel's ublk driver is older than Linux 6.5; use a loop device (--through loop)";
            return Err(HostError::NoUblk { reason: reason.to_owned() });
        }
        let set = Control::open()?.set_params(self.number, &params(options));
        set.map_err(HostError::system("set the limits of", &self.path))
    }

    /// Starts the device. This creates the block device. The process `server` must have opened the character
    /// node and submitted a fetch command for each slot of the queue. Fails with [`HostError::System`], for
    /// example if the server does not complete the first requests.
    pub fn start(&self, server: u32) -> Result<(), HostError> {
        let started = Control::open()?.start(self.number, server, START_WITHIN);
        started.map_err(HostError::system("start", &self.path))?;
        open_node(&self.path).map(drop)
    }

    /// Returns the path of the block device node, such as `/dev/ublkb700`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the device number: N in `/dev/ublkbN` and `/dev/ublkcN`.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the request queue of the block device.
    pub fn queue(&self) -> Queue {
        Queue::of(&format!("ublkb{}", self.number))
    }

    /// Stops and deletes the ublk device. The server must end when the kernel aborts its fetch commands.
    pub fn detach(self, ledger: &mut Ledger) -> Result<(), HostError> {
        ledger.undo(self.entry)
    }
}

/// Returns the sysfs folder of the character node, which exists until the device is deleted.
fn sysfs(number: u32) -> PathBuf {
    format!("/sys/class/ublk-char/ublkc{number}").into()
}

/// Returns the number with which a process marks its devices. No other process uses it until the next boot.
pub(crate) fn tag_of(owner: ProcessId) -> u64 {
    owner.started_ticks << 32 | u64::from(owner.pid)
}

fn command_max(options: &UblkOptions) -> u64 {
    options.command_max.0.clamp(COMMAND_MIN, COMMAND_MAX) / COMMAND_MIN * COMMAND_MIN
}

fn params(options: &UblkOptions) -> Params {
    const BLOCK_SHIFT: u8 = SECTOR_BYTES.ilog2() as u8;
    /// Maximum size of a discard in sectors. The limit comes from the 32-bit byte count of a request.
    const SECTORS_MAX: u32 = u32::MAX / SECTOR_BYTES as u32;
    let sectors = |bytes: u64| u32::try_from(bytes / SECTOR_BYTES).unwrap_or(SECTORS_MAX);
    let attribute = |present: bool, bit: u32| if present { bit } else { 0 };
    let granularity = options.discard_granularity;
    Params {
        length: size_of::<Params>() as u32,
        types: control::PARAMS_BASIC | control::PARAMS_DISCARD,
        basic: Basic {
            attributes: attribute(options.volatile_cache, control::ATTRIBUTE_VOLATILE_CACHE)
                | attribute(options.volatile_cache && options.fua, control::ATTRIBUTE_FUA),
            logical_block_shift: BLOCK_SHIFT,
            physical_block_shift: BLOCK_SHIFT,
            optimal_io_shift: BLOCK_SHIFT,
            minimal_io_shift: BLOCK_SHIFT,
            sectors_max: sectors(command_max(options)),
            device_sectors: options.capacity.0 / SECTOR_BYTES,
            ..Basic::default()
        },
        discard: Discard {
            granularity: granularity
                .map_or(SECTOR_BYTES as u32, |bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX)),
            sectors_max: if granularity.is_some() { SECTORS_MAX } else { 0 },
            write_zeroes_sectors_max: SECTORS_MAX,
            segments_max: 1,
            ..Discard::default()
        },
    }
}

/// Stops and deletes the device `number` if `tag` shows that it is fonio's.
pub(crate) fn remove(number: u32, tag: u64) -> Result<(), HostError> {
    // If the driver is not loaded, the device does not exist.
    if !Path::new(control::NODE).exists() {
        return Ok(());
    }
    let path = PathBuf::from(format!("/dev/ublkc{number}"));
    match Control::open()?.info(number) {
        Ok(info) if info.owner_tag == tag => {}
        Ok(_) | Err(Errno::NODEV) => return Ok(()),
        Err(error) => return Err(HostError::system("look at", path)(error)),
    }
    match Control::open()?.stop(number, STOP_WITHIN) {
        Ok(()) | Err(Errno::NODEV) => {}
        Err(error) => return Err(HostError::system("stop", path)(error)),
    }
    match Control::open()?.delete(number, DELETE_WITHIN) {
        Ok(()) | Err(Errno::NODEV) => Ok(()),
        // The device is deleted; the kernel frees it when its last user, such as a mount, closes it.
        Err(Errno::TIMEDOUT) if !sysfs(number).exists() => Ok(()),
        Err(error) => Err(HostError::system("delete", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> UblkOptions {
        UblkOptions {
            capacity: ByteCount(64 << 20),
            depth: 1,
            command_max: ByteCount(512 << 10),
            volatile_cache: true,
            fua: true,
            discard_granularity: Some(ByteCount(4096)),
        }
    }

    #[test]
    fn the_kernel_gets_the_limits_of_the_device() {
        let full = params(&options());
        assert_eq!(
            (full.basic.attributes, full.basic.sectors_max, full.basic.device_sectors),
            (12, 1024, 131_072)
        );
        assert_eq!((full.discard.granularity, full.discard.sectors_max), (4096, 8_388_607));
        // Without a volatile cache every write is durable, and the kernel accepts no FUA.
        let plain = params(&UblkOptions { volatile_cache: false, discard_granularity: None, ..options() });
        assert_eq!((plain.basic.attributes, plain.discard.sectors_max), (0, 0));
        assert_eq!((plain.discard.granularity, plain.discard.write_zeroes_sectors_max), (512, 8_388_607));
    }

    #[test]
    fn the_largest_request_is_whole_pages_within_the_drivers_limits() {
        for (wanted, given) in [(0, 4096), (6000, 4096), (1 << 20, 1 << 20), (1 << 40, 1 << 25)] {
            assert_eq!(command_max(&UblkOptions { command_max: ByteCount(wanted), ..options() }), given);
        }
    }
}
