//! Finds the programs that have files of a folder open.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fonio_core::printable;
use fonio_system::procfs::Task;

const NAMED_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::settings) struct Holder {
    pub pid: u32,
    pub name: String,
    /// The systemd unit of the program.
    pub unit: Option<String>,
    /// One of the program's files in the folder, or its working directory.
    pub file: PathBuf,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holder { pid, name, unit, file } = self;
        let (name, file) = (printable(name), file.to_string_lossy());
        match unit {
            Some(unit) => write!(f, "{name} ({}, process {pid}, {})", printable(unit), printable(&file)),
            None => write!(f, "{name} (process {pid}, {})", printable(&file)),
        }
    }
}

/// How programs use a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::settings) enum Use {
    /// The programs have files in the folder open for writing.
    Writes,
    /// The programs have files open or mapped, or their working directory is in the folder.
    Any,
}

/// Returns the programs that use files below `dir` on the file system with device number `device`, as far as
/// this user can see them.
pub(in crate::settings) fn holders(dir: &Path, device: u64, how: Use) -> Vec<Holder> {
    let proc = Path::new("/proc");
    let mut found = Vec::new();
    let own = std::process::id();
    for pid in Task::all_below(proc).filter(|pid| *pid != own) {
        let task = Task::of(pid);
        if let Some(file) = used(&task, dir, device, how) {
            let name = task.name().unwrap_or_default();
            found.push(Holder { pid, name, unit: unit_of(pid), file });
        }
    }
    found.sort_by_key(|holder| holder.pid);
    found
}

pub(in crate::settings) fn named(holders: &[Holder]) -> String {
    let mut names: Vec<String> = holders.iter().take(NAMED_MAX).map(Holder::to_string).collect();
    if holders.len() > NAMED_MAX {
        names.push(format!("and {} more", holders.len() - NAMED_MAX));
    }
    names.join(", ")
}

/// Returns advice on how to make these programs stop using a folder. `verb` is the systemctl command for the
/// units of the programs.
pub(in crate::settings) fn what_to_do(holders: &[Holder], verb: &str) -> String {
    let mut units: Vec<&str> = holders.iter().filter_map(|holder| holder.unit.as_deref()).collect();
    units.sort_unstable();
    units.dedup();
    let others = holders.iter().any(|holder| holder.unit.is_none());
    let own = if verb == "stop" { "end" } else { "restart" };
    match (units.is_empty(), others) {
        (true, _) => format!("{own} these programs"),
        (false, false) => format!("`systemctl {verb} {}`", units.join(" ")),
        (false, true) => format!("`systemctl {verb} {}`, and {own} the others", units.join(" ")),
    }
}

fn used(task: &Task, dir: &Path, device: u64, how: Use) -> Option<PathBuf> {
    let is_in = |link: &Path| {
        let path = fs::read_link(link).ok()?;
        let is_there = path.starts_with(dir) && fs::metadata(link).is_ok_and(|stat| stat.dev() == device);
        is_there.then_some(path)
    };
    let descriptors = fs::read_dir(task.file("fd")).into_iter().flatten().flatten();
    for descriptor in descriptors {
        if let Some(path) = is_in(&descriptor.path()) {
            let info = task.file("fdinfo").join(descriptor.file_name());
            if how == Use::Any || is_for_writing(&fs::read_to_string(info).unwrap_or_default()) {
                return Some(path);
            }
        }
    }
    let maps = fs::read_to_string(task.file("maps")).unwrap_or_default();
    if let Some(path) = mapped(&maps, dir, device, how) {
        return Some(path);
    }
    if how == Use::Writes {
        return None;
    }
    ["cwd", "root"].iter().find_map(|link| is_in(&task.file(link)))
}

/// Returns whether a descriptor's flags in `fdinfo` (octal) include O_WRONLY or O_RDWR.
fn is_for_writing(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
    flags & libc::O_ACCMODE != libc::O_RDONLY && flags & libc::O_PATH == 0
}

/// Returns the path of a mapped file below `dir`, from the lines of `/proc/PID/maps`.
fn mapped(maps: &str, dir: &Path, device: u64, how: Use) -> Option<PathBuf> {
    let number = format!("{:02x}:{:02x}", rustix::fs::major(device), rustix::fs::minor(device));
    maps.lines().find_map(|line| {
        let mut fields = line.splitn(6, ' ');
        let mode = fields.nth(1)?;
        let of = fields.nth(1)?;
        let path = Path::new(fields.nth(1)?.trim_start());
        let writes = mode.contains('w') && mode.ends_with('s');
        let is_used = of == number && path.starts_with(dir) && (how == Use::Any || writes);
        is_used.then(|| path.to_owned())
    })
}

/// Returns the systemd unit in the control group path of a process.
fn unit_of(pid: u32) -> Option<String> {
    let groups = fs::read_to_string(Task::of(pid).file("cgroup")).ok()?;
    // Skip units of a user's systemd, because root's systemctl does not manage them.
    let paths = groups.lines().filter(|path| !path.contains("/user@"));
    let mut names = paths.filter_map(|path| path.rsplit('/').find(|name| name.ends_with(".service")));
    names.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_descriptors() {
        for (flags, writes) in
            [("0100000", false), ("02100001", true), ("0100002", true), ("010000000", false)]
        {
            assert_eq!(
                is_for_writing(&format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t29\n")),
                writes,
                "{flags}"
            );
        }
        assert!(!is_for_writing(""));
    }

    #[test]
    fn mapped_files() {
        let maps = "7f00-7f01 r--s 00000000 fd:01 77                    /data/log/x y\n\
            7f02-7f03 rw-p 00000000 fd:01 78                    /data/log/private\n\
            7f04-7f05 rw-s 00000000 fd:01 79                    /data/log/journal\n\
            7f06-7f07 rw-s 00000000 fd:02 80                    /data/log/other\n";
        let device = rustix::fs::makedev(0xfd, 1);
        let of = |how| mapped(maps, Path::new("/data/log"), device, how);
        assert_eq!(of(Use::Any), Some("/data/log/x y".into()));
        assert_eq!(of(Use::Writes), Some("/data/log/journal".into()));
        assert_eq!(mapped(maps, Path::new("/data/lo"), device, Use::Any), None);
    }

    #[test]
    fn what_to_do_with_them() {
        let holder = |unit: Option<&str>| Holder {
            pid: 7,
            name: "x".to_owned(),
            unit: unit.map(str::to_owned),
            file: "/d/f".into(),
        };
        let (own, service) = (holder(None), holder(Some("x.service")));
        assert_eq!(
            what_to_do(&[service.clone(), service.clone()], "restart"),
            "`systemctl restart x.service`"
        );
        assert_eq!(what_to_do(std::slice::from_ref(&own), "stop"), "end these programs");
        assert_eq!(
            what_to_do(&[own.clone(), service.clone()], "restart"),
            "`systemctl restart x.service`, and restart the others"
        );
        assert_eq!(named(&[own, service]), "x (process 7, /d/f), x (x.service, process 7, /d/f)");
    }
}
