//! The files in which settings are kept.

use std::path::{Path, PathBuf};

use crate::settings::systemd;

/// The files in which settings are kept.
#[derive(Clone, Debug)]
pub struct KeptFiles {
    /// The table of mounts; the file with `.before-fonio` added to its name is its backup while fonio has options in it.
    pub fstab: PathBuf,
    /// fonio's rules of udev. The folder must exist.
    pub udev_rules: PathBuf,
    /// The socket of udev, which exists if udev runs.
    pub udev_control: PathBuf,
    /// udev's notes on each device, with its serial number.
    pub udev_data: PathBuf,
    /// The folder with the numbers of block devices.
    pub sys_block: PathBuf,
    /// fonio's settings of sysctl. The folder must exist. Settings in files that sort after it come later.
    pub sysctl: PathBuf,
    /// The other folders with settings of sysctl. A file in an earlier one hides those with its name in later ones.
    pub sysctl_folders: Vec<PathBuf>,
    /// The file whose settings of sysctl come last, if the system has one.
    pub sysctl_last: Option<PathBuf>,
    /// Exists if systemd runs.
    pub systemd_runs: PathBuf,
    /// The folder of systemd's configuration.
    pub systemd: PathBuf,
    /// The program that units run.
    pub program: PathBuf,
    /// The folder of the record.
    pub state: PathBuf,
}

impl KeptFiles {
    /// The files of this machine.
    pub fn of_machine() -> KeptFiles {
        KeptFiles {
            fstab: "/etc/fstab".into(),
            udev_rules: "/etc/udev/rules.d/90-fonio.rules".into(),
            udev_control: "/run/udev/control".into(),
            udev_data: "/run/udev/data".into(),
            sys_block: "/sys/block".into(),
            sysctl: "/etc/sysctl.d/90-fonio.conf".into(),
            sysctl_folders: ["/run", "/usr/local/lib", "/usr/lib", "/lib"]
                .map(|folder| Path::new(folder).join("sysctl.d"))
                .into(),
            // systemd reads it only if it is linked into a folder.
            sysctl_last: (!Path::new("/run/systemd/system").exists()).then(|| "/etc/sysctl.conf".into()),
            systemd_runs: systemd::RUNS.into(),
            systemd: "/etc/systemd".into(),
            // Without a name, units with it are refused.
            program: std::env::current_exe().unwrap_or_default(),
            state: "/var/lib/fonio".into(),
        }
    }

    pub(super) fn record(&self) -> PathBuf {
        self.state.join("kept.json")
    }

    /// Refuses units where systemd does not run.
    pub(in crate::settings) fn check_systemd(&self) -> Result<(), String> {
        if self.systemd_runs.exists() {
            return Ok(());
        }
        Err("it would be a unit of systemd, which does not run here".to_owned())
    }
}
