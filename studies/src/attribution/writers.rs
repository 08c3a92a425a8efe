//! Runs the writers of the study: their I/O, and the units in which they run.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result};

use super::ROLE;

/// The kinds of writers. Each kind is also the writer's process name and the prefix of its file names.
pub const WRITERS: [&str; 7] = ["buffered", "fsync", "direct", "mmap", "container", "reused1", "reused2"];
const MAPPED_BYTES: usize = 4 << 20;
/// The name of the container image, and the name of the container.
const IMAGE: &str = "localhost/attribution";
const CONTAINER: &str = "attribution-container";
/// The maximum number of attempts to get the first writer's process id again.
const TRIES: u32 = 10_000;

/// The kind of unit in which the writers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Control groups that have names of systemd units.
    Groups,
    /// Real systemd units, and a Podman container.
    Units,
}

impl Place {
    pub fn of(word: &str) -> Result<Place> {
        let place = [Place::Groups, Place::Units].into_iter().find(|place| place.word() == word);
        place.with_context(|| format!("{word} is not a place for writers"))
    }

    pub fn word(self) -> &'static str {
        match self {
            Place::Groups => "groups",
            Place::Units => "units",
        }
    }

    /// Returns whether a writer of this kind can run in this kind of unit.
    pub fn has(self, kind: &str) -> bool {
        self == Place::Units || kind != "container"
    }

    /// Returns the display name of a writer's unit.
    pub fn unit(self, kind: &str) -> String {
        match kind {
            "container" => format!("podman {CONTAINER}"),
            kind => format!("attribution-{kind}.service"),
        }
    }
}

/// The control groups of the writers. Dropping this value removes the groups.
pub struct Groups {
    place: Place,
    dirs: Vec<PathBuf>,
}

impl Groups {
    pub fn make(place: Place) -> Result<Groups> {
        let mut groups = Groups { place, dirs: Vec::new() };
        if place == Place::Groups {
            let mounts = fs::read_to_string("/proc/self/mounts")?;
            let unified = mounts.lines().find_map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                (words.get(2) == Some(&"cgroup2")).then(|| PathBuf::from(words[1]))
            });
            let unified = unified.context("no cgroup2 is mounted")?;
            for kind in WRITERS.iter().filter(|kind| place.has(kind)) {
                let dir = unified.join(place.unit(kind));
                // A control group left over from an interrupted run is used again.
                fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
                groups.dirs.push(dir);
            }
        }
        Ok(groups)
    }

    pub fn start(&self, kind: &str, dir: &Path) -> Result<Child> {
        let own = std::env::current_exe()?;
        let unit = self.place.unit(kind);
        let mut command = match (self.place, kind) {
            (Place::Groups, _) => {
                let mut command = Command::new(&own);
                let group =
                    self.dirs.iter().find(|dir| dir.ends_with(&unit)).context("a writer has no group")?;
                command.args([ROLE, "write", kind]).arg(dir).arg(group);
                command
            }
            (Place::Units, "container") => {
                let mut command = Command::new("podman");
                command.args(["run", "--rm", "--network", "none", "--name", CONTAINER, "--volume"]);
                command.arg(format!("{}:/data", dir.display())).arg(IMAGE);
                command.args(["/attribution", ROLE, "write", kind, "/data"]);
                command
            }
            (Place::Units, _) => {
                let mut command = Command::new("systemd-run");
                command.args(["--quiet", "--wait", "--collect", "--pipe", "--unit", &unit]).arg(&own);
                command.args([ROLE, "write", kind]).arg(dir);
                command
            }
        };
        command.spawn().with_context(|| kind.to_owned())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for dir in &self.dirs {
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Writes the files of one writer, in a control group if one is given.
pub fn write(kind: &str, dir: &Path, group: Option<&Path>) -> io::Result<()> {
    if let Some(group) = group {
        fs::write(group.join("cgroup.procs"), "0")?;
    }
    let name = std::ffi::CString::new(kind)?;
    // SAFETY: PR_SET_NAME reads a string that ends with NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    let path = |name: &str| dir.join(format!("{kind}-{name}"));
    let pause = || std::thread::sleep(Duration::from_millis(20));
    match kind {
        "buffered" | "container" => {
            for number in 0..8 {
                let temporary = path("temporary");
                fs::write(&temporary, vec![number; 1 << 20])?;
                pause();
                fs::rename(&temporary, path(&number.to_string()))?;
            }
        }
        "fsync" => {
            for name in ["log", "deleted"] {
                synced(&path(name), 50)?;
            }
        }
        "direct" => direct(&path("file"), &pause)?,
        "reused1" | "reused2" => with_one_id(kind, dir, &path("file"))?,
        _ => mapped(&path("file"), &pause)?,
    }
    Ok(())
}

fn synced(path: &Path, pieces: u8) -> io::Result<()> {
    let mut file = File::create(path)?;
    for number in 0..pieces {
        file.write_all(&vec![number; 16 << 10])?;
        file.sync_all()?;
    }
    Ok(())
}

fn direct(path: &Path, pause: &dyn Fn()) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).custom_flags(libc::O_DIRECT).open(path)?;
    let mut memory = vec![0_u8; (64 << 10) + 4096];
    let aligned = memory.as_ptr().align_offset(4096);
    memory.fill(7);
    for number in 0..64 {
        file.write_all_at(&memory[aligned..aligned + (64 << 10)], number * (64 << 10))?;
        pause();
    }
    Ok(())
}

