//! Finds the state folders, which contain ledgers, the record of settings, the sockets of mounts, and
//! results.

use std::io;
use std::path::{Path, PathBuf};

use crate::trusted::TrustedFolder;

/// Returns this user's state folder: `/run/fonio` for root, otherwise `fonio` in `$XDG_RUNTIME_DIR`, or
/// `fonio-UID` in the temporary folder. Each of these folders is empty after a reboot. A reboot also reverts
/// the changes that the files in them record. The folder may not exist yet.
pub fn folder() -> PathBuf {
    let user = rustix::process::geteuid();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR");
    folder_of(user.as_raw(), runtime.as_deref().map(Path::new), &std::env::temp_dir())
}

fn folder_of(user: u32, runtime: Option<&Path>, temporary: &Path) -> PathBuf {
    match (user, runtime) {
        (0, _) => "/run/fonio".into(),
        (_, Some(runtime)) => runtime.join("fonio"),
        (user, None) => temporary.join(format!("fonio-{user}")),
    }
}

/// Returns the folder for data that must survive a reboot, such as results: `$FONIO_LASTING_STATE` if it is
/// set, `/var/lib/fonio` for root, otherwise `fonio` in `$XDG_STATE_HOME` or in `~/.local/state`. Returns
/// `None` if the user has no home folder. The folder may not exist yet.
pub fn lasting_folder() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("FONIO_LASTING_STATE") {
        return Some(named.into());
    }
    let user = rustix::process::geteuid();
    let (state, home) = (std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"));
    lasting_folder_of(user.as_raw(), state.as_deref().map(Path::new), home.as_deref().map(Path::new))
}

fn lasting_folder_of(user: u32, state: Option<&Path>, home: Option<&Path>) -> Option<PathBuf> {
    // According to the XDG specification, relative paths are ignored.
    let absolute = |path: &&Path| path.is_absolute();
    match (user, state.filter(absolute), home.filter(absolute)) {
        (0, _, _) => Some("/var/lib/fonio".into()),
        (_, Some(state), _) => Some(state.join("fonio")),
        (_, None, Some(home)) => Some(home.join(".local/state/fonio")),
        (_, None, None) => None,
    }
}

/// Creates `dir` and its parents, accessible only to this user. Does not change an existing folder. Fails if
/// a folder cannot be created, or if another user can change one of the folders ([`TrustedFolder`]).
pub fn make(dir: &Path) -> io::Result<()> {
    TrustedFolder::make(dir)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn folders_of_users() {
        let (runtime, temporary) = (Path::new("/run/user/7"), Path::new("/tmp"));
        for (user, runtime, expected) in [
            (0, Some(runtime), "/run/fonio"),
            (0, None, "/run/fonio"),
            (7, Some(runtime), "/run/user/7/fonio"),
            (7, None, "/tmp/fonio-7"),
        ] {
            assert_eq!(folder_of(user, runtime, temporary), Path::new(expected));
        }
    }

    #[test]
    fn lasting_folders_of_users() {
        for (user, state, home, expected) in [
            (0, Some("/s"), Some("/root"), Some("/var/lib/fonio")),
            (7, Some("/s"), Some("/home/u"), Some("/s/fonio")),
            (7, Some("relative"), Some("/home/u"), Some("/home/u/.local/state/fonio")),
            (7, None, Some("/home/u"), Some("/home/u/.local/state/fonio")),
            (7, None, None, None),
        ] {
            let found = lasting_folder_of(user, state.map(Path::new), home.map(Path::new));
            assert_eq!(found.as_deref(), expected.map(Path::new));
        }
    }

    #[test]
    fn a_new_folder_is_private() {
        let dir = tempfile::tempdir().expect("dir");
        let state = dir.path().join("a/b");
        make(&state).expect("it can be made");
        make(&state).expect("it is there");
        let mode = state.metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
