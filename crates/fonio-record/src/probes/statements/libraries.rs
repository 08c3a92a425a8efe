//! Finds the copies of SQLite that processes use, and sets the probes in them.
//!
//! A short-lived program would end before its files are examined. So the shared libraries in the usual
//! folders and the program of the recorded command get their probes before the command starts. Other files
//! get probes when a followed process maps them. The recorder notices this process by its calls, because
//! the process opens a library or a database.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aya::programs::ProgramFd;
use fonio_core::Timestamp;
use fonio_machine::{Machine, read_text};
use rustc_hash::FxHashSet;

use super::library::{self, Library};
use crate::probes::bpf::uprobe::{At, UprobeLink, Uprobes};

/// Folders of shared libraries. The architecture subfolders of these folders are searched too.
const FOLDERS: [&str; 5] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"];
/// Name prefixes of libraries that contain SQLite.
const NAMES: [&str; 4] = ["libsqlite3.so", "libsqlite.so", "libmozsqlite3.so", "libsqlcipher.so"];
/// Maximum number of copies of SQLite that get probes.
const ATTACHED_MAX: usize = 64;
/// Maximum number of files examined during a capture.
const LOOKED_MAX: usize = 1 << 14;
/// Maximum number of processes examined per wake-up.
const PROCESSES_PER_WAKE: usize = 16;

/// The two BPF programs, and the object that sets uprobes.
#[derive(Debug)]
pub(super) struct Programs {
    pub uprobes: Uprobes,
    pub stepped: ProgramFd,
    pub returned: ProgramFd,
}

/// A copy of SQLite with its probes. Dropping this value removes the probes.
#[derive(Debug)]
struct Attached {
    _probes: [UprobeLink; 2],
}

/// The copies of SQLite that have probes.
#[derive(Debug)]
pub(super) struct Libraries {
    programs: Programs,
    attached: Vec<Attached>,
    /// The files that were examined, by device and inode.
    looked: FxHashSet<(u64, u64)>,
    /// Remarks for the user about files without probes or without statement texts.
    pub refused: Vec<String>,
    /// Copies of SQLite found after the capture began, each with the time at which it was found.
    pub late: Vec<(PathBuf, Timestamp)>,
}

impl Libraries {
    /// Sets probes in the libraries in the usual folders, and in the program of the command.
    pub(super) fn new(programs: Programs, command: Option<&OsStr>) -> Libraries {
        let mut libraries = Libraries {
            programs,
            attached: Vec::new(),
            looked: FxHashSet::default(),
            refused: Vec::new(),
            late: Vec::new(),
        };
        for path in usual().into_iter().chain(command.and_then(program)) {
            libraries.look_at(&path, &path);
        }
        libraries
    }

    /// Examines the executable files that the processes have newly mapped.
    pub(super) fn look_at_processes(
        &mut self,
        machine: &Machine,
        processes: &[u32],
        late_at: Option<Timestamp>,
    ) {
        for process in processes.iter().take(PROCESSES_PER_WAKE) {
            let maps = read_text(&machine.proc(format!("{process}/maps"))).unwrap_or_default();
            for (range, named) in mapped(&maps) {
                // The name may now refer to another file, or belong to another mount namespace. The link
                // refers to the mapped file itself.
                let link = machine.proc(format!("{process}/map_files/{range}"));
                if self.look_at(&link, Path::new(named))
                    && let Some(at) = late_at
                {
                    self.late.push((named.into(), at));
                }
            }
        }
    }

    /// Examines a file, and sets the probes if the file contains SQLite. Returns whether probes were set.
    /// Skips a missing file.
    fn look_at(&mut self, path: &Path, named: &Path) -> bool {
        let Ok(metadata) = fs::metadata(path) else { return false };
        let is_new = metadata.is_file()
            && self.looked.len() < LOOKED_MAX
            && self.looked.insert((metadata.dev(), metadata.ino()));
        if !is_new {
            return false;
        }
        let Ok(Some(library)) = File::open(path).and_then(library::find) else { return false };
        if self.attached.len() >= ATTACHED_MAX {
            self.refused.push(format!(
                "SQL statements executed by {} are not recorded, because more than {ATTACHED_MAX} files contain SQLite",
                named.display()
            ));
            return false;
        }
        match self.attach(path, library) {
            Ok(attached) => {
                self.attached.push(attached);
                if library.text.is_none() {
                    self.refused.push(format!(
                        "SQL statements executed by {} have no text, because its function sqlite3_sql is missing or unknown; use a build that exports it",
                        named.display()
                    ));
                }
                true
            }
            Err(error) => {
                self.refused.push(format!(
                    "SQL statements executed by {} are not recorded, because the kernel cannot set a probe in it ({error})",
                    named.display()
                ));
                false
            }
        }
    }

    fn attach(&self, path: &Path, library: Library) -> std::io::Result<Attached> {
        let Programs { uprobes, stepped, returned } = &self.programs;
        // The return probe is set first: an entry whose return is not seen would look like a step that never
        // ends.
        let returned = uprobes.attach(returned, (path, library.step, At::Return), 0)?;
        let stepped = uprobes.attach(stepped, (path, library.step, At::Instruction), library.cookie())?;
        Ok(Attached { _probes: [stepped, returned] })
    }

    /// Removes the probes from all copies of SQLite.
    pub(super) fn detach(&mut self) {
        self.attached.clear();
    }
}

/// Returns the shared libraries with a known name in the usual folders and in the folders named by the
/// environment.
fn usual() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    for folder in FOLDERS {
        let below = fs::read_dir(folder).into_iter().flatten().flatten();
        let of_architecture =
            below.filter(|entry| entry.file_name().to_string_lossy().ends_with("-linux-gnu"));
        folders.extend(of_architecture.map(|entry| entry.path()));
    }
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&named).filter(|path| path.is_absolute()));
    let mut found = Vec::new();
    for entry in folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten() {
        let name = entry.file_name();
        if NAMES.iter().any(|known| name.to_string_lossy().starts_with(known)) {
            found.push(entry.path());
        }
    }
    found.sort_unstable();
    found
}

/// Finds the executable file of a command in the same way as the system.
fn program(command: &OsStr) -> Option<PathBuf> {
    let path = Path::new(command);
    if path.components().count() > 1 {
        return fs::canonicalize(path).ok();
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(path))
        .find_map(|path| fs::canonicalize(path).ok())
}

/// Returns the address range and path of each executable file in the text of `/proc/PID/maps`.
fn mapped(maps: &str) -> impl Iterator<Item = (&str, &str)> {
    maps.lines().filter_map(|line| {
        let mut words = line.splitn(6, ' ');
        let (range, rights) = (words.next()?, words.next()?);
        let path = words.nth(3)?.trim_start();
        (rights.as_bytes().get(2) == Some(&b'x') && path.starts_with('/')).then_some((range, path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_machine_code_are_read_from_maps() {
        let maps = "55e0-55e1 r--p 00000000 fd:00 12 /usr/bin/a b\n\
                    55e1-55e2 r-xp 00001000 fd:00 12                         /usr/bin/a b\n\
                    7f00-7f01 r-xp 00000000 00:00 0 \n\
                    7f02-7f03 r-xp 00000000 00:00 0                          [vdso]\n\
                    7f04-7f05 r-xp 00000000 fd:00 13 /lib/libsqlite3.so.0 (deleted)\nbroken";
        let found: Vec<_> = mapped(maps).collect();
        assert_eq!(found, [("55e1-55e2", "/usr/bin/a b"), ("7f04-7f05", "/lib/libsqlite3.so.0 (deleted)")]);
    }
}
