//! Sends the commands of `/dev/ublk-control` (linux/ublk_cmd.h), each through its own io_uring.
//!
//! A command that the kernel cannot finish, such as the deletion of a device whose server is stuck, is
//! cancelled when its ring is closed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use io_uring::squeue::Entry128;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, opcode as ioctl};

use crate::error::HostError;

pub(super) const NODE: &str = "/dev/ublk-control";

pub(super) const PARAMS_BASIC: u32 = 1;
pub(super) const PARAMS_DISCARD: u32 = 2;
pub(super) const ATTRIBUTE_VOLATILE_CACHE: u32 = 1 << 2;
pub(super) const ATTRIBUTE_FUA: u32 = 1 << 3;

const GET_DEV_INFO: Opcode = ioctl::read::<Command>(b'u', 0x02);
const ADD_DEV: Opcode = ioctl::read_write::<Command>(b'u', 0x04);
const DEL_DEV: Opcode = ioctl::read_write::<Command>(b'u', 0x05);
const START_DEV: Opcode = ioctl::read_write::<Command>(b'u', 0x06);
const STOP_DEV: Opcode = ioctl::read_write::<Command>(b'u', 0x07);
const SET_PARAMS: Opcode = ioctl::read_write::<Command>(b'u', 0x08);

const NO_QUEUE: u16 = u16::MAX;

/// The kernel's `struct ublksrv_ctrl_cmd`.
#[derive(Default)]
#[repr(C)]
struct Command {
    number: u32,
    queue: u16,
    buffer_bytes: u16,
    buffer: u64,
    data: u64,
    device_path_bytes: u16,
    padding: u16,
    reserved: u32,
}

/// `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DevInfo {
    pub(super) hardware_queues: u16,
    pub(super) depth: u16,
    pub(super) state: u16,
    pub(super) padding: u16,
    pub(super) command_bytes_max: u32,
    pub(super) number: u32,
    pub(super) server_pid: i32,
    pub(super) padding_2: u32,
    pub(super) flags: u64,
    /// `ublksrv_flags`, which the driver stores but does not use.
    pub(super) owner_tag: u64,
    pub(super) owner_uid: u32,
    pub(super) owner_gid: u32,
    pub(super) reserved: [u64; 2],
}

/// The kernel's `struct ublk_param_basic`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Basic {
    pub(super) attributes: u32,
    pub(super) logical_block_shift: u8,
    pub(super) physical_block_shift: u8,
    pub(super) optimal_io_shift: u8,
    pub(super) minimal_io_shift: u8,
    pub(super) sectors_max: u32,
    pub(super) chunk_sectors: u32,
    pub(super) device_sectors: u64,
    pub(super) virtual_boundary_mask: u64,
}

/// The kernel's `struct ublk_param_discard`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Discard {
    pub(super) alignment: u32,
    pub(super) granularity: u32,
    pub(super) sectors_max: u32,
    pub(super) write_zeroes_sectors_max: u32,
    pub(super) segments_max: u16,
    pub(super) reserved: u16,
}

/// The beginning of `struct ublk_params`; the field `length` is the size of this beginning.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    pub(super) length: u32,
    pub(super) types: u32,
    pub(super) basic: Basic,
    pub(super) discard: Discard,
}

const _: () = assert!(size_of::<Command>() == 32 && size_of::<DevInfo>() == 64);
const _: () = assert!(size_of::<Basic>() == 32 && size_of::<Discard>() == 20 && size_of::<Params>() == 64);

pub(super) struct Control {
    ring: IoUring<Entry128, cqueue::Entry>,
    node: File,
}

