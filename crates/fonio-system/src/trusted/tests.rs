//! Tests which folders and files are trusted, with the user that runs the tests. Another user's files need
//! root; see `crates/fonio/tests/hostile.rs`.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use expect_test::{Expect, expect};

use super::*;

struct Bed(tempfile::TempDir);

impl Bed {
    fn new() -> Bed {
        Bed(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn folder(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("a new folder");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("own folder");
        path
    }

    /// Shows an error without the path of the test's folder.
    fn check<T: std::fmt::Debug>(&self, outcome: Result<T, SystemError>, expected: Expect) {
        let error = crate::chain(&outcome.expect_err("it is refused"));
        expected.assert_eq(&error.replace(&self.0.path().display().to_string(), "BED"));
    }
}

#[test]
fn a_new_folder_and_its_files_are_private() {
    let bed = Bed::new();
    assert!(TrustedFolder::open(&bed.path("a/b")).expect("nothing is wrong").is_none());
    let folder = TrustedFolder::make(&bed.path("a/b")).expect("it can be made");
    folder.replace("file", b"content").expect("it can be written");
    drop(folder.create_new("other").expect("it can be created"));
    for (name, mode) in [("a", 0o700), ("a/b", 0o700), ("a/b/file", 0o600), ("a/b/other", 0o600)] {
        let metadata = fs::metadata(bed.path(name)).expect("it is there");
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{name}");
    }
    assert_eq!(folder.read("file", 7).expect("it can be read").as_deref(), Some(&b"content"[..]));
    assert_eq!(folder.read("missing", 7).expect("nothing is wrong"), None);
    assert_eq!(folder.names().expect("it can be listed"), ["file", "other"]);
    let file = folder.open_file("file").expect("it can be opened").expect("it is there");
    assert!(folder.is_still("file", &file));
    folder.replace("file", b"new").expect("it can be written");
    assert!(!folder.is_still("file", &file));
    folder.remove("file").expect("it can be removed");
    folder.remove("file").expect("removing a missing file succeeds");
    for name in ["other.12.new", "other.new", "file.12.new"] {
        drop(folder.create_new(name).expect("it can be created"));
    }
    folder.remove_unfinished("other").expect("it can be removed");
    assert_eq!(folder.names().expect("it can be listed"), ["file.12.new", "other", "other.new"]);
}

#[test]
fn folders_that_others_can_change_are_refused() {
    let bed = Bed::new();
    let open = bed.folder("open", 0o777);
    fs::create_dir(open.join("state")).expect("a new folder");
    bed.check(
        TrustedFolder::make(&open.join("state")),
        expect!["cannot use BED/open: other users can write to it (mode 0777); check its contents, then run `chmod go-w BED/open`"],
    );
    bed.check(
        TrustedFolder::make(&bed.folder("group", 0o702)),
        expect!["cannot use BED/group: other users can write to it (mode 0702); check its contents, then run `chmod go-w BED/group`"],
    );
    // A sticky folder protects its entries, but not fonio's files directly in it.
    let sticky = bed.folder("sticky", 0o1777);
    TrustedFolder::make(&sticky.join("state")).expect("its owner alone can change it");
    bed.check(
        TrustedFolder::make(&sticky),
        expect!["cannot use BED/sticky: other users can write to it (mode 1777); check its contents, then run `chmod go-w BED/sticky`"],
    );
    fs::write(bed.path("file"), "").expect("a new file");
    bed.check(
        TrustedFolder::make(&bed.path("file")),
        expect!["cannot use BED/file: it is a file, not a folder; remove it"],
    );
}

#[test]
fn links_of_this_user_lead_only_to_trusted_folders() {
    let bed = Bed::new();
    bed.folder("real", 0o700);
    bed.folder("open", 0o777);
    for (name, to) in [("good", "real"), ("bad", "open"), ("up", "real/../real"), ("round", "round")] {
        symlink(to, bed.path(name)).expect("a new link");
    }
    symlink(bed.path("real"), bed.path("absolute")).expect("a new link");
    for name in ["good", "up", "absolute"] {
        let folder = TrustedFolder::make(&bed.path(name)).expect("it leads to a trusted folder");
        folder.replace("file", name.as_bytes()).expect("it can be written");
        assert_eq!(fs::read_to_string(bed.path("real/file")).expect("it is there"), name);
        assert_eq!(folder.path(), bed.path(name));
    }
    bed.check(
        TrustedFolder::make(&bed.path("bad")),
        expect!["cannot use BED/open: other users can write to it (mode 0777); check its contents, then run `chmod go-w BED/open`"],
    );
    bed.check(
        TrustedFolder::make(&bed.path("round")),
        expect!["cannot follow BED/round: Too many levels of symbolic links (os error 40)"],
    );
}

#[test]
fn only_regular_files_of_a_known_size_are_opened() {
    let bed = Bed::new();
    let folder = TrustedFolder::make(&bed.path("state")).expect("it can be made");
    let at = |name: &str| bed.path("state").join(name);
    symlink("/etc/passwd", at("link")).expect("a new link");
    rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a new pipe");
    fs::create_dir(at("folder")).expect("a new folder");
    fs::write(at("open"), "x").expect("a new file");
    fs::set_permissions(at("open"), Permissions::from_mode(0o666)).expect("own file");
    File::create(at("huge")).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
    let check = |name: &str, expected: Expect| bed.check(folder.read(name, 1000), expected);
    check("link", expect!["cannot use BED/state/link: it is a symbolic link, not a file; remove it"]);
    check("pipe", expect!["cannot use BED/state/pipe: it is a named pipe, not a file; remove it"]);
    check("folder", expect!["cannot use BED/state/folder: it is a folder, not a file; remove it"]);
    check(
        "open",
        expect![
            "cannot use BED/state/open: other users can write to it (mode 0666); check its contents, then run `chmod go-w BED/state/open`"
        ],
    );
    check(
        "huge",
        expect![
            "cannot use BED/state/huge: it has 1099511627776 bytes, but fonio writes at most 1000 there; remove it"
        ],
    );
    bed.check(
        folder.open_or_create("pipe"),
        expect!["cannot use BED/state/pipe: it is a named pipe, not a file; remove it"],
    );
    bed.check(folder.create_new("link"), expect!["cannot create BED/state/link: File exists (os error 17)"]);
    // Replacing a link replaces the link, not the file that it names.
    folder.replace("link", b"own").expect("it can be written");
    assert!(at("link").symlink_metadata().expect("it is there").is_file());
}

#[test]
fn a_private_group_has_one_member() {
    let passwd = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000:Ann:/home/ann:/bin/sh\n\
        bob:x:1001:100::/home/bob:/bin/sh\ncat:x:1002:100::/home/cat:/bin/sh\nbroken\n";
    let groups = "root:x:0:\nusers:x:100:\nann:x:1000:\ndan:x:1003:\nbroken\n";
    for (groups, user, group, expected) in [
        (groups, 1000, 1000, true),
        (groups.replace("1000:", "1000:ann").as_str(), 1000, 1000, true),
        (groups.replace("1000:", "1000:bob").as_str(), 1000, 1000, false),
        (groups.replace("1000:", "1000:ann,bob").as_str(), 1000, 1000, false),
        (groups, 1001, 1000, false),
        (groups, 1001, 100, false),
        (groups, 1003, 1003, false),
        ("", 1000, 1000, false),
    ] {
        assert_eq!(has_only(passwd, groups, user, group), expected, "{groups} {user} {group}");
    }
}

#[test]
#[should_panic(expected = "is not the name of an entry")]
fn a_name_cannot_leave_its_folder() {
    let bed = Bed::new();
    let folder = TrustedFolder::make(&bed.path("state")).expect("it can be made");
    let _ = folder.read("../other", 1);
}
