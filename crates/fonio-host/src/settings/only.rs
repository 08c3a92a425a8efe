//! Provides a lock that lets only one process at a time change a setting.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::path::Path;

use fonio_system::TrustedFolder;

use super::target::Target;
use crate::error::HostError;

pub(crate) const LOCK: &str = "lock";

/// The exclusive right to change a setting, held until this value is dropped. A trial switches the setting
/// back and forth; without this lock, another process would mistake the current value for the user's own.
#[derive(Debug)]
pub struct OnlyChanger {
    folder: TrustedFolder,
    name: String,
    _lock: File,
}

impl OnlyChanger {
    /// Locks `target` in the state folder `dir`, which is created if it does not exist. The kernel also
    /// releases the lock when the process is killed. Fails with [`HostError::BeingTested`] if another process
    /// holds the lock, and [`HostError::System`].
    pub fn begin(dir: &Path, target: &Target) -> Result<OnlyChanger, HostError> {
        let folder = TrustedFolder::make(dir)?;
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let name = format!("{}.{LOCK}", target.to_string().chars().map(plain).collect::<String>());
        loop {
            let lock = folder.open_or_create(&name)?;
            lock.try_lock().map_err(|error| match error {
                TryLockError::WouldBlock => HostError::BeingTested { setting: target.to_string() },
                TryLockError::Error(error) => HostError::system("lock", folder.path().join(&name))(error),
            })?;
            // The previous owner may have removed the file after this process opened it and before this
            // process locked it. Another process could then lock a new file with the same name.
            if folder.is_still(&name, &lock) {
                return Ok(OnlyChanger { folder, name, _lock: lock });
            }
        }
    }
}

/// Removes the file of a lock that no process holds because its owner was killed.
pub(crate) fn remove_free_lock(folder: &TrustedFolder, name: &OsStr) {
    let Ok(Some(lock)) = folder.open_file(name) else { return };
    if lock.try_lock().is_ok() {
        // Ignore the error: if the file stays, the next process reuses it.
        let _ = folder.remove(name);
    }
}

impl Drop for OnlyChanger {
    fn drop(&mut self) {
        // Ignore the error: if the file stays, the next process reuses it.
        let _ = self.folder.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_second_process_is_refused_until_the_first_ends() {
        let dir = tempfile::tempdir().expect("dir");
        let state = dir.path().join("state");
        let target = |text| serde_json::from_str::<Target>(text).expect("a target");
        let (swappiness, limits) =
            (target(r#"{"kind": "swappiness"}"#), target(r#"{"kind": "dirty_limits"}"#));
        let first = OnlyChanger::begin(&state, &swappiness).expect("nobody changes it");
        let error = OnlyChanger::begin(&state, &swappiness).expect_err("the first one does");
        let says = "another fonio process, such as `fonio fix trial`, is changing the machine's swappiness";
        assert!(error.to_string().starts_with(says), "{error}");
        OnlyChanger::begin(&state, &limits).expect("another setting");
        let (folder, name) = (TrustedFolder::make(&state).expect("it is there"), first.name.clone());
        let file = state.join(&name);
        remove_free_lock(&folder, name.as_ref());
        assert!(file.exists(), "somebody has it");
        drop(first);
        fs::write(&file, "").expect("as after kill -9");
        remove_free_lock(&folder, name.as_ref());
        assert!(!file.exists(), "nobody has it");
        drop(OnlyChanger::begin(&state, &swappiness).expect("no process changes the swappiness any more"));
        assert_eq!(fs::read_dir(&state).expect("it was made").count(), 0);
    }
}
