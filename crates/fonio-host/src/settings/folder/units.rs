//! Manages systemd units that keep a folder's setting in force and write the folder's content to the disk.
//!
//! Units in `/run/systemd` last until the next boot. Kept units are in `/etc/systemd`
//! ([`super::super::Keeper`]) and take precedence.

use std::fmt::Write;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::kept::own::{HEADER, OwnFile};
use super::super::systemd;
use crate::error::HostError;
use crate::replace;

pub(in crate::settings) struct Units {
    /// Names and lines of the units; the first unit is the one to start.
    units: Vec<(String, Vec<String>)>,
    /// The systemd target that wants the first unit.
    wanted_by: &'static str,
}

impl Units {
    pub(in crate::settings) fn new(units: Vec<(String, Vec<String>)>, wanted_by: &'static str) -> Units {
        Units { units, wanted_by }
    }

    /// Returns the files below `systemd`, systemd's configuration folder, that start the units at each boot.
    pub(in crate::settings) fn kept_files(&self, systemd: &Path) -> Vec<OwnFile> {
        let folder = systemd.join("system");
        let units = self.units.iter();
        let mut kept: Vec<OwnFile> =
            units.map(|(name, lines)| OwnFile { path: folder.join(name), lines: lines.clone() }).collect();
        let (first, _) = &self.units[0];
        let stem = first.rsplit_once('.').map_or(first.as_str(), |(stem, _)| stem);
        kept.push(OwnFile {
            path: folder.join(format!("{}.d", self.wanted_by)).join(format!("90-{stem}.conf")),
            lines: vec!["[Unit]".to_owned(), format!("Wants={first}")],
        });
        kept
    }

    fn file(name: &str) -> PathBuf {
        Path::new(systemd::RUNS).join(name)
    }
}

pub(in crate::settings) fn program() -> Result<PathBuf, HostError> {
    std::env::current_exe().map_err(HostError::system("find", "fonio's own program"))
}

/// Rejects a program for the units if other users could replace it or if a reboot removes it.
pub(in crate::settings) fn check_program(program: &Path) -> Result<(), String> {
    let passing = ["/tmp", "/run", "/dev", "/home"].iter().any(|dir| program.starts_with(dir));
    let stat = fs::metadata(program).map_err(|error| format!("{}: {error}", program.display()))?;
    if passing || stat.uid() != 0 || stat.mode() & 0o022 != 0 {
        return Err(format!(
            "fonio's unit runs {} as root at each boot, but others can change or remove that file: install fonio first (`install fonio /usr/local/bin`)",
            program.display()
        ));
    }
    Ok(())
}

/// Puts units in force until the next boot if systemd runs.
pub(in crate::settings) fn put(units: &Units) -> Result<(), HostError> {
    if systemd::check().is_err() {
        return Ok(());
    }
    for (name, lines) in &units.units {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        replace::replace(&Units::file(name), &format!("{HEADER}{text}"))?;
    }
    systemd::systemctl(&["daemon-reload"])?;
    systemd::systemctl(&["start", "--", &units.units[0].0]).map(drop)
}

/// Stops units and removes the files of these units that last until the next boot.
pub(in crate::settings) fn take(units: &Units) -> Result<(), HostError> {
    if systemd::check().is_err() {
        return Ok(());
    }
    for (name, _) in &units.units {
        if systemd::property(name, "LoadState")? == "loaded" {
            systemd::systemctl(&["stop", "--", name])?;
        }
    }
    for (name, _) in &units.units {
        replace::remove_file(&Units::file(name))?;
    }
    systemd::systemctl(&["daemon-reload"]).map(drop)
}

pub(in crate::settings) fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// Escapes a path for the name of a unit, as `systemd-escape --path` does (systemd.unit(5)).
pub(in crate::settings) fn escape(dir: &Path) -> String {
    let mut name = String::new();
    let bytes = dir.as_os_str().as_bytes();
    for (at, byte) in bytes.strip_prefix(b"/").unwrap_or(bytes).iter().enumerate() {
        match byte {
            b'/' => name.push('-'),
            b'.' if at == 0 => name.push_str("\\x2e"),
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b':' | b'_' | b'.' => name.push(char::from(*byte)),
            other => {
                let _ = write!(name, "\\x{other:02x}");
            }
        }
    }
    name
}

/// Quotes a path as one word in a unit's setting (systemd.syntax(7)).
pub(in crate::settings) fn quote(path: &Path) -> String {
    let text = specifiers(path).replace('\\', "\\\\").replace('"', "\\\"");
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+%".contains(letter);
    if text.chars().all(is_plain) { text } else { format!("\"{text}\"") }
}

/// Quotes a path as one word of a unit's command, where `$` begins a variable.
pub(in crate::settings) fn argument(path: &Path) -> String {
    quote(path).replace('$', "$$")
}

/// Escapes a path for a unit's text, in which `%` begins a specifier.
pub(in crate::settings) fn specifiers(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_words() {
        for (path, word) in [
            ("/var/log", "/var/log"),
            ("/home/pi/my app", "\"/home/pi/my app\""),
            ("/50%", "/50%%"),
            ("/a\"$b\\", "\"/a\\\"$$b\\\\\""),
        ] {
            assert_eq!(argument(Path::new(path)), word);
        }
        assert_eq!(quote(Path::new("/$a")), "\"/$a\"");
    }

    #[test]
    fn names_of_units_are_those_of_systemd() {
        // The names are the output of systemd-escape(1) of systemd 252.
        for (path, name) in [
            ("/var/log", "var-log"),
            ("/a-b", "a\\x2db"),
            ("/a b", "a\\x20b"),
            ("/50%", "50\\x25"),
            ("/.cache", "\\x2ecache"),
            ("/home/.cache", "home-.cache"),
            ("/é", "\\xc3\\xa9"),
        ] {
            assert_eq!(escape(Path::new(path)), name);
        }
    }
}
