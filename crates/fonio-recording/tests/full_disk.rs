//! Checks that a file system that becomes full loses only the rows that do not fit.

#![allow(clippy::unwrap_used)]

use crate::generated;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use fonio_core::{CollectedRows, Diagnostic, Meta, Request, RowSink, Thread, Timestamp};
use fonio_recording::{
    FinishedRecording, Recording, RecordingError, Room, Table, Tables, Writer, WriterOptions,
};
use fonio_testing::{Need, skip_without};
use generated::Generated;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A tmpfs of limited size.
struct Disk {
    dir: tempfile::TempDir,
}

impl Disk {
    fn of(kib: u64) -> Disk {
        let dir = tempfile::tempdir().unwrap();
        let options = std::ffi::CString::new(format!("size={kib}k")).unwrap();
        mount("tmpfs", dir.path(), "tmpfs", MountFlags::empty(), Some(options.as_c_str())).unwrap();
        Disk { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn free_kib(&self) -> u64 {
        let stat = rustix::fs::statvfs(self.path()).unwrap();
        stat.f_bfree * stat.f_frsize / 1024
    }

    /// Fills the file system with a file of another program.
    fn fill(&self) {
        let mut file = fs::File::create(self.path().join("foreign")).unwrap();
        while file.write(&[1; 4096]).is_ok() {}
        assert_eq!(self.free_kib(), 0);
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(self.dir.path(), UnmountFlags::DETACH);
    }
}

fn rows(dir: &Path) -> CollectedRows {
    let mut rows = CollectedRows::default();
    Recording::open(dir).unwrap().replay(&mut rows, Tables::ALL).unwrap();
    rows
}

const GENERATED: Generated = Generated { seed: 3, requests: 200_000, depth: 32, bios: true, stuck: false };

fn write(dir: &Path, keep_what_fits: bool) -> Result<FinishedRecording, RecordingError> {
    let mut writer = Writer::create(dir, WriterOptions { keep_what_fits, ..WriterOptions::default() })?;
    let fed = GENERATED.feed(&mut writer);
    // Rows of threads may also arrive after the events.
    let late = Thread { tid: 77, comm: Some("late".to_owned()), ..Thread::default() };
    fed.and_then(|()| writer.thread(&late)).map_err(|error| error.downcast::<RecordingError>().unwrap())?;
    writer.install(Meta { ended: Some(Timestamp(u64::MAX / 2)), ..Meta::default() })
}

#[test]
fn the_rows_that_fit_are_kept_and_the_others_counted() {
    skip_without!(Root);
    let place = tempfile::tempdir().unwrap();
    let whole = write(&place.path().join("whole"), true).unwrap();
    assert_eq!((whole.incomplete.len(), whole.meta.lost.is_nothing()), (0, true));
    let whole = rows(&whole.path);
    for kib in [512, 1024, 3 << 10] {
        let disk = Disk::of(kib);
        let finished = write(&disk.path().join("run"), true).unwrap();
        assert_eq!(disk.names(), ["run"]);
        // The space that remains free is at most the margins of both kinds of tables, minus the table
        // footers.
        assert!(disk.free_kib() < 384, "{} of {kib} KiB are still free", disk.free_kib());
        let kept = rows(&finished.path);
        assert!(!kept.requests.is_empty() && kept.requests.len() < whole.requests.len());
        assert!(whole.requests.starts_with(&kept.requests), "{kib} KiB: early requests are missing");
        assert!(whole.bios.starts_with(&kept.bios), "{kib} KiB: early bios are missing");
        assert_eq!(kept.threads, whole.threads, "{kib} KiB: not all threads are kept");
        let missing = finished.incomplete.iter().find(|one| one.table == Table::Requests).unwrap();
        assert_eq!(missing.kept, kept.requests.len() as u64);
        assert_eq!(missing.kept + missing.missing, whole.requests.len() as u64);
        let full: Vec<&Diagnostic> = kept.diagnostics.iter().filter(|one| one.code == "disk-full").collect();
        assert_eq!(full.len(), finished.incomplete.len());
        assert!(full[0].message.contains(&missing.to_string()), "{}", full[0].message);
        // The recording shows the time from which events are missing.
        let gap = finished.meta.lost.gaps.first().unwrap();
        let last = |time: Option<Timestamp>| time.is_none_or(|time| time <= gap.after);
        assert!(
            last(kept.requests.last().map(Request::order_time))
                && last(kept.bios.last().map(|bio| bio.queued))
        );
        assert_eq!((gap.count, gap.before), (None, Timestamp(u64::MAX / 2)));
    }
}

#[test]
fn nothing_is_left_where_not_even_the_smallest_recording_fits_or_nobody_asked_for_a_part() {
    skip_without!(Root);
    for kib in [4, 20, 80, 200] {
        let disk = Disk::of(kib);
        let error = write(&disk.path().join("run"), true).unwrap_err();
        assert!(matches!(&error, RecordingError::NoRoom { .. }), "{kib} KiB: {error:?}");
        assert_eq!(disk.names(), [""; 0], "{kib} KiB");
    }
    let disk = Disk::of(512);
    match write(&disk.path().join("run"), false) {
        Err(RecordingError::Io { source, .. }) => assert_eq!(source.kind(), io::ErrorKind::StorageFull),
        other => panic!("{other:?}"),
    }
    assert_eq!(disk.names(), [""; 0]);
}

/// Another program fills the file system at a moment that the writer cannot see coming.
#[test]
fn a_file_system_that_somebody_else_fills_meanwhile_leaves_a_readable_recording() {
    skip_without!(Root);
    // There is room for a small recording, but not for all rows.
    let disk = Disk::of(3 << 10);
    let place = tempfile::tempdir().unwrap();
    let rows = self::rows(&write(&place.path().join("whole"), true).unwrap().path);
    for held_before in [false, true] {
        let room = Room::hold(disk.path()).unwrap();
        let room = held_before.then_some(room);
        if held_before {
            disk.fill();
        }
        let dir = disk.path().join("run");
        let options = WriterOptions { keep_what_fits: true, room, ..WriterOptions::default() };
        let mut writer = Writer::create(&dir, options).unwrap();
        for (at, request) in rows.requests.iter().enumerate() {
            if at == 20_000 && !held_before {
                disk.fill();
            }
            writer.request(request).unwrap();
            writer.settled(request.order_time()).unwrap();
        }
        let finished = writer.install(Meta::default()).unwrap();
        assert_eq!(finished.incomplete[0].table, Table::Requests);
        let kept = self::rows(&finished.path);
        assert!(rows.requests.starts_with(&kept.requests), "early requests are missing");
        assert!(kept.requests.len() > 1000, "only {} requests are kept", kept.requests.len());
        assert!(kept.diagnostics.iter().any(|one| one.code == "disk-full"));
        assert_eq!(disk.names().len(), 2);
        fs::remove_dir_all(&dir).unwrap();
        fs::remove_file(disk.path().join("foreign")).unwrap();
    }
}

/// A quota of btrfs, which `statvfs` does not show and which also holds for root.
struct Quota {
    place: tempfile::TempDir,
    device: String,
}

impl Quota {
    fn of(mib: u64) -> Option<Quota> {
        let run = |words: &[&str]| {
            let out = Command::new(words[0]).args(&words[1..]).output().ok()?;
            out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
        };
        let place = tempfile::tempdir().unwrap();
        let (image, dir) = (place.path().join("image"), place.path().join("mounted"));
        fs::File::create(&image).and_then(|file| file.set_len(256 << 20)).unwrap();
        fs::create_dir(&dir).unwrap();
        let (image, dir) = (image.to_str().unwrap(), dir.to_str().unwrap());
        run(&["mkfs.btrfs", "-q", image])?;
        let device = run(&["losetup", "--show", "-f", image])?;
        let quota = Quota { place, device };
        mount(quota.device.as_str(), dir, "btrfs", MountFlags::empty(), None).ok()?;
        run(&["btrfs", "quota", "enable", dir])?;
        // The kernel begins to count in the background. Until it has finished, its numbers are too large or too small.
        run(&["btrfs", "quota", "rescan", "-w", dir])?;
        let mine = quota.path();
        let mine = mine.to_str().unwrap();
        run(&["btrfs", "subvolume", "create", mine])?;
        run(&["btrfs", "qgroup", "limit", &format!("{mib}M"), mine])?;
        Some(quota)
    }

    /// Returns the folder whose size is limited.
    fn path(&self) -> PathBuf {
        self.place.path().join("mounted/mine")
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = unmount(self.place.path().join("mounted"), UnmountFlags::DETACH);
        let _ = Command::new("losetup").args(["-d", &self.device]).output();
    }
}

#[test]
fn a_quota_leaves_a_readable_recording() {
    skip_without!(Root, Loop);
    let Some(quota) = Quota::of(3) else {
        return fonio_testing::skip(Need::Filesystems, "btrfs with a quota cannot be made here");
    };
    let stat = rustix::fs::statvfs(quota.path()).unwrap();
    assert!(stat.f_bavail * stat.f_frsize > 64 << 20, "statvfs does not show the quota");
    let finished = write(&quota.path().join("run"), true).unwrap();
    assert!(finished.incomplete.iter().any(|one| one.table == Table::Requests), "{:?}", finished.incomplete);
    let kept = rows(&finished.path);
    assert!(!kept.requests.is_empty());
    assert!(kept.threads.iter().any(|thread| thread.comm.as_deref() == Some("late")));
    fs::remove_dir_all(&finished.path).unwrap();
}
