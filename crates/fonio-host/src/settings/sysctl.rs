//! Reads and sets the kernel's settings below `/proc/sys`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::HostError;

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
    fs::write(&path, value).map_err(HostError::system("write", path))
}

/// Splits assignments, separated by blanks, into names and values.
pub(super) fn assignments(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(' ').filter_map(|assignment| assignment.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
