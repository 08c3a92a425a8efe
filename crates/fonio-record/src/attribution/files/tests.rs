use std::os::unix::fs::MetadataExt;

use fonio_system::device;
use fonio_testing::{Need, has, skip};

use super::content::SQLITE_HEADER;
use super::*;

fn inode_of(path: &Path) -> Inode {
    let metadata = path.metadata().unwrap();
    Inode { fs: device::from_dev(metadata.dev()), number: metadata.ino() }
}

fn names_at(files: &Files, inode: Inode, at: u64) -> Vec<&Path> {
    let life = files.life(inode, Timestamp(at));
    let names = life.map_or(&[][..], |life| files.names(&life));
    names.iter().map(|named| Path::new(&named.path)).collect()
}

/// Returns a folder whose files can be found by inode number; `None` if that is not possible here.
fn folder_with_numbers(machine: &Machine) -> Option<tempfile::TempDir> {
    if !has(&[Need::Root]) {
        return None;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    if Roots::new(machine).find(inode_of(dir.path()), None).is_none() {
        skip(Need::Root, "the file system of this folder cannot find files by inode number");
        return None;
    }
    Some(dir)
}

#[test]
fn a_file_has_its_path_and_its_kind() {
    let machine = Machine::here();
    let Some(dir) = folder_with_numbers(&machine) else { return };
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
        files.look_up(&machine, Timestamp(0));
        let [named] = files.known[&inode].names.as_slice() else { panic!("{name} was not found") };
        assert_eq!((Path::new(&named.path), named.content), (path.as_path(), expected));
        // A renamed file gets a second name at the next look-up.
        let renamed = dir.path().join("renamed");
        std::fs::rename(&path, &renamed).unwrap();
        files.look_again(&machine);
        assert_eq!(names_at(&files, inode, now().0), [path.as_path(), renamed.as_path()]);
        std::fs::rename(&renamed, &path).unwrap();
        assert!(database.exists());
    }
}

#[test]
fn a_busy_file_gets_its_name_while_new_files_appear_all_the_time() {
    let machine = Machine::here();
    let Some(dir) = folder_with_numbers(&machine) else { return };
    let path = dir.path().join("log");
    std::fs::write(&path, "x").unwrap();
    let inode = inode_of(&path);
    let mut files = Files::default();
    files.see(inode);
    for number in 0..=LOOKUPS_PER_WAKE as u64 {
        files.see(Inode { number: u64::from(u32::MAX) - number, ..inode });
    }
    files.look_up(&machine, Timestamp(0));
    let [named] = files.known[&inode].names.as_slice() else { panic!("it was not looked up") };
    assert_eq!(Path::new(&named.path), path);
}

