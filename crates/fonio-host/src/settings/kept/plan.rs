//! How a setting would be kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::fstab::{self, NoEntry};
use super::own::{OwnFile, OwnFiles};
use super::{Change, Keeper, Kept};
use crate::HostError;
use crate::settings::folder::{buffered, hot_range, units};
use crate::settings::{Applied, Target, concurrency, files, io_cost, zram};

impl Keeper {
    /// Returns how a setting would be kept; changes nothing.
    ///
    /// # Errors
    ///
    /// [`HostError::NotKept`] with the reason.
    pub fn plan(&self, applied: &Applied) -> Result<Kept, HostError> {
        let refused = |reason: String| HostError::NotKept {
            value: applied.new.clone(),
            path: applied.target.path(),
            reason,
        };
        // Each action in a rule of its own.
        let rules = |device: &str, actions: Vec<String>| {
            if !self.files.udev_control.exists() {
                return Err(refused("it would be a rule of udev, which does not run here".to_owned()));
            }
            // Names such as sda change with what else is plugged in.
            let of = match self.serial(device) {
                Some(serial) => format!("ENV{{DEVTYPE}}==\"disk\", ENV{{ID_SERIAL}}==\"{serial}\""),
                None => format!("KERNEL==\"{device}\""),
            };
            let line = |action| format!("ACTION==\"add|change\", SUBSYSTEM==\"block\", {of}, {action}");
            let lines = actions.into_iter().map(line).collect();
            Ok(Change::Lines { file: self.files.udev_rules.clone(), lines })
        };
        let rule = |device: &str, attributes: &[(String, String)]| {
            let action = |(attribute, new): &(String, String)| {
                // A scheduler's own files are there only with that scheduler.
                let there = match attribute.contains('/') {
                    true => format!("TEST==\"queue/{attribute}\", "),
                    false => String::new(),
                };
                format!("{there}ATTR{{queue/{attribute}}}=\"{new}\"")
            };
            rules(device, attributes.iter().map(action).collect())
        };
        let one = |attribute: &str| [(attribute.to_owned(), applied.new.clone())];
        let option = |dir: &Path, option: String| -> Result<Change, HostError> {
            let dir = dir.to_string_lossy().into_owned();
            let text = files::read(&self.files.fstab)?;
            let fstab = self.files.fstab.display();
            let place = fstab::options_of(&text, &dir).map_err(|problem| {
                refused(match problem {
                    NoEntry::Missing => format!(
                        "{fstab} does not mount it: add the option {option} where it is mounted, for example in a mount unit"
                    ),
                    NoEntry::Twice(one, other) => {
                        format!("lines {one} and {other} of {fstab} both mount it: remove one of them")
                    }
                    NoEntry::NoOptions(line) => {
                        format!("line {line} of {fstab} has no options: write `defaults` as its fourth field")
                    }
                })
            })?;
            let earlier = self.options_of(&dir).next().map(|(_, _, original)| original.to_owned());
            let original = earlier.unwrap_or_else(|| text[place].to_owned());
            Ok(Change::MountOption { dir, option, original })
        };
        let own_files = |files: Vec<OwnFile>| {
            let others = self.kept.iter().filter_map(|kept| match &kept.change {
                Change::Files(own) => Some(own),
                _ => None,
            });
            Change::Files(OwnFiles::plan(files, others))
        };
        let change = match &applied.target {
            Target::Scheduler { device } => rule(device, &one("scheduler"))?,
            Target::Queue { device, of } => rule(device, &one(of.attribute()))?,
            Target::Concurrency { device } => rule(device, &concurrency::attributes(&applied.new))?,
            Target::IoCost { device } => rules(device, vec![format!("RUN+=\"{}\"", io_cost::command())])?,
            Target::AccessTimes { dir } => option(dir, applied.new.clone())?,
            Target::LazyTimes { dir } => option(dir, applied.new.clone())?,
            Target::CommitInterval { dir } => option(dir, format!("commit={}", applied.new))?,
            Target::TrimTimer | Target::Database { .. } => Change::Itself,
            Target::SwapInRam | Target::FolderInRam { .. } | Target::Buffered { .. }
                if !self.files.systemd_runs.exists() =>
            {
                return Err(refused("it would be a unit of systemd, which does not run here".to_owned()));
            }
            Target::SwapInRam => own_files(zram::kept_files(&self.files.systemd, &applied.new)),
            target @ (Target::FolderInRam { dir } | Target::Buffered { dir }) => {
                let program = &self.files.program;
                units::check_program(program).map_err(refused)?;
                let units = match target {
                    Target::Buffered { .. } => buffered::unit(program, dir),
                    _ => units::of_folder_in_ram(program, dir, &applied.new),
                };
                own_files(units.kept_files(&self.files.systemd))
            }
            Target::FolderOn { dir, to } => {
                self.check_no_mount(applied, dir)?;
                Change::Mount { line: fstab::line_of_bind(to, dir) }
            }
            Target::HotRange { dir, image } => {
                self.check_no_mount(applied, dir)?;
                let (filesystem, options) = hot_range::kept_mount(dir)?;
                Change::Mount { line: fstab::line_of_mount(image, dir, filesystem, &options) }
            }
            Target::GroupWeight { .. } => {
                return Err(refused(
                    "a control group goes with the machine: name the unit of systemd, or let what makes the group set its weight"
                        .to_owned(),
                ));
            }
            target @ (Target::Journal { .. } | Target::Unit { .. }) => {
                let drop_in = target.drop_in().expect("it has one");
                let path = drop_in.kept_file(&self.files.systemd);
                let file = OwnFile { path, lines: drop_in.lines(&applied.new) };
                own_files(vec![file])
            }
            target @ (Target::DirtyLimits | Target::Swappiness) => {
                let assignments = target.assignments(&applied.new);
                if let Some((file, line)) = self.overrides(&assignments)? {
                    let file = file.display();
                    return Err(refused(format!(
                        "line {line} of {file} sets it again later: remove that line"
                    )));
                }
                let lines = assignments.iter().map(|(name, value)| format!("{name} = {value}")).collect();
                Change::Lines { file: self.files.sysctl.clone(), lines }
            }
        };
        let serial = applied.target.disk().and_then(|device| self.serial(device));
        Ok(Kept { applied: applied.clone(), serial, change })
    }

