use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};

use proptest::prelude::*;

use super::*;

fn open(dir: &Path) -> OwnedFd {
    File::open(dir).expect("a folder").into()
}

fn mirrored(from: &Path, to: &Path) -> Mirrored {
    mirror(&open(from), &open(to), to).expect("mirrored")
}

/// Describes every object in a folder: kind, mode, owner, modification time, attributes, content, and the
/// file's other names.
fn described(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut names: BTreeMap<u64, PathBuf> = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(&folder).expect("list").flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for path in entries {
            let stat = path.symlink_metadata().expect("it is there");
            let below = path.strip_prefix(dir).expect("it is below").to_owned();
            let content = if stat.is_file() {
                format!("{:?}", fs::read(&path).expect("read"))
            } else if stat.is_symlink() {
                fs::read_link(&path).expect("link").display().to_string()
            } else {
                String::new()
            };
            if stat.is_dir() {
                folders.push(path.clone());
            }
            let object = copy::open_object(
                open(&folder).as_fd(),
                &CString::new(path.file_name().expect("name").as_encoded_bytes()).expect("no zero"),
            );
            let attributes = if stat.is_symlink() {
                Vec::new()
            } else {
                crate::attributes::attributes(&copy::path_of(object.expect("open").as_fd()))
                    .expect("attributes")
            };
            let first = if stat.is_dir() {
                below.clone()
            } else {
                names.entry(stat.ino()).or_insert(below.clone()).clone()
            };
            let (owner, modified) = ((stat.uid(), stat.gid()), (stat.mtime(), stat.mtime_nsec()));
            found.insert(
                below,
                format!("{:o} {owner:?} {modified:?} {attributes:?} {first:?} {content}", stat.mode()),
            );
        }
    }
    found
}

#[test]
fn every_kind_of_object_is_brought_over_and_nothing_is_written_twice() {
    let dir = tempfile::tempdir().expect("dir");
    let (from, to, outside) = (dir.path().join("from"), dir.path().join("to"), dir.path().join("outside"));
    for folder in [&from, &to, &outside, &from.join("sub/deep"), &to.join("link")] {
        fs::create_dir_all(folder).expect("mkdir");
    }
    let write = |path: PathBuf, text: &str| fs::write(path, text).expect("write");
    write(from.join("sub/deep/a"), "text");
    fs::set_permissions(from.join("sub/deep/a"), fs::Permissions::from_mode(0o4751)).expect("chmod");
    fs::hard_link(from.join("sub/deep/a"), from.join("b")).expect("link");
    // Links to objects outside the folder are copied, not followed. If the source has a folder where the
    // target has a link, the folder replaces the link.
    write(outside.join("theirs"), "theirs");
    symlink(&outside, from.join("link")).expect("symlink");
    fs::create_dir(from.join("not-a-link")).expect("mkdir");
    write(from.join("not-a-link/theirs"), "ours");
    symlink(&outside, to.join("not-a-link")).expect("symlink");
    write(to.join("link/old"), "goes");
    symlink("nowhere", from.join("dangling")).expect("symlink");
    let sparse = File::create(from.join("sparse")).expect("create");
    sparse.write_all_at(b"end", 8 << 20).expect("write");
    sparse.set_len(16 << 20).expect("size");
    for (name, kind) in [(c"pipe", FileType::Fifo), (c"socket", FileType::Socket)] {
        rustix::fs::mknodat(open(&from), name, kind, Mode::RUSR, 0).expect("mknod");
    }
    let named = rustix::fs::fsetxattr(&sparse, c"user.note", b"x", rustix::fs::XattrFlags::empty());
    // These objects are the leftovers of a killed run.
    write(to.join(".fonio-write-out-1"), "half");
    fs::create_dir(to.join(".fonio-write-out-2")).expect("mkdir");

    let done = mirrored(&from, &to);
    assert_eq!(described(&from), described(&to), "attributes: {named:?}");
    // The run removes five objects: two leftovers, the folder `link`, the file in this folder, and the link
    // `not-a-link`, which is now a folder.
    assert_eq!(done.removed, 5);
    assert!(to.join("sparse").metadata().expect("it is there").blocks() * 512 < 1 << 20);
    assert_eq!(fs::read_to_string(outside.join("theirs")).expect("read"), "theirs");
    assert_eq!(fs::read_dir(&outside).expect("list").count(), 1);

    let inode = |name: &str| to.join(name).symlink_metadata().expect("it is there").ino();
    let before = inode("sparse");
    assert_eq!(mirrored(&from, &to), Mirrored::default());
    // Only differences are copied: a new mode does not rewrite the content.
    fs::set_permissions(from.join("sparse"), fs::Permissions::from_mode(0o600)).expect("chmod");
    assert_eq!(mirrored(&from, &to), Mirrored { written: 1, ..Mirrored::default() });
    assert_eq!(inode("sparse"), before);
    // A write through a mapping changes the content, but not the timestamp.
    let times = from.join("sparse").metadata().expect("it is there").modified().expect("time");
    sparse.write_all_at(b"END", 8 << 20).expect("write");
    sparse.set_modified(times).expect("time");
    assert_eq!(mirrored(&from, &to).written, 1);
    assert_eq!(described(&from), described(&to));
}

