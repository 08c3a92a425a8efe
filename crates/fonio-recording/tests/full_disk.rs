//! Checks that a file system that becomes full loses only the rows that do not fit.

#![allow(clippy::unwrap_used)]

use crate::generated;

use std::fs;
use std::io;
use std::path::Path;

use fonio_core::{CollectedRows, Diagnostic, Meta, Request, RowSink, Thread, Timestamp};
use fonio_recording::{FinishedRecording, Recording, RecordingError, Table, Tables, Writer, WriterOptions};
use fonio_testing::skip_without;
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
    for (kib, keep_what_fits) in [(16, true), (512, false)] {
        let disk = Disk::of(kib);
        match write(&disk.path().join("run"), keep_what_fits) {
            Err(RecordingError::Io { source, .. }) => assert_eq!(source.kind(), io::ErrorKind::StorageFull),
            other => panic!("{other:?}"),
        }
        assert_eq!(disk.names(), [""; 0], "{kib} KiB");
    }
}
