//! Control groups: whether they can control I/O here, and their weights.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{HostError, SMARTIO, scheduler_names};

const GROUPS: &str = "/sys/fs/cgroup";

/// The schedulers that read the class of a request (`block/bfq-iosched.c`, `block/mq-deadline.c`, and fonio's own module).
const WITH_CLASSES: [&str; 3] = ["bfq", "mq-deadline", SMARTIO];

/// Checks that units can get a class of I/O on this machine; the error is the reason why not.
pub(super) fn check_class() -> Result<(), String> {
    class_on(Path::new("/sys/block"))
}

/// Checks that the kernel can control the I/O of units; the error is the reason why not.
pub(super) fn check_controller() -> Result<(), String> {
    controller_of(Path::new(GROUPS))
}

/// Checks that weights have an effect on this machine; the error is the reason why not.
pub(super) fn check_weight() -> Result<(), String> {
    weight_on(Path::new(GROUPS), Path::new("/sys/block"))
}

fn class_on(sys_block: &Path) -> Result<(), String> {
    has_one_of(sys_block, &WITH_CLASSES).map_err(|has| {
        format!(
            "only the schedulers bfq, mq-deadline and smartio heed it, and {has}: `fonio fix apply bfq DISK`"
        )
    })
}

fn controller_of(groups: &Path) -> Result<(), String> {
    let Ok(controllers) = fs::read_to_string(groups.join("cgroup.controllers")) else {
        return Err("it needs control groups v2, which are not mounted on /sys/fs/cgroup here".to_owned());
    };
    if controllers.split_whitespace().any(|name| name == "io") {
        return Ok(());
    }
    Err("the kernel's control groups have no controller io here (CONFIG_BLK_CGROUP)".to_owned())
}

fn weight_on(groups: &Path, sys_block: &Path) -> Result<(), String> {
    controller_of(groups)?;
    match has_one_of(sys_block, &["bfq"]) {
        Err(has) if !costs(groups) => Err(format!(
            "only the scheduler bfq and the controller io.cost heed it, and {has}: `fonio fix apply io-cost DISK` or `fonio fix apply bfq DISK`"
        )),
        _ => Ok(()),
    }
}

/// Checks that a disk has one of these schedulers; the error names those that the disks have.
fn has_one_of(sys_block: &Path, wanted: &[&str]) -> Result<(), String> {
    let schedulers = schedulers(sys_block);
    if schedulers.iter().any(|(_, name)| wanted.contains(&name.as_str())) {
        return Ok(());
    }
    Err(schedulers.iter().map(|(disk, name)| format!("{disk} has {name}")).collect::<Vec<_>>().join(", "))
}

/// Whether io.cost is on for a disk.
fn costs(groups: &Path) -> bool {
    fs::read_to_string(groups.join("io.cost.qos")).is_ok_and(|text| text.contains("enable=1"))
}

/// The disks with hardware or a hypervisor below them; not virtual ones such as loop devices.
pub(super) fn disks(sys_block: &Path) -> Vec<String> {
    let entries = fs::read_dir(sys_block).into_iter().flatten().flatten();
    let is_disk = |dir: &PathBuf| {
        let size = fs::read_to_string(dir.join("size")).unwrap_or_default();
        dir.join("device").exists() && size.trim() != "0"
    };
    let names = entries.map(|entry| entry.path()).filter(is_disk);
    let mut names: Vec<String> =
        names.filter_map(|dir| Some(dir.file_name()?.to_string_lossy().into_owned())).collect();
    names.sort();
    names
}

/// Each disk with its scheduler.
fn schedulers(sys_block: &Path) -> Vec<(String, String)> {
    let in_use = |disk: &String| {
        let list = fs::read_to_string(sys_block.join(disk).join("queue/scheduler")).ok()?;
        let word = list.split_whitespace().find(|word| word.starts_with('[') || !list.contains('['))?;
        scheduler_names(word).pop()
    };
    disks(sys_block).into_iter().filter_map(|disk| in_use(&disk).map(|name| (disk, name))).collect()
}

