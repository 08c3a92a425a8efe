//! Finds the mount or the disk that a path means.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use fonio_system::{MountPoint, MountTable};

use super::Setting;
use crate::HostError;

pub(super) fn mounted_at(dir: &Path) -> Result<MountPoint, HostError> {
    let found = MountTable::read()?.at(dir).cloned();
    found.ok_or_else(|| HostError::system("find the mount", dir)(std::io::ErrorKind::NotFound.into()))
}

/// The mount that contains a path or, if the path is a device, a mount of that device.
pub(super) fn mount_of(path: &Path) -> Result<MountPoint, HostError> {
    let path = fs::canonicalize(path).map_err(HostError::system("find", path))?;
    let is_device = fs::metadata(&path).is_ok_and(|metadata| metadata.file_type().is_block_device());
    let mounts = MountTable::read()?;
    let found = if is_device {
        let of_device = mounts.iter().filter(|mount| Path::new(&mount.source) == path);
        of_device.max_by_key(|mount| mount.dir.components().count())
    } else {
        mounts.holding(&path)
    };
    found
        .cloned()
        .ok_or_else(|| HostError::system("find the mount of", &path)(std::io::ErrorKind::NotFound.into()))
}

/// The name in `/sys/block` of the disk that contains a path, or whose node or partition the path is.
pub(crate) fn disk_of(path: &Path, setting: &Setting) -> Result<String, HostError> {
    let numbers = |rdev: u64| format!("{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev));
    let node = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        metadata.file_type().is_block_device().then(|| numbers(metadata.rdev()))
    };
    let bare = Path::new("/dev").join(path);
    let number = match node(path).or_else(|| (!path.exists()).then(|| node(&bare)).flatten()) {
        Some(number) => number,
        None => {
            let mounted = mount_of(path)?;
            // Some file systems show a number that does not belong to a device.
            node(Path::new(&mounted.source)).unwrap_or_else(|| mounted.device.to_string())
        }
    };
    let link = Path::new("/sys/dev/block").join(&number);
    let Ok(mut dir) = fs::canonicalize(&link) else {
        return Err(setting.refused(path, "it is on no block device".to_owned()));
    };
    if dir.join("partition").exists() {
        dir.pop();
    }
    let below: Vec<String> = fs::read_dir(dir.join("slaves"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    // The kernel reads files ahead by the number of the device that holds them.
    if !below.is_empty() && !matches!(setting, Setting::ReadAhead(_)) {
        let reason = format!("it is mapped to {}: name a device below it", below.join(", "));
        return Err(setting.refused(path, reason));
    }
    Ok(dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default())
}
