//! Describes a setup: everything between a workload and the flash. A fix is a change of a setup.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use fonio_core::quantity::parse_bytes;
use fonio_core::{ByteCount, Unit};
use fonio_host::{Confirmation, CpuLimit, CpuShare, Filesystem, Limits, LinkRates, Scope, Setting};
use fonio_processor::Calibration;
use fonio_workload::definition::Workload;
use fonio_workload::{DatabaseOverride, Overrides};
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;

/// The storage on which a workload runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// A directory on a file system of the machine.
    Directory(PathBuf),
    /// A block device that is formatted for the workload.
    Device {
        /// The path of the device node.
        path: PathBuf,
        /// The user's confirmation that the device may be overwritten.
        confirmation: Confirmation,
    },
    /// A device that is emulated with this profile.
    Profile(String),
    /// A RAID-0 array of emulated devices, made with the kernel's md driver.
    MdRaid0(MdRaid0),
}

/// The emulated devices of a RAID-0 array, written `md-raid0:ridata+transcend@512MiB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdRaid0 {
    /// The devices of the array; at least two.
    pub members: Vec<Member>,
}

/// An emulated device of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name of the device's profile.
    pub profile: String,
    /// The size of the device; `None` for an equal share of the setup's size.
    pub size: Option<ByteCount>,
}

impl MdRaid0 {
    const PREFIX: &str = "md-raid0:";

    /// The stripe size of md arrays, which the emulated RAID-0 and the study use too.
    pub const CHUNK: ByteCount = ByteCount(4096);

    /// Parses the name of an array; `None` if the text names other storage.
    pub fn parse(place: &str) -> Option<Result<MdRaid0, ExperimentError>> {
        let names = place.strip_prefix(Self::PREFIX)?;
        let bad = |reason: String| ExperimentError::BadArray { place: place.to_owned(), reason };
        let member = |text: &str| {
            let (profile, size) = match text.split_once('@') {
                Some((profile, size)) => {
                    let bytes = parse_bytes(size).map_err(|error| bad(error.to_string()))?;
                    (profile, Some(ByteCount(bytes)))
                }
                None => (text, None),
            };
            Ok(Member { profile: profile.to_owned(), size })
        };
        let members: Result<Vec<Member>, ExperimentError> = names.split('+').map(member).collect();
        Some(match members {
            Ok(members) if members.len() < 2 => {
                Err(bad("write at least two devices with a + between them".to_owned()))
            }
            members => members.map(|members| MdRaid0 { members }),
        })
    }

    /// Returns the profile and size of each device; devices without a size share `total` equally.
    pub fn sized(&self, total: ByteCount) -> impl Iterator<Item = (&str, ByteCount)> {
        let share = total.0 / self.members.len() as u64 / Self::CHUNK.0 * Self::CHUNK.0;
        self.members
            .iter()
            .map(move |member| (member.profile.as_str(), member.size.unwrap_or(ByteCount(share))))
    }
}

impl fmt::Display for MdRaid0 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        for (at, Member { profile, size }) in self.members.iter().enumerate() {
            let plus = if at == 0 { "" } else { "+" };
            write!(f, "{plus}{profile}")?;
            if let Some(size) = size {
                write!(f, "@{}", size.to_exact_text())?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Storage::Directory(path) | Storage::Device { path, .. } => path.display().fmt(f),
            Storage::Profile(name) => f.write_str(name),
            Storage::MdRaid0(array) => array.fmt(f),
        }
    }
}

/// The medium to which a workload's directory is moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The machine's memory.
    Memory,
    /// Another device, which is emulated with this profile.
    Profile(String),
    /// A partition of the device under test, a third of its size, with this file system.
    Partition(Filesystem),
}