/// Returns the folder of a control group; the error is the reason why the path is not one.
pub(super) fn group_at(path: &Path) -> Result<PathBuf, String> {
    let inside = path.strip_prefix(GROUPS).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
    let dir = Path::new(GROUPS).join(inside);
    let is_group = !inside.as_os_str().is_empty() && dir.join("cgroup.procs").exists();
    let dir = fs::canonicalize(&dir).ok().filter(|dir| is_group && dir.starts_with(GROUPS));
    dir.ok_or_else(|| format!("it is neither a unit of systemd nor a control group below {GROUPS}"))
}

/// The file with the weight of a group: bfq has its own.
fn weight_file(dir: &Path) -> PathBuf {
    let of_bfq = dir.join("io.bfq.weight");
    if of_bfq.exists() && !costs(Path::new(GROUPS)) { of_bfq } else { dir.join("io.weight") }
}

/// The weight of a control group as an assignment; `None` if it is gone or its parent does not control I/O.
pub(super) fn weight(dir: &Path) -> Result<Option<String>, HostError> {
    let file = weight_file(dir);
    match fs::read_to_string(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        text => {
            let text = text.map_err(HostError::system("read", &file))?;
            let first = text.lines().next().unwrap_or_default();
            Ok(Some(format!("IOWeight={}", first.trim_start_matches("default").trim())))
        }
    }
}

pub(super) fn set_weight(dir: &Path, value: &str) -> Result<(), HostError> {
    let file = weight_file(dir);
    let weight = value.trim_start_matches("IOWeight=");
    fs::write(&file, format!("default {weight}")).map_err(HostError::system("write", &file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_have_no_effect_is_refused() {
        let needs_bfq = "only the scheduler bfq and the controller io.cost heed it, and sda has none: `fonio fix apply io-cost DISK` or `fonio fix apply bfq DISK`";
        let needs_either = "only the schedulers bfq, mq-deadline and smartio heed it, and sda has none: `fonio fix apply bfq DISK`";
        let v2 = "it needs control groups v2, which are not mounted on /sys/fs/cgroup here";
        let io = "the kernel's control groups have no controller io here (CONFIG_BLK_CGROUP)";
        for (controllers, cost, scheduler, of, expected) in [
            (Some("cpu io memory"), "", "none mq-deadline [bfq]", "weight", Ok(())),
            (Some("cpu io memory"), "8:0 enable=1 ctrl=auto", "[none] bfq", "weight", Ok(())),
            (Some("cpu io memory"), "8:0 enable=0 ctrl=auto", "[none] bfq", "weight", Err(needs_bfq)),
            (Some("cpu io memory"), "", "none", "weight", Err(needs_bfq)),
            (Some("cpu io memory"), "", "[none] bfq", "limit", Ok(())),
            (Some("cpu memory"), "", "[bfq]", "limit", Err(io)),
            (None, "", "[bfq]", "weight", Err(v2)),
            (None, "", "[mq-deadline] none", "class", Ok(())),
            (None, "", "[none] mq-deadline", "class", Err(needs_either)),
        ] {
            let dir = tempfile::tempdir().expect("dir");
            let (groups, block) = (dir.path().join("cgroup"), dir.path().join("block"));
            fs::create_dir_all(&groups).expect("mkdir");
            fs::create_dir_all(block.join("loop0/queue")).expect("mkdir");
            fs::create_dir_all(block.join("sda/queue")).expect("mkdir");
            fs::create_dir_all(block.join("sda/device")).expect("mkdir");
            fs::write(block.join("sda/size"), "8\n").expect("write");
            fs::write(block.join("sda/queue/scheduler"), scheduler).expect("write");
            fs::write(block.join("loop0/queue/scheduler"), "[bfq]").expect("write");
            fs::write(groups.join("io.cost.qos"), cost).expect("write");
            if let Some(controllers) = controllers {
                fs::write(groups.join("cgroup.controllers"), controllers).expect("write");
            }
            let found = match of {
                "weight" => weight_on(&groups, &block),
                "limit" => controller_of(&groups),
                _ => class_on(&block),
            };
            assert_eq!(found, expected.map_err(str::to_owned), "{scheduler} {of}");
        }
    }

    #[test]
    fn only_a_control_group_is_one() {
        for path in ["/", "/sys/fs/cgroup", "/etc", "/sys/fs/cgroup/../../kernel", "/no/such/group"] {
            assert!(group_at(Path::new(path)).is_err(), "{path}");
        }
    }
}
