//! Checks that a recording is either complete or does not exist, and that no data of the user is lost.

#![allow(clippy::unwrap_used)]

use crate::generated;

use std::fs::{self, File};
use std::path::Path;

use fonio_core::Meta;
use fonio_recording::{Recording, RecordingError, Table, Writer, WriterOptions, is_recording};
use generated::Generated;

fn write(dir: &Path, requests: u64, overwrite: bool) -> Result<Meta, RecordingError> {
    let mut writer = Writer::create(dir, WriterOptions { overwrite, ..WriterOptions::default() })?;
    Generated { requests, ..Generated::default() }.feed(&mut writer).unwrap();
    writer.finish(Meta::default())
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn rows(dir: &Path) -> u64 {
    Recording::open(dir).unwrap().rows(Table::Requests)
}

#[test]
fn a_dropped_writer_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let mut writer = Writer::create(&dir, WriterOptions::default()).unwrap();
    Generated { requests: 100_000, ..Generated::default() }.feed(&mut writer).unwrap();
    assert_eq!(names(place.path()).len(), 1);
    assert!(!is_recording(&dir));
    drop(writer);
    assert_eq!(names(place.path()), [""; 0]);
}

#[test]
fn overwriting_is_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    write(&dir, 10, false).unwrap();
    assert!(matches!(write(&dir, 20, false), Err(RecordingError::Exists { .. })));
    assert_eq!(rows(&dir), 10);
    write(&dir, 20, true).unwrap();
    assert_eq!(rows(&dir), 20);
    assert_eq!(names(place.path()), ["run"]);
}

#[test]
fn an_empty_directory_and_a_link_to_a_recording_are_places() {
    let place = tempfile::tempdir().unwrap();
    let (dir, link) = (place.path().join("run"), place.path().join("latest"));
    fs::create_dir(&dir).unwrap();
    write(&dir, 10, false).unwrap();
    std::os::unix::fs::symlink("run", &link).unwrap();
    write(&link, 20, true).unwrap();
    assert_eq!(rows(&dir), 20);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(names(place.path()), ["latest", "run"]);
}

#[test]
fn what_is_not_a_recording_is_never_replaced() {
    let place = tempfile::tempdir().unwrap();
    let check = |name: &str, prepare: &dyn Fn(&Path), why: &str| {
        let dir = place.path().join(name);
        prepare(&dir);
        for overwrite in [false, true] {
            let error = write(&dir, 10, overwrite).expect_err(name);
            assert!(matches!(error, RecordingError::NotOurs { .. }), "{error:?}");
            assert!(error.to_string().contains(why), "{error}");
        }
    };
    check("file", &|dir| fs::write(dir, "text").unwrap(), "it is a file");
    check(
        "documents",
        &|dir| {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join("thesis.txt"), "text").unwrap();
        },
        "\"thesis.txt\", which is not part of a recording",
    );
    check(
        "annotated",
        &|dir| {
            write(dir, 10, false).unwrap();
            fs::write(dir.join("notes.txt"), "text").unwrap();
        },
        "notes.txt",
    );
    check(
        "tables",
        &|dir| {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join("requests.parquet"), "text").unwrap();
        },
        "the directory has no meta.json",
    );
    for dir in ["/", "..", "."] {
        assert!(matches!(write(Path::new(dir), 10, true), Err(RecordingError::NotOurs { .. })));
    }
    assert_eq!(names(place.path()), ["annotated", "documents", "file", "tables"]);
}

#[test]
fn the_directory_above_must_be_there() {
    let place = tempfile::tempdir().unwrap();
    let error = write(&place.path().join("a/b"), 10, false).expect_err("there is no a");
    assert!(matches!(&error, RecordingError::Io { action: "create", .. }), "{error:?}");
}

/// A process id that is never used, because it is above the kernel's maximum.
const DEAD: u32 = 1 << 30;

