//! Finds out what the running kernel has before it is needed: file systems and I/O schedulers, built in or as modules.

use fonio_machine::Machine;
use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, fsopen};

use crate::error::HostError;
use crate::program;

/// Checks that the kernel has the file system `name`. Asks the kernel to open it, as a mount would: the
/// kernel then loads the module if there is one. If this is not allowed or not possible (without root; before
/// Linux 5.2), a missing file system becomes visible only when it is mounted.
pub(crate) fn check_filesystem(name: &str) -> Result<(), HostError> {
    match fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC) {
        Err(Errno::NODEV) => Err(not_in_kernel(name)),
        _ => Ok(()),
    }
}

/// Checks that the kernel has the I/O scheduler `name`: that some device offers it, after its module was
/// loaded if there is one. If no device here has schedulers, a missing scheduler becomes visible only on the
/// device that needs it.
pub fn check_scheduler(name: &str) -> Result<(), HostError> {
    let is_there = || offers(&Machine::here().loaded_schedulers(), name);
    if is_there() {
        return Ok(());
    }
    load_scheduler(name);
    if is_there() { Ok(()) } else { Err(not_in_kernel(&format!("scheduler {name}"))) }
}

/// Whether a device here offers the scheduler `name`, or the kernel has a module of it. Nothing is loaded.
pub fn has_scheduler(name: &str) -> bool {
    Machine::here().loaded_schedulers().iter().any(|loaded| loaded == name) || can_load_scheduler(name)
}

/// Loads the module of the scheduler `name`, if there is one: the kernel lists only schedulers that it has loaded.
pub(crate) fn load_scheduler(name: &str) {
    // Without the program or the module, the scheduler stays unlisted, and the caller reports that.
    modprobe_scheduler(name, &["-q"]);
}

/// Whether the kernel has a module of the scheduler `name`. Nothing is loaded.
pub(crate) fn can_load_scheduler(name: &str) -> bool {
    modprobe_scheduler(name, &["-q", "-n"])
}

/// Asks by the alias by which the kernel itself would ask for the module (`block/elevator.c`).
fn modprobe_scheduler(name: &str, options: &[&str]) -> bool {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let alias = format!("{name}-iosched");
    name.chars().all(is_name)
        && program::run("modprobe", "kmod", &[options, &["--", &alias]].concat()).is_ok()
}

/// Whether a device offers the scheduler, or no device shows the available schedulers: devices without a
/// request queue offer only `none`.
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
            let refused = check_filesystem("no-such-fs").expect_err("there is none of that name").to_string();
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