fn mapped(path: &Path, pause: &dyn Fn()) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
    file.set_len(MAPPED_BYTES as u64)?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (none, fd) = (std::ptr::null_mut(), file.as_raw_fd());
    // SAFETY: `mmap` creates a new mapping of a file that is as long as the mapping.
    let mapped = unsafe { libc::mmap(none, MAPPED_BYTES, protection, libc::MAP_SHARED, fd, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    for at in (0..MAPPED_BYTES).step_by(4096) {
        // SAFETY: `at` is inside the mapping, which no other code uses.
        unsafe { mapped.cast::<u8>().add(at).write(1) };
    }
    pause();
    // SAFETY: this is the mapping created above.
    unsafe { libc::munmap(mapped, MAPPED_BYTES) };
    Ok(())
}

/// Writes a file in a child process. The children of both writers get the same process id.
fn with_one_id(kind: &str, dir: &Path, path: &Path) -> io::Result<()> {
    // The file with the process id is outside `dir`, because it would occupy blocks on the device if it were
    // in `dir`.
    let noted = dir.with_extension("pid");
    let wanted = match kind {
        "reused2" => Some(fs::read_to_string(&noted)?.trim().parse::<i32>().map_err(io::Error::other)?),
        _ => None,
    };
    for _ in 0..TRIES {
        if let Some(wanted) = wanted {
            fs::write("/proc/sys/kernel/ns_last_pid", (wanted - 1).to_string())?;
        }
        // SAFETY: this process has only one thread, so the child may call any function.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let own = std::process::id().cast_signed();
            let is_it = wanted.is_none_or(|wanted| wanted == own);
            let written = if is_it { synced(path, 20) } else { Ok(()) };
            // The child lives long enough for the recorder to see it, and ends before the next child starts.
            if is_it {
                std::thread::sleep(Duration::from_millis(100));
            }
            // SAFETY: `_exit` ends the child without running the exit handlers that it inherited.
            unsafe { libc::_exit(i32::from(written.is_err())) };
        }
        if child < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut status = 0;
        // SAFETY: this waits for the child created above.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        if status != 0 {
            return Err(io::Error::other("the child could not write"));
        }
        if wanted.is_none() {
            return fs::write(&noted, child.to_string());
        }
        if wanted == Some(child) {
            return Ok(());
        }
    }
    Err(io::Error::other("no child got the process id of the earlier child"))
}
