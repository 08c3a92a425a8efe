//! Settings of journald and of systemd's units, in drop-ins.
//!
//! A drop-in is a file with a part of the configuration. Until the next boot it is in `/run/systemd`; a kept one is in
//! `/etc/systemd` ([`super::Keeper`]). The one in `/run` has a later name, so that it can replace a kept value.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{files, sync_policy, systemd};
use crate::{HostError, run};

/// The folder of drop-ins until the next boot.
const UNTIL_BOOT: &str = "/run/systemd";
/// The value of keys that no file sets.
const UNSET: &str = "unset";
/// Between assignments in a value.
const COMMA: &str = ", ";
/// Keys that can be set several times, for several disks.
const LISTS: [&str; 2] = ["IOReadBandwidthMax", "IOWriteBandwidthMax"];

/// The name of the drop-in that loads our library.
const SYNC_POLICY: &str = "sync-policy";

/// A setting of journald.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalKey {
    /// Where logs are kept, and how much of them in memory.
    Storage,
    /// How often they are synced.
    SyncInterval,
}

/// A setting of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnitKey {
    /// Its share in the I/O of busy disks.
    Weight,
    /// The bytes per second on each disk.
    Limit,
    /// Its class of I/O.
    Class,
    /// Fonio's library, which syncs its databases as the policy says.
    SyncPolicy,
}

/// A drop-in of fonio's.
#[derive(Clone, Copy, Debug)]
pub(super) struct DropIn<'u> {
    /// The unit, or none for journald.
    unit: Option<&'u str>,
    /// The name of the fix in the file's name.
    name: &'static str,
    keys: &'static [&'static str],
}

impl<'u> DropIn<'u> {
    pub(super) fn of_journal(of: JournalKey) -> DropIn<'u> {
        match of {
            JournalKey::Storage => {
                DropIn { unit: None, name: "journald-in-ram", keys: &["Storage", "RuntimeMaxUse"] }
            }
            JournalKey::SyncInterval => {
                DropIn { unit: None, name: "journald-sync", keys: &["SyncIntervalSec"] }
            }
        }
    }

    pub(super) fn of_unit(unit: &'u str, of: UnitKey) -> DropIn<'u> {
        let (name, keys): (_, &[&str]) = match of {
            UnitKey::Weight => ("io-weight", &["IOWeight"]),
            UnitKey::Limit => ("io-max", &LISTS),
            UnitKey::Class => ("io-class", &["IOSchedulingClass"]),
            UnitKey::SyncPolicy => (SYNC_POLICY, &["Environment"]),
        };
        DropIn { unit: Some(unit), name, keys }
    }

    /// The section of the keys: `Journal`, `Service`, `Slice`, …
    fn section(&self) -> String {
        let Some(unit) = self.unit else { return "Journal".to_owned() };
        let kind = unit.rsplit_once('.').map_or("service", |(_, kind)| kind);
        kind[..1].to_uppercase() + &kind[1..]
    }

    /// The folder of drop-ins below a folder of systemd.
    fn folder(&self, systemd: &Path) -> PathBuf {
        match self.unit {
            None => systemd.join("journald.conf.d"),
            Some(unit) => systemd.join("system").join(format!("{unit}.d")),
        }
    }

    /// The file that keeps it, below `/etc/systemd`.
    pub(super) fn kept_file(&self, systemd: &Path) -> PathBuf {
        self.folder(systemd).join(format!("90-fonio-{}.conf", self.name))
    }

    /// The file until the next boot.
    fn file(&self) -> PathBuf {
        self.folder(Path::new(UNTIL_BOOT)).join(format!("95-fonio-{}.conf", self.name))
    }

    /// The lines of a file that gives this value.
    pub(super) fn lines(&self, value: &str) -> Vec<String> {
        let assignments = value.split(COMMA).filter(|assignment| *assignment != UNSET);
        let mut lines: Vec<String> =
            std::iter::once(format!("[{}]", self.section())).chain(assignments.map(str::to_owned)).collect();
        if self.name == SYNC_POLICY && value != UNSET {
            lines.extend(sync_policy::more_lines());
        }
        lines
    }

    /// The value by the files of systemd; `None` if the unit is gone.
    pub(super) fn current(&self) -> Result<Option<String>, HostError> {
        let refused = |reason| HostError::NotSettable {
            setting: self.keys[0].to_owned(),
            path: self.unit.unwrap_or("systemd-journald").into(),
            reason,
        };
        systemd::check().map_err(refused)?;
        let text = match self.unit {
            None => run("systemd-analyze", "systemd", &["cat-config", "systemd/journald.conf"])?,
            Some(unit) if systemd::property(unit, "LoadState")? == "not-found" => return Ok(None),
            Some(unit) => systemd::systemctl(&["cat", "--", unit])?,
        };
        Ok(Some(in_force(&text, &self.section(), self.keys)))
    }

    /// Puts the value in force until the next boot.
    pub(super) fn set(&self, value: &str) -> Result<(), HostError> {
        let file = self.file();
        let folder = file.parent().expect("it has one");
        fs::create_dir_all(folder).map_err(HostError::system("make", folder))?;
        let text: String = self.lines(value).iter().map(|line| format!("{line}\n")).collect();
        files::replace(&file, &format!("{}{text}", super::kept::HEADER), |_| Ok(()))?;
        self.tell()
    }

    /// Removes the file until the next boot, and makes systemd read its files.
    pub(super) fn take_back(&self) -> Result<(), HostError> {
        let file = self.file();
        files::remove(&file).map_err(HostError::system("remove", &file))?;
        let folder = file.parent().expect("it has one");
        match fs::remove_dir(folder) {
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => {
                return Err(HostError::system("remove", folder)(error));
            }
            _ => {}
        }
        self.tell()?;
        if self.name == "journald-in-ram" {
            // The logs in memory would be lost at the next boot.
            run("journalctl", "systemd", &["--flush"])?;
        }
        Ok(())
    }

    /// Makes systemd or journald read its files.
    fn tell(&self) -> Result<(), HostError> {
        match self.unit {
            None => systemd::systemctl(&["restart", "systemd-journald.service"]),
            Some(_) => systemd::systemctl(&["daemon-reload"]),
        }
        .map(drop)
    }
}

