//! Lists the partitions and files that are used for swap (`/proc/swaps`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::machine::Machine;
use crate::sysfs::read_text;

/// A partition or file used for swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapArea {
    /// The path of the device node or swap file.
    pub path: PathBuf,
    /// Whether the area is a partition or a whole disk.
    pub is_partition: bool,
}

impl Machine {
    /// Returns the swap areas that are in use.
    pub fn swap_areas(&self) -> Vec<SwapArea> {
        let swaps = read_text(&self.proc("swaps")).unwrap_or_default();
        let area = |line: &str| {
            let mut words = line.split_whitespace();
            Some(SwapArea { path: unescaped(words.next()?), is_partition: words.next()? == "partition" })
        };
        swaps.lines().skip(1).filter_map(area).collect()
    }
}

/// Decodes a path from `/proc/swaps`. In this file, a space is written as `\040`.
fn unescaped(path: &str) -> PathBuf {
    let (bytes, mut plain, mut at) = (path.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let digits = path.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    OsString::from_vec(plain).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_swap_files() {
        for (path, expected) in [
            ("/swapfile", "/swapfile"),
            ("/a\\040b\\134", "/a b\\"),
            ("/end\\04", "/end\\04"),
            ("\\999", "\\999"),
        ] {
            assert_eq!(unescaped(path), PathBuf::from(expected));
        }
    }
}
