//! Finds the programs that keep a block device in use.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fonio_system::MountTable;
use fonio_system::procfs::Task;

const NAMED_MAX: usize = 4;

/// A user of a block device.
struct User {
    /// A clause that names the user.
    named: String,
    /// What tells this user from a later one with the same name.
    identity: String,
}

/// Returns a sentence for [`crate::HostError::InUse`] that names the programs that have `device` open or
/// mounted. A device may be mounted only in the mount namespace of a single program.
pub(crate) fn users_of(device: &Path) -> String {
    sentence(&users_below(Path::new("/"), device))
}

/// Returns the sentence of [`users_of`], and a text that stays the same while the users stay the same. The text
/// is empty if no user is visible.
pub(crate) fn users_and_identity(device: &Path) -> (String, String) {
    let users = users_below(Path::new("/"), device);
    let mut identities: Vec<&str> = users.iter().map(|user| user.identity.as_str()).collect();
    identities.sort_unstable();
    (sentence(&users), identities.join(", "))
}

fn sentence(users: &[User]) -> String {
    if users.is_empty() {
        return "no process has the device open or mounted; the kernel may use it".to_owned();
    }
    let named: Vec<&str> = users.iter().take(NAMED_MAX).map(|user| user.named.as_str()).collect();
    let more = users.len() - named.len();
    let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{}{rest}", named.join(", "))
}

fn users_below(root: &Path, device: &Path) -> Vec<User> {
    let (proc, source) = (root.join("proc"), device.to_string_lossy());
    let mut found = users_in_kernel(root, device);
    let mut namespaces = BTreeSet::new();
    let mut pids: Vec<u32> = Task::all_below(&proc).collect();
    pids.sort_unstable();
    for pid in pids {
        let task = Task::below(&proc, pid);
        let name = || task.name().unwrap_or_default();
        // All processes in a mount namespace have the same mounts, so only the first process is named.
        let namespace = fs::metadata(task.file("ns/mnt")).ok().map(|namespace| namespace.ino());
        if let Some(namespace) = namespace.filter(|namespace| namespaces.insert(*namespace))
            && let Ok(table) = fs::read(task.file("mountinfo"))
            && let Some(mount) = MountTable::parse(&table).iter().find(|mount| mount.source == source)
        {
            let dir = mount.dir.display();
            found.push(User {
                named: format!("process {pid} ({}) has the mount {dir}", name()),
                identity: format!("mount {dir} in namespace {namespace}"),
            });
        }
        let descriptors = fs::read_dir(task.file("fd")).into_iter().flatten().flatten();
        let is_open = |path: &Path| fs::read_link(path).is_ok_and(|target| target == device);
        if pid != std::process::id() && descriptors.into_iter().any(|entry| is_open(&entry.path())) {
            let began = task.stat().map(|stat| stat.started_ticks);
            found.push(User {
                named: format!("process {pid} ({}) has the device open", name()),
                identity: format!("process {pid} since {began:?}"),
            });
        }
    }
    found
}

/// Returns the swap area and the devices that use a device.
fn users_in_kernel(root: &Path, device: &Path) -> Vec<User> {
    let swaps = fs::read_to_string(root.join("proc/swaps")).unwrap_or_default();
    let is_swap = swaps.lines().any(|line| line.split_whitespace().next().map(Path::new) == Some(device));
    let name = device.file_name().unwrap_or_default();
    let holders = fs::read_dir(root.join("sys/block").join(name).join("holders")).into_iter().flatten();
    let holders = holders.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let swap = is_swap.then(|| User {
        named: format!("the machine swaps to it (`swapoff {}` ends this)", device.display()),
        identity: "swap".to_owned(),
    });
    let above = holders
        .map(|holder| User { named: format!("/dev/{holder} uses it"), identity: format!("device {holder}") });
    swap.into_iter().chain(above).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn who_has_a_device_open_or_mounted_is_named() {
        let root = tempfile::tempdir().expect("folder");
        let proc = root.path().join("proc");
        let process = |pid: u32, name: &str, mountinfo: &str, open: &[&str]| {
            let folder = proc.join(pid.to_string());
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
        fs::write(proc.join("swaps"), "Filename Type Size Used Priority\n/dev/loop701 partition 8 0 -2\n")
            .expect("swaps");
        fs::create_dir_all(root.path().join("sys/block/loop701/holders/md700")).expect("holders");
        for (device, expected) in [
            (
                "/dev/loop700",
                "process 41 (udisksd) has the device open, process 42 (sandboxed) has the mount /mnt/card",
            ),
            (
                "/dev/loop701",
                "the machine swaps to it (`swapoff /dev/loop701` ends this), /dev/md700 uses it",
            ),
            ("/dev/loop9", "no process has the device open or mounted; the kernel may use it"),
        ] {
            assert_eq!(sentence(&users_below(root.path(), Path::new(device))), expected);
        }
    }
}
