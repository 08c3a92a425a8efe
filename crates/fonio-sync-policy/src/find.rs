//! Finds the databases that are subject to a policy and were written without sync.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

use crate::cache::Cache;
use crate::error::PolicyError;
use crate::place::PATH_BYTES_MAX;
use crate::policy::{Class, Policy, Rule};

const TO_LIST: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// Returns the databases that have a marker and match a rule of the class `cache`. The search follows no
/// symbolic links, and stays on the file system of the rule's folder; a hostile user can only add wrong
/// results, which [`Cache::remove_stale`] refuses. The second returned list contains an error for each
/// unreadable folder; the search continues in the other folders.
pub fn caches_below(policy: &Policy, rule: &Rule) -> (Vec<Cache>, Vec<PolicyError>) {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    let root = rule.root();
    let opened =
        openat(CWD, &root, TO_LIST, Mode::empty()).and_then(|folder| Ok((fstat(&folder)?.st_dev, folder)));
    match opened {
        // The rule's program has never run.
        Err(Errno::NOENT) => {}
        Err(error) => errors.push(PolicyError::system("search", root)(error.into())),
        Ok((device, folder)) => {
            let mut search = Search { policy, device, found: &mut found, errors: &mut errors };
            search.run(folder, &root);
        }
    }
    found.sort_by(|a, b| a.path().cmp(b.path()));
    (found, errors)
}

struct Search<'a> {
    policy: &'a Policy,
    device: rustix::fs::Dev,
    found: &'a mut Vec<Cache>,
    errors: &'a mut Vec<PolicyError>,
}

impl Search<'_> {
    fn run(&mut self, folder: OwnedFd, path: &Path) {
        if let Err(error) = self.list(folder, path) {
            self.errors.push(PolicyError::system("list", path)(error.into()));
        }
    }

    fn list(&mut self, folder: OwnedFd, path: &Path) -> Result<(), Errno> {
        let mut entries = Dir::new(folder)?;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let below = path.join(name);
            // SQLite opens no database with a longer path, so the depth of the search is limited.
            if name == "." || name == ".." || below.as_os_str().len() > PATH_BYTES_MAX {
                continue;
            }
            if let Some(cache) = Cache::of_marker(&below) {
                if matches!(self.policy.class(cache.path()), Class::Cache { .. }) {
                    self.found.push(cache);
                }
            } else if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                match self.open(&entries, name) {
                    Ok(Some(folder)) => self.run(folder, &below),
                    // Another process has replaced the folder.
                    Ok(None) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {}
                    Err(error) => self.errors.push(PolicyError::system("open", below)(error.into())),
                }
            }
        }
        Ok(())
    }

    /// Opens a folder; returns `None` if the folder is on another file system.
    fn open(&self, above: &Dir, name: &OsStr) -> Result<Option<OwnedFd>, Errno> {
        // With this flag, the kernel does not even ask another file system, which may not answer.
        let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
        let above = above.fd()?;
        let folder = match openat2(above.as_fd(), name, TO_LIST, Mode::empty(), resolve) {
            // Linux before 5.6, or a sandbox that forbids the call.
            Err(Errno::NOSYS | Errno::PERM) => openat(above.as_fd(), name, TO_LIST, Mode::empty())?,
            opened => opened?,
        };
        Ok((fstat(&folder)?.st_dev == self.device).then_some(folder))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn markers_of_other_classes_are_left() {
        let dir = tempfile::tempdir().expect("dir");
        let dir = fs::canonicalize(dir.path()).expect("path");
        fs::create_dir_all(dir.join("cache/deep")).expect("mkdir");
        for name in ["cache/a.db", "cache/deep/b.db", "cache/c.other", "d.db"] {
            fs::write(dir.join(format!("{name}-fonio-boot")), "then").expect("write");
        }
        let text = format!("[[database]]\npath = '{}/cache/*.db'\nclass = 'cache'\n", dir.display());
        let policy = Policy::parse(&text, Path::new("policy")).expect("a policy");
        let (found, errors) = caches_below(&policy, &policy.rules()[0]);
        assert!(errors.is_empty(), "{errors:?}");
        let found: Vec<_> =
            found.iter().map(|cache| cache.path().strip_prefix(&dir).expect("below")).collect();
        assert_eq!(found, [Path::new("cache/a.db"), Path::new("cache/deep/b.db")]);
    }

    #[test]
    fn the_search_follows_no_links_and_opens_no_fifo() {
        let dir = tempfile::tempdir().expect("dir");
        let dir = fs::canonicalize(dir.path()).expect("path");
        fs::create_dir_all(dir.join("cache")).expect("mkdir");
        fs::create_dir_all(dir.join("elsewhere")).expect("mkdir");
        fs::write(dir.join("elsewhere/a.db-fonio-boot"), "then").expect("write");
        std::os::unix::fs::symlink(dir.join("elsewhere"), dir.join("cache/link")).expect("link");
        let fifo = dir.join("cache/fifo");
        rustix::fs::mkfifoat(CWD, &fifo, Mode::from_raw_mode(0o600)).expect("a FIFO");
        let text = format!("[[database]]\npath = '{}/cache/'\nclass = 'cache'\n", dir.display());
        let policy = Policy::parse(&text, Path::new("policy")).expect("a policy");
        let (found, errors) = caches_below(&policy, &policy.rules()[0]);
        assert!(found.is_empty() && errors.is_empty(), "{found:?} {errors:?}");
    }
}
