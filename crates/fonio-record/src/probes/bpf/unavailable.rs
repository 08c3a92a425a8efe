//! Explains why BPF programs cannot run on this machine.

use std::error::Error;
use std::io;

use aya::maps::MapError;
use aya::programs::ProgramError;
use aya::{BtfError, EbpfError};

/// The file in which the kernel describes its types (BTF).
pub(super) const BTF: &str = "/sys/kernel/btf/vmlinux";
/// The first Linux version with all features that the programs need, such as `bpf_task_pt_regs`.
pub(super) const LINUX_MIN: (u32, u32) = (5, 15);
/// Number of lines shown from the verifier's log.
const VERIFIER_LINES: usize = 3;

/// The reason why BPF programs cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Unavailable {
    #[error("BPF needs Linux 5.15 or later, but this is Linux {0}")]
    OldKernel(String),
    #[error("fonio's BPF programs support only x86-64 and 64-bit ARM, but this fonio is a program for {0}")]
    OtherProcessor(&'static str),
    #[error(
        "this fonio is a 32-bit program ({program}) on a 64-bit kernel ({linux}): use the static fonio for {linux}, which also runs in a 32-bit system"
    )]
    Of32Bits { program: &'static str, linux: String },
    #[error(
        "the kernel does not describe its types ({BTF} is missing); use a kernel with CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoTypes,
    #[error(
        "the kernel does not allow BPF programs here ({source}); run as root, or with the capabilities CAP_BPF and CAP_PERFMON and without a seccomp filter on bpf(2)"
    )]
    NotPermitted { source: io::Error },
    #[error("the kernel refused the BPF program {program} ({source}): {said}")]
    Refused { program: &'static str, said: String, source: io::Error },
    #[error("the kernel has no uprobes; use a kernel with CONFIG_UPROBE_EVENTS=y")]
    NoUprobes,
    #[error(
        "on Linux {0}, a probe at the end of a function can kill processes in a sandbox (seccomp); use Linux 6.10 or earlier, or 6.14 or later"
    )]
    EndsSandboxes(String),
    #[error("the BPF program could not be {doing}: {why}")]
    Failed { doing: &'static str, why: String },
}

impl Unavailable {
    /// Returns the reason for an error from loading the object, which creates the maps.
    pub(super) fn from_object(error: &EbpfError) -> Unavailable {
        not_permitted(error).unwrap_or_else(|| failed("loaded", error))
    }

    /// Returns the reason for an error that occurred while reading the kernel's types.
    pub(super) fn from_types(error: &BtfError) -> Unavailable {
        not_permitted(error).unwrap_or_else(|| failed("adapted to this kernel", error))
    }

    /// Returns the reason for an error that occurred while loading or attaching a program.
    pub(super) fn from_program(program: &'static str, error: ProgramError) -> Unavailable {
        match error {
            ProgramError::LoadError { io_error, verifier_log } => {
                let log = verifier_log.to_string();
                let lines: Vec<&str> =
                    log.lines().map(str::trim).filter(|line| !is_statistic(line)).collect();
                // Without permission, the kernel does not run the verifier.
                if lines.is_empty() && is_permission(&io_error) {
                    return Unavailable::NotPermitted { source: io_error };
                }
                let said = lines[lines.len().saturating_sub(VERIFIER_LINES)..].join("; ");
                Unavailable::Refused { program, said, source: io_error }
            }
            other => not_permitted(&other).unwrap_or_else(|| failed("attached", &other)),
        }
    }

    /// Returns the reason for an error that occurred while reading or writing a map.
    pub(crate) fn from_map(error: &MapError) -> Unavailable {
        not_permitted(error).unwrap_or_else(|| failed("reached", error))
    }
}

/// Returns whether a line of the verifier's report does not explain the error: it is empty, or belongs to the
/// final statistics.
fn is_statistic(line: &str) -> bool {
    const FIGURES: [&str; 4] = ["verification time ", "stack depth ", "processed ", "subprog "];
    line.is_empty() || FIGURES.iter().any(|start| line.starts_with(start))
}

fn is_permission(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES))
}

/// Looks for a missing permission among the causes of an error.
fn not_permitted(error: &(dyn Error + 'static)) -> Option<Unavailable> {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    let mut errors = causes.filter_map(|error| error.downcast_ref::<io::Error>());
    let found = errors.find(|error| is_permission(error))?.raw_os_error()?;
    Some(Unavailable::NotPermitted { source: io::Error::from_raw_os_error(found) })
}

fn failed(doing: &'static str, error: &(dyn Error + 'static)) -> Unavailable {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    let mut why: Vec<String> = causes.map(ToString::to_string).collect();
    why.dedup();
    Unavailable::Failed { doing, why: why.join(": ") }
}

