//! Describes the devices that have requests.

use std::path::Path;

use fonio_core::meta::{Device, Mount};
use fonio_core::{ByteCount, DeviceId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A device with requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceInfo {
    /// `major:minor`.
    pub device: String,
    /// The name, for example `mmcblk0`, if known.
    pub name: Option<String>,
    /// The model, if known.
    pub model: Option<String>,
    /// The I/O scheduler, if known.
    pub scheduler: Option<String>,
    /// Available I/O schedulers, if known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedulers: Vec<String>,
    /// Whether the device is a disk with rotating platters, if the kernel reports this.
    pub rotational: Option<bool>,
    /// The read-ahead in KiB, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_kb: Option<u32>,
    /// Mount point of an ext3 or ext4 file system that is on the device and has the default commit interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits_often: Option<String>,
    /// Mount point of a file system that is on the device and writes access times (mounted without noatime
    /// and lazytime).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes_access_times: Option<String>,
    /// Mount point of a file system that is on the device and mounted without the option discard, if the
    /// device supports discard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_discard: Option<String>,
    /// Requests.
    pub requests: u64,
    /// Bytes read and bytes written.
    #[serde(skip)]
    pub(crate) read_bytes: ByteCount,
    #[serde(skip)]
    pub(crate) write_bytes: ByteCount,
    /// The file systems on the device.
    #[serde(skip)]
    pub(crate) mounts: Vec<Mount>,
    #[serde(skip)]
    pub(crate) is_encrypted: bool,
    /// The underlying devices (`major:minor`).
    #[serde(skip)]
    pub below: Vec<String>,
}

/// The requests and bytes of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceCount {
    pub(crate) requests: u64,
    pub(crate) read_bytes: ByteCount,
    pub(crate) write_bytes: ByteCount,
}

/// Returns the first ext3 or ext4 mount whose commit interval is at most the default of 5 s.
fn commits_often(mounts: &[Mount]) -> Option<String> {
    let is_default = |mount: &&Mount| {
        let commit = mount.options.iter().find_map(|option| option.strip_prefix("commit="));
        matches!(mount.fs.as_str(), "ext3" | "ext4") && commit.is_none_or(|seconds| seconds == "5")
    };
    Some(mounts.iter().find(is_default)?.at.clone())
}

/// Returns the first writable mount that has none of `options`.
fn mounted_without(mounts: &[Mount], options: &[&str]) -> Option<String> {
    let has = |mount: &Mount, option: &str| mount.options.iter().any(|other| other == option);
    let lacks = |mount: &&Mount| !has(mount, "ro") && !options.iter().any(|option| has(mount, option));
    Some(mounts.iter().find(lacks)?.at.clone())
}

impl DeviceInfo {
    pub(crate) fn of(id: DeviceId, known: Option<&Device>, count: DeviceCount) -> DeviceInfo {
        let device = id.to_string();
        let DeviceCount { requests, read_bytes, write_bytes } = count;
        let counts = DeviceInfo { device, requests, read_bytes, write_bytes, ..DeviceInfo::default() };
        let Some(known) = known else { return counts };
        let can_discard = known.discard_granularity_bytes.is_some_and(|bytes| bytes > 0);
        DeviceInfo {
            name: known.name.clone(),
            model: known.model.clone(),
            scheduler: known.scheduler.clone(),
            schedulers: known.schedulers.clone(),
            rotational: known.rotational,
            read_ahead_kb: known.read_ahead_kb,
            commits_often: commits_often(&known.mounts),
            writes_access_times: mounted_without(&known.mounts, &["noatime", "lazytime"]),
            without_discard: mounted_without(&known.mounts, &["discard", "discard=async"])
                .filter(|_| can_discard),
            mounts: known.mounts.clone(),
            is_encrypted: known.encrypted == Some(true),
            below: known.below.iter().map(DeviceId::to_string).collect(),
            ..counts
        }
    }

    /// Returns the mounted file system that contains a file. Without a file, returns the only file system of
    /// the device: with several of them, it is unknown for which one a program waited.
    pub(crate) fn mount_of(&self, file: Option<&str>) -> Option<&Mount> {
        let contains = |mount: &&Mount, file: &str| Path::new(file).starts_with(&mount.at);
        match (file, self.mounts.as_slice()) {
            (Some(file), mounts) => {
                mounts.iter().filter(|mount| contains(mount, file)).max_by_key(|mount| mount.at.len())
            }
            (None, [only]) => Some(only),
            (None, _) => None,
        }
    }

    /// Returns the device's name, or `major:minor` if the name is unknown.
    pub fn shown(&self) -> &str {
        self.name.as_ref().unwrap_or(&self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_innermost_mount() {
        let mount = |at: &str| Mount { at: at.to_owned(), ..Mount::default() };
        let device = DeviceInfo { mounts: vec![mount("/"), mount("/data")], ..DeviceInfo::default() };
        for (file, expected) in
            [(Some("/data/x.db"), Some("/data")), (Some("/database"), Some("/")), (None, None)]
        {
            assert_eq!(device.mount_of(file).map(|mount| mount.at.as_str()), expected, "{file:?}");
        }
        let single = DeviceInfo { mounts: vec![mount("/card")], ..DeviceInfo::default() };
        assert_eq!(single.mount_of(None).map(|mount| mount.at.as_str()), Some("/card"));
        assert_eq!(single.mount_of(Some("/home/x")), None);
    }
}
