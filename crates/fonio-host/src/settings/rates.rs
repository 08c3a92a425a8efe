//! Converts limits of read rates and write rates between systemd's assignments and the kernel's file `io.max`.
//!
//! An assignment names a disk, as in `IOReadBandwidthMax=/dev/sda 10000000`. A line of `io.max` starts with the
//! disk's number, as in `8:0 rbps=10000000 wbps=max riops=max wiops=max` (Linux, `cgroup-v2.rst`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fonio_core::{ByteCount, DeviceId};
use fonio_machine::Machine;

use super::drop_in::{COMMA, UNSET};
use crate::error::HostError;

pub(super) const READ: &str = "IOReadBandwidthMax";
pub(super) const WRITE: &str = "IOWriteBandwidthMax";
const NO_LIMIT: &str = "max";

/// Returns the assignments that limit reads and writes on each of these disks.
pub(super) fn assignments(disks: &[String], per_s: ByteCount) -> String {
    let of = |key: &'static str| disks.iter().map(move |disk| format!("{key}=/dev/{disk} {}", per_s.0));
    of(READ).chain(of(WRITE)).collect::<Vec<_>>().join(COMMA)
}

/// Returns the limits of a control group as assignments; `None` if the group is gone. Fails with
/// [`HostError::NotSettable`] if the group's parent does not control I/O.
pub(super) fn read(group: &Path) -> Result<Option<String>, HostError> {
    let Some(text) = read_file(group)? else { return Ok(None) };
    let machine = Machine::here();
    Ok(Some(from_kernel(&text, |number| machine.name_of(device_id(number)?))))
}

/// Limits the rates of a control group, and removes its other limits of rates. Limits of the number of requests
/// stay.
pub(super) fn write(group: &Path, value: &str) -> Result<(), HostError> {
    let Some(text) = read_file(group)? else {
        return Err(HostError::system("find", group)(std::io::ErrorKind::NotFound));
    };
    let machine = Machine::here();
    let lines = to_kernel(value, &text, |name| Some(machine.device_named(name.as_ref())?.to_string()));
    let file = group.join("io.max");
    let lines = lines.map_err(|disk| {
        let reason = format!("the disk {disk} does not exist any more");
        HostError::NotSettable { setting: value.to_owned(), path: group.to_owned(), reason }
    })?;
    // The kernel takes one line in each call.
    lines.iter().try_for_each(|line| fs::write(&file, line).map_err(HostError::system("write", &file)))
}

