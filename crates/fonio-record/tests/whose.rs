//! Captures writes to a file system on a loop device, and checks the recorded owners.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::loop_ext4;

use std::collections::HashMap;
use std::path::Path;

use fonio_core::{Content, Op, Request};
use fonio_testing::{Need, skip};
use loop_ext4::{FileSystem, Recorded, options_of};

/// Records a shell script that runs in the file system. Returns `None` if the test was skipped.
fn recorded(system: &FileSystem, script: &str, scratch: &Path) -> Option<Recorded> {
    let script = format!("cd {} && {script}", system.dir.path().display());
    Recorded::record(&options_of(system, scratch, &["sh", "-c", &script]), "")
}

fn cause<'a>(rows: &'a Recorded, row: &Request) -> &'a str {
    row.cause_tid.map_or("", |tid| rows.comm(tid))
}

#[test]
fn write_back_is_named_with_the_process_that_wrote() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let script =
        "head -c 1000000 /dev/urandom > buffered; sleep 0.3; sync -f .; mv buffered renamed; sleep 0.3";
    let Some(rows) = recorded(&system, script, scratch.path()) else { return };
    let is_data = |row: &&Request| row.op == Op::Write && row.content == Content::Data;
    let data: Vec<&Request> = rows.requests.iter().filter(is_data).collect();
    let bytes: u64 = data.iter().map(|row| row.bytes.0).sum();
    assert!((1_000_000..1_100_000).contains(&bytes), "{bytes}");
    let renamed = system.dir.path().join("renamed");
    for row in data {
        assert_eq!(
            (cause(&rows, row), Path::new(rows.path(row.file_id))),
            ("head", renamed.as_path()),
            "{row:?}"
        );
        let queued_by = row.tid.map(|tid| rows.comm(tid));
        assert_ne!(queued_by, Some("head"), "the writer queued the write-back itself");
    }
}

#[test]
fn a_commit_is_named_with_the_process_in_fsync() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let script = "dd if=/dev/zero of=synced bs=4k count=20 conv=fsync 2>/dev/null; sleep 0.3";
    let Some(rows) = recorded(&system, script, scratch.path()) else { return };
    let of = |content| rows.requests.iter().filter(move |row| row.content == content && row.op == Op::Write);
    assert!(of(Content::FsJournal).count() > 0);
    assert!(of(Content::FsJournal).any(|row| cause(&rows, row) == "dd"));
    let bytes: u64 = of(Content::Data).map(|row| row.bytes.0).sum();
    assert_eq!(bytes, 20 * 4096);
    for row in of(Content::Data) {
        assert_eq!(
            (cause(&rows, row), Path::new(rows.path(row.file_id))),
            ("dd", &*system.dir.path().join("synced"))
        );
    }
}

#[test]
fn direct_io_and_reads_belong_to_their_files() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let script = "dd if=/dev/zero of=direct bs=64k count=4 oflag=direct 2>/dev/null; sync; \
                  cat direct > /dev/null; sleep 0.3";
    let Some(rows) = recorded(&system, script, scratch.path()) else { return };
    let bytes = |op, expected: &str| {
        let mut bytes = 0;
        for row in rows.requests.iter().filter(|row| row.op == op && row.content == Content::Data) {
            assert_eq!(Path::new(rows.path(row.file_id)), system.dir.path().join("direct"));
            assert_eq!(cause(&rows, row), expected);
            bytes += row.bytes.0;
        }
        bytes
    };
    assert_eq!(bytes(Op::Read, "cat"), 256 << 10);
    // Before Linux 6.6, ext4 does not show the owner of direct I/O.
    assert!([0, 256 << 10].contains(&bytes(Op::Write, "dd")));
}

#[test]
fn files_of_an_overlay_are_those_of_its_upper_folder() {
    let filesystems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !filesystems.lines().any(|line| line.ends_with("\toverlay")) {
        return skip(Need::Namespace, "this kernel has no overlayfs");
    }
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let made = "mkdir lower upper work merged && mount -t overlay overlay merged \
                -o lowerdir=$PWD/lower,upperdir=$PWD/upper,workdir=$PWD/work";
    let made = std::process::Command::new("sh").args(["-c", made]).current_dir(system.dir.path()).status();
    assert!(made.is_ok_and(|status| status.success()), "the overlay was not mounted");
    let script = "dd if=/dev/zero of=merged/kept bs=4k count=20 conv=fsync 2>/dev/null; \
                  for name in 1 2 3 4 5 6; do \
                  dd if=/dev/zero of=merged/gone$name bs=4k count=2 conv=fsync 2>/dev/null; rm merged/gone$name; \
                  done; sleep 0.3; umount merged";
    let Some(rows) = recorded(&system, script, scratch.path()) else { return };
    let upper = system.dir.path().join("upper");
    let data = rows.requests.iter().filter(|row| row.op == Op::Write && row.content == Content::Data);
    let mut bytes: HashMap<&Path, u64> = HashMap::new();
    for row in data.filter(|row| row.file_id.is_some()) {
        *bytes.entry(Path::new(rows.path(row.file_id))).or_default() += row.bytes.0;
    }
    assert_eq!(bytes.get(upper.join("kept").as_path()), Some(&(20 * 4096)), "{bytes:?}");
    // Kernels before Linux 5.17 do not report the names of deleted files.
    let is_known = |path: &&&Path| path.starts_with(&upper) || path.as_os_str().is_empty();
    assert_eq!(bytes.keys().filter(is_known).count(), bytes.len(), "{bytes:?}");
    // Threads blocked in fsync waited for these files, not for other files of the overlay.
    for file in rows.files.iter().filter(|file| file.path.as_ref().is_some_and(|path| path.contains("gone")))
    {
        assert!(Path::new(file.path.as_deref().unwrap()).starts_with(&upper), "{file:?}");
    }
}
