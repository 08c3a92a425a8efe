//! Describes the environment of a benchmark: everything besides the device that affects the results.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use fonio_core::DeviceId;
use fonio_machine::Machine;
use serde::{Deserialize, Serialize};

/// The machine, file system and device according to procfs and sysfs. Values that are `None` are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The directory or block device that is benchmarked.
    pub path: PathBuf,
    /// Whether the target is a block device.
    pub raw_device: bool,
    /// Release of the running kernel.
    pub kernel: String,
    /// Type of the target's file system; `None` for a block device.
    pub file_system: Option<String>,
    /// Mount options of the target, including those of the file system itself.
    pub mount_options: Vec<String>,
    /// The file system's compression algorithm, if a mount option enables compression.
    pub compression: Option<String>,
    /// `dm-crypt` if the underlying device is encrypted. The encryption of individual directories is not
    /// detected.
    pub encryption: Option<String>,
    /// Free space for the current user; for a block device, its size.
    pub free_bytes: u64,
    /// Size of the target's file system or block device.
    pub size_bytes: u64,
    /// The kernel's name for the underlying device, such as `mmcblk0`.
    pub device: Option<String>,
    /// The model name of the underlying device.
    pub model: Option<String>,
    /// The I/O scheduler of the underlying device.
    pub scheduler: Option<String>,
}

impl Place {
    /// Describes `path`, a directory or block device.
    pub fn of(path: &Path) -> Place {
        let uname = rustix::system::uname();
        let mut place = Place {
            path: path.to_owned(),
            kernel: uname.release().to_string_lossy().into_owned(),
            ..Place::default()
        };
        let machine = Machine::here();
        let Ok(metadata) = fs::metadata(path) else { return place };
        place.raw_device = metadata.file_type().is_block_device();
        if !place.raw_device {
            if let Ok(sizes) = rustix::fs::statvfs(path) {
                place.free_bytes = sizes.f_bavail * sizes.f_frsize;
                place.size_bytes = sizes.f_blocks * sizes.f_frsize;
            }
            let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            if let Some(mount) = machine.mounts().holding(&real) {
                place.mount_options = mount.all_options();
                place.compression = compression(&place.mount_options);
                place.file_system = Some(mount.filesystem.clone());
            }
        }
        if let Ok(Some(id)) = machine.device_below(path) {
            place.look_at_device(&machine, id);
        }
        place
    }

    fn look_at_device(&mut self, machine: &Machine, id: DeviceId) {
        if self.raw_device {
            let size = machine.device(id).and_then(|device| device.size_bytes).map_or(0, |size| size.0);
            (self.size_bytes, self.free_bytes) = (size, size);
        }
        let Some(disk) = machine.device(machine.disk_of(id)) else { return };
        self.device = disk.name;
        self.model = disk.model;
        self.scheduler = disk.scheduler;
        let below = machine.with_all_below(&[id]).into_iter();
        if below.filter_map(|id| machine.device(id)).any(|device| device.encrypted == Some(true)) {
            self.encryption = Some("dm-crypt".to_owned());
        }
    }

    /// Returns a warning for each property of this environment that can distort the results of a benchmark.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let folder = self.path.display();
        match self.file_system.as_deref() {
            Some("tmpfs" | "ramfs") => warnings.push(format!(
                "{folder} is in memory, so no device is measured. Choose a folder on the device."
            )),
            Some(kind @ ("overlay" | "nfs" | "nfs4" | "cifs" | "9p" | "fuse" | "virtiofs")) => warnings.push(format!(
                "{folder} is on {kind}, so the numbers include more than the work of the device. Choose a folder on the device's own file system, or the device."
            )),
            _ => {}
        }
        if self.device.as_deref().is_some_and(|name| name.starts_with("loop")) {
            warnings.push(format!(
                "{folder} is on a loop device, so the page cache of the backing file may serve requests. Choose a folder on the device's own file system."
            ));
        }
        if let Some(compression) = &self.compression {
            warnings.push(format!(
                "The file system compresses ({compression}): writes may be smaller than stated, and direct I/O may be \
                 buffered. Mount it without compression, or name the device."
            ));
        }
        if let Some(encryption) = &self.encryption {
            warnings.push(format!(
                "The device is encrypted ({encryption}): every number includes the processor time for encryption."
            ));
        }
        if self.size_bytes > 0 && !self.raw_device && self.free_bytes < self.size_bytes / 10 {
            warnings.push(format!(
                "{} % of the file system is free: flash is slower when nearly full. Free some space, or compare with --set near-full.",
                self.free_bytes * 100 / self.size_bytes
            ));
        }
        warnings
    }
}

fn compression(options: &[String]) -> Option<String> {
    options
        .iter()
        .find_map(|option| {
            ["compress=", "compress-force=", "compress_algorithm="]
                .iter()
                .find_map(|key| option.strip_prefix(key))
        })
        .filter(|algorithm| !matches!(*algorithm, "no" | "none"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_by_mount_options() {
        for (options, expected) in [
            ("rw,relatime,discard", None),
            ("rw,noatime,compress=zstd:3,ssd", Some("zstd:3")),
            ("rw,compress-force=lzo", Some("lzo")),
            ("rw,compress_algorithm=lz4", Some("lz4")),
            ("rw,compress=no", None),
            ("rw,compress=none", None),
        ] {
            let options: Vec<String> = options.split(',').map(str::to_owned).collect();
            assert_eq!(compression(&options).as_deref(), expected, "{options:?}");
        }
    }

    #[test]
    fn this_folder_is_somewhere() {
        let place = Place::of(Path::new("."));
        assert!(!place.raw_device && place.size_bytes > 0 && !place.kernel.is_empty());
    }
}
