//! The state folder, which contains the ledgers, the record of settings and the sockets of mounts.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The state folder of this user: `/run/fonio` for root, otherwise `fonio` in `$XDG_RUNTIME_DIR`, or `fonio-UID` in the
/// temporary folder. All of them are empty after a reboot, when nothing remains to be undone. The folder may not exist
/// yet.
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

/// Creates `dir` and its parents, for this user alone. An existing folder is not changed.
///
/// # Errors
///
/// Those of the kernel.
pub fn make(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
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
    fn a_new_folder_is_private() {
        let dir = tempfile::tempdir().expect("dir");
        let state = dir.path().join("a/b");
        make(&state).expect("it can be made");
        make(&state).expect("it is there");
        let mode = state.metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
