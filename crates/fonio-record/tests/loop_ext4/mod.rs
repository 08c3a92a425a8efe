//! A file system on a loop device, for tests.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fonio_record::{Progress, RecordError, RecordOptions, record};
use fonio_recording::Recording;
use fonio_testing::{Need, has, skip};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// How long a file system may be busy after its test.
const PATIENCE: Duration = Duration::from_secs(10);

/// A file system on a loop device; unmounted and detached when dropped.
pub struct FileSystem {
    pub device: String,
    pub dir: tempfile::TempDir,
}

impl FileSystem {
    /// Makes an ext4, or reports why this machine cannot.
    pub fn ext4(image: &Path) -> Option<FileSystem> {
        if !has(&[Need::Root]) {
            return None;
        }
        fs::File::create(image).unwrap().set_len(64 << 20).unwrap();
        let options = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        if !Command::new("mkfs.ext4").args(options).arg(image).status().is_ok_and(|status| status.success()) {
            skip(Need::Loop, "mkfs.ext4 is missing or failed");
            return None;
        }
        let made = Command::new("losetup").args(["--find", "--show"]).arg(image).output();
        let Some(made) = made.ok().filter(|made| made.status.success()) else {
            skip(Need::Loop, "losetup makes no loop device here");
            return None;
        };
        let device = String::from_utf8(made.stdout).unwrap().trim_end().to_owned();
        let dir = tempfile::tempdir().unwrap();
        let system = FileSystem { device, dir };
        if mount(system.device.as_str(), system.dir.path(), "ext4", MountFlags::empty(), None).is_err() {
            skip(Need::Loop, "ext4 cannot be mounted here");
            return None;
        }
        Some(system)
    }
}

#[allow(dead_code, reason = "not every test that has a file system records with this")]
/// Records; or reports why this machine cannot.
pub fn recording(options: &RecordOptions, progress: &mut dyn FnMut(Progress<'_>)) -> Option<Recording> {
    match record(options, progress) {
        Ok(_) => Some(Recording::open(&options.out).unwrap()),
        Err(RecordError::NoTracefs | RecordError::NoBlockEvents | RecordError::Lockdown { .. }) => {
            skip(Need::Tracefs, "this kernel does not trace");
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        // Another recorder on this machine can be looking for the names of its files.
        let began = Instant::now();
        while unmount(self.dir.path(), UnmountFlags::empty()) == Err(Errno::BUSY) {
            if began.elapsed() > PATIENCE {
                let _ = unmount(self.dir.path(), UnmountFlags::DETACH);
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}