/// Everything between a workload and the flash that an experiment can vary.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The storage on which the workload runs.
    pub storage: Storage,
    /// The size of an emulated device, or the total size of an array's devices.
    pub size: ByteCount,
    /// The slowdown factor of emulated devices relative to their models.
    pub dilate: f64,
    /// Faults of the emulated device (`fonio_emulator::Fault`), or of an array's last device.
    pub faults: Vec<String>,
    /// The file system to create on a device; not used for a directory, which already has a file system.
    pub filesystem: Filesystem,
    /// Mount options; each string may contain several options, separated by commas.
    pub mount_options: Vec<String>,
    /// The I/O scheduler of the device. `None` means no scheduler on an emulated device, and the current
    /// scheduler on a block device.
    pub scheduler: Option<String>,
    /// Settings of the device, its mount or the machine. The old values of the settings are restored after
    /// each run.
    pub settings: Vec<Setting>,
    /// The network link to the workload's server; `None` means the loopback interface.
    pub link: Option<LinkRates>,
    /// The used share to which the file system is filled before each run; `None` to leave it empty.
    pub full: Option<f64>,
    /// The workload's directories that are moved to another medium, by name.
    pub moved: BTreeMap<String, Medium>,
    /// Whether a device that is too fast for this machine is emulated as fast as this machine can.
    pub at_floor: bool,
    /// Processor and memory limits of the workload's process.
    pub limits: Limits,
    /// The processor of another machine, whose share and cores `limits` has. Each run checks that it has the
    /// speed of this processor.
    pub processor: Option<Calibration>,
    /// The parameters of the workload that the setup changes.
    pub overrides: Overrides,
    /// The settings of SQLite databases that a command uses, instead of the command's own settings.
    pub of_command: DatabaseOverride,
    /// The command to run instead of the measured one, to compare two commands.
    pub instead: Option<Vec<OsString>>,
}

/// A workload that runs concurrently with the measured workload.
#[derive(Clone, Copy, Debug)]
pub struct Background<'a> {
    /// The concurrent workload.
    pub workload: &'a Workload,
    /// The share of the workload's full amount, above 0. If the concurrent workload ends early, the measured
    /// workload continues alone.
    pub scale: f64,
}

/// The conditions common to all setups of a plan, apart from the storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The share of one processor that each core of the process under test could use; `None` if the process was
    /// not confined.
    pub cpu_share: Option<CpuShare>,
    /// The processor of another machine to which `cpu_share` belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<Calibration>,
    /// The memory in bytes that the process under test could use, including its page cache; `None` if the
    /// process was not confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The slowdown factor of emulated devices relative to their models.
    pub dilate: f64,
    /// The used share to which the file system was filled before each run; `None` if it was left empty.
    pub full: Option<f64>,
}

impl Conditions {
    /// Returns the conditions under which a setup is measured.
    pub fn of(setup: &Setup) -> Conditions {
        Conditions {
            cpu_share: setup.limits.cpu.and_then(|limit: CpuLimit| limit.share),
            processor: setup.processor.clone(),
            memory_bytes: setup.limits.memory.map(|bytes| bytes.0),
            dilate: setup.dilate,
            full: setup.full,
        }
    }

    /// Returns the unusual conditions as clauses for a sentence, each after a comma.
    pub(crate) fn told(&self) -> String {
        let dilated = (self.dilate != 1.0)
            .then(|| format!(", on emulated devices {} times slower than their models", self.dilate));
        let filled =
            self.full.map(|share| format!(", on file systems filled to {}", Unit::Share.format(share)));
        let confined = match (&self.processor, self.cpu_share) {
            (Some(processor), _) => Some(format!(", {}", processor.told())),
            (None, Some(share)) => {
                let period_ms = share.period().as_secs_f64() * 1e3;
                Some(format!(", limited to {share} of one processor in periods of {period_ms:.1} ms"))
            }
            (None, None) => None,
        };
        let memory = self.memory_bytes.map(|bytes| {
            format!(
                ", with {} of memory for the workload and its page cache",
                ByteCount(bytes).to_exact_text()
            )
        });
        [dilated, filled, confined, memory].into_iter().flatten().collect()
    }
}

