//! Reads short text files in sysfs and procfs.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fonio_core::DeviceId;
use fonio_system::device;

/// Reads a short text without surrounding blanks and zero bytes; `None` if the text is unreadable or empty.
pub fn read_text(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads the number in a file; `None` if the file is unreadable or does not contain a number.
pub fn read_number<T: FromStr>(path: &Path) -> Option<T> {
    read_text(path)?.parse().ok()
}

/// Reads the device number, such as `8:1`, in a file named `dev`.
pub fn read_device_id(path: &Path) -> Option<DeviceId> {
    device::parse(&read_text(path)?)
}

/// Returns the word in brackets, as in `none [mq-deadline] bfq`, or the complete text if there are no
/// brackets.
pub fn chosen(text: &str) -> &str {
    match (text.find('['), text.find(']')) {
        (Some(open), Some(close)) if open < close => &text[open + 1..close],
        _ => text,
    }
}

/// Returns the names in sysfs's list of schedulers, in which brackets mark the active scheduler.
pub fn scheduler_names(list: &str) -> impl Iterator<Item = &str> {
    list.split_whitespace().map(|name| name.trim_matches(['[', ']']))
}

/// Returns the entries of a folder, in name order; returns no entries if the folder cannot be read.
pub(crate) fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_scheduler() {
        for (text, expected) in
            [("none [mq-deadline] bfq", "mq-deadline"), ("[none]", "none"), ("none", "none")]
        {
            assert_eq!(chosen(text), expected);
            assert!(scheduler_names(text).any(|name| name == expected));
        }
    }
}
