//! `/proc/self/mountinfo`.

use fonio_core::meta::Mount;
use fonio_core::{ByteCount, DeviceId};

use super::{device_id, parse_device_id};

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountPoint {
    /// `st_dev` of the files below; major 0 for file systems without a device of their own, btrfs among them.
    pub device: DeviceId,
    pub at: String,
    pub fs: String,
    /// `/dev/mmcblk0p2`, or a word.
    pub source: String,
    /// Of the mount and of the file system, each once.
    pub options: Vec<String>,
}

pub(crate) fn parse(text: &str) -> Vec<MountPoint> {
    text.lines().filter_map(parse_line).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse_line(line: &str) -> Option<MountPoint> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ');
    let device = parse_device_id(mount.nth(2)?)?;
    let at = unescape(mount.nth(1)?);
    let own_options = mount.next()?;
    let mut file_system = file_system.split(' ');
    let (fs, source) = (file_system.next()?.to_owned(), unescape(file_system.next()?));
    let mut options: Vec<String> = Vec::new();
    for option in own_options.split(',').chain(file_system.next().unwrap_or("").split(',')) {
        if !option.is_empty() && !options.iter().any(|known| known == option) {
            options.push(option.to_owned());
        }
    }
    Some(MountPoint { device, at, fs, source, options })
}

/// Blanks, tabs, newlines and backslashes stand there in octal.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal =
            tail.get(..3).filter(|digits| first == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        if let Some(digits) = octal {
            bytes.push(
                digits.iter().fold(0_u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')),
            );
            rest = &tail[3..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl MountPoint {
    /// The block device below the file system, as far as the mount says it.
    pub(crate) fn block_device(&self) -> Option<DeviceId> {
        if self.device.major() != 0 {
            return Some(self.device);
        }
        if !self.source.starts_with("/dev/") {
            return None;
        }
        let stat = rustix::fs::stat(self.source.as_str()).ok()?;
        let is_block = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::BlockDevice;
        is_block.then(|| device_id(stat.st_rdev))
    }

    pub(crate) fn describe(&self, device: DeviceId) -> Mount {
        // A dead FUSE server would block the call for ever.
        let space =
            if self.fs.starts_with("fuse") { None } else { rustix::fs::statvfs(self.at.as_str()).ok() };
        Mount {
            device,
            at: self.at.clone(),
            fs: self.fs.clone(),
            options: self.options.clone(),
            size_bytes: space.as_ref().map(|space| ByteCount(space.f_blocks.saturating_mul(space.f_frsize))),
            available_bytes: space
                .as_ref()
                .map(|space| ByteCount(space.f_bavail.saturating_mul(space.f_frsize))),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn mountinfo_lines() {
        let text = "36 35 179:2 /mnt1 /mnt\\0402 rw,noatime master:1 - ext4 /dev/root rw,data=ordered\n\
            24 27 0:6 / /dev rw,relatime - devtmpfs devtmpfs rw,size=12334460k\n\
            29 1 0:30 /@home /home rw shared:1 master:7 - btrfs /dev/sda\\1341 rw,subvol=/@home\n\
            no mount\n";
        let shown: Vec<String> = parse(text)
            .iter()
            .map(|m| format!("{} {:?} {} {:?} {}", m.device, m.at, m.fs, m.source, m.options.join(",")))
            .collect();
        expect![[r#"
            179:2 "/mnt 2" ext4 "/dev/root" rw,noatime,data=ordered
            0:6 "/dev" devtmpfs "devtmpfs" rw,relatime,size=12334460k
            0:30 "/home" btrfs "/dev/sda\\1" rw,subvol=/@home"#]]
        .assert_eq(&shown.join("\n"));
    }
}
