//! A setup: everything between a workload and the flash. A fix is a change of a setup.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fonio_core::ByteCount;
use fonio_host::{Confirmation, CpuShare, Filesystem, LinkRates};
use fonio_workload::Overrides;

use crate::error::ExperimentError;

/// The storage that a workload runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// A directory on a file system of the machine.
    Directory(PathBuf),
    /// A block device that is formatted for the workload.
    Device {
        /// The device's node.
        path: PathBuf,
        /// How the user confirmed that it may be overwritten.
        confirmation: Confirmation,
    },
    /// A device emulated from this profile.
    Profile(String),
}

/// The medium that one of a workload's directories is moved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The machine's memory.
    Memory,
    /// Another device, emulated from this profile.
    Profile(String),
}

/// Everything between a workload and the flash.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The storage that the workload runs on.
    pub storage: Storage,
    /// The size of an emulated device.
    pub size: ByteCount,
    /// The file system to make on a device; unused for a folder, which already has one.
    pub filesystem: Filesystem,
    /// Mount options, separated by commas.
    pub mount_options: Vec<String>,
    /// The I/O scheduler; `None` for none on an emulated device, and for the current one on a block device.
    pub scheduler: Option<String>,
    /// The link to the server; loopback if there is none.
    pub link: Option<LinkRates>,
    /// The share of the file system that is filled before each run; `None` to leave it empty.
    pub full: Option<f64>,
    /// Directories of the workload that are on another medium.
    pub moved: BTreeMap<String, Medium>,
    /// Whether a device faster than this machine can emulate runs at the machine's speed.
    pub at_floor: bool,
    /// The share of one processor that the workload's process may use; `None` for no limit.
    pub cpu: Option<CpuShare>,
    /// Changes to the workload's definition.
    pub overrides: Overrides,
}

impl Setup {
    /// Returns the plain setup on `storage`: ext4, no chosen scheduler, no link, 2 GiB.
    pub fn on(storage: Storage) -> Setup {
        Setup {
            storage,
            size: ByteCount(2 << 30),
            filesystem: Filesystem::Ext4,
            mount_options: Vec::new(),
            scheduler: None,
            link: None,
            full: None,
            moved: BTreeMap::new(),
            at_floor: false,
            cpu: None,
            overrides: Overrides::default(),
        }
    }

    /// Returns whether the file system is made for the workload, so that its options can be chosen.
    pub fn owns_filesystem(&self) -> bool {
        !matches!(self.storage, Storage::Directory(_))
    }

    /// Checks that the running kernel has the file system and the scheduler of the setup.
    ///
    /// # Errors
    ///
    /// [`HostError::NotInKernel`](fonio_host::HostError::NotInKernel) in [`ExperimentError::Host`].
    pub fn check_kernel(&self) -> Result<(), ExperimentError> {
        if self.owns_filesystem() {
            self.filesystem.check_kernel()?;
        }
        if let Some(scheduler) = &self.scheduler {
            fonio_host::check_scheduler(scheduler)?;
        }
        Ok(())
    }
}
