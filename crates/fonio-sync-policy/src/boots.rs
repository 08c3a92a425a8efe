//! The current boot, and earlier boots that ended cleanly.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::PolicyError;

/// The random id that the kernel generates at each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The file in which the systemd unit records boots that ended cleanly.
pub const CLEAN_BOOTS: &str = "/var/lib/fonio/clean-boots";
/// The maximum number of recorded boots. A database that is not opened during more boots than this is
/// removed. This loses only a cache.
const REMEMBERED: usize = 1000;

/// The current boot, and earlier boots that ended cleanly.
#[derive(Clone, Debug)]
pub struct Boots {
    current: String,
    clean: Vec<String>,
    file: PathBuf,
}

impl Boots {
    /// Reads the id of this boot and the record of earlier boots. Fails with [`PolicyError::System`] if the
    /// boot id cannot be read. An unreadable record counts as empty. With an empty record, valid caches may
    /// be removed, but no stale cache is used.
    pub fn read() -> Result<Boots, PolicyError> {
        Boots::read_from(Path::new(BOOT_ID), Path::new(CLEAN_BOOTS))
    }

    pub(crate) fn read_from(boot_id: &Path, file: &Path) -> Result<Boots, PolicyError> {
        let current = fs::read_to_string(boot_id).map_err(PolicyError::system("read", boot_id))?;
        let clean = fs::read_to_string(file).unwrap_or_default();
        Ok(Boots {
            current: current.trim().to_owned(),
            clean: clean.lines().map(str::to_owned).collect(),
            file: file.to_owned(),
        })
    }

    /// Returns the id of this boot.
    pub fn current(&self) -> &str {
        &self.current
    }

    /// Returns whether all writes of the boot `id` are on the disk.
    pub fn ended_cleanly(&self, id: &str) -> bool {
        self.clean.iter().any(|clean| clean == id)
    }

    /// Records whether this boot has ended cleanly. Pass `true` after all programs have ended and all data
    /// are synced, and `false` before programs start. Fails with [`PolicyError::System`] if the record cannot
    /// be written; the record is then unchanged.
    pub fn record(&mut self, is_clean: bool) -> Result<(), PolicyError> {
        let mut clean: Vec<&str> =
            self.clean.iter().map(String::as_str).filter(|id| *id != self.current).collect();
        if is_clean {
            clean.push(&self.current);
        }
        let from = clean.len().saturating_sub(REMEMBERED);
        let text: String = clean[from..].iter().map(|id| format!("{id}\n")).collect();
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder).map_err(PolicyError::system("make", folder))?;
        }
        replace(&self.file, &text, None)?;
        self.clean = text.lines().map(str::to_owned).collect();
        Ok(())
    }
}

/// Replaces a small file durably: after a power cut, either the old or the new file exists.
pub(crate) fn replace(path: &Path, text: &str, like: Option<&fs::Metadata>) -> Result<(), PolicyError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = path.with_file_name(name);
    let write = || {
        let mut file = File::options().write(true).create_new(true).open(&new)?;
        if let Some(like) = like {
            // Keeps the owner, because other users of the database must also be able to replace the file.
            // Only root can change the owner, and only root needs to.
            let _ = std::os::unix::fs::fchown(&file, Some(owner(like).0), Some(owner(like).1));
            file.set_permissions(like.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        // Do not use `sync_all`: this sync must happen even in a program whose fsync calls are dropped.
        rustix::fs::fsync(&file)?;
        fs::rename(&new, path)?;
        sync_folder(path)
    };
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(PolicyError::system("replace", &new)(error));
        }
        _ => {}
    }
    write().map_err(|error| {
        let _ = fs::remove_file(&new);
        PolicyError::system("write", path)(error)
    })
}

fn owner(of: &fs::Metadata) -> (u32, u32) {
    use std::os::unix::fs::MetadataExt;
    (of.uid(), of.gid())
}

pub(crate) fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = File::open(path.parent().unwrap_or(Path::new("/")))?;
    Ok(rustix::fs::fsync(&folder)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_is_clean_from_its_end_until_it_goes_on() {
        let dir = tempfile::tempdir().expect("dir");
        let (id, file) = (dir.path().join("id"), dir.path().join("state/clean"));
        let boot = |number: &str| {
            fs::write(&id, format!("{number}\n")).expect("write");
            Boots::read_from(&id, &file).expect("read")
        };
        boot("first").record(true).expect("recorded");
        let mut second = boot("second");
        assert!(second.ended_cleanly("first") && !second.ended_cleanly("second"));
        second.record(true).expect("recorded");
        assert!(second.ended_cleanly("second"));
        second.record(false).expect("recorded");
        let third = boot("third");
        assert!(third.ended_cleanly("first") && !third.ended_cleanly("second"));
    }
}
