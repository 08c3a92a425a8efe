//! A lock, so that only one process at a time switches settings of the machine back and forth.

use std::fs::{File, OpenOptions};
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::HostError;

const LOCK: &str = "switching.lock";

/// The only process that switches settings. Another one would take our value for the user's own.
#[derive(Debug)]
pub struct OnlySwitcher {
    _lock: File,
}

impl OnlySwitcher {
    /// Takes the lock in the state folder `dir`, which is created if it is missing. The kernel releases it when this is
    /// dropped, and when the process is killed.
    ///
    /// # Errors
    ///
    /// [`HostError::Switching`] if another process has it, and [`HostError::System`].
    pub fn begin(dir: &Path) -> Result<OnlySwitcher, HostError> {
        crate::ledger::make_private_dir(dir)?;
        let path = dir.join(LOCK);
        let lock = OpenOptions::new().create(true).append(true).open(&path);
        let lock = lock.map_err(HostError::system("open", &path))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(OnlySwitcher { _lock: lock }),
            Err(Errno::WOULDBLOCK) => Err(HostError::Switching),
            Err(error) => Err(HostError::system("lock", path)(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_process_is_refused_until_the_first_ends() {
        let dir = tempfile::tempdir().expect("dir");
        let state = dir.path().join("state");
        let first = OnlySwitcher::begin(&state).expect("nobody switches");
        let error = OnlySwitcher::begin(&state).expect_err("the first one does");
        assert!(error.to_string().starts_with("another fonio tests a setting"), "{error}");
        drop(first);
        OnlySwitcher::begin(&state).expect("nobody switches any more");
    }
}
