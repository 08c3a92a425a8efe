//! Tests files that the daemon knows by their file handles.

use crate::mounts::{folder_on_disk, piece, shell};
use crate::support::{Mounted, can_mount};

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use fonio_testing::{Need, skip};
use rustix::mount::UnmountFlags;

/// Mounts a folder on a disk so that the daemon holds the handles of new files. Returns `None` if this machine
/// cannot mount, or the disk's file system has no handles.
#[track_caller]
fn mount(options: &str) -> Option<Mounted> {
    if !can_mount() {
        return None;
    }
    let (folder, source) = folder_on_disk();
    let mounted = Mounted::over(folder, source, &format!("{options},files=256,timeout=0s"));
    if !mounted.use_up_descriptors() {
        skip(Need::FileHandles, format!("{} has none", mounted.source.display()));
        return None;
    }
    Some(mounted)
}

#[test]
fn a_file_that_is_known_by_its_handle_is_like_any_other() {
    for options in ["mode=auto", "mode=buffered"] {
        let Some(mounted) = mount(options) else { return };
        let path = mounted.path("file");
        let content = piece(0, 5000);
        std::fs::write(&path, &content).expect("it is writable");
        shell(
            &mounted,
            0,
            "chmod 640 file && chown 1:2 file && touch -d @7 file && ln file other && ln -s file link && mkfifo fifo
             test \"$(stat -c '%a %u %g %Y %h %s' file)\" = '640 1 2 7 2 5000'
             test \"$(readlink link)\" = file && test -p fifo && cmp file link && mv other ../mounted/moved",
        );
        let file = File::options().read(true).write(true).open(&path).expect("root may do this");
        rustix::fs::fsetxattr(&file, "user.note", b"1", rustix::fs::XattrFlags::empty())
            .expect("it is supported");
        let mut names = [0_u8; 100];
        let length = rustix::fs::listxattr(&path, &mut names).expect("it is supported");
        assert_eq!(&names[..length], b"user.note\0", "{options}");
        // A deleted file stays usable while it is open.
        std::fs::remove_file(&path).expect("it exists");
        std::fs::remove_file(mounted.path("moved")).expect("it exists");
        assert_eq!(file.metadata().expect("it is open").nlink(), 0, "{options}");
        file.set_len(4000).expect("it is open");
        file.write_all_at(b"x", 4000).expect("it is open");
        let mut found = vec![0; 4001];
        file.read_exact_at(&mut found, 0).expect("it is open");
        assert!(found[..4000] == content[..4000] && found[4000] == b'x', "{options}");
        rustix::fs::fremovexattr(&file, "user.note").expect("it is open");
    }
}

#[test]
fn a_new_file_with_the_number_of_a_deleted_one_is_another_file() {
    let Some(mounted) = mount("mode=auto") else { return };
    let mut reused = 0;
    for round in 0..50 {
        let (name, next) = (format!("{round}"), format!("{round} again"));
        std::fs::write(mounted.below(&name), &name).expect("it is writable");
        let before = mounted.path(&name).metadata().expect("it exists").ino();
        // The kernel still knows the file that is deleted in the source.
        std::fs::remove_file(mounted.below(&name)).expect("it exists");
        std::fs::write(mounted.below(&next), &next).expect("it is writable");
        let found = std::fs::read_to_string(mounted.path(&next)).expect("it exists");
        assert_eq!(found, next);
        reused += u32::from(mounted.path(&next).metadata().expect("it exists").ino() == before);
        assert!(!mounted.path(&name).exists());
    }
    if reused == 0 {
        skip(Need::FileHandles, format!("{} reuses no inode numbers", mounted.source.display()));
    }
}

#[test]
fn a_file_found_through_two_mounts_is_one_file() {
    let Some(mounted) = mount("mode=auto") else { return };
    let inodes = || fonio_bfuse::report(&mounted.dir).expect("it answers").inodes;
    std::fs::create_dir(mounted.below("one")).expect("it is writable");
    std::fs::create_dir(mounted.below("other")).expect("it is writable");
    std::fs::write(mounted.below("one/file"), "").expect("it is writable");
    mounted.path("one/file").metadata().expect("it exists");
    let before = inodes();
    rustix::mount::mount_bind(mounted.below("one"), mounted.below("other")).expect("root may do this");
    let found = ["other/file", "one/file"].map(|name| mounted.path(name).metadata().map(|found| found.ino()));
    let after = inodes();
    rustix::mount::unmount(mounted.below("other"), UnmountFlags::DETACH).expect("it was mounted");
    let [one, other] = found.map(|found| found.expect("it exists"));
    assert!(one == other && before == after, "{one} and {other}; {before} and {after} inodes");
}