#[derive(Clone, Debug)]
enum Act {
    Write(u8, u16),
    Append(u8, u8),
    Remove(u8),
    Move(u8, u8),
    Link(u8, u8),
    Symlink(u8, u8),
    Folder(u8),
    Mode(u8, u32),
    /// A killed run has left an object with a temporary name.
    Left(u8),
    Mirror,
}

fn act() -> impl Strategy<Value = Act> {
    let place = 0..9_u8;
    prop_oneof![
        3 => (place.clone(), any::<u16>()).prop_map(|(at, length)| Act::Write(at, length)),
        2 => (place.clone(), any::<u8>()).prop_map(|(at, length)| Act::Append(at, length)),
        2 => place.clone().prop_map(Act::Remove),
        2 => (place.clone(), place.clone()).prop_map(|(from, to)| Act::Move(from, to)),
        2 => (place.clone(), place.clone()).prop_map(|(from, to)| Act::Link(from, to)),
        1 => (place.clone(), place.clone()).prop_map(|(from, to)| Act::Symlink(from, to)),
        2 => place.clone().prop_map(Act::Folder),
        1 => (place.clone(), 0o400..0o777_u32).prop_map(|(at, mode)| Act::Mode(at, mode | 0o700)),
        1 => place.prop_map(Act::Left),
        2 => Just(Act::Mirror),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// After any history of changes, the target equals the source, whatever the target contained before.
    #[test]
    fn any_history_is_brought_over(acts in prop::collection::vec(act(), 1..40)) {
        let dir = tempfile::tempdir().expect("dir");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir(&from).expect("mkdir");
        fs::create_dir(&to).expect("mkdir");
        // The test's tree has three names at the top and three in each of two folders.
        let place = |at: u8| match at {
            0..3 => PathBuf::from(at.to_string()),
            _ => PathBuf::from((at / 3 - 1).to_string()).join((at % 3).to_string()),
        };
        for act in acts {
            // A change that is impossible does nothing.
            match act {
                Act::Write(at, length) => drop(fs::write(from.join(place(at)), vec![7; length.into()])),
                Act::Append(at, length) => {
                    if let Ok(mut file) = File::options().append(true).open(from.join(place(at))) {
                        use std::io::Write;
                        file.write_all(&vec![9; length.into()]).expect("append");
                    }
                }
                Act::Remove(at) => {
                    let path = from.join(place(at));
                    let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
                }
                Act::Move(one, other) => drop(fs::rename(from.join(place(one)), from.join(place(other)))),
                Act::Link(one, other) => drop(fs::hard_link(from.join(place(one)), from.join(place(other)))),
                Act::Symlink(one, other) => drop(symlink(place(one), from.join(place(other)))),
                Act::Folder(at) => drop(fs::create_dir(from.join(place(at)))),
                Act::Mode(at, mode) => {
                    let _ = fs::set_permissions(from.join(place(at)), fs::Permissions::from_mode(mode));
                }
                Act::Left(at) => {
                    let folder = to.join(place(at));
                    let _ = fs::write(folder.with_file_name(".fonio-write-out-1"), "half");
                    let _ = fs::create_dir(folder.join(".fonio-write-out-2"));
                }
                Act::Mirror => drop(mirrored(&from, &to)),
            }
        }
        mirrored(&from, &to);
        prop_assert_eq!(described(&from), described(&to));
        prop_assert_eq!(mirrored(&from, &to), Mirrored::default());
    }
}
