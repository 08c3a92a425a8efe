//! The policy file; it is read again when it changes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::PolicyError;
use crate::policy::Policy;
use crate::trusted;

/// The path of the default policy file.
pub const DEFAULT: &str = "/etc/fonio/sync-policy.toml";
/// The environment variable that names another policy file.
pub const VARIABLE: &str = "FONIO_SYNC_POLICY";

/// The maximum size of a policy file.
const POLICY_BYTES_MAX: u64 = 1 << 20;

impl Policy {
    /// Reads the policy file `path`. Fails if the file cannot be read, if others than this process's user and
    /// root can change it, or if a rule is wrong.
    pub fn read(path: &Path) -> Result<Policy, PolicyError> {
        Policy::parse(&trusted::read(path, POLICY_BYTES_MAX)?, path)
    }
}

/// A policy file, with the policy from its last reading.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    /// The version of the policy file at the last check: `None` before the first check, and `Some(None)` if
    /// there was no file.
    seen: Option<Option<Seen>>,
    policy: Arc<Policy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Source {
    /// Creates the source for the file `path`, without reading it.
    pub fn new(path: &Path) -> Source {
        Source { path: path.to_owned(), seen: None, policy: Arc::default() }
    }

    /// Returns the path of the policy file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the current policy. Costs one system call if the file has not changed.
    ///
    /// An error is reported once per version of the file. Until the file is corrected, the policy has no
    /// rules, so all databases are durable.
    pub fn current(&mut self) -> (Arc<Policy>, Option<PolicyError>) {
        let found = fs::metadata(&self.path);
        let seen = found.as_ref().ok().map(|stat| Seen {
            device: stat.dev(),
            inode: stat.ino(),
            bytes: stat.size(),
            modified: (stat.mtime(), stat.mtime_nsec()),
            changed: (stat.ctime(), stat.ctime_nsec()),
        });
        if self.seen == Some(seen) {
            return (Arc::clone(&self.policy), None);
        }
        self.seen = Some(seen);
        let (policy, error) = match Policy::read(&self.path) {
            Ok(policy) => (policy, None),
            Err(error) => (Policy::default(), Some(error)),
        };
        self.policy = Arc::new(policy);
        (Arc::clone(&self.policy), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Class;

    #[test]
    fn a_changed_file_is_read_again_and_a_wrong_one_makes_all_durable() {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("policy.toml");
        let database = Path::new("/srv/a.db");
        let mut source = Source::new(&file);
        let mut class = || {
            let (policy, error) = source.current();
            (policy.class(database), error.map(|error| error.to_string()))
        };
        let (durable, said) = class();
        assert_eq!(durable, Class::Durable, "no file, no rule");
        assert!(said.expect("an error").starts_with("cannot read "));
        assert_eq!(class(), (Class::Durable, None), "said once");
        fs::write(&file, "[[database]]\npath = '/srv/a.db'\nclass = 'learn'\n").expect("write");
        assert_eq!(class(), (Class::Learn, None));
        fs::write(&file, "[[database]]\npath = '/srv/a.db'\nclass = 'lear'\n").expect("write");
        let (durable, said) = class();
        assert_eq!(durable, Class::Durable);
        assert!(said.expect("an error").contains("unknown class"));
        assert_eq!(class(), (Class::Durable, None), "said once");
        fs::remove_file(&file).expect("remove");
        assert!(class().1.is_some(), "the policy file was removed while it was in use");
    }

    #[test]
    fn a_policy_that_others_can_change_is_refused() {
        use std::os::unix::fs::PermissionsExt;

        const TEXT: &str = "[[database]]\npath = '/srv/a.db'\nclass = 'learn'\n";
        let dir = tempfile::tempdir().expect("dir");
        let dir = fs::canonicalize(dir.path()).expect("path");
        let (folder, file) = (dir.join("etc"), dir.join("etc/policy.toml"));
        fs::create_dir(&folder).expect("mkdir");
        fs::write(&file, TEXT).expect("write");
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
        };
        let refused = |path: &Path| Policy::read(path).expect_err("refused").to_string();
        mode(&folder, 0o755);
        for (of_file, is_fine) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
            mode(&file, of_file);
            assert_eq!(Policy::read(&file).is_ok(), is_fine, "{of_file:o}");
        }
        let said = refused(&file);
        assert!(said.ends_with("is refused: others than its owner can write to it (mode 646)"), "{said}");
        mode(&file, 0o644);
        std::os::unix::fs::symlink(&file, dir.join("link")).expect("link");
        assert!(Policy::read(&dir.join("link")).is_ok());
        for of_folder in [0o777, 0o1777, 0o775] {
            mode(&folder, of_folder);
            for path in [&file, &dir.join("link")] {
                let expected = format!("can write to the folder {} (mode {of_folder:o})", folder.display());
                let said = refused(path);
                assert!(said.contains(&expected), "{said}");
            }
        }
        mode(&folder, 0o755);
        // Somebody could replace the link.
        mode(&dir, 0o777);
        assert!(refused(&dir.join("link")).contains("can write to the folder"));
        mode(&dir, 0o755);
        fs::remove_file(&file).expect("remove");
        rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::from_raw_mode(0o600)).expect("a FIFO");
        assert!(refused(&file).ends_with("is refused: it is not a regular file"));
        assert!(refused(Path::new("/dev/null")).ends_with("is refused: it is not a regular file"));
        fs::remove_file(&file).expect("remove");
        fs::write(&file, " ".repeat(2 << 20)).expect("write");
        assert!(refused(&file).contains("is larger than"));
        fs::write(&file, TEXT).expect("write");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(12_345), None).expect("chown");
            assert!(refused(&file).contains("belongs to the user 12345"));
        }
    }
}
