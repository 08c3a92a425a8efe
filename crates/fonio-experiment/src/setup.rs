//! A setup: everything between a workload and the flash. A fix is a change of a setup.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use fonio_core::{ByteCount, Unit};
use fonio_host::{Confirmation, CpuShare, Filesystem, LinkRates};
use fonio_workload::Overrides;
use serde::{Deserialize, Serialize};

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

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Storage::Directory(path) | Storage::Device { path, .. } => path.display().fmt(f),
            Storage::Profile(name) => f.write_str(name),
        }
    }
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
    /// The factor by which emulated devices are slower than their models.
    pub dilate: f64,
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

/// What all setups of a plan have in common, beside their storage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The share of one processor that the process under test could use; `None` if it was not confined.
    pub cpu_share: Option<CpuShare>,
    /// The factor by which emulated devices were slower than their models.
    pub dilate: f64,
    /// The share of the file system that was filled before each run; `None` if it was not.
    pub full: Option<f64>,
}

impl Conditions {
    /// Returns the conditions of a setup.
    pub fn of(setup: &Setup) -> Conditions {
        Conditions { cpu_share: setup.cpu, dilate: setup.dilate, full: setup.full }
    }

    /// Returns what is unusual, as parts of a sentence that each follow a comma.
    pub(crate) fn told(self) -> String {
        let dilated = (self.dilate != 1.0)
            .then(|| format!(", on emulated devices {} times slower than their models", self.dilate));
        let filled =
            self.full.map(|share| format!(", on file systems filled to {}", Unit::Share.format(share)));
        let confined = self.cpu_share.map(|share| {
            let period_ms = share.period().as_secs_f64() * 1e3;
            format!(", confined to {share} of one processor in periods of {period_ms:.1} ms")
        });
        [dilated, filled, confined].into_iter().flatten().collect()
    }
}

impl Setup {
    /// Returns the plain setup on `storage`: ext4, no chosen scheduler, no link, 2 GiB.
    pub fn on(storage: Storage) -> Setup {
        Setup {
            storage,
            size: ByteCount(2 << 30),
            dilate: 1.0,
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
