//! Lists the paths of the files in which settings are kept across reboots.

use std::path::{Path, PathBuf};

use crate::settings::systemd;

/// Paths of the files in which settings are kept across reboots.
#[derive(Clone, Debug)]
pub struct KeptFiles {
    /// The mount table. While the table contains options added by fonio, its backup is the file with the
    /// suffix `.before-fonio`.
    pub fstab: PathBuf,
    /// The file with fonio's udev rules. Its folder must exist.
    pub udev_rules: PathBuf,
    /// The udev socket, which exists if udev runs.
    pub udev_control: PathBuf,
    /// The folder of udev's database, with the serial number of each device.
    pub udev_data: PathBuf,
    /// The sysfs folder with the numbers of block devices.
    pub sys_block: PathBuf,
    /// The file with fonio's sysctl settings. Its folder must exist. Files with later names override this
    /// file.
    pub sysctl: PathBuf,
    /// The other folders with sysctl settings. A file in an earlier folder hides files with the same name in
    /// later folders.
    pub sysctl_folders: Vec<PathBuf>,
    /// The sysctl file that is read last, if the system has one.
    pub sysctl_last: Option<PathBuf>,
    /// A path that exists if systemd runs.
    pub systemd_runs: PathBuf,
    /// The folder with systemd's configuration.
    pub systemd: PathBuf,
    /// The path of the fonio program, which systemd units run.
    pub program: PathBuf,
    /// The folder with the record of kept settings.
    pub state: PathBuf,
}

impl KeptFiles {
    /// Returns the paths that this machine uses.
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
            // On a machine with systemd, this file is read only through a link in one of the folders.
            sysctl_last: (!Path::new("/run/systemd/system").exists()).then(|| "/etc/sysctl.conf".into()),
            systemd_runs: systemd::RUNS.into(),
            systemd: "/etc/systemd".into(),
            // If the path is empty, the check of the units' program fails.
            program: std::env::current_exe().unwrap_or_default(),
            state: "/var/lib/fonio".into(),
        }
    }

    /// The name of the record of kept settings in its folder.
    pub(super) const RECORD: &str = "kept.json";

    /// Checks that systemd runs, because kept units require this.
    pub(in crate::settings) fn check_systemd(&self) -> Result<(), String> {
        if self.systemd_runs.exists() {
            return Ok(());
        }
        Err("a systemd unit is needed, but systemd does not run here".to_owned())
    }
}