/// The generation distinguishes folders that had the same inode number one after the other.
#[test]
fn a_folder_below_an_overlay_has_its_generation() {
    if !has(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let machine = Machine::here();
    let below = inode_of(dir.path());
    let generation = numbers_at(dir.path()).and_then(|numbers| numbers.generation);
    if generation.is_none() || Roots::new(&machine).find(below, generation).is_none() {
        return skip(Need::Root, "the file system of this folder cannot find files by inode number");
    }
    let path = dir.path().join("file");
    std::fs::write(&path, "x").unwrap();
    let fs = DeviceId::new(0, 60);
    let in_overlay = |inode: Inode| Inode { fs, ..inode };
    let opened = Opened {
        at: Timestamp(1),
        inode: in_overlay(inode_of(&path)),
        folder: Some(FolderId { inode: in_overlay(below), generation: None }),
        path: b"file".to_vec(),
    };
    for (upper, expected) in [
        (dir.path(), Some((inode_of(&path), Some(FolderId { inode: below, generation })))),
        (Path::new("/the/upper/folder/of/another/container"), None),
    ] {
        let mut files = Files::default();
        files.overlays.insert(fs, Some(Overlay { upper: upper.to_owned(), fs: below.fs }));
        let found = files.opened_below(&opened, &machine, &mut Roots::new(&machine));
        assert_eq!(found.map(|found| (found.inode, found.folder)), expected);
    }
}

#[test]
fn a_copy_has_the_path_that_the_user_knows() {
    let setting = CommandSetting {
        copies: vec![("/home/u/.fonio-proof-7-run1/upper".into(), "/home/u/app".into())],
        ..CommandSetting::default()
    };
    let files = Files::default().with_setting(&setting, &Machine::at(Path::new("/nonexistent")));
    for (path, expected) in [
        ("/home/u/.fonio-proof-7-run1/upper/notes.db", "/home/u/app/notes.db"),
        ("/home/u/.fonio-proof-7-run1/upper/a/b-journal", "/home/u/app/a/b-journal"),
        ("/home/u/.fonio-proof-7-run1/upper2/notes.db", "/home/u/.fonio-proof-7-run1/upper2/notes.db"),
        ("/home/u/app/notes.db", "/home/u/app/notes.db"),
    ] {
        assert_eq!(files.told(path), expected);
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
    files.settle_names();
    let names = |at| names_at(&files, inode, at);
    let none: [&Path; 0] = [];
    assert_eq!(names(20), [Path::new("a")]);
    assert_eq!(names(25), none);
    assert_eq!(names(60), [Path::new("b"), Path::new("c")]);
    assert_eq!(names(61), none);
}

#[test]
fn files_that_were_opened_and_deleted_keep_their_names() {
    let inode = Inode { fs: fonio_core::DeviceId::new(8, 1), number: 12 };
    let opened = |at, path: &str, folder| {
        let folder = FolderId { inode: Inode { number: folder, ..inode }, generation: None };
        let folder = Some(folder).filter(|folder| folder.inode.number != 0);
        Opened { at: Timestamp(at), inode, folder, path: path.as_bytes().to_vec() }
    };
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
    files.settle_names();
    assert_eq!(names_at(&files, inode, 20), [Path::new("/gone/a-journal")]);
    assert_eq!(names_at(&files, inode, 21), [Path::new("/gone/b-journal")]);
}

#[test]
fn a_deletion_counts_though_the_file_came_to_light_after_it() {
    let inode = Inode { fs: fonio_core::DeviceId::new(8, 1), number: 12 };
    let machine = Machine::at(Path::new("/nonexistent"));
    // There are three cases: the file is first seen in the same wake-up as the deletion, in the next wake-up,
    // or too late.
    for (wake_ups, before) in
        [(0, Some(Told::After(Timestamp(0)))), (1, Some(Told::After(Timestamp(0)))), (2, None)]
    {
        let mut files = Files::default();
        files.free(inode, Timestamp(20));
        (0..wake_ups).for_each(|_| files.look_up(&machine, Timestamp(0)));
        files.see(inode);
        files.look_up(&machine, Timestamp(0));
        let told = |at| files.life(inode, Timestamp(at)).map(|life| life.told);
        let after = Some(Told::After(Timestamp(20)));
        assert_eq!((told(20), told(21)), (before, after), "after {wake_ups} wake-ups");
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
    (0..UNSEEN_MAX as u64 + 10).for_each(|at| files.free(Inode { number: u64::MAX, ..inode }, Timestamp(at)));
    assert_eq!(files.freed_unseen[0].len(), UNSEEN_MAX);
    assert_eq!(files.forgotten, Timestamp(UNSEEN_MAX as u64 + 9));
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
        let used = now();
        let renamed = dir.path().join(format!("{name}2"));
        std::fs::rename(&path, &renamed).unwrap();
        std::fs::remove_file(&renamed).unwrap();
        files.free(inode, now());
        seen.push((inode, used, [path, renamed]));
    }
    files.look_up(&machine, Timestamp(0));
    files.look_again(&machine);
    for (inode, used, expected) in seen {
        assert_eq!(names_at(&files, inode, used.0), expected);
    }
}

#[test]
fn a_file_is_found_by_its_generation_only_while_it_exists() {
    if !has(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let machine = Machine::here();
    let mut roots = Roots::new(&machine);
    let path = dir.path().join("before");
    std::fs::write(&path, "before").unwrap();
    let inode = inode_of(&path);
    let Some(before) = roots.look(inode, None).ok().and_then(|found| found.generation) else {
        return skip(Need::Root, "the file system of this folder cannot find files by inode number");
    };
    assert_eq!(roots.find(inode, Some(before)).unwrap().0, path);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(roots.look(inode, Some(before)).unwrap_err(), NotFound::NoFile);
    for number in 0..1000 {
        let later = dir.path().join(number.to_string());
        std::fs::write(&later, "later").unwrap();
        if inode_of(&later) == inode {
            let found = roots.look(inode, None).unwrap();
            assert_eq!(found.path, Some(later));
            assert_ne!(found.generation, Some(before));
            assert_eq!(roots.look(inode, Some(before)).unwrap_err(), NotFound::NoFile);
            return;
        }
    }
    skip(Need::Root, "the file system of this folder does not reuse inode numbers");
}
