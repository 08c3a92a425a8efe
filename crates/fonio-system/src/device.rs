//! Parses device numbers of system calls and kernel texts.

use fonio_core::DeviceId;

/// Converts a `dev_t`, such as a file's `st_dev` or `st_rdev`, to a [`DeviceId`].
pub fn from_dev(dev: u64) -> DeviceId {
    DeviceId::new(rustix::fs::major(dev), rustix::fs::minor(dev))
}

/// Parses a device number such as `8:1`, the form in sysfs and mount tables. Returns `None` if the text has
/// another form, or if a number is too large for the kernel.
pub fn parse(text: &str) -> Option<DeviceId> {
    let (major, minor) = text.trim().split_once(':')?;
    let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then(|| DeviceId::new(major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_texts() {
        for (text, expected) in [
            ("8:1\n", Some(DeviceId::new(8, 1))),
            ("4095:1048575", Some(DeviceId::new(4095, 1_048_575))),
            ("4096:0", None),
            ("0:1048576", None),
            ("8", None),
            ("8:x", None),
            ("-1:0", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn numbers_of_system_calls() {
        let stat = rustix::fs::stat("/dev/null").expect("every system has it");
        assert_eq!(from_dev(stat.st_rdev), DeviceId::new(1, 3));
    }
}
