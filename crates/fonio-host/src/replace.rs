//! Replaces and removes configuration files of the system, such as `/etc/fstab`.
//!
//! A symbolic link stays, and the file to which it leads is replaced. This file keeps its owner, mode,
//! extended attributes and hard links. There are two ways:
//!
//! 1. The new content is written to `NAME.fonio-new`, made durable, and renamed to NAME. So at any moment,
//!    NAME has its old or its new content.
//! 2. A file with several hard links, or with an owner or attributes that a new file cannot get, is written in
//!    place. Before this, the old content is made durable in `NAME.fonio-old`, and the new content in
//!    `NAME.fonio-new`. The first file appears complete, by a rename. If the process is killed while it writes
//!    in place, [`finish`] restores the old content.
//!
//! Callers hold a lock that keeps other fonio processes from the same file.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use crate::attributes::copy_attributes;
use crate::error::HostError;
use crate::files::{remove, sync_folder};

/// The ending of the name of a file with the new content.
const NEW: &str = ".fonio-new";
/// The ending of the name of a file with the old content, while NAME is written in place.
const OLD: &str = ".fonio-old";

/// Replaces the content of a file; creates the file with the mode 0644 if it does not exist. After an error,
/// the file has its old content, unless the system also refuses to write the old content back.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), HostError> {
    let path = &real(path)?;
    finish_real(path)?;
    let put = || {
        let known = match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            known => Some(known.map_err(HostError::system("look at", path))?),
        };
        let new = beside(path, NEW);
        let file = write(&new, text.as_bytes())?;
        match known {
            Some(known) if !known.is_file() => {
                let why = io::Error::new(ErrorKind::InvalidInput, "it is not a regular file");
                Err(HostError::system("replace", path)(why))
            }
            Some(known) if known.nlink() > 1 || !takes_after(&file, path, &known) => in_place(path, text),
            known => {
                if known.is_none() {
                    let mode = fs::Permissions::from_mode(0o644);
                    file.set_permissions(mode).map_err(HostError::system("change the mode of", &new))?;
                }
                file.sync_all().map_err(HostError::system("write", &new))?;
                fs::rename(&new, path).map_err(HostError::system("replace", path))?;
                sync_folder(path)
            }
        }
    };
    put().inspect_err(|_| {
        // Report the first error rather than an error of this call.
        let _ = finish_real(path);
    })
}

/// Removes a file, and what a killed process left next to it.
pub(crate) fn remove_file(path: &Path) -> Result<(), HostError> {
    finish(path)?;
    remove(path)
}

/// Ends what a killed process began: restores the old content of a file that was being written in place, and
/// removes the temporary files. Does nothing if there is nothing to do.
pub(crate) fn finish(path: &Path) -> Result<(), HostError> {
    finish_real(&real(path)?)
}

fn finish_real(path: &Path) -> Result<(), HostError> {
    let (old, new) = (beside(path, OLD), beside(path, NEW));
    let content = |path: &Path| match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        content => content.map(Some).map_err(HostError::system("read", path)),
    };
    if let (Some(before), Some(now)) = (content(&old)?, content(path)?)
        && is_unfinished(&now, &before, &content(&new)?.unwrap_or_default())
    {
        overwrite(path, &before)?;
    }
    remove(&new)?;
    remove(&old)
}

/// Returns whether `now` is the content of a file whose content `old` was being overwritten with `new`. After
/// a power cut, a part may also consist of zero bytes.
fn is_unfinished(now: &[u8], old: &[u8], new: &[u8]) -> bool {
    let written = now.iter().zip(new).take_while(|(now, new)| now == new).count();
    let is_mixture = now[written..] == *old.get(written..).unwrap_or_default();
    now != old && now != new && (is_mixture || now.contains(&0))
}

/// Returns the file to which a path leads.
fn real(path: &Path) -> Result<PathBuf, HostError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            fs::canonicalize(path).map_err(HostError::system("follow the link", path))
        }
        _ => Ok(path.to_owned()),
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

/// Creates a file that only this user can read, and makes its content durable.
fn write(path: &Path, content: &[u8]) -> Result<File, HostError> {
    let write = || {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(content)?;
        file.sync_all()?;
        io::Result::Ok(file)
    };
    write().map_err(HostError::system("write", path))
}

/// Gives a new file the owner, mode and extended attributes of `path`. Returns whether the system allows it.
fn takes_after(file: &File, path: &Path, known: &fs::Metadata) -> bool {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let Some(from) = path.to_str() else { return false };
    let take = || {
        fchown(file, Some(known.uid()), Some(known.gid()))?;
        file.set_permissions(fs::Permissions::from_mode(known.mode() & 0o7777))?;
        copy_attributes(from, &own)?;
        io::Result::Ok(())
    };
    take().is_ok()
}

/// Writes a file in place. The new content must already be in a file next to it.
fn in_place(path: &Path, text: &str) -> Result<(), HostError> {
    let (old, new) = (beside(path, OLD), beside(path, NEW));
    let before = fs::read(path).map_err(HostError::system("read", path))?;
    // The old content appears complete, and before the new content.
    remove(&new)?;
    write(&new, &before)?;
    fs::rename(&new, &old).map_err(HostError::system("make", &old))?;
    write(&new, text.as_bytes())?;
    sync_folder(path)?;
    overwrite(path, text.as_bytes())?;
    remove(&new)?;
    remove(&old)
}

