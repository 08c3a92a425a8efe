use std::os::unix::fs::MetadataExt;

use fonio_system::device;
use fonio_testing::{Need, has, skip};

use super::content::SQLITE_HEADER;
use super::*;

fn inode_of(path: &Path) -> Inode {
    let metadata = path.metadata().unwrap();
    Inode { fs: device::from_dev(metadata.dev()), number: metadata.ino() }
}

#[test]
fn a_file_has_its_path_and_its_kind() {
    if !has(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let machine = Machine::here();
    if Roots::new(&machine).find(inode_of(dir.path())).is_none() {
        return skip(Need::Root, "the file system of this folder cannot find files by inode number");
    }
    let database = dir.path().join("notes.db");
    for (name, head, expected) in [
        ("notes.db", SQLITE_HEADER.as_slice(), Content::SqliteDb),
        ("notes.db-wal", b"\x37\x7f\x06\x82", Content::SqliteWal),
        ("notes.db-journal", b"\xd9\xd5\x05\xf9", Content::SqliteJournal),
        ("other-wal", b"text", Content::Data),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, head).unwrap();
        let mut files = Files::default();
        let inode = inode_of(&path);
        files.see(inode);
        files.look_up(&machine);
        let key = FileKey { inode, after: Timestamp(0) };
        let [named] = files.names(&key) else { panic!("{name} was not found") };
        assert_eq!((Path::new(&named.path), named.content), (path.as_path(), expected));
        // A renamed file gets a second name at the next look-up.
        let renamed = dir.path().join("renamed");
        std::fs::rename(&path, &renamed).unwrap();
        files.look_again(&machine);
        let names: Vec<&Path> = files.names(&key).iter().map(|named| Path::new(&named.path)).collect();
        assert_eq!(names, [path.as_path(), renamed.as_path()]);
        std::fs::rename(&renamed, &path).unwrap();
        assert!(database.exists());
    }
}

#[test]
fn a_later_file_with_the_same_number_has_its_own_names() {
    let inode = Inode { fs: fonio_core::DeviceId::new(8, 1), number: 12 };
    let named = |at, path: &str| Named { at: Timestamp(at), path: path.to_owned(), content: Content::Data };
    let mut files = Files::default();
    files.see(inode);
    files.known.get_mut(&inode).unwrap().names = vec![named(10, "a"), named(30, "b"), named(50, "c")];
    files.free(inode, Timestamp(20));
    files.free(inode, Timestamp(25));
    files.free(inode, Timestamp(60));
    let names = |after| {
        let key = FileKey { inode, after: Timestamp(after) };
        files.names(&key).iter().map(|named| named.path.as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((names(0), names(20), names(25), names(60)), ("a".into(), "".into(), "b c".into(), "".into()));
}

#[test]
fn files_that_were_opened_and_deleted_keep_their_names() {
    let inode = Inode { fs: fonio_core::DeviceId::new(8, 1), number: 12 };
    let opened =
        |at, path: &str, folder| Opened { at: Timestamp(at), inode, folder, path: path.as_bytes().to_vec() };
    let machine = Machine::at(Path::new("/nonexistent"));
    let mut files = Files::default();
    files.opened([opened(10, "/gone/a-journal", 0), opened(12, "/gone/other", 0)]);
    files.name_opened(Timestamp(12), &machine);
    files.free(inode, Timestamp(20));
    // The next file with this inode number. A relative path without a known folder and a file-system root are
    // ignored.
    files.opened([opened(25, "a-journal", 0), opened(27, "/gone", 12), opened(30, "/gone/b-journal", 0)]);
    // Deletions after time 9 have not been recorded yet.
    files.name_opened(Timestamp(9), &machine);
    files.name_opened(Timestamp(30), &machine);
    let names = |after| {
        let key = FileKey { inode, after: Timestamp(after) };
        files.names(&key).iter().map(|named| named.path.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (names(0), names(20)),
        (vec!["/gone/a-journal".to_owned()], vec!["/gone/b-journal".to_owned()])
    );
    assert_eq!(files.freed_before(inode, Timestamp(19)), Timestamp(0));
    assert_eq!(files.freed_before(inode, Timestamp(20)), Timestamp(20));
}

#[test]
fn a_deletion_counts_though_the_file_came_to_light_after_it() {
    let inode = Inode { fs: fonio_core::DeviceId::new(8, 1), number: 12 };
    let machine = Machine::at(Path::new("/nonexistent"));
    // There are three cases: the file is first seen in the same wake-up as the deletion, in the next wake-up,
    // or too late.
    for (wake_ups, expected) in [(0, 20), (1, 20), (2, 0)] {
        let mut files = Files::default();
        files.free(inode, Timestamp(20));
        (0..wake_ups).for_each(|_| files.look_up(&machine));
        files.see(inode);
        files.look_up(&machine);
        assert_eq!(
            files.freed_before(inode, Timestamp(30)),
            Timestamp(expected),
            "after {wake_ups} wake-ups"
        );
    }
}

#[test]
fn memory_is_bounded() {
    let mut files = Files::default();
    for number in 0..KNOWN_MAX as u64 + 10 {
        files.see(Inode { fs: fonio_core::DeviceId::new(8, 1), number });
    }
    assert_eq!(files.known.len(), KNOWN_MAX);
    let inode = Inode { fs: fonio_core::DeviceId::new(8, 1), number: 1 };
    (0..NAMES_MAX as u64 + 10).for_each(|at| files.free(inode, Timestamp(at)));
    assert_eq!((files.known[&inode].freed.len(), files.count), (NAMES_MAX, NAMES_MAX));
    files.count = NAMES_IN_ALL;
    let other = Inode { number: 2, ..inode };
    files.free(other, Timestamp(5));
    assert!(files.known[&other].freed.is_empty());
    (0..NAMES_IN_ALL as u64 + 10)
        .for_each(|at| files.free(Inode { number: u64::MAX, ..inode }, Timestamp(at)));
    assert_eq!(files.freed_unseen[0].len(), NAMES_IN_ALL);
}

#[test]
fn files_that_exist_for_a_moment_have_the_names_that_the_kernel_told() {
    if !has(&[Need::Root, Need::Fanotify]) {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let machine = Machine::here();
    let fs = inode_of(dir.path()).fs;
    let mut files = Files::watching(&machine, |device| device == fs);
    if files.names.is_none() {
        return skip(Need::Fanotify, "the kernel does not name deleted files (Linux 5.17 or later does)");
    }
    let mut seen = Vec::new();
    for name in ["a", "b", "c"] {
        let path = dir.path().join(name);
        std::fs::write(&path, name).unwrap();
        let inode = inode_of(&path);
        files.see(inode);
        let renamed = dir.path().join(format!("{name}2"));
        std::fs::rename(&path, &renamed).unwrap();
        std::fs::remove_file(&renamed).unwrap();
        let freed = now();
        files.free(inode, freed);
        seen.push((inode, [path, renamed]));
    }
    files.look_up(&machine);
    files.look_again(&machine);
    let mut after: FxHashMap<Inode, Timestamp> = FxHashMap::default();
    for (inode, expected) in seen {
        let key = FileKey { inode, after: after.get(&inode).copied().unwrap_or_default() };
        let names: Vec<&Path> = files.names(&key).iter().map(|named| Path::new(&named.path)).collect();
        assert_eq!(names, expected);
        after.insert(inode, deletion(&files, &key));
    }
}

/// Returns when this file was deleted.
fn deletion(files: &Files, key: &FileKey) -> Timestamp {
    let freed = &files.known[&key.inode].freed;
    freed[freed.partition_point(|freed| *freed <= key.after)]
}
