//! Plans how to keep a setting across reboots.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::fstab::{self, NoEntry};
use super::own::OwnFiles;
use super::{Change, Keeper, Kept};
use crate::error::HostError;
use crate::files;
use crate::settings::applied::Applied;
use crate::settings::kind::KeptAs;
use crate::settings::refusal::Refusal;

impl Keeper {
    /// Returns how a setting would be kept. Does not change any file. Fails with [`HostError::NotKept`] with
    /// the reason why the setting cannot be kept.
    pub fn plan(&self, applied: &Applied) -> Result<Kept, HostError> {
        let target = &applied.target;
        let refused =
            |reason: String| HostError::NotKept { value: applied.new.clone(), path: target.path(), reason };
        let kept_as = target.kept_as(&applied.new, &self.files).map_err(|refusal| match refusal {
            Refusal::Reason(reason) | Refusal::On(_, reason) => refused(reason),
            Refusal::Error(error) => error,
        })?;
        let change = match kept_as {
            KeptAs::Rules(actions) => {
                let device = target.disk().expect("a udev rule belongs to a disk");
                if !self.files.udev_control.exists() {
                    return Err(refused("a udev rule is needed, but udev does not run here".to_owned()));
                }
                // Identify the disk by its serial number: names such as sda depend on the other connected
                // devices.
                let of = match self.serial(device) {
                    Some(serial) => format!("ENV{{DEVTYPE}}==\"disk\", ENV{{ID_SERIAL}}==\"{serial}\""),
                    None => format!("KERNEL==\"{device}\""),
                };
                let line = |action| format!("ACTION==\"add|change\", SUBSYSTEM==\"block\", {of}, {action}");
                let lines = actions.into_iter().map(line).collect();
                Change::Lines { file: self.files.udev_rules.clone(), lines }
            }
            KeptAs::MountOption(option) => {
                let dir = target.path().to_string_lossy().into_owned();
                let text = files::read(&self.files.fstab)?;
                let fstab = self.files.fstab.display();
                let place = fstab::options_of(&text, &dir).map_err(|problem| {
                    refused(match problem {
                        NoEntry::Missing => format!(
                            "{fstab} does not mount this folder: add the option {option} where it is mounted, for example in a mount unit"
                        ),
                        NoEntry::Twice(one, other) => {
                            format!("lines {one} and {other} of {fstab} both mount this folder: remove one of these lines")
                        }
                        NoEntry::NoOptions(line) => {
                            format!("line {line} of {fstab} has no options: add `defaults` as its fourth field")
                        }
                    })
                })?;
                let earlier = self.options_of(&dir).next().map(|(_, _, original)| original.to_owned());
                let original = earlier.unwrap_or_else(|| text[place].to_owned());
                Change::MountOption { dir, option, original }
            }
            KeptAs::MountLine(line) => {
                let text = files::read(&self.files.fstab)?;
                let is_kept = self.kept.iter().any(|kept| kept.applied.target == *target);
                let own = fstab::options_of(&text, &target.path().to_string_lossy());
                if !is_kept && own != Err(NoEntry::Missing) {
                    let fstab = self.files.fstab.display();
                    return Err(refused(format!("{fstab} already has this mount point: remove that line")));
                }
                Change::Mount { line }
            }
            KeptAs::Files(files) => {
                let others = self.kept.iter().filter_map(|kept| match &kept.change {
                    Change::Files(own) => Some(own),
                    _ => None,
                });
                Change::Files(OwnFiles::plan(files, others))
            }
            KeptAs::Sysctl(assignments) => {
                if let Some((file, line)) = self.overrides(&assignments)? {
                    let file = file.display();
                    return Err(refused(format!("line {line} of {file} overrides fonio: remove it")));
                }
                let lines = assignments.iter().map(|(name, value)| format!("{name} = {value}")).collect();
                Change::Lines { file: self.files.sysctl.clone(), lines }
            }
            KeptAs::Itself => Change::Itself,
        };
        let serial = target.disk().and_then(|device| self.serial(device));
        Ok(Kept { applied: applied.clone(), serial, change })
    }

    /// Returns the serial number of a disk from udev's database, if it needs no escaping in a udev rule.
    fn serial(&self, device: &str) -> Option<String> {
        let number = fs::read_to_string(self.files.sys_block.join(device).join("dev")).ok()?;
        let notes = fs::read_to_string(self.files.udev_data.join(format!("b{}", number.trim()))).ok()?;
        let serial = notes.lines().find_map(|line| line.strip_prefix("E:ID_SERIAL="))?;
        // Other characters are special in the patterns of udev rules.
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.:#@+".contains(letter);
        (!serial.is_empty() && serial.chars().all(is_plain)).then(|| serial.to_owned())
    }

    /// Returns whether the disk name in a kept setting still belongs to the same disk.
    pub fn is_same_disk(&self, kept: &Kept) -> bool {
        kept.applied.target.disk().is_none_or(|device| self.serial(device) == kept.serial)
    }

    /// Returns the sysctl line that sets the same limit, in bytes or as a share of memory, in a file that is
    /// read after fonio's file.
    fn overrides(&self, assignments: &[(String, String)]) -> Result<Option<(PathBuf, usize)>, HostError> {
        let own = self.files.sysctl.file_name();
        let folder = self.files.sysctl.parent().unwrap_or(Path::new("/"));
        let mut by_name = BTreeMap::new();
        for folder in std::iter::once(folder).chain(self.files.sysctl_folders.iter().map(PathBuf::as_path)) {
            let listing = match fs::read_dir(folder) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                listing => listing.map_err(HostError::system("list", folder))?,
            };
            for path in listing.flatten().map(|entry| entry.path()) {
                if path.file_name() > own && path.extension().is_some_and(|ending| ending == "conf") {
                    by_name.entry(path.file_name().map(ToOwned::to_owned)).or_insert(path);
                }
            }
        }
        let later = by_name.into_values().chain(self.files.sysctl_last.clone());
        let family = |name: &str| name.replace('/', ".").replace("_ratio", "_bytes");
        for path in later {
            for (number, line) in (1..).zip(files::read(&path)?.lines()) {
                let Some((name, _)) = line.trim().trim_start_matches('-').split_once('=') else { continue };
                let name = family(name.trim());
                if assignments.iter().any(|(wanted, _)| family(wanted) == name) {
                    return Ok(Some((path, number)));
                }
            }
        }
        Ok(None)
    }
}