/// Checks that the BPF programs support the processor's registers and system-call numbers. `program` is the
/// architecture for which fonio was compiled, and `linux` is the output of `uname -m`.
pub(super) fn check_processor(program: &'static str, linux: &str) -> Result<(), Unavailable> {
    match program {
        "x86_64" | "aarch64" => Ok(()),
        _ if matches!(linux, "x86_64" | "aarch64") => {
            Err(Unavailable::Of32Bits { program, linux: linux.to_owned() })
        }
        _ => Err(Unavailable::OtherProcessor(program)),
    }
}

/// Checks the kernel version in the output of `uname -r`. Accepts a text without a version.
pub(super) fn check_release(release: &str) -> Result<(), Unavailable> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < LINUX_MIN => {
            Err(Unavailable::OldKernel(format!("{major}.{minor}")))
        }
        _ => Ok(()),
    }
}

/// Returns whether this kernel kills processes whose seccomp filter does not allow the call `uretprobe`,
/// which the kernel itself makes at the end of a probed function. On x86-64, Linux 6.11 added the call, and
/// Linux 6.14 exempts it from seccomp. Linux 6.12 and 6.13 also have the fix, at the latest from the patch
/// levels below.
pub(super) fn ends_sandboxes(release: &str) -> bool {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse::<u32>().unwrap_or(0));
    let (major, minor, patch) = (numbers.next(), numbers.next(), numbers.next().unwrap_or(0));
    let is_bad = match (major, minor) {
        (Some(6), Some(11)) => true,
        (Some(6), Some(12)) => patch < 20,
        (Some(6), Some(13)) => patch < 8,
        _ => false,
    };
    is_bad && cfg!(target_arch = "x86_64")
}

/// Returns whether this kernel passes the state of the previous thread to `sched_switch`.
pub(super) fn switch_has_state(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (5, 18),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_is_judged_by_its_version() {
        for (release, is_enough, has_state) in [
            ("4.4.302", false, false),
            ("5.10.0-28-amd64", false, false),
            ("5.15.0", true, false),
            ("5.17.1", true, false),
            ("5.18.0-rc1", true, true),
            ("6.18.44-fc-v669", true, true),
            ("10.0", true, true),
            ("strange", true, true),
        ] {
            assert_eq!(check_release(release).is_ok(), is_enough, "{release}");
            assert_eq!(switch_has_state(release), has_state, "{release}");
        }
        let said = check_release("5.10.0-28-amd64").map_err(|error| error.to_string());
        let expected = "BPF needs Linux 5.15 or later, but this is Linux 5.10";
        assert_eq!(said, Err(expected.to_owned()));
    }

    #[test]
    fn other_processors_are_named() {
        for (program, linux, said) in [
            ("x86_64", "x86_64", None),
            ("aarch64", "aarch64", None),
            ("arm", "armv7l", Some("a program for arm")),
            ("riscv64", "riscv64", Some("a program for riscv64")),
            ("arm", "aarch64", Some("use the static fonio for aarch64")),
        ] {
            let error = check_processor(program, linux).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), said.is_some(), "{program} on {linux}");
            assert!(error.unwrap_or_default().contains(said.unwrap_or_default()), "{program} on {linux}");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn kernels_that_end_sandboxes_are_known() {
        for (release, is_bad) in [
            ("6.10.14", false),
            ("6.11.0-29-generic", true),
            ("6.12.9", true),
            ("6.12.38+deb13-amd64", false),
            ("6.13", true),
            ("6.13.12", false),
            ("6.14.0", false),
            ("7.0", false),
            ("strange", false),
        ] {
            assert_eq!(ends_sandboxes(release), is_bad, "{release}");
        }
    }

    #[test]
    fn a_lack_of_permission_is_told_apart() {
        let error =
            |errno| EbpfError::FileError { path: "x".into(), error: io::Error::from_raw_os_error(errno) };
        for (errno, is_permission) in [(libc::EPERM, true), (libc::EACCES, true), (libc::EINVAL, false)] {
            let found = Unavailable::from_object(&error(errno));
            assert_eq!(matches!(found, Unavailable::NotPermitted { .. }), is_permission, "{found}");
        }
    }
}