/// The assignments of `keys` that are in force by files of systemd, one after another as systemd reads them.
fn in_force(text: &str, section: &str, keys: &[&str]) -> String {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut now = "";
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            now = name;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        let Some(key) = keys.iter().find(|known| now == section && **known == key) else { continue };
        // A unit's other variables are its own.
        if *key == "Environment" && !value.is_empty() && !value.contains(sync_policy::LIBRARY) {
            continue;
        }
        let known = values.entry(key).or_default();
        if value.is_empty() || !LISTS.contains(key) {
            known.clear();
        }
        if !value.is_empty() {
            known.push(value);
        }
    }
    let mut assignments = Vec::new();
    for key in keys {
        assignments.extend(values.get(key).into_iter().flatten().map(|value| format!("{key}={value}")));
    }
    if assignments.is_empty() { UNSET.to_owned() } else { assignments.join(COMMA) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_assignment_is_in_force() {
        const STORAGE: &[&str] = &["Storage", "RuntimeMaxUse"];
        let journal = |text: &str| in_force(text, "Journal", STORAGE);
        for (text, expected) in [
            ("[Journal]\n#Storage=auto\n", "unset"),
            ("# /etc/systemd/journald.conf\n[Journal]\nStorage=auto\n", "Storage=auto"),
            (
                "[Journal]\nRuntimeMaxUse = 8M\nStorage=auto\n# /run/x.conf\n[Journal]\nStorage=volatile\n",
                "Storage=volatile, RuntimeMaxUse=8M",
            ),
            ("[Journal]\nStorage=auto\nStorage=\n", "unset"),
            ("[Other]\nStorage=auto\n", "unset"),
        ] {
            assert_eq!(journal(text), expected, "{text}");
        }
        let variables = "[Service]\nEnvironment=A=b\n[Service]\nEnvironment=LD_PRELOAD=/x/libfonio_sqlite_sync.so\n[Service]\nEnvironment=C=d\n";
        assert_eq!(
            in_force(variables, "Service", &["Environment"]),
            "Environment=LD_PRELOAD=/x/libfonio_sqlite_sync.so"
        );
        let limits = "[Service]\nIOReadBandwidthMax=/dev/sda 5M\n[Service]\nIOReadBandwidthMax=/dev/sdb 5M\n";
        assert_eq!(
            in_force(limits, "Service", &LISTS),
            "IOReadBandwidthMax=/dev/sda 5M, IOReadBandwidthMax=/dev/sdb 5M"
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        let unit = |of| DropIn::of_unit("backup.service", of);
        for (drop_in, value) in [
            (DropIn::of_journal(JournalKey::Storage), "Storage=volatile, RuntimeMaxUse=67108864"),
            (DropIn::of_journal(JournalKey::SyncInterval), "SyncIntervalSec=300s"),
            (unit(UnitKey::Weight), "IOWeight=50"),
            (unit(UnitKey::Class), "IOSchedulingClass=idle"),
            (unit(UnitKey::Limit), "IOReadBandwidthMax=/dev/sda 1, IOWriteBandwidthMax=/dev/sda 1"),
            (unit(UnitKey::SyncPolicy), "Environment=LD_PRELOAD=/x/libfonio_sqlite_sync.so A=b"),
            (unit(UnitKey::Weight), UNSET),
            (unit(UnitKey::SyncPolicy), UNSET),
        ] {
            let text = drop_in.lines(value).join("\n");
            assert_eq!(in_force(&text, &drop_in.section(), drop_in.keys), value, "{text}");
        }
        assert_eq!(
            unit(UnitKey::Weight).kept_file(Path::new("/etc/systemd")),
            Path::new("/etc/systemd/system/backup.service.d/90-fonio-io-weight.conf")
        );
    }
}
