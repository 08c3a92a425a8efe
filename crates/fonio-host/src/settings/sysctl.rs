//! Reads and sets the kernel's settings below `/proc/sys`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::HostError;

/// The settings that fonio changes. A record with another name is damaged or forged.
const NAMES: [&str; 5] = [
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_ratio",
    "vm.swappiness",
];

/// Returns whether fonio changes the setting with this name.
pub(super) fn is_known(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Returns the path of a setting such as `vm.swappiness`.
fn file(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}

pub(super) fn read(name: &str) -> Result<String, HostError> {
    let path = file(name);
    let text = fs::read_to_string(&path).map_err(HostError::system("read", path))?;
    Ok(text.trim().to_owned())
}

pub(super) fn write(name: &str, value: &str) -> Result<(), HostError> {
    let path = file(name);
    if !is_known(name) {
        let unknown = std::io::Error::other("fonio does not change this setting");
        return Err(HostError::system("write", path)(unknown));
    }
    fs::write(&path, value).map_err(HostError::system("write", path))
}

/// Splits assignments, separated by blanks, into names and values.
pub(super) fn assignments(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(' ').filter_map(|assignment| assignment.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
