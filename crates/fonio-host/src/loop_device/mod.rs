//! Creates loop devices that the ledger removes.
//!
//! This module never reuses an existing device. A depth set through `nr_requests` lasts until the device is
//! removed, so the depth of a used device can differ from the depth in sysfs.

pub(crate) mod driver;

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use fonio_machine::read_number;
use rustix::io::Errno;

use self::driver::{CONTROL, FLAG_DIRECT_IO, FLAG_READ_ONLY, configure, control, open_node, sysfs};
use crate::error::HostError;
use crate::ledger::{Entry, Ledger, Step};
use crate::numbered;
use crate::queue::Queue;

/// The options of a loop device.
#[derive(Clone, Debug, Default)]
pub struct LoopOptions {
    /// Whether the device refuses writes.
    pub read_only: bool,
    /// Whether the device bypasses the page cache of its backing file and sends many requests at a time to
    /// this file.
    pub direct_io: bool,
    /// The logical block size in bytes, a power of two from 512 to 4096; `None` for 512.
    pub block_bytes: Option<u32>,
}

/// A loop device that this process added. Undoing its ledger removes the device.
#[derive(Debug)]
pub struct LoopDevice {
    number: u32,
    path: PathBuf,
    entry: Entry,
}

impl LoopDevice {
    /// Adds a loop device and binds it to the file `backing`. Fails with [`HostError::NotRoot`],
    /// [`HostError::NoNumber`], or [`HostError::System`], for example if the backing file does not support
    /// the requested direct I/O.
    pub fn attach(
        ledger: &mut Ledger,
        backing: &Path,
        options: &LoopOptions,
    ) -> Result<LoopDevice, HostError> {
        HostError::check_root("a loop device")?;
        let backing = fs::canonicalize(backing).map_err(HostError::system("find", backing))?;
        let mut file_options = OpenOptions::new();
        file_options.read(true).write(!options.read_only);
        if options.direct_io {
            use std::os::unix::fs::OpenOptionsExt;
            let direct = rustix::fs::OFlags::DIRECT.bits();
            file_options.custom_flags(direct.cast_signed());
        }
        let file = file_options.open(&backing).map_err(HostError::system("open", &backing))?;
        let control = control()?;
        let step = |number| Step::Loop { number, backing: backing.clone() };
        let (number, entry) =
            numbered::add(ledger, "loop", CONTROL, sysfs, step, |number| driver::add(&control, number))?;
        let bound = bind(number, &file, options);
        if bound.is_err() {
            // Return the first error. If undoing fails too, the device stays in the ledger.
            let _ = ledger.undo(entry);
        }
        let device = LoopDevice { number, path: bound?, entry };
        if options.direct_io && read_number(&sysfs(number).join("loop/dio")) != Some(1) {
            let source = std::io::Error::from(Errno::OPNOTSUPP);
            let path = device.path.clone();
            device.detach(ledger)?;
            return Err(HostError::system("use direct I/O below", path)(source));
        }
        Ok(device)
    }

    /// Returns the path of the device node, such as `/dev/loop700`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the device's name in sysfs, such as `loop700`.
    pub fn name(&self) -> String {
        format!("loop{}", self.number)
    }

    /// Returns the device's request queue.
    pub fn queue(&self) -> Queue {
        Queue::of(&self.name())
    }

    /// Detaches the loop device from its file and removes it. Fails with [`HostError::System`], for example
    /// if the device is still mounted.
    pub fn detach(self, ledger: &mut Ledger) -> Result<(), HostError> {
        ledger.undo(self.entry)
    }
}

fn bind(number: u32, file: &File, options: &LoopOptions) -> Result<PathBuf, HostError> {
    let path = PathBuf::from(format!("/dev/loop{number}"));
    let flags = if options.read_only { FLAG_READ_ONLY } else { 0 }
        | if options.direct_io { FLAG_DIRECT_IO } else { 0 };
    configure(&open_node(&path)?, file, options.block_bytes.unwrap_or(512), flags)
        .map_err(HostError::system("bind", &path))?;
    Ok(path)
}
