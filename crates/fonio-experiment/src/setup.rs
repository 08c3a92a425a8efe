//! What stands between a workload and the flash: a setup is all of it, and a fix is a change of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fonio_core::ByteCount;
use fonio_host::{Confirmation, CpuShare, Filesystem, LinkRates};
use fonio_workload::Overrides;

/// Where a workload runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a folder of the machine's own file systems.
    Directory(PathBuf),
    /// On a block device that is formatted for it.
    Device {
        /// The device's node.
        path: PathBuf,
        /// How the user confirmed that it may be overwritten.
        confirmation: Confirmation,
    },
    /// On a device that is emulated from this profile.
    Profile(String),
}

/// What one of a workload's places is moved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The machine's memory.
    Memory,
    /// Another device, emulated from this profile.
    Profile(String),
}

/// A setup.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Where.
    pub place: Place,
    /// The size of an emulated device.
    pub size: ByteCount,
    /// The file system that is made there; not in a folder, which has one.
    pub filesystem: Filesystem,
    /// Mount options, separated by commas.
    pub mount_options: Vec<String>,
    /// The I/O scheduler.
    pub scheduler: String,
    /// The link to the server; loopback without one.
    pub link: Option<LinkRates>,
    /// Places of the workload that lie elsewhere.
    pub moved: BTreeMap<String, Medium>,
    /// Devices faster than this machine can serve are served as fast as it can.
    pub at_floor: bool,
    /// The share of one processor that the workload's process may use; all that it wants without one.
    pub cpu: Option<CpuShare>,
    /// What the workload does otherwise than it says.
    pub overrides: Overrides,
}

impl Setup {
    /// The plain setup on `place`: ext4, no scheduler, no link, 2 GiB.
    pub fn on(place: Place) -> Setup {
        Setup {
            place,
            size: ByteCount(2 << 30),
            filesystem: Filesystem::Ext4,
            mount_options: Vec::new(),
            scheduler: "none".to_owned(),
            link: None,
            moved: BTreeMap::new(),
            at_floor: false,
            cpu: None,
            overrides: Overrides::default(),
        }
    }

    /// Whether the file system below the workload is made for it, so that its options can be chosen.
    pub fn owns_filesystem(&self) -> bool {
        !matches!(self.place, Place::Directory(_))
    }
}
