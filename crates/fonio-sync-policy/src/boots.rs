//! The current boot, and earlier boots that ended cleanly.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

use crate::error::PolicyError;
use crate::folder::{Folder, Name};
use crate::trusted;

/// The random id that the kernel generates at each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The file in which the systemd unit records boots that ended cleanly.
pub const CLEAN_BOOTS: &str = "/var/lib/fonio/clean-boots";
/// The maximum number of recorded boots. A database that is not opened during more boots than this is
/// removed. This loses only a cache.
const REMEMBERED: usize = 1000;
/// The maximum size of the record: each id has 36 characters and a line break.
const RECORD_BYTES_MAX: u64 = 64 << 10;
/// The permissions of the record: the programs of all users read it.
const RECORD_MODE: Mode = Mode::from_raw_mode(0o644);

/// The current boot, and earlier boots that ended cleanly.
#[derive(Clone, Debug)]
pub struct Boots {
    current: String,
    clean: Vec<String>,
    file: PathBuf,
}

impl Boots {
    /// Reads the id of this boot and the record of earlier boots. Fails with [`PolicyError::System`] if the
    /// boot id cannot be read. A record that cannot be read, or that others can change, counts as empty. With
    /// an empty record, valid caches may be removed, but no stale cache is used.
    pub fn read() -> Result<Boots, PolicyError> {
        Boots::read_from(Path::new(BOOT_ID), Path::new(CLEAN_BOOTS))
    }

    pub(crate) fn read_from(boot_id: &Path, file: &Path) -> Result<Boots, PolicyError> {
        let current = fs::read_to_string(boot_id).map_err(PolicyError::system("read", boot_id))?;
        let clean = trusted::read(file, RECORD_BYTES_MAX).unwrap_or_default();
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
    pub fn ended_cleanly(&self, id: &[u8]) -> bool {
        self.clean.iter().any(|clean| clean.as_bytes() == id)
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
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(PolicyError::system("make", folder))?;
        let name = self.file.file_name().unwrap_or_default().as_bytes();
        let write = || {
            let folder = Folder::open(folder.as_os_str().as_bytes())?;
            folder.check_owner(rustix::process::geteuid().as_raw())?;
            folder.replace(&Name::new(&[name])?, text.as_bytes(), RECORD_MODE)
        };
        write().map_err(|fault| PolicyError::of(fault, &self.file))?;
        self.clean = text.lines().map(str::to_owned).collect();
        Ok(())
    }
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
        assert!(second.ended_cleanly(b"first") && !second.ended_cleanly(b"second"));
        second.record(true).expect("recorded");
        assert!(second.ended_cleanly(b"second"));
        second.record(false).expect("recorded");
        let third = boot("third");
        assert!(third.ended_cleanly(b"first") && !third.ended_cleanly(b"second"));
    }
}
