//! Changes settings of journald and systemd units in drop-ins.
//!
//! A drop-in is a file with a part of the configuration. A drop-in in `/run/systemd` lasts until the next
//! boot; a kept setting has a drop-in in `/etc/systemd` ([`super::Keeper`]). The name of the file in `/run`
//! sorts later, so its value overrides a kept value.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::kept::own::{HEADER, OwnFile};
use super::object::Object;
use super::systemd;
use crate::error::HostError;
use crate::files;
use crate::program::run;
use crate::replace;

const UNTIL_BOOT: &str = "/run/systemd";
/// Shown as the value of keys that no file sets.
pub(super) const UNSET: &str = "unset";
pub(super) const COMMA: &str = ", ";

/// The keys that a setting assigns, and the name of its drop-ins.
#[derive(Debug)]
pub(super) struct Keys {
    /// Name of the fix, which is part of the file name.
    pub name: &'static str,
    pub keys: &'static [&'static str],
    /// Whether a key can be assigned several times, once for each disk.
    pub are_lists: bool,
    /// The text that an assignment must contain to belong to the setting.
    pub only_with: &'static str,
    /// Additional lines that each drop-in contains.
    pub more: &'static [&'static str],
}

impl Keys {
    pub(super) const fn new(name: &'static str, keys: &'static [&'static str]) -> Keys {
        Keys { name, keys, are_lists: false, only_with: "", more: &[] }
    }
}

/// A drop-in that fonio writes for a setting.
#[derive(Clone, Copy, Debug)]
pub(super) struct DropIn<'u> {
    keys: &'static Keys,
    unit: Option<&'u str>,
}

