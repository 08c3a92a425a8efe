//! The kernel's controller io.cost of a disk, which makes I/O weights act under every scheduler.
//!
//! It is a setting of the root control group: a line for each disk in `io.cost.qos` (Documentation/admin-guide/cgroup-v2.rst).
//! The model of the disk's costs is the kernel's own, unless somebody wrote another one into `io.cost.model`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::HostError;

/// The root group's file with what io.cost does on each disk.
const QOS: &str = "/sys/fs/cgroup/io.cost.qos";
/// The values.
pub(super) const ON: &str = "on";
const OFF: &str = "off";

/// Checks that the kernel has the controller; the error is the reason why not.
pub(super) fn check() -> Result<(), String> {
    if Path::new(QOS).exists() {
        return Ok(());
    }
    if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        return Err("it needs control groups v2, which are not mounted on /sys/fs/cgroup here".to_owned());
    }
    Err("the kernel has no controller io.cost here (CONFIG_BLK_CGROUP_IOCOST)".to_owned())
}

/// Whether it is on for a device; `None` if the device is gone, or the machine was started with a kernel without io.cost.
pub(super) fn current(device: &str) -> Result<Option<String>, HostError> {
    let Some(number) = number(device)? else { return Ok(None) };
    match fs::read_to_string(QOS) {
        Ok(text) => Ok(Some(if is_on(&text, &number) { ON } else { OFF }.to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(HostError::system("read", QOS)(error)),
    }
}

/// Switches it; all other parameters of the device stay.
pub(super) fn set(device: &str, value: &str) -> Result<(), HostError> {
    let Some(number) = number(device)? else { return Ok(()) };
    let line = format!("{number} enable={}", u8::from(value == ON));
    fs::write(QOS, line).map_err(HostError::system("write", QOS))
}

/// What a rule of udev runs to switch it on for its device.
pub(super) fn command() -> String {
    format!("/bin/sh -c 'echo %M:%m enable=1 >{QOS}'")
}

/// The major and minor number of a device.
fn number(device: &str) -> Result<Option<String>, HostError> {
    let file = Path::new("/sys/block").join(device).join("dev");
    match fs::read_to_string(&file) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(HostError::system("read", &file)(error)),
    }
}

fn is_on(text: &str, number: &str) -> bool {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.any(|mut words| words.next() == Some(number) && words.any(|word| word == "enable=1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_disk_has_a_line() {
        let text = "8:0 enable=0 ctrl=auto rpct=0.00\n8:16 enable=1 ctrl=auto rpct=0.00\n";
        let found: Vec<bool> = ["8:0", "8:16", "8:1", "18:16"].map(|number| is_on(text, number)).into();
        assert_eq!(found, [false, true, false, false]);
        assert!(!is_on("", "8:0"));
    }
}
