//! Provides a file system on a loop device for tests.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fonio_core::{CollectedRows, Meta};
use fonio_record::{Progress, RecordError, RecordOptions, Selector, record};
use fonio_recording::{Recording, Tables};
use fonio_testing::{Need, has, skip};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Time for which unmounting is retried while the file system is busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// A loop device over a file. Dropping this value detaches the device.
pub struct LoopDevice(pub String);

impl LoopDevice {
    /// Creates the loop device, or skips the test with a reason.
    pub fn over(file: &Path, options: &[&str]) -> Option<LoopDevice> {
        let made = Command::new("losetup").args(["--find", "--show"]).args(options).arg(file).output();
        let Some(made) = made.ok().filter(|made| made.status.success()) else {
            skip(Need::Loop, "losetup cannot create a loop device here");
            return None;
        };
        Some(LoopDevice(String::from_utf8(made.stdout).unwrap().trim_end().to_owned()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// A file system on a loop device. Dropping this value unmounts the file system.
pub struct FileSystem {
    pub dir: tempfile::TempDir,
    pub device: LoopDevice,
}

impl FileSystem {
    /// Creates an ext4 file system, or skips the test with a reason.
    pub fn ext4(image: &Path) -> Option<FileSystem> {
        FileSystem::ext4_with(image, &[])
    }

    /// Creates an ext4 file system with more options of mkfs.ext4, or skips the test with a reason.
    pub fn ext4_with(image: &Path, more: &[&str]) -> Option<FileSystem> {
        let options = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        FileSystem::of("ext4", image, 64 << 20, &[&options[..], more].concat())
    }

    /// Creates a file system of this type and size with these options of its mkfs, or skips the test with a
    /// reason.
    pub fn of(kind: &str, image: &Path, bytes: u64, options: &[&str]) -> Option<FileSystem> {
        if !has(&[Need::Root]) {
            return None;
        }
        fs::File::create(image).unwrap().set_len(bytes).unwrap();
        let made = Command::new(format!("mkfs.{kind}")).args(options).arg(image).status();
        if !made.is_ok_and(|status| status.success()) {
            skip(Need::Loop, format!("mkfs.{kind} is missing or failed"));
            return None;
        }
        let device = LoopDevice::over(image, &[])?;
        let system = FileSystem { device, dir: tempfile::tempdir().unwrap() };
        if mount(&*system.device.0, system.dir.path(), kind, MountFlags::empty(), None).is_err() {
            skip(Need::Loop, format!("{kind} cannot be mounted here"));
            return None;
        }
        Some(system)
    }
}

/// Returns options to record this file system's device and a command.
pub fn options_of(system: &FileSystem, out: &Path, command: &[&str]) -> RecordOptions {
    RecordOptions {
        select: vec![Selector::Device(system.device.0.clone().into())],
        command: Some(command.iter().map(Into::into).collect()),
        overwrite: true,
        ..RecordOptions::new(out.join("recording"))
    }
}

/// A recording that was read into memory.
#[derive(Default)]
pub struct Recorded {
    pub meta: Meta,
    /// The process id of the recorded command.
    pub command_pid: u32,
    pub rows: CollectedRows,
}

impl Deref for Recorded {
    type Target = CollectedRows;
    fn deref(&self) -> &CollectedRows {
        &self.rows
    }
}

impl Recorded {
    /// Reads a recording into memory.
    pub fn read(dir: &Path) -> Recorded {
        let recording = Recording::open(dir).unwrap();
        let mut rows = CollectedRows::default();
        recording.replay(&mut rows, Tables::ALL).unwrap();
        Recorded { meta: recording.meta().clone(), command_pid: 0, rows }
    }

    /// Creates a recording, or skips the test with a reason. A diagnostic with the code `lacks` means that
    /// the kernel lacks BPF.
    pub fn record(options: &RecordOptions, lacks: &str) -> Option<Recorded> {
        let mut command_pid = 0;
        let outcome = record(options, &mut |progress| {
            if let Progress::CommandStarted { pid } = progress {
                command_pid = pid;
            }
        });
        match outcome {
            Ok(_) => {}
            Err(RecordError::NoTracefs | RecordError::NoBlockEvents | RecordError::Lockdown { .. }) => {
                skip(Need::Tracefs, "this kernel cannot trace");
                return None;
            }
            Err(error) => panic!("{error:?}"),
        }
        let recorded = Recorded { command_pid, ..Recorded::read(&options.out) };
        if let Some(found) = recorded.diagnostics.iter().find(|found| found.code == lacks) {
            skip(Need::Bpf, found.message.clone());
            return None;
        }
        Some(recorded)
    }

    /// Returns the name of a thread.
    pub fn comm(&self, tid: u32) -> &str {
        let named = self.threads.iter().rfind(|row| row.tid == tid && row.comm.is_some());
        named.and_then(|row| row.comm.as_deref()).unwrap_or("")
    }

    /// Returns the codes of the recording's diagnostics.
    pub fn codes(&self) -> Vec<&str> {
        self.diagnostics.iter().map(|found| found.code.as_str()).collect()
    }

    /// Returns the last known path of a file.
    pub fn path(&self, file_id: Option<u32>) -> &str {
        let file = self.files.iter().rfind(|row| Some(row.file_id) == file_id);
        file.and_then(|row| row.path.as_deref()).unwrap_or("")
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        // Another recorder on this machine may be looking up names of files on this file system.
        let began = Instant::now();
        while unmount(self.dir.path(), UnmountFlags::empty()) == Err(Errno::BUSY) {
            if began.elapsed() > PATIENCE {
                let _ = unmount(self.dir.path(), UnmountFlags::DETACH);
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