impl<'u> DropIn<'u> {
    pub(super) fn new(keys: &'static Keys, on: &'u Object) -> DropIn<'u> {
        let unit = if *on == Object::Machine { None } else { Some(on.unit()) };
        DropIn { keys, unit }
    }

    /// Returns the section of the keys: `Journal`, `Service`, `Slice`, …
    fn section(&self) -> String {
        let Some(unit) = self.unit else { return "Journal".to_owned() };
        let kind = unit.rsplit_once('.').map_or("service", |(_, kind)| kind);
        kind[..1].to_uppercase() + &kind[1..]
    }

    /// Returns the folder of drop-ins below `systemd`, systemd's configuration folder.
    fn folder(&self, systemd: &Path) -> PathBuf {
        match self.unit {
            None => systemd.join("journald.conf.d"),
            Some(unit) => systemd.join("system").join(format!("{unit}.d")),
        }
    }

    /// Returns the drop-in that keeps a value across reboots, below `/etc/systemd`.
    pub(super) fn kept_file(&self, systemd: &Path, value: &str) -> OwnFile {
        let path = self.folder(systemd).join(format!("90-fonio-{}.conf", self.keys.name));
        OwnFile { path, lines: self.lines(value) }
    }

    fn file(&self) -> PathBuf {
        self.folder(Path::new(UNTIL_BOOT)).join(format!("95-fonio-{}.conf", self.keys.name))
    }

    fn lines(&self, value: &str) -> Vec<String> {
        let assignments = value.split(COMMA).filter(|assignment| *assignment != UNSET);
        let mut lines: Vec<String> =
            std::iter::once(format!("[{}]", self.section())).chain(assignments.map(str::to_owned)).collect();
        if value != UNSET {
            lines.extend(self.keys.more.iter().map(|line| (*line).to_owned()));
        }
        lines
    }

    /// Returns the value that systemd's files assign; `None` if the unit is gone.
    pub(super) fn current(&self) -> Result<Option<String>, HostError> {
        let refused = |reason| HostError::NotSettable {
            setting: self.keys.keys[0].to_owned(),
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

    /// Puts a value in force until the next boot.
    pub(super) fn set(&self, value: &str) -> Result<(), HostError> {
        let file = self.file();
        let folder = file.parent().expect("it has one");
        fs::create_dir_all(folder).map_err(HostError::system("make", folder))?;
        let text: String = self.lines(value).iter().map(|line| format!("{line}\n")).collect();
        replace::replace(&file, &format!("{}{text}", HEADER))?;
        self.tell()
    }

    /// Removes the drop-in that lasts until the next boot, and reloads systemd.
    pub(super) fn take_back(&self) -> Result<(), HostError> {
        let file = self.file();
        replace::remove_file(&file)?;
        files::remove_empty_folder(file.parent().expect("it has one"))?;
        self.tell()
    }

    fn tell(&self) -> Result<(), HostError> {
        match self.unit {
            None => systemd::restart_service("systemd-journald.service"),
            Some(_) => systemd::systemctl(&["daemon-reload"]).map(drop),
        }
    }
}

/// Returns the assignments of `keys` that are in force. `text` contains systemd's files in the order in which
/// systemd reads them.
fn in_force(text: &str, section: &str, keys: &Keys) -> String {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut now = "";
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            now = name;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        let Some(key) = keys.keys.iter().find(|known| now == section && **known == key) else { continue };
        // Other variables of the unit do not belong to the setting.
        if !value.is_empty() && !value.contains(keys.only_with) {
            continue;
        }
        let known = values.entry(key).or_default();
        if value.is_empty() || !keys.are_lists {
            known.clear();
        }
        if !value.is_empty() {
            known.push(value);
        }
    }
    let mut assignments = Vec::new();
    for key in keys.keys {
        assignments.extend(values.get(key).into_iter().flatten().map(|value| format!("{key}={value}")));
    }
    if assignments.is_empty() { UNSET.to_owned() } else { assignments.join(COMMA) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORAGE: Keys = Keys::new("journald-in-ram", &["Storage", "RuntimeMaxUse"]);
    const LIMITS: Keys =
        Keys { are_lists: true, ..Keys::new("io-max", &["IOReadBandwidthMax", "IOWriteBandwidthMax"]) };
    const LIBRARY: Keys = Keys {
        only_with: "libfonio_sqlite_sync.so",
        more: &["[Unit]", "Wants=x.service"],
        ..Keys::new("sync-policy", &["Environment"])
    };
    const WEIGHT: Keys = Keys::new("io-weight", &["IOWeight"]);

    #[test]
    fn the_last_assignment_is_in_force() {
        let journal = |text: &str| in_force(text, "Journal", &STORAGE);
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
            in_force(variables, "Service", &LIBRARY),
            "Environment=LD_PRELOAD=/x/libfonio_sqlite_sync.so"
        );
        let limits = "[Service]\nIOReadBandwidthMax=/dev/sda 5M\n[Service]\nIOReadBandwidthMax=/dev/sdb 5M\n";
        assert_eq!(
            in_force(limits, "Service", &LIMITS),
            "IOReadBandwidthMax=/dev/sda 5M, IOReadBandwidthMax=/dev/sdb 5M"
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        let unit = Object::Unit("backup.service".to_owned());
        for (keys, on, value) in [
            (&STORAGE, &Object::Machine, "Storage=volatile, RuntimeMaxUse=67108864"),
            (&WEIGHT, &unit, "IOWeight=50"),
            (&LIMITS, &unit, "IOReadBandwidthMax=/dev/sda 1, IOWriteBandwidthMax=/dev/sda 1"),
            (&LIBRARY, &unit, "Environment=LD_PRELOAD=/x/libfonio_sqlite_sync.so A=b"),
            (&WEIGHT, &unit, UNSET),
            (&LIBRARY, &unit, UNSET),
        ] {
            let drop_in = DropIn::new(keys, on);
            let text = drop_in.lines(value).join("\n");
            assert_eq!(in_force(&text, &drop_in.section(), keys), value, "{text}");
        }
        assert_eq!(
            DropIn::new(&WEIGHT, &unit).kept_file(Path::new("/etc/systemd"), UNSET).path,
            Path::new("/etc/systemd/system/backup.service.d/90-fonio-io-weight.conf")
        );
    }
}
