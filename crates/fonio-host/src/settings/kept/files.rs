//! Paths of the files in which settings are kept.

use std::path::{Path, PathBuf};

use crate::settings::systemd;

/// Files in which settings are kept.
#[derive(Clone, Debug)]
pub struct KeptFiles {
    /// The mount table. While the table contains options added by fonio, its backup is the file with the
    /// suffix `.before-fonio`.
    pub fstab: PathBuf,
    /// fonio's udev rules. The folder must exist.
    pub udev_rules: PathBuf,
    /// The udev socket, which exists if udev runs.
    pub udev_control: PathBuf,
    /// udev's database, with the serial number of each device.
    pub udev_data: PathBuf,
    /// The folder with the numbers of block devices.
    pub sys_block: PathBuf,
    /// fonio's sysctl settings. The folder must exist. Files that sort after it override it.
    pub sysctl: PathBuf,
    /// Other folders with sysctl settings. A file in an earlier folder hides files of the same name in later
    /// folders.
    pub sysctl_folders: Vec<PathBuf>,
    /// The sysctl file that is read last, if the system has one.
    pub sysctl_last: Option<PathBuf>,
    /// Exists if systemd runs.
    pub systemd_runs: PathBuf,
    /// The folder of systemd's configuration.
    pub systemd: PathBuf,
    /// The program that units run.
    pub program: PathBuf,
    /// The folder of the record of kept settings.
    pub state: PathBuf,
}

impl KeptFiles {
    /// Returns the files of this machine.
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
            // systemd reads this file only through a link in one of the folders.
            sysctl_last: (!Path::new("/run/systemd/system").exists()).then(|| "/etc/sysctl.conf".into()),
            systemd_runs: systemd::RUNS.into(),
            systemd: "/etc/systemd".into(),
            // An empty path makes the check of the units fail.
            program: std::env::current_exe().unwrap_or_default(),
            state: "/var/lib/fonio".into(),
        }
    }

    pub(super) fn record(&self) -> PathBuf {
        self.state.join("kept.json")
    }

    /// Checks that systemd runs, which units need.
    pub(in crate::settings) fn check_systemd(&self) -> Result<(), String> {
        if self.systemd_runs.exists() {
            return Ok(());
        }
        Err("a systemd unit is needed, but systemd does not run here".to_owned())
    }
}