    /// Refuses a folder on which the table of mounts mounts something that is not fonio's.
    fn check_no_mount(&self, applied: &Applied, dir: &Path) -> Result<(), HostError> {
        let text = files::read(&self.files.fstab)?;
        let is_kept = self.kept.iter().any(|kept| kept.applied.target == applied.target);
        if is_kept || fstab::options_of(&text, &dir.to_string_lossy()) == Err(NoEntry::Missing) {
            return Ok(());
        }
        let fstab = self.files.fstab.display();
        Err(HostError::NotKept {
            value: applied.new.clone(),
            path: applied.target.path(),
            reason: format!("{fstab} mounts something on it already: remove that line"),
        })
    }

    /// The serial number of a disk by udev's notes, if it can stand in a rule as it is.
    fn serial(&self, device: &str) -> Option<String> {
        let number = fs::read_to_string(self.files.sys_block.join(device).join("dev")).ok()?;
        let notes = fs::read_to_string(self.files.udev_data.join(format!("b{}", number.trim()))).ok()?;
        let serial = notes.lines().find_map(|line| line.strip_prefix("E:ID_SERIAL="))?;
        // Others have a meaning in patterns.
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.:#@+".contains(letter);
        (!serial.is_empty() && serial.chars().all(is_plain)).then(|| serial.to_owned())
    }

    /// Whether the disk with the name in a kept setting is still the one whose setting was changed.
    pub fn is_same_disk(&self, kept: &Kept) -> bool {
        kept.applied.target.disk().is_none_or(|device| self.serial(device) == kept.serial)
    }

    /// The line in a file read after fonio's that sets the same, or its counterpart as a share of memory.
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