impl Setup {
    /// Returns the default setup on `storage`: ext4, the default scheduler, no network link, 2 GiB.
    pub fn on(storage: Storage) -> Setup {
        Setup {
            storage,
            size: ByteCount(2 << 30),
            dilate: 1.0,
            faults: Vec::new(),
            filesystem: Filesystem::Ext4,
            mount_options: Vec::new(),
            scheduler: None,
            settings: Vec::new(),
            link: None,
            full: None,
            moved: BTreeMap::new(),
            at_floor: false,
            limits: Limits::default(),
            processor: None,
            overrides: Overrides::default(),
            of_command: DatabaseOverride::default(),
            instead: None,
        }
    }

    /// Returns whether the file system is created for the workload, so that its options can be chosen.
    pub fn owns_filesystem(&self) -> bool {
        !matches!(self.storage, Storage::Directory(_))
    }

    /// Returns the settings that change the location of the files in the workload's folder.
    pub fn settings_of_folder(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter().filter(|setting| setting.scope() == Scope::Folder)
    }

    /// Returns the file system of the device's second partition, to which directories are moved; `None` for a device
    /// without partitions.
    pub(crate) fn partition(&self) -> Option<Filesystem> {
        self.moved.values().find_map(|medium| match medium {
            Medium::Partition(filesystem) => Some(*filesystem),
            Medium::Memory | Medium::Profile(_) => None,
        })
    }

    /// Checks that the running kernel has the setup's file system and scheduler. For a directory, also checks
    /// that the setup's settings can be changed. Fails with [`ExperimentError::Host`] with
    /// [`HostError::NotInKernel`](fonio_host::HostError::NotInKernel) or
    /// [`HostError::NotSettable`](fonio_host::HostError::NotSettable).
    pub fn check_kernel(&self) -> Result<(), ExperimentError> {
        if self.owns_filesystem() {
            self.filesystem.check_kernel()?;
        }
        if let Some(filesystem) = self.partition() {
            filesystem.check_kernel()?;
        }
        if matches!(self.storage, Storage::MdRaid0(_)) {
            fonio_host::check_md_raid0()?;
        }
        if let Some(scheduler) = &self.scheduler {
            fonio_host::check_scheduler(scheduler)?;
        }
        if let Storage::Directory(dir) = &self.storage {
            // Settings of a folder are not checked, because the workload's folder does not exist yet.
            for setting in self.settings.iter().filter(|setting| setting.scope() != Scope::Folder) {
                setting.plan(dir)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_written_with_its_devices() {
        let sized = |place: &str| {
            let array = MdRaid0::parse(place).expect("an array").map_err(|error| error.to_string())?;
            let members = array.sized(ByteCount(10 << 20)).map(|(name, size)| format!("{name} {}", size.0));
            Ok(members.collect::<Vec<_>>())
        };
        assert_eq!(sized("md-raid0:a+b"), Ok(vec!["a 5242880".to_owned(), "b 5242880".to_owned()]));
        assert_eq!(sized("md-raid0:a@1MiB+b"), Ok(vec!["a 1048576".to_owned(), "b 5242880".to_owned()]));
        assert_eq!(sized("md-raid0:a+a+a").map(|members| members.len()), Ok(3));
        let name = "md-raid0:a@1MiB+b";
        assert_eq!(MdRaid0::parse(name).expect("an array").expect("it is valid").to_string(), name);
        for (place, reason) in [
            ("md-raid0:a", "md-raid0:a: write at least two devices with a + between them"),
            (
                "md-raid0:a@big+b",
                "md-raid0:a@big+b: `big` does not begin with a number; write a size in B, kB, KiB, MB, MiB, GB, GiB, TB or TiB, such as 256MiB",
            ),
        ] {
            assert_eq!(sized(place), Err::<Vec<String>, _>(reason.to_owned()));
        }
        assert!(MdRaid0::parse("raid0:a+b").is_none() && MdRaid0::parse("ridata").is_none());
    }
}
