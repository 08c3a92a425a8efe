//! Finds our mounts in `/proc/self/mountinfo`. This does not access the mounts, so it does not hang if a daemon hangs.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The file-system type of our mounts, as mount(8) and df show it.
pub(crate) const FILE_SYSTEM_TYPE: &str = "fuse.fonio";

/// One of our mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountEntry {
    /// Major and minor number of its device, for example `0:57`.
    pub(crate) device: String,
    pub(crate) dir: PathBuf,
}

/// Our mounts, in the order of mounting.
pub(crate) fn ours() -> Vec<MountEntry> {
    std::fs::read("/proc/self/mountinfo").map(|bytes| parse(&bytes)).unwrap_or_default()
}

/// The last of our mounts at `dir`.
pub(crate) fn at(dir: &Path) -> Option<MountEntry> {
    ours().into_iter().rev().find(|entry| entry.dir == dir)
}

fn parse(bytes: &[u8]) -> Vec<MountEntry> {
    bytes.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// proc_pid_mountinfo(5): id, parent, device, root, mount point, options, optional fields, `-`, type, source.
fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut words = line.split(|byte| *byte == b' ');
    let device = String::from_utf8(words.nth(2)?.to_vec()).ok()?;
    let dir = PathBuf::from(OsString::from_vec(unescape(words.nth(1)?)));
    let kind = words.skip_while(|word| *word != b"-").nth(1)?;
    (kind == FILE_SYSTEM_TYPE.as_bytes()).then_some(MountEntry { device, dir })
}

/// Decodes blanks and similar characters, which are written as a backslash and three octal digits.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = &after[3..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ours_and_with_blanks() {
        let text = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n\
            41 36 0:57 / /media/my\\040photos\\134x rw,nosuid - fuse.fonio /src rw,user_id=0\n\
            42 36 0:58 / /x rw - fuse.bindfs a rw\n\nbroken\n";
        let expected = MountEntry { device: "0:57".to_owned(), dir: PathBuf::from("/media/my photos\\x") };
        assert_eq!(parse(text), [expected]);
    }
}