impl Control {
    pub(super) fn open() -> Result<Control, HostError> {
        let node = match OpenOptions::new().read(true).write(true).open(NODE) {
            Ok(node) => node,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let reason = format!(
                    "there is no {NODE}; load the driver with `modprobe ublk_drv` (Linux 6.5 or later with \
                     CONFIG_BLK_DEV_UBLK), use a loop device (--through loop), or run the workload in a guest that has \
                     ublk (fonio run --in lab:6.12)"
                );
                return Err(HostError::NoUblk { reason });
            }
            Err(error) => return Err(HostError::system("open", NODE)(error)),
        };
        let ring = IoUring::builder().build(1).map_err(|error| HostError::NoUblk {
            reason: format!(
                "io_uring cannot be used: {error}; allow it with `sysctl kernel.io_uring_disabled=0`"
            ),
        })?;
        Ok(Control { ring, node })
    }

    /// Adds the ublk device that `info` describes. The driver adjusts the fields of `info`.
    pub(super) fn add(self, info: &mut DevInfo) -> Result<(), Errno> {
        let command = with_buffer(info.number, info);
        // SAFETY: the buffer is a `struct ublksrv_ctrl_dev_info`, which the command reads and writes before
        // it completes.
        unsafe { self.run(ADD_DEV, &command, None) }
    }

    pub(super) fn set_params(self, number: u32, params: &Params) -> Result<(), Errno> {
        let mut params = *params;
        let command = with_buffer(number, &mut params);
        // SAFETY: the buffer is the beginning of a `struct ublk_params`, and the first field of the buffer is
        // the buffer's length.
        unsafe { self.run(SET_PARAMS, &command, None) }
    }

    pub(super) fn info(self, number: u32) -> Result<DevInfo, Errno> {
        let mut info = DevInfo::default();
        let command = with_buffer(number, &mut info);
        // SAFETY: the buffer is a `struct ublksrv_ctrl_dev_info`, which the command writes before it
        // completes.
        unsafe { self.run(GET_DEV_INFO, &command, None) }?;
        Ok(info)
    }

    pub(super) fn start(self, number: u32, server: u32, within: Duration) -> Result<(), Errno> {
        let command = Command { data: server.into(), ..without_buffer(number) };
        // SAFETY: this command has no buffer.
        unsafe { self.run(START_DEV, &command, Some(within)) }
    }

    pub(super) fn stop(self, number: u32, within: Duration) -> Result<(), Errno> {
        // SAFETY: this command has no buffer.
        unsafe { self.run(STOP_DEV, &without_buffer(number), Some(within)) }
    }

    pub(super) fn delete(self, number: u32, within: Duration) -> Result<(), Errno> {
        // SAFETY: this command has no buffer.
        unsafe { self.run(DEL_DEV, &without_buffer(number), Some(within)) }
    }

    /// Sends `command` and waits for its result; if `within` is given, waits at most for this time.
    ///
    /// # Safety
    /// The command's buffer, if any, must have the type that `code` expects. A command with a buffer must
    /// have no time limit, because the kernel may use the buffer until the command completes.
    unsafe fn run(mut self, code: Opcode, command: &Command, within: Option<Duration>) -> Result<(), Errno> {
        let mut bytes = [0; 80];
        // SAFETY: `Command` is plain numbers without padding, and as long as the slice (asserted above).
        bytes[..32].copy_from_slice(unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(command).cast::<u8>(), 32)
        });
        let entry = opcode::UringCmd80::new(Fd(self.node.as_raw_fd()), code).cmd(bytes).build();
        // SAFETY: the caller vouches for the buffer, and the node is open until the ring is closed.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has room for one command");
        let until = within.map(|within| Instant::now() + within);
        loop {
            let waited = match until {
                None => self.ring.submit_and_wait(1),
                Some(until) => {
                    let left = Timespec::from(until.saturating_duration_since(Instant::now()));
                    self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&left))
                }
            };
            if let Some(completed) = self.ring.completion().next() {
                let result = completed.result();
                return if result < 0 { Err(Errno::from_raw_os_error(-result)) } else { Ok(()) };
            }
            match waited.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::TIME) => return Err(Errno::TIMEDOUT),
                Err(error) => return Err(error),
            }
        }
    }
}

fn without_buffer(number: u32) -> Command {
    Command { number, queue: NO_QUEUE, ..Command::default() }
}

fn with_buffer<T>(number: u32, buffer: &mut T) -> Command {
    let buffer_bytes = u16::try_from(size_of::<T>()).expect("ublk structures are smaller than 64 KiB");
    Command { buffer_bytes, buffer: std::ptr::from_mut(buffer) as u64, ..without_buffer(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_those_of_the_kernels_header() {
        assert_eq!([GET_DEV_INFO, ADD_DEV, SET_PARAMS], [0x8020_7502, 0xc020_7504, 0xc020_7508]);
    }
}
