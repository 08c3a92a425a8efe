//! Fills a file system before a run until it resembles a file system in use: nearly full, with free space in
//! many small holes.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use fonio_core::{ByteCount, Random};

use crate::error::ExperimentError;
use crate::rounds::check_stop;

/// Size of each file that fills the file system. A segment of a log-structured file system (2 MiB on F2FS, 8
/// MiB on NILFS2) contains many files, so most segments still contain valid data after some files are
/// deleted.
const FILE_BYTES: usize = 128 << 10;
/// Number of files written between two checks of the file system's free space.
const FILES_AT_ONCE: usize = 16;
/// New files are written until this share of the file system is used; then random files are deleted.
const WRITTEN_SHARE: f64 = 0.98;
/// The file system's cleaner frees the space of the deleted files later. The run begins when the used share
/// is this close to the requested share, or when [`CLEANED_WITHIN`] has passed, because the cleaner must move
/// valid data and cannot free all invalid blocks.
const CLOSE_TO_SHARE: f64 = 0.01;
const CLEANED_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Space {
    pub(crate) used: ByteCount,
    /// Number of bytes that users other than root can still write.
    pub(crate) free: ByteCount,
}

impl Space {
    pub(crate) fn of(dir: &Path) -> Result<Space, ExperimentError> {
        let found = rustix::fs::statvfs(dir).map_err(io::Error::from);
        let found = found.map_err(ExperimentError::system("read the free space of", dir))?;
        Ok(Space {
            used: ByteCount((found.f_blocks - found.f_bfree) * found.f_frsize),
            free: ByteCount(found.f_bavail * found.f_frsize),
        })
    }

    /// Returns the sum of used and free bytes, without the blocks reserved for the file system or root.
    fn total(self) -> u64 {
        self.used.0 + self.free.0
    }

    fn used_share(self) -> f64 {
        self.used.0 as f64 / self.total() as f64
    }
}

/// Fills the file system of the directory `dir` to the share `wanted`. Writes files until the file system is
/// nearly full, and then deletes files at random until the used share is `wanted`. If no more data fit
/// although the used share is still below `wanted`, no file is deleted.
pub(crate) fn fill(dir: &Path, wanted: f64, seed: u64, stop: &AtomicBool) -> Result<(), ExperimentError> {
    let folder = dir.join("filling");
    fs::create_dir(&folder).map_err(ExperimentError::system("make", &folder))?;
    let mut random = Random::new(seed);
    let mut files = Vec::new();
    while Space::of(dir)?.used_share() < WRITTEN_SHARE {
        check_stop(stop)?;
        if write_files(&folder, &mut files, &mut random)? {
            break;
        }
        // Some file systems count data only after write-back.
        write_back(dir)?;
    }
    let space = Space::of(dir)?;
    let excess = space.used.0.saturating_sub((space.total() as f64 * wanted) as u64);
    for _ in 0..excess.div_ceil(FILE_BYTES as u64).min(files.len() as u64) {
        let at = random.below(files.len() as u64) as usize;
        let path: PathBuf = files.swap_remove(at);
        fs::remove_file(&path).map_err(ExperimentError::system("remove", &path))?;
    }
    write_back(dir)?;
    let began = Instant::now();
    while Space::of(dir)?.used_share() > wanted + CLOSE_TO_SHARE && began.elapsed() < CLEANED_WITHIN {
        check_stop(stop)?;
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Writes some new files. Returns whether the file system is then full.
fn write_files(
    folder: &Path,
    files: &mut Vec<PathBuf>,
    random: &mut Random,
) -> Result<bool, ExperimentError> {
    for _ in 0..FILES_AT_ONCE {
        let path = folder.join(files.len().to_string());
        let words = (0..FILE_BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes());
        match fs::write(&path, words.collect::<Vec<u8>>()) {
            Ok(()) => files.push(path),
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                // The last file may be incomplete or missing.
                return match fs::remove_file(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        Err(ExperimentError::system("remove", &path)(error))
                    }
                    _ => Ok(true),
                };
            }
            Err(error) => return Err(ExperimentError::system("write", &path)(error)),
        }
    }
    Ok(false)
}

/// Writes the dirty pages of the file system of `dir` to its device.
pub(crate) fn write_back(dir: &Path) -> Result<(), ExperimentError> {
    let folder = fs::File::open(dir).map_err(ExperimentError::system("open", dir))?;
    rustix::fs::syncfs(&folder).map_err(io::Error::from).map_err(ExperimentError::system("sync", dir))
}

#[cfg(test)]
mod tests {
    use fonio_host::Ledger;
    use fonio_testing::skip_without;

    use super::*;

    #[test]
    fn a_file_system_is_filled_to_the_share() {
        skip_without!(Root);
        let state = tempfile::tempdir().expect("a folder");
        let mut ledger = Ledger::open(state.path()).expect("a ledger");
        let (dir, _) = fonio_host::mount_tmpfs(&mut ledger, 32 << 20).expect("a tmpfs");
        fill(&dir, 0.75, 1, &AtomicBool::new(false)).expect("it is filled");
        let share = Space::of(&dir).expect("space").used_share();
        assert!((share - 0.75).abs() < 0.01, "{share}");
        // Files are deleted at random, so some of the first files are missing.
        let first = (0..100).filter(|number| dir.join(format!("filling/{number}")).exists()).count();
        assert!((60..90).contains(&first), "{first}");
        ledger.close().expect("undone");
    }
}