#[test]
fn leftovers_of_killed_writers_go() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: String| place.path().join(name);
    let own = std::process::id();
    for name in [
        format!(".run.partial-{DEAD}"),
        format!(".run.partial-{DEAD}-2"),
        format!(".run.replaced-{DEAD}"),
        // The leftover of an earlier process that had the same process id. This occurs in containers.
        format!(".run.partial-{own}"),
    ] {
        fs::create_dir(at(name.clone())).unwrap();
        fs::write(at(name).join("requests.parquet"), "half").unwrap();
    }
    // The following directories are not leftovers: a directory of another recording, a directory of a running
    // process, a directory locked by a process in another namespace, and a directory with another name.
    let kept = [
        format!(".other.partial-{DEAD}"),
        ".run.partial-1".to_owned(),
        format!(".run.partial-{}", DEAD + 1),
        "run.partial-7".to_owned(),
    ];
    for name in &kept {
        fs::create_dir(at(name.clone())).unwrap();
    }
    let locked = File::open(at(kept[2].clone())).unwrap();
    locked.try_lock().unwrap();

    let dir = place.path().join("run");
    fs::create_dir(&dir).unwrap();
    write(&dir, 10, false).unwrap();
    let mut expected = kept.to_vec();
    expected.push("run".to_owned());
    expected.sort();
    assert_eq!(names(place.path()), expected);
}

#[test]
fn a_recording_out_of_its_place_comes_back() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    write(&dir, 10, false).unwrap();
    fs::rename(&dir, place.path().join(format!(".run.replaced-{DEAD}"))).unwrap();
    assert!(matches!(write(&dir, 20, false), Err(RecordingError::Exists { .. })));
    assert_eq!(rows(&dir), 10);
    assert_eq!(names(place.path()), ["run"]);
}

#[test]
fn two_writers_of_one_name_do_not_meet() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let mut first = Writer::create(&dir, WriterOptions::default()).unwrap();
    let mut second = Writer::create(&dir, WriterOptions::default()).unwrap();
    Generated { requests: 10, ..Generated::default() }.feed(&mut first).unwrap();
    Generated { requests: 20, ..Generated::default() }.feed(&mut second).unwrap();
    first.finish(Meta::default()).unwrap();
    assert!(matches!(second.finish(Meta::default()), Err(RecordingError::Exists { .. })));
    assert_eq!(rows(&dir), 10);
    assert_eq!(names(place.path()), ["run"]);
}

#[test]
fn a_failure_at_the_very_end_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let writer = Writer::create(&dir, WriterOptions::default()).unwrap();
    let partial = place.path().join(&names(place.path())[0]);
    fs::create_dir(partial.join("meta.json")).unwrap();
    let error = writer.finish(Meta::default()).expect_err("meta.json cannot be written");
    assert!(matches!(&error, RecordingError::Io { action: "write", .. }), "{error:?}");
    assert_eq!(names(place.path()), [""; 0]);
}

#[test]
fn two_writers_of_one_name_never_share_a_directory() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let options = WriterOptions { other_name_if_taken: true, ..WriterOptions::default() };
    fs::write(place.path().join("run-2"), "somebody's file").unwrap();
    let at_once = std::sync::Barrier::new(4);
    let mut finished: Vec<_> = std::thread::scope(|scope| {
        let threads = [10, 20, 30, 40].map(|requests| {
            let (dir, options, at_once) = (&dir, options.clone(), &at_once);
            scope.spawn(move || {
                let mut writer = Writer::create(dir, options).unwrap();
                Generated { requests, ..Generated::default() }.feed(&mut writer).unwrap();
                at_once.wait();
                (writer.install(Meta::default()).unwrap().path, requests)
            })
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    finished.sort();
    assert_eq!(names(place.path()), ["run", "run-2", "run-3", "run-4", "run-5"]);
    for ((path, requests), name) in finished.iter().zip(["run", "run-3", "run-4", "run-5"]) {
        assert_eq!(path, &place.path().join(name));
        assert_eq!(rows(path), *requests, "{name}");
    }
    // A writer that begins when the name is already in use also chooses another name.
    let writer = Writer::create(&dir, options).unwrap();
    assert_eq!(writer.install(Meta::default()).unwrap().path, place.path().join("run-6"));
}
