//! The recordings that `fonio check` keeps, and the name of the newest one on the command line: `last`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fonio_recording::is_recording;
use fonio_system::{dated, say};

use crate::kept;

/// The input that stands for the newest kept recording. A file with this name is `./last`.
pub const LAST: &str = "last";

/// The folder of the recordings in the state folder.
const CHECKS: &str = "checks";

/// Returns the path of a recording for which the user named none, and removes old recordings there.
pub fn place() -> Result<PathBuf> {
    kept::place(CHECKS)
}

/// Returns the path that the input `named` stands for: the newest kept recording for [`LAST`], otherwise
/// `named` itself. Fails if there is no kept recording.
pub fn resolve(named: &Path) -> Result<PathBuf> {
    if named != Path::new(LAST) {
        return Ok(named.to_owned());
    }
    let newest = newest(&kept::folder(CHECKS)?)?;
    if named.exists() {
        say!("note: `{LAST}` is {}; the file in this folder is `./{LAST}`", newest.display());
    }
    Ok(newest)
}

/// Returns the newest recording in `folder`.
fn newest(folder: &Path) -> Result<PathBuf> {
    let cannot = || format!("cannot list the recordings in {}", folder.display());
    let is_finished = |path: &Path| path.file_name().is_some_and(|name| !name.as_bytes().starts_with(b"."));
    let mut kept = dated::newest_first(folder).with_context(cannot)?.into_iter();
    if let Some(found) = kept.find(|path| is_finished(path) && is_recording(path)) {
        return Ok(found);
    }
    let is_root = rustix::process::geteuid().is_root();
    let of_root = if is_root { "" } else { "; the recordings of `sudo fonio check` are read with sudo" };
    bail!(
        "`{LAST}` is the newest recording that `fonio check` keeps, and {} has none: run `fonio check`, or \
         name a recording{of_root}",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_newest_complete_recording_is_the_last() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("checks");
        let error = |folder: &Path| format!("{:#}", newest(folder).expect_err("there is no recording"));
        assert!(error(&folder).contains("run `fonio check`"), "{}", error(&folder));
        for (name, is_complete) in [
            ("2026-11-24T02-13-05Z", true),
            ("2026-11-25T00-00-00Z", true),
            ("2026-11-25T00-00-00Z-2", true),
            // A recording that was not finished, and folders that are not recordings.
            (".2026-11-26T00-00-00Z.partial-7", true),
            ("2026-11-27T00-00-00Z", false),
            ("mine", true),
        ] {
            fs::create_dir_all(folder.join(name)).expect("a new folder");
            if is_complete {
                for file in ["meta.json", "requests.parquet"] {
                    fs::write(folder.join(name).join(file), "").expect("a new file");
                }
            }
        }
        assert_eq!(newest(&folder).expect("there are recordings"), folder.join("2026-11-25T00-00-00Z-2"));
    }
}
