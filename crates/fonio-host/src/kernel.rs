//! Checks in advance which file systems and I/O schedulers the running kernel has, built in or as modules.

use fonio_machine::Machine;
use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, fsopen};

use crate::error::HostError;
use crate::program;

/// Checks that the running kernel has the file system `name`. Opens the file system type as a mount would, so
/// that the kernel loads the module of the file system, if any. Without root or before Linux 5.2, the check
/// is skipped; if the file system is missing, mounting fails later.
pub(crate) fn check_filesystem(name: &str) -> Result<(), HostError> {
    match fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC) {
        Err(Errno::NODEV) => Err(not_in_kernel(name)),
        _ => Ok(()),
    }
}

/// Checks that the running kernel has the I/O scheduler `name`. Loads the scheduler's module, if any, and
/// checks that some device offers the scheduler. If no device has schedulers, the check is skipped; if the
/// scheduler is missing, setting it fails later.
pub fn check_scheduler(name: &str) -> Result<(), HostError> {
    let is_there = || offers(&Machine::here().loaded_schedulers(), name);
    if is_there() {
        return Ok(());
    }
    load_scheduler(name);
    if is_there() { Ok(()) } else { Err(not_in_kernel(&format!("scheduler {name}"))) }
}

/// Returns whether a device offers the scheduler `name` or the kernel has a module for the scheduler. This
/// function loads no module.
pub fn has_scheduler(name: &str) -> bool {
    Machine::here().loaded_schedulers().iter().any(|loaded| loaded == name) || can_load_scheduler(name)
}

/// Loads the module of the scheduler `name`, if any, because the kernel lists a scheduler only after its
/// module is loaded.
pub(crate) fn load_scheduler(name: &str) {
    // If loading fails, no device lists the scheduler, and the caller reports this error.
    modprobe_scheduler(name, &["-q"]);
}

/// Returns whether the kernel has a module for the scheduler `name`. Does not load the module.
pub(crate) fn can_load_scheduler(name: &str) -> bool {
    modprobe_scheduler(name, &["-q", "-n"])
}

/// Calls `modprobe` with the alias by which the kernel loads a scheduler's module (`block/elevator.c`).
fn modprobe_scheduler(name: &str, options: &[&str]) -> bool {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let alias = format!("{name}-iosched");
    name.chars().all(is_name)
        && program::run("modprobe", "kmod", &[options, &["--", &alias]].concat()).is_ok()
}

/// Returns whether a device offers the scheduler `name`. Also returns true if no device offers any scheduler
/// but `none`, as is the case for devices without a request queue.
fn offers(offered: &[String], name: &str) -> bool {
    offered.iter().all(|offered| offered == "none") || offered.iter().any(|offered| offered == name)
}

pub(crate) fn not_in_kernel(what: &str) -> HostError {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    HostError::NotInKernel { release, what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_is_listed_is_there() {
        let listed = std::fs::read_to_string("/proc/filesystems").expect("proc");
        for name in listed.lines().filter_map(|line| line.split_whitespace().last()) {
            check_filesystem(name).expect(name);
        }
        if rustix::process::geteuid().is_root() {
            let refused = check_filesystem("no-such-fs").expect_err("no such file system").to_string();
            assert!(
                refused.starts_with("this kernel (") && refused.ends_with(") has no no-such-fs"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_scheduler_that_is_not_part_of_linux_comes_with_its_way() {
        let said = not_in_kernel("scheduler smartio").to_string();
        assert!(said.contains("has no scheduler smartio; smartio is a module"), "{said}");
        assert!(said.contains("dkms install") && said.contains("6.1, 6.12 and 7.3"), "{said}");
        let version = include_str!("../../../kernel/smartio/dkms.conf");
        let version =
            version.lines().find_map(|line| line.strip_prefix("PACKAGE_VERSION=")).expect("a version");
        assert!(said.contains(&format!("dkms install smartio/{}`", version.trim_matches('"'))), "{said}");
        let kernels = include_str!("../../../kernel/smartio/kernels.list");
        for kernel in kernels.lines().filter(|line| !line.starts_with('#')) {
            assert!(said.contains(kernel), "{kernel}: {said}");
        }
        let said = not_in_kernel("scheduler no-such").to_string();
        assert!(said.ends_with("has no scheduler no-such"), "{said}");
        assert!(!has_scheduler("no-such") && !has_scheduler("../smartio"));
    }

    #[test]
    fn schedulers_are_known_from_the_devices_that_have_a_choice() {
        for (offered, name, expected) in [
            (&[][..], "bfq", true),
            (&["none"], "bfq", true),
            (&["mq-deadline", "none"], "bfq", false),
            (&["mq-deadline", "none"], "mq-deadline", true),
            (&["mq-deadline", "none"], "none", true),
        ] {
            let all: Vec<String> = offered.iter().map(|&name| name.to_owned()).collect();
            assert_eq!(offers(&all, name), expected, "{offered:?} {name}");
        }
    }
}