/// Overwrites a file from its start. The space of the former content is not given up meanwhile, so on a full
/// file system, the former content can be written back.
fn overwrite(path: &Path, content: &[u8]) -> Result<(), HostError> {
    let write = || {
        let file = File::options().write(true).open(path)?;
        file.write_all_at(content, 0)?;
        file.set_len(content.len() as u64)?;
        file.sync_all()
    };
    write().map_err(HostError::system("write", path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use fonio_testing::skip_without;

    use super::*;
    use crate::attributes::attributes;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("list").map(|entry| entry.expect("entry").file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().expect("text")).collect();
        names.sort();
        names
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).expect("it is there")
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_owner_attributes_and_link() {
        let dir = tempfile::tempdir().expect("dir");
        let (file, link) = (dir.path().join("fstab"), dir.path().join("link"));
        fs::write(&file, "old").expect("write");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("chmod");
        symlink("fstab", &link).expect("link");
        fs::write(beside(&file, NEW), "left by a killed process").expect("write");
        let path = file.to_str().expect("text");
        let has_attributes =
            rustix::fs::setxattr(path, c"user.note", b"x", rustix::fs::XattrFlags::empty()).is_ok();
        let before = attributes(path).expect("attributes");
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(&file, Some(54321), Some(54322)).expect("root");
        }
        let inode = file.metadata().expect("it is there").ino();
        replace(&link, "new").expect("replaced");
        let after = file.metadata().expect("it is there");
        assert_eq!((text(&file), after.mode() & 0o7777), ("new".to_owned(), 0o640));
        assert!(inode != after.ino() && link.is_symlink(), "a file with one name is replaced by a rename");
        assert_eq!(attributes(path).expect("attributes"), before);
        assert_eq!(before.iter().any(|(name, _)| name.as_c_str() == c"user.note"), has_attributes);
        if is_root {
            assert_eq!((after.uid(), after.gid()), (54321, 54322));
        }
        assert_eq!(names(dir.path()), ["fstab", "link"]);
    }

    #[test]
    fn hard_links_stay() {
        let dir = tempfile::tempdir().expect("dir");
        let (file, other) = (dir.path().join("fstab"), dir.path().join("other"));
        for (old, new) in [("old", "longer than before"), ("longer than before", "new")] {
            let _ = fs::remove_file(&other);
            fs::write(&file, old).expect("write");
            fs::hard_link(&file, &other).expect("link");
            replace(&file, new).expect("replaced");
            assert_eq!((text(&file), text(&other)), (new.to_owned(), new.to_owned()));
            assert_eq!(names(dir.path()), ["fstab", "other"]);
        }
    }

    #[test]
    fn a_new_file_that_cannot_get_the_owner_is_not_used() {
        skip_without!(Root);
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("fstab");
        fs::write(&file, "old").expect("write");
        let known = file.metadata().expect("it is there");
        // The kernel lets nobody change the owner and mode of this file.
        let read_only = File::open("/proc/self/status").expect("procfs");
        assert!(!takes_after(&read_only, &file, &known));
    }

    #[test]
    fn a_link_to_nothing_and_a_folder_are_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let link = dir.path().join("link");
        symlink("missing", &link).expect("link");
        let error = replace(&link, "x").expect_err("it leads to nothing").to_string();
        assert!(error.starts_with("cannot follow the link ") && error.contains("link"), "{error}");
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).expect("mkdir");
        replace(&folder, "x").expect_err("it is a folder");
        assert_eq!(names(dir.path()), ["folder", "link"]);
    }

    #[test]
    fn a_file_that_was_being_written_in_place_gets_its_old_content_back() {
        const OLD_TEXT: &str = "one\ntwo\n";
        for new in ["one\nother\nthree\nfour\n", "one\n", "x\n"] {
            // Every state of a file that is overwritten from its start and then cut.
            let mut states: Vec<Vec<u8>> = (0..=new.len())
                .map(|at| [&new.as_bytes()[..at], OLD_TEXT.as_bytes().get(at..).unwrap_or_default()].concat())
                .collect();
            states.push(vec![0; OLD_TEXT.len()]);
            for state in states {
                let dir = tempfile::tempdir().expect("dir");
                let file = dir.path().join("fstab");
                fs::write(&file, &state).expect("write");
                fs::write(beside(&file, OLD), OLD_TEXT).expect("write");
                fs::write(beside(&file, NEW), new).expect("write");
                finish(&file).expect("finished");
                let expected = if state == new.as_bytes() { new } else { OLD_TEXT };
                assert_eq!(text(&file), expected, "{:?}", String::from_utf8_lossy(&state));
                assert_eq!(names(dir.path()), ["fstab"]);
            }
        }
    }

    #[test]
    fn what_somebody_wrote_after_the_kill_stays() {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("fstab");
        fs::write(&file, "repaired by hand\n").expect("write");
        fs::write(beside(&file, OLD), "one\ntwo\n").expect("write");
        fs::write(beside(&file, NEW), "one\nother\n").expect("write");
        finish(&file).expect("finished");
        assert_eq!(
            (text(&file).as_str(), names(dir.path())),
            ("repaired by hand\n", vec!["fstab".to_owned()])
        );
    }
}
