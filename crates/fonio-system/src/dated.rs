//! Keeps the newest of the folders that are named after a time, and removes the other folders.

use std::path::{Path, PathBuf};
use std::{fs, io};

use fonio_core::ByteCount;
use rustix::fs::{Access, access, statvfs};

use crate::state;

/// The form of the names: `0` stands for any digit.
const FORM: &[u8] = b"0000-00-00T00-00-00Z";

/// The limits for the folders that are kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of folders.
    pub folders: usize,
    /// Maximum total size of the files in the folders. A tenth of the file system's size is a further limit,
    /// because the folders can be in memory on small devices.
    pub bytes: ByteCount,
}

/// Creates `dir` if it is missing, and removes the oldest folders in it until the remaining folders are
/// within `limits`. Considers only folders with a name that begins with a time such as
/// `2026-11-24T02-13-05Z`. A dot before the time marks an unfinished folder. Fails if `dir` cannot be
/// created, read or written, or a folder cannot be removed.
pub fn make_room(dir: &Path, limits: Limits) -> io::Result<()> {
    state::make(dir)?;
    access(dir, Access::WRITE_OK | Access::EXEC_OK)?;
    let filesystem = statvfs(dir)?;
    let bytes_max = match filesystem.f_blocks.saturating_mul(filesystem.f_frsize) / 10 {
        // Some file systems do not report their size.
        0 => limits.bytes.0,
        tenth => tenth.min(limits.bytes.0),
    };
    let mut bytes = 0;
    for (at, path) in newest_first(dir)?.iter().enumerate() {
        bytes += size(path)?;
        if at >= limits.folders || bytes > bytes_max {
            fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}

/// Returns the folders in `dir` with a name that begins with a time, the newest first; also the unfinished
/// ones. A missing `dir` has none. Fails if `dir` cannot be read.
pub fn newest_first(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut dated: Vec<(String, PathBuf)> = Vec::new();
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && let Some(time) = time_of(&name)
            && entry.file_type()?.is_dir()
        {
            dated.push((time.to_owned(), entry.path()));
        }
    }
    dated.sort_unstable_by(|one, other| other.cmp(one));
    Ok(dated.into_iter().map(|(_, path)| path).collect())
}

/// Returns the name of a folder without the dot of an unfinished folder; `None` if the name does not begin
/// with a time.
fn time_of(name: &str) -> Option<&str> {
    let name = name.strip_prefix('.').unwrap_or(name);
    let begin = name.as_bytes().get(..FORM.len())?;
    let fits = |(form, byte): (&u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { form == byte };
    FORM.iter().zip(begin).all(fits).then_some(name)
}

/// Returns the total size of the files below `dir` in bytes.
fn size(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let is_dir = entry.file_type()?.is_dir();
        bytes += if is_dir { size(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the folders that remain. Each folder is given by its name and the size of the
    /// file in it.
    fn left(folders: &[(&str, usize)], limits: Limits) -> Vec<String> {
        let root = tempfile::tempdir().expect("a folder");
        let dir = root.path().join("checks");
        for (name, bytes) in folders {
            fs::create_dir_all(dir.join(name)).expect("a new folder");
            fs::write(dir.join(name).join("rows"), vec![0; *bytes]).expect("a new file");
        }
        make_room(&dir, limits).expect("the folder can be written");
        let names =
            fs::read_dir(&dir).expect("it is there").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().expect("text")).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn the_newest_folders_remain() {
        let limits = |folders, bytes| Limits { folders, bytes: ByteCount(bytes) };
        let [first, second, third] =
            ["2026-11-24T02-13-05Z", "2026-11-24T02-13-05Z-2", "2026-11-25T00-00-00Z"];
        let all = [(third, 10), (first, 10), (second, 10)];
        for (limits, expected) in [
            (limits(3, 30), &[first, second, third][..]),
            (limits(2, 30), &[second, third]),
            (limits(3, 29), &[second, third]),
            (limits(0, 30), &[]),
        ] {
            assert_eq!(left(&all, limits), expected, "{limits:?}");
        }
        // An unfinished recording counts too. Other folders are not removed.
        let unfinished = ".2026-11-23T00-00-00Z.partial-7";
        for (kept, expected) in [(2, &["mine", unfinished, first][..]), (1, &["mine", first]), (0, &["mine"])]
        {
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            assert_eq!(left(&[(first, 1), (unfinished, 1), ("mine", 1)], limits(kept, 100)), expected);
        }
        assert_eq!(left(&[], limits(1, 1)), [""; 0]);
    }

    #[test]
    fn only_folders_are_removed() {
        let root = tempfile::tempdir().expect("a folder");
        let (other, dir) = (root.path().join("other"), root.path().join("checks"));
        fs::create_dir_all(&other).expect("a new folder");
        fs::create_dir_all(&dir).expect("a new folder");
        std::os::unix::fs::symlink(&other, dir.join("2026-11-24T02-13-05Z")).expect("a new link");
        make_room(&dir, Limits { folders: 0, bytes: ByteCount(0) }).expect("the folder can be written");
        assert!(other.exists() && dir.join("2026-11-24T02-13-05Z").is_symlink());
    }
}
