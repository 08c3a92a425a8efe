//! Reads the mount table (`/proc/self/mountinfo`).
//!
//! Reading the table never blocks, whereas an access to a mount with a hanging FUSE daemon would block this
//! process.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use fonio_core::DeviceId;

use crate::device;
use crate::error::SystemError;

/// A mount of the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// The folder at which the file system is mounted.
    pub dir: PathBuf,
    /// The device number of the files on this mount (`st_dev`). File systems without a single device, such as
    /// btrfs, have a virtual number with major 0.
    pub device: DeviceId,
    /// Name of the file system driver in the kernel: `ext4`, `fuse.sshfs`.
    pub filesystem: String,
    /// The path of the mounted device, or a name chosen by the file system.
    pub source: String,
    /// Options of this mount, such as `rw` and `noatime`.
    pub options: Vec<String>,
    /// Options of the file system: `rw`, `commit=30`. They are the same at all its mount points.
    pub filesystem_options: Vec<String>,
}

impl MountPoint {
    /// Returns the options of the mount, followed by the options of the file system, without repetitions.
    pub fn all_options(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for option in self.options.iter().chain(&self.filesystem_options) {
            if !all.contains(option) {
                all.push(option.clone());
            }
        }
        all
    }
}

/// All mounts visible to this process, newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountTable {
    mounts: Vec<MountPoint>,
}

impl MountTable {
    /// Reads the table of this process. Fails with [`SystemError`] if `/proc` is not mounted.
    pub fn read() -> Result<MountTable, SystemError> {
        MountTable::read_below(Path::new("/proc"))
    }

    /// Reads the table from the procfs mounted at `proc`. Fails with [`SystemError`] if the table cannot be
    /// read.
    pub fn read_below(proc: &Path) -> Result<MountTable, SystemError> {
        let path = proc.join("self/mountinfo");
        Ok(MountTable::parse(&fs::read(&path).map_err(SystemError::on("read", path))?))
    }

    /// Parses a table in the form of proc_pid_mountinfo(5). Lines in another form are skipped.
    pub fn parse(table: &[u8]) -> MountTable {
        MountTable { mounts: table.split(|byte| *byte == b'\n').filter_map(parse_line).collect() }
    }

    /// Iterates over all mounts, newest last.
    pub fn iter(&self) -> std::slice::Iter<'_, MountPoint> {
        self.mounts.iter()
    }

    /// Returns the visible mount at `dir`: the newest mount, which hides the older mounts there.
    pub fn at(&self, dir: &Path) -> Option<&MountPoint> {
        self.iter().rfind(|mount| mount.dir == dir)
    }

    /// Returns the mount that contains `path`. The path must be absolute and without symbolic links. The
    /// result is the deepest mount with a folder that contains the path. If several mounts are equally deep,
    /// it is the newest of them.
    pub fn holding(&self, path: &Path) -> Option<&MountPoint> {
        let holding = self.iter().filter(|mount| path.starts_with(&mount.dir));
        holding.max_by_key(|mount| mount.dir.components().count())
    }

    /// Returns the mounts of one type of file system, newest last.
    pub fn of_kind<'t>(&'t self, filesystem: &'t str) -> impl DoubleEndedIterator<Item = &'t MountPoint> {
        self.iter().filter(move |mount| mount.filesystem == filesystem)
    }
}

impl<'t> IntoIterator for &'t MountTable {
    type Item = &'t MountPoint;
    type IntoIter = std::slice::Iter<'t, MountPoint>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for MountTable {
    type Item = MountPoint;
    type IntoIter = std::vec::IntoIter<MountPoint>;

    fn into_iter(self) -> Self::IntoIter {
        self.mounts.into_iter()
    }
}

/// Parses a line with these fields: id, parent, device, root, folder, options, any number of optional fields,
/// `-`, file system, source, and the options of the file system.
fn parse_line(line: &[u8]) -> Option<MountPoint> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = 6 + fields.get(6..)?.iter().position(|field| *field == b"-")?;
    let text = |at: usize| fields.get(at).map(|field| String::from_utf8_lossy(&unescape(field)).into_owned());
    // Some file systems escape commas in option values, so split the options before unescaping.
    let list = |at: usize| {
        let options = fields.get(at).copied().unwrap_or_default().split(|byte| *byte == b',');
        let options = options.filter(|option| !option.is_empty());
        options.map(|option| String::from_utf8_lossy(&unescape(option)).into_owned()).collect()
    };
    Some(MountPoint {
        dir: PathBuf::from(OsString::from_vec(unescape(fields[4]))),
        device: device::parse(&text(2)?)?,
        filesystem: text(dash + 1)?,
        source: text(dash + 2)?,
        options: list(5),
        filesystem_options: list(dash + 3),
    })
}

