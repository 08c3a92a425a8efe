//! Provides a lock that lets only one process at a time change a setting.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::target::Target;
use crate::error::HostError;
use crate::files::make_private_folder;

pub(crate) const LOCK: &str = "lock";

/// The exclusive right to change a setting, held until this value is dropped. A trial switches the setting
/// back and forth; without this lock, another process would mistake the current value for the user's own.
#[derive(Debug)]
pub struct OnlyChanger {
    path: PathBuf,
    _lock: File,
}

impl OnlyChanger {
    /// Locks `target` in the state folder `dir`, which is created if it does not exist. The kernel also
    /// releases the lock when the process is killed. Fails with [`HostError::BeingTested`] if another process
    /// holds the lock, and [`HostError::System`].
    pub fn begin(dir: &Path, target: &Target) -> Result<OnlyChanger, HostError> {
        make_private_folder(dir)?;
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let path = dir.join(format!("{}.{LOCK}", target.to_string().chars().map(plain).collect::<String>()));
        loop {
            let lock = OpenOptions::new().create(true).append(true).open(&path);
            let lock = lock.map_err(HostError::system("open", &path))?;
            lock.try_lock().map_err(|error| match error {
                TryLockError::WouldBlock => HostError::BeingTested { setting: target.to_string() },
                TryLockError::Error(error) => HostError::system("lock", &path)(error),
            })?;
            // The previous owner may have removed the file after this process opened it and before this
            // process locked it. Another process could then lock a new file with the same name.
            let ours = lock.metadata().map_err(HostError::system("look at", &path))?;
            if fs::metadata(&path).is_ok_and(|there| there.ino() == ours.ino() && there.dev() == ours.dev()) {
                return Ok(OnlyChanger { path, _lock: lock });
            }
        }
    }
}

/// Removes the file of a lock that no process holds because its owner was killed.
pub(crate) fn remove_free_lock(path: &Path) {
    let Ok(lock) = OpenOptions::new().append(true).open(path) else { return };
    if lock.try_lock().is_ok() {
        // Ignore the error: if the file stays, the next process reuses it.
        let _ = fs::remove_file(path);
    }
}

impl Drop for OnlyChanger {
    fn drop(&mut self) {
        // Ignore the error: if the file stays, the next process reuses it.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
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
        let file = first.path.clone();
        remove_free_lock(&file);
        assert!(file.exists(), "somebody has it");
        drop(first);
        fs::write(&file, "").expect("as after kill -9");
        remove_free_lock(&file);
        assert!(!file.exists(), "nobody has it");
        drop(OnlyChanger::begin(&state, &swappiness).expect("no process changes the swappiness any more"));
        assert_eq!(fs::read_dir(&state).expect("it was made").count(), 0);
    }
}
