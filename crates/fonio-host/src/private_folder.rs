//! Creates private folders in folders that other users can write to, such as `/dev/shm`.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use fonio_system::TrustedFolder;

use crate::error::HostError;
use crate::ledger::{Ledger, Step};

/// Number of attempts to find a free name. Names are random, so one attempt is nearly always enough.
const TRIES: u32 = 100;

/// Creates a new folder in `parent` that only this user can use, with a name that other users cannot guess.
/// The ledger removes the folder with its contents. Fails with [`HostError::System`], for example if another
/// user can exchange folders above the new folder.
pub fn private_folder(ledger: &mut Ledger, parent: &Path) -> Result<PathBuf, HostError> {
    let parent = fs::canonicalize(parent).map_err(HostError::system("find", parent))?;
    for _ in 0..TRIES {
        let random = RandomState::new().build_hasher().finish();
        let path = parent.join(format!("fonio-scratch-{}-{random:016x}", std::process::id()));
        let entry = ledger.begin(Step::Tree { path: path.clone() })?;
        // A link or folder that already has this name makes this call fail.
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {
                TrustedFolder::make(&path)?;
                return Ok(path);
            }
            Err(error) => {
                ledger.end(entry)?;
                if error.kind() != ErrorKind::AlreadyExists {
                    return Err(HostError::system("make", path)(error));
                }
            }
        }
    }
    Err(HostError::system("make a private folder in", parent)(ErrorKind::AlreadyExists))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_private_folder_goes_with_its_ledger() {
        let dir = tempfile::tempdir().expect("dir");
        let mut ledger = Ledger::open(&dir.path().join("state")).expect("ledger");
        let parent = dir.path().join("shared");
        fs::create_dir(&parent).expect("mkdir");
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o1777)).expect("chmod");
        let [first, second] = [(); 2].map(|()| private_folder(&mut ledger, &parent).expect("made"));
        assert_ne!(first, second);
        assert_eq!(first.metadata().expect("it is there").permissions().mode() & 0o777, 0o700);
        fs::write(first.join("log"), "x").expect("write");
        ledger.close().expect("undone");
        assert_eq!(fs::read_dir(&parent).expect("it is there").count(), 0);
        // Without the sticky bit, another user could exchange the new folder.
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o777)).expect("chmod");
        let mut ledger = Ledger::open(&dir.path().join("state")).expect("ledger");
        let error = private_folder(&mut ledger, &parent).expect_err("others can change it").to_string();
        assert!(error.starts_with("cannot use ") && error.ends_with("shared"), "{error}");
        ledger.close().expect("undone");
        assert_eq!(fs::read_dir(&parent).expect("it is there").count(), 0);
    }
}