/// Decodes the kernel's escapes: blank, tab, newline, backslash and some others are written as a backslash
/// and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\');
        let digits = digits.filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        let value = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        plain.push(value.unwrap_or(first));
        rest = if value.is_some() { &after[3..] } else { after };
    }
    plain
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(table: &[u8], expected: Expect) {
        let shown: Vec<String> = MountTable::parse(table)
            .iter()
            .map(|mount| {
                let MountPoint { dir, device, filesystem, source, .. } = mount;
                let (own, all) = (mount.options.join(","), mount.all_options().join(","));
                format!("{device} {dir:?} {filesystem} {source:?} {own} all {all}\n")
            })
            .collect();
        expected.assert_eq(&shown.concat());
    }

    #[test]
    fn folder_device_source_and_options() {
        check(
            b"36 35 98:0 / /mnt rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n\
            24 27 0:6 / /dev rw,relatime - devtmpfs devtmpfs rw,size=12334460k\n\
            29 1 0:30 /@home /home rw shared:1 master:7 - btrfs /dev/sda1 rw,subvol=/@home\n\
            42 36 0:58 / /x rw - fuse.bindfs a rw\n",
            expect![[r#"
                98:0 "/mnt" ext3 "/dev/root" rw,noatime all rw,noatime,errors=continue
                0:6 "/dev" devtmpfs "devtmpfs" rw,relatime all rw,relatime,size=12334460k
                0:30 "/home" btrfs "/dev/sda1" rw all rw,subvol=/@home
                0:58 "/x" fuse.bindfs "a" rw all rw
            "#]],
        );
    }

    #[test]
    fn escaped_bytes() {
        check(
            b"1 0 8:1 / /media/my\\040photos\\134x rw - ext4 /dev/sda\\1341 rw\n\
            2 0 0:41 / /lower rw - overlay overlay rw,lowerdir=/a\\054b:/c\\040d\n\
            3 0 0:42 / /tab\\011and\\012newline rw - tmpfs a\\043b rw\n\
            4 0 0:43 / /not\\13escaped\\777\\08x\\ rw - tmpfs tmpfs rw\n\
            5 0 0:44 / /\\303\\274 rw - tmpfs \xff rw\n",
            expect![[r#"
                8:1 "/media/my photos\\x" ext4 "/dev/sda\\1" rw all rw
                0:41 "/lower" overlay "overlay" rw all rw,lowerdir=/a,b:/c d
                0:42 "/tab\tand\nnewline" tmpfs "a#b" rw all rw
                0:43 "/not\\13escaped\\777\\08x\\" tmpfs "tmpfs" rw all rw
                0:44 "/ü" tmpfs "�" rw all rw
            "#]],
        );
    }

    #[test]
    fn unusual_and_damaged_lines() {
        check(
            b"\nbroken\nno mount - here\n1 0 8 / /x rw - ext4 /dev/sda rw\n1 0 8:1 / /x rw ext4 /dev/sda rw\n\
            1 0 8:1 / /x rw -\n1 0 8:1 / /x rw - ext4\n\
            2 0 0:5 - /dashed rw - tmpfs - rw\n\
            3 0 0:6 / /unnamed rw - tmpfs  rw\n\
            4 0 0:7 / /bare rw - tmpfs none",
            expect![[r#"
                0:5 "/dashed" tmpfs "-" rw all rw
                0:6 "/unnamed" tmpfs "" rw all rw
                0:7 "/bare" tmpfs "none" rw all rw
            "#]],
        );
    }

    #[test]
    fn the_deepest_and_latest_mount_holds_a_path() {
        let table = MountTable::parse(
            b"22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/root rw,discard\n\
            30 22 0:25 /home /home rw,noatime - btrfs /dev/mmcblk0p2 rw,compress=zstd:3,ssd\n\
            31 30 8:1 / /home/my\\040card rw - f2fs /dev/sda1 rw,compress_algorithm=lz4\n\
            32 30 0:26 / /home/my\\040card rw - tmpfs later rw\n",
        );
        for (path, source) in [
            ("/", "/dev/root"),
            ("/etc", "/dev/root"),
            ("/homely", "/dev/root"),
            ("/home/x", "/dev/mmcblk0p2"),
            ("/home/my card/y", "later"),
        ] {
            assert_eq!(
                table.holding(Path::new(path)).map(|mount| mount.source.as_str()),
                Some(source),
                "{path}"
            );
        }
        let at = |dir: &str| table.at(Path::new(dir)).map(|mount| mount.source.as_str());
        assert_eq!((at("/home/my card"), at("/home/x")), (Some("later"), None));
        assert_eq!(table.of_kind("f2fs").count(), 1);
        assert!(MountTable::parse(b"damaged\n").holding(Path::new("/")).is_none());
    }

    #[test]
    fn something_is_mounted_at_the_root() {
        let table = MountTable::read().expect("/proc is mounted");
        assert!(table.at(Path::new("/")).is_some());
        let error = MountTable::read_below(Path::new("/no/such/folder")).expect_err("there is no table");
        assert_eq!(error.to_string(), "cannot read /no/such/folder/self/mountinfo");
    }
}
