//! Finds the programs that keep a block device in use.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fonio_system::MountTable;
use fonio_system::procfs::Task;

const NAMED_MAX: usize = 4;

/// Returns a sentence for [`crate::HostError::InUse`] that names the programs that have `device` open or
/// mounted. A device may be mounted only in the mount namespace of a single program.
pub(crate) fn users_of(device: &Path) -> String {
    users_below(Path::new("/proc"), device)
}

fn users_below(proc: &Path, device: &Path) -> String {
    let source = device.to_string_lossy();
    let mut found = Vec::new();
    let mut namespaces = BTreeSet::new();
    let mut pids: Vec<u32> = Task::all_below(proc).collect();
    pids.sort_unstable();
    for pid in pids {
        let task = Task::below(proc, pid);
        let name = || task.name().unwrap_or_default();
        // All processes in a mount namespace have the same mounts, so only the first process is named.
        let namespace = fs::metadata(task.file("ns/mnt")).ok().map(|namespace| namespace.ino());
        if namespace.is_some_and(|namespace| namespaces.insert(namespace))
            && let Ok(table) = fs::read(task.file("mountinfo"))
            && let Some(mount) = MountTable::parse(&table).iter().find(|mount| mount.source == source)
        {
            found.push(format!("process {pid} ({}) has the mount {}", name(), mount.dir.display()));
        }
        let descriptors = fs::read_dir(task.file("fd")).into_iter().flatten().flatten();
        let is_open = |path: &Path| fs::read_link(path).is_ok_and(|target| target == device);
        if pid != std::process::id() && descriptors.into_iter().any(|entry| is_open(&entry.path())) {
            found.push(format!("process {pid} ({}) has the device open", name()));
        }
    }
    if found.is_empty() {
        return "no process has the device open or mounted; swap or another device may use it".to_owned();
    }
    let more = found.len().saturating_sub(NAMED_MAX);
    found.truncate(NAMED_MAX);
    let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{}{rest}", found.join(", "))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn who_has_a_device_open_or_mounted_is_named() {
        let proc = tempfile::tempdir().expect("folder");
        let process = |pid: u32, name: &str, mountinfo: &str, open: &[&str]| {
            let folder = proc.path().join(pid.to_string());
            fs::create_dir_all(folder.join("fd")).expect("fd");
            fs::create_dir_all(folder.join("ns")).expect("ns");
            fs::write(folder.join("ns/mnt"), "").expect("namespace");
            fs::write(folder.join("comm"), format!("{name}\n")).expect("comm");
            fs::write(folder.join("mountinfo"), mountinfo).expect("mountinfo");
            for (at, target) in open.iter().enumerate() {
                symlink(target, folder.join("fd").join(at.to_string())).expect("descriptor");
            }
        };
        let mounted = "36 35 7:700 / /mnt/card rw,noatime shared:1 - ext4 /dev/loop700 rw\n";
        process(41, "udisksd", "", &["/dev/null", "/dev/loop700"]);
        process(42, "sandboxed", mounted, &["/dev/null"]);
        process(43, "other", "36 35 7:1 / /mnt rw - ext4 /dev/loop70 rw\n", &["/dev/loop70"]);
        let named = users_below(proc.path(), Path::new("/dev/loop700"));
        assert_eq!(
            named,
            "process 41 (udisksd) has the device open, process 42 (sandboxed) has the mount /mnt/card"
        );
        assert!(users_below(proc.path(), Path::new("/dev/loop9")).starts_with("no process"));
    }
}
