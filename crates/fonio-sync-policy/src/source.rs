//! The policy file; it is read again when it changes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::PolicyError;
use crate::policy::Policy;

/// The path of the default policy file.
pub const DEFAULT: &str = "/etc/fonio/sync-policy.toml";
/// The environment variable that names another policy file.
pub const VARIABLE: &str = "FONIO_SYNC_POLICY";

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
        let read = || {
            let text = fs::read_to_string(&self.path).map_err(PolicyError::system("read", &self.path))?;
            Policy::parse(&text, &self.path)
        };
        let (policy, error) = match read() {
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
}
