//! The state of folders before and after a path: every file with its content, mode, owner and time.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};

/// The files of some folders by their paths, each with everything that must stay the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State(BTreeMap<PathBuf, String>);

impl State {
    /// Reads the state of folders. A folder that does not exist has no files.
    pub fn of(folders: &[&Path]) -> Result<State> {
        let mut state = State(BTreeMap::new());
        for folder in folders {
            state.add(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        }
        Ok(state)
    }

    fn add(&mut self, path: &Path) -> io::Result<()> {
        let found = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        let content = if found.is_dir() {
            for entry in fs::read_dir(path)? {
                self.add(&entry?.path())?;
            }
            // A folder's time changes with each file that was made in it and removed from it.
            "folder".to_owned()
        } else if found.is_symlink() {
            format!("-> {} {}.{:09}", fs::read_link(path)?.display(), found.mtime(), found.mtime_nsec())
        } else if found.is_file() {
            let sum = Sha256::digest(fs::read(path)?);
            let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{sum} {}.{:09}", found.mtime(), found.mtime_nsec())
        } else {
            "special file".to_owned()
        };
        let rights = format!("{:o} {}:{}", found.mode(), found.uid(), found.gid());
        self.0.insert(path.to_owned(), format!("{content} {rights}"));
        Ok(())
    }

    /// Leaves out the files and folders with these names, which the person asked for.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> State {
        let is_asked_for =
            |part: &std::ffi::OsStr| names.iter().any(|name| part.as_bytes() == name.as_bytes());
        self.0.retain(|path, _| !path.iter().any(is_asked_for));
        self
    }

    /// Returns the difference to a later state in words; `None` if they are equal.
    pub fn difference(&self, later: &State) -> Option<String> {
        let changed = self.0.iter().find_map(|(path, before)| match later.0.get(path) {
            None => Some(format!("{} is gone", path.display())),
            Some(after) if after != before => Some(format!("{} has changed", path.display())),
            Some(_) => None,
        });
        let new = || later.0.keys().find(|path| !self.0.contains_key(*path));
        changed.or_else(|| new().map(|path| format!("{} is new", path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_of_a_file_is_a_difference() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name);
        let state = || State::of(&[dir.path(), Path::new("/does/not/exist")]).expect("a state");
        fs::create_dir(path("sub")).expect("a folder");
        fs::write(path("sub/a"), "1").expect("a file");
        let before = state();
        assert_eq!(before.difference(&state()), None);

        fs::write(path("b"), "2").expect("a file");
        let new = before.difference(&state()).expect("a difference");
        assert!(new.ends_with("/b is new"), "{new}");
        assert_eq!(before.difference(&state().without(&["b"])), None);
        fs::remove_file(path("b")).expect("removed");
        assert_eq!(before.difference(&state()), None);

        // The same content, written again, has another time.
        let time = fs::metadata(path("sub/a")).expect("a file").modified().expect("a time");
        fs::write(path("sub/a"), "1").expect("a file");
        let later = time + std::time::Duration::from_secs(1);
        fs::File::options()
            .write(true)
            .open(path("sub/a"))
            .expect("open")
            .set_modified(later)
            .expect("a time");
        let changed = before.difference(&state()).expect("a difference");
        assert!(changed.ends_with("/sub/a has changed"), "{changed}");
        fs::remove_file(path("sub/a")).expect("removed");
        assert!(before.difference(&state()).expect("a difference").ends_with("/sub/a is gone"));
    }
}