fn read_file(group: &Path) -> Result<Option<String>, HostError> {
    let file: PathBuf = group.join("io.max");
    match fs::read_to_string(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && group.exists() => {
            let parent = group.parent().unwrap_or(group).display();
            let reason = format!(
                "the group above does not control I/O; to change this until the next boot, run `echo +io > {parent}/cgroup.subtree_control`"
            );
            let setting = "a limit of its I/O".to_owned();
            Err(HostError::NotSettable { setting, path: group.to_owned(), reason })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        text => text.map(Some).map_err(HostError::system("read", file)),
    }
}

fn device_id(number: &str) -> Option<DeviceId> {
    let (major, minor) = number.split_once(':')?;
    Some(DeviceId::new(major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the limits in a text of `io.max`. `name_of` returns the name of the disk with a number.
fn from_kernel(text: &str, name_of: impl Fn(&str) -> Option<String>) -> String {
    let mut limits: Vec<(String, &str, &str)> = Vec::new();
    for line in text.lines() {
        let Some((number, rest)) = line.split_once(' ') else { continue };
        let limit = |key: &str| {
            rest.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('=')).unwrap_or(NO_LIMIT)
        };
        let name = name_of(number).unwrap_or_else(|| format!("block/{number}"));
        limits.push((name, limit("rbps"), limit("wbps")));
    }
    limits.sort_unstable();
    let reads = limits.iter().map(|(name, read, _)| (READ, name, *read));
    let writes = limits.iter().map(|(name, _, write)| (WRITE, name, *write));
    let limited = reads.chain(writes).filter(|(_, _, limit)| *limit != NO_LIMIT);
    let found: Vec<String> = limited.map(|(key, name, limit)| format!("{key}=/dev/{name} {limit}")).collect();
    if found.is_empty() { UNSET.to_owned() } else { found.join(COMMA) }
}

/// Returns the lines for `io.max` that put a value in force, where `now` is the text of the file. `number_of`
/// returns the number of the disk with a name. The error is the name of a missing disk.
fn to_kernel(
    value: &str,
    now: &str,
    number_of: impl Fn(&str) -> Option<String>,
) -> Result<Vec<String>, String> {
    let none = || (NO_LIMIT.to_owned(), NO_LIMIT.to_owned());
    let mut limits: BTreeMap<String, (String, String)> = BTreeMap::new();
    for line in now.lines() {
        limits.insert(line.split(' ').next().unwrap_or_default().to_owned(), none());
    }
    for assignment in value.split(COMMA).filter(|assignment| *assignment != UNSET) {
        let parts = assignment.split_once('=').and_then(|(key, rest)| Some((key, rest.split_once(' ')?)));
        let Some((key, (disk, limit))) = parts else { return Err(assignment.to_owned()) };
        let name = disk.strip_prefix("/dev/").unwrap_or(disk);
        let number = match name.strip_prefix("block/") {
            Some(number) => number.to_owned(),
            None => number_of(name).ok_or_else(|| disk.to_owned())?,
        };
        let entry = limits.entry(number).or_insert_with(none);
        let place = if key == READ { &mut entry.0 } else { &mut entry.1 };
        limit.clone_into(place);
    }
    let line = |(number, (read, write))| format!("{number} rbps={read} wbps={write}");
    Ok(limits.into_iter().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISKS: [(&str, &str); 2] = [("8:0", "sda"), ("179:0", "mmcblk0")];

    fn name_of(number: &str) -> Option<String> {
        DISKS.iter().find(|(known, _)| *known == number).map(|(_, name)| (*name).to_owned())
    }

    fn number_of(name: &str) -> Option<String> {
        DISKS.iter().find(|(_, known)| *known == name).map(|(number, _)| (*number).to_owned())
    }

    #[test]
    fn a_limit_is_for_each_disk_and_direction() {
        assert_eq!(
            assignments(&["sda".to_owned(), "sdb".to_owned()], ByteCount(5)),
            "IOReadBandwidthMax=/dev/sda 5, IOReadBandwidthMax=/dev/sdb 5, IOWriteBandwidthMax=/dev/sda 5, IOWriteBandwidthMax=/dev/sdb 5"
        );
    }

    #[test]
    fn the_kernels_limits_are_read() {
        for (text, expected) in [
            ("", "unset"),
            ("8:0 rbps=max wbps=max riops=10 wiops=max\n", "unset"),
            (
                "8:0 rbps=5 wbps=6 riops=max wiops=max\n179:0 rbps=max wbps=7 riops=1 wiops=max\n",
                "IOReadBandwidthMax=/dev/sda 5, IOWriteBandwidthMax=/dev/mmcblk0 7, IOWriteBandwidthMax=/dev/sda 6",
            ),
            ("9:9 rbps=5 wbps=max riops=max wiops=max\n", "IOReadBandwidthMax=/dev/block/9:9 5"),
        ] {
            assert_eq!(from_kernel(text, name_of), expected, "{text}");
        }
    }

    #[test]
    fn limits_are_written_and_others_removed() {
        let both = assignments(&["mmcblk0".to_owned(), "sda".to_owned()], ByteCount(5));
        for (value, now, expected) in [
            (both.as_str(), "", Ok(vec!["179:0 rbps=5 wbps=5", "8:0 rbps=5 wbps=5"])),
            (
                "IOWriteBandwidthMax=/dev/sda 7",
                "179:0 rbps=5 wbps=5 riops=max wiops=max\n",
                Ok(vec!["179:0 rbps=max wbps=max", "8:0 rbps=max wbps=7"]),
            ),
            ("unset", "8:0 rbps=5 wbps=5 riops=9 wiops=max\n", Ok(vec!["8:0 rbps=max wbps=max"])),
            ("IOReadBandwidthMax=/dev/block/9:9 5", "", Ok(vec!["9:9 rbps=5 wbps=max"])),
            ("IOReadBandwidthMax=/dev/sdz 5", "", Err("/dev/sdz".to_owned())),
            ("nonsense", "", Err("nonsense".to_owned())),
        ] {
            let expected =
                expected.map(|lines| lines.into_iter().map(str::to_owned).collect::<Vec<String>>());
            assert_eq!(to_kernel(value, now, number_of), expected, "{value}");
        }
    }

    #[test]
    fn a_written_value_is_read_back() {
        let value = assignments(&["mmcblk0".to_owned(), "sda".to_owned()], ByteCount(10_000_000));
        let lines = to_kernel(&value, "", number_of).expect("known disks").join("\n");
        assert_eq!(from_kernel(&lines, name_of), value);
    }
}
