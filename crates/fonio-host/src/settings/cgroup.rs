//! Checks whether control groups can control I/O on this machine, and reads their weights.

use std::fs;
use std::path::{Component, Path, PathBuf};

use fonio_machine::{Machine, read_text};

use crate::error::HostError;
use crate::schedulers::SMARTIO;

pub(super) const GROUPS: &str = "/sys/fs/cgroup";

/// Schedulers that use a request's I/O class (`block/bfq-iosched.c`, `block/mq-deadline.c`, and fonio's own
/// module).
const WITH_CLASSES: [&str; 3] = ["bfq", "mq-deadline", SMARTIO];

/// Checks that an I/O class for units has an effect on this machine; the error is the reason why the class
/// has no effect.
pub(super) fn check_class(machine: &Machine) -> Result<(), String> {
    has_one_of(machine, &WITH_CLASSES).map_err(|has| {
        format!(
            "only the schedulers bfq, mq-deadline and smartio use this setting, and {has}; change it with `fonio fix apply bfq DISK`"
        )
    })
}

/// Checks that the kernel can control the I/O of units; the error is the reason why the kernel cannot control
/// the I/O.
pub(super) fn check_controller(machine: &Machine) -> Result<(), String> {
    let Some(controllers) = read_text(&machine.file(GROUPS).join("cgroup.controllers")) else {
        return Err("control groups v2 must be mounted on /sys/fs/cgroup".to_owned());
    };
    if controllers.split_whitespace().any(|name| name == "io") {
        return Ok(());
    }
    Err("this kernel has no io controller (CONFIG_BLK_CGROUP)".to_owned())
}

/// Checks that I/O weights have an effect on this machine; the error is the reason why the weights have no
/// effect.
pub(super) fn check_weight(machine: &Machine) -> Result<(), String> {
    check_controller(machine)?;
    match has_one_of(machine, &["bfq"]) {
        Err(has) if !costs(machine) => Err(format!(
            "only the scheduler bfq and the controller io.cost use this setting, and {has}; run `fonio fix apply io-cost DISK` or `fonio fix apply bfq DISK`"
        )),
        _ => Ok(()),
    }
}

/// Checks that a disk has one of these schedulers; the error names the schedulers in use.
fn has_one_of(machine: &Machine, wanted: &[&str]) -> Result<(), String> {
    let disks = machine.disks();
    let of_disks =
        || disks.iter().filter_map(|disk| Some((disk.name.as_deref()?, disk.scheduler.as_deref()?)));
    if of_disks().any(|(_, scheduler)| wanted.contains(&scheduler)) {
        return Ok(());
    }
    let has: Vec<String> =
        of_disks().map(|(disk, scheduler)| format!("{disk} uses the scheduler {scheduler}")).collect();
    Err(has.join(", "))
}

fn costs(machine: &Machine) -> bool {
    read_text(&machine.file(GROUPS).join("io.cost.qos")).is_some_and(|text| text.contains("enable=1"))
}

/// Returns the folder of a control group; the error is the reason why the path is not a control group.
pub(super) fn group_at(path: &Path) -> Result<PathBuf, String> {
    let inside = path.strip_prefix(GROUPS).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
    let dir = Path::new(GROUPS).join(inside);
    let is_group = !inside.as_os_str().is_empty() && dir.join("cgroup.procs").exists();
    let dir = fs::canonicalize(&dir).ok().filter(|dir| is_group && dir.starts_with(GROUPS));
    dir.ok_or_else(|| format!("this is neither a systemd unit nor a control group below {GROUPS}"))
}

/// Returns whether a path lies below the control groups, whether or not it exists.
pub(super) fn is_group_path(dir: &Path) -> bool {
    dir.starts_with(GROUPS) && dir.components().all(|component| component != Component::ParentDir)
}

/// Returns the file with the weight of a group; bfq has a separate file.
fn weight_file(dir: &Path) -> PathBuf {
    let of_bfq = dir.join("io.bfq.weight");
    if of_bfq.exists() && !costs(&Machine::here()) { of_bfq } else { dir.join("io.weight") }
}

/// Returns the weight of a control group as an assignment; `None` if the group is gone or its parent does not
/// control I/O.
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
        let needs_bfq = "only the scheduler bfq and the controller io.cost use this setting, and sda uses the scheduler none; run `fonio fix apply io-cost DISK` or `fonio fix apply bfq DISK`";
        let needs_either = "only the schedulers bfq, mq-deadline and smartio use this setting, and sda uses the scheduler none; change it with `fonio fix apply bfq DISK`";
        let v2 = "control groups v2 must be mounted on /sys/fs/cgroup";
        let io = "this kernel has no io controller (CONFIG_BLK_CGROUP)";
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
            let write = |path: &str, text: &str| {
                let path = dir.path().join(path);
                fs::create_dir_all(path.parent().expect("it has one")).expect("mkdir");
                fs::write(path, text).expect("write");
            };
            for (disk, scheduler) in [("loop0", "[bfq]"), ("sda", scheduler)] {
                write(&format!("sys/block/{disk}/dev"), "8:0");
                write(&format!("sys/block/{disk}/size"), "8");
                write(&format!("sys/block/{disk}/queue/scheduler"), scheduler);
            }
            write("sys/block/sda/device/type", "");
            write("sys/fs/cgroup/io.cost.qos", cost);
            if let Some(controllers) = controllers {
                write("sys/fs/cgroup/cgroup.controllers", controllers);
            }
            let machine = Machine::at(dir.path());
            let found = match of {
                "weight" => check_weight(&machine),
                "limit" => check_controller(&machine),
                _ => check_class(&machine),
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
