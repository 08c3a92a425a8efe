//! Temporary folders. Their names have the id of the process that uses them, so that folders of killed processes are found
//! and removed. Because the id means another process in another PID namespace, the process also holds a lock on the folder.

use std::fs::{self, File};
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use fonio_system::Task;
use tempfile::TempDir;

/// Creates a temporary folder for a purpose, and removes this user's folders of killed processes for the same purpose.
///
/// # Errors
/// Fails if the folder cannot be created.
pub fn folder(purpose: &str) -> io::Result<TempDir> {
    sweep(purpose);
    let folder = tempfile::Builder::new().prefix(&format!("{purpose}-{}-", std::process::id())).tempdir()?;
    let lock = File::open(folder.path())?;
    lock.lock()?;
    // The kernel unlocks the folder when this process ends.
    let _ = lock.into_raw_fd();
    Ok(folder)
}

/// Keeps a folder that [`folder`] created, under a name that is not removed later. Returns its path.
pub fn keep(folder: TempDir) -> PathBuf {
    let from = folder.keep();
    let kept = from.file_name().map(|name| from.with_file_name(format!("kept-{}", name.to_string_lossy())));
    match kept {
        Some(kept) if fs::rename(&from, &kept).is_ok() => kept,
        _ => from,
    }
}

fn sweep(purpose: &str) {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(purpose)?.strip_prefix('-'));
        let owner = rest.and_then(|rest| rest.split_once('-')?.0.parse::<u32>().ok());
        let is_own =
            |found: fs::Metadata| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
        if let Some(owner) = owner
            && !Task::of(owner).exists()
            && entry.metadata().is_ok_and(is_own)
            && File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok())
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_killed_processes_are_removed() {
        let of_test = "fonio-test-temporary";
        let own = folder(of_test).expect("a folder");
        // No process has the largest id.
        let dead = std::env::temp_dir().join(format!("{of_test}-{}-x", u32::MAX));
        let other = std::env::temp_dir().join(format!("{of_test}-x"));
        let elsewhere = std::env::temp_dir().join(format!("{of_test}-{}-y", u32::MAX));
        for path in [&dead, &other, &elsewhere] {
            fs::create_dir_all(path).expect("created");
        }
        // A process of another PID namespace.
        let lock = File::open(&elsewhere).expect("opened");
        lock.lock().expect("locked");
        let kept = keep(folder(of_test).expect("a folder"));
        assert!(
            !dead.exists() && own.path().exists() && other.exists() && kept.exists() && elsewhere.exists()
        );
        drop(lock);
        drop(folder(of_test).expect("a folder"));
        assert!(!elsewhere.exists());
        assert!(kept.file_name().is_some_and(|name| name.to_string_lossy().starts_with("kept-fonio-test-")));
        for path in [&kept, &other] {
            fs::remove_dir(path).expect("removed");
        }
    }
}
