//! Explains that the running kernel lacks a file system or a scheduler, and prints the command line for a
//! guest whose kernel has it.

use std::ffi::OsString;

use fonio_experiment::{ExperimentError, Setup, Storage};
use fonio_host::{Filesystem, HostError};

use crate::output;

/// The command-line option that runs a command in a guest with another kernel.
const IN: &str = "--in";

/// The command-line option that runs containers.
const COMPOSE: &str = "--compose";

/// The name of a guest whose kernel has all file systems and schedulers that fonio knows.
const GUEST: &str = "lab:6.12";

/// The name of the md array driver in the errors of [`fonio_host::check_md_raid0`].
const MD_RAID0: &str = "md RAID-0";

/// The I/O schedulers of Linux. Any other name is a typing error, and no guest has such a scheduler.
const SCHEDULERS: [&str; 3] = ["mq-deadline", "kyber", "bfq"];

/// Converts `error` to an error of the command line. If a guest can run `setups`, the new error contains the
/// command for the guest.
pub fn explain<'a>(error: ExperimentError, setups: impl IntoIterator<Item = &'a Setup>) -> anyhow::Error {
    // A guest does not have the directories and devices of this machine.
    let moves = setups.into_iter().all(|setup| is_emulated(&setup.storage));
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match &error {
        ExperimentError::Host(HostError::NotInKernel { what, .. }) if moves && guest_has(what) => {
            match in_guest(&words) {
                Some(line) => anyhow::anyhow!("{error}; in a guest: {line}"),
                None => error.into(),
            }
        }
        _ => error.into(),
    }
}

fn is_emulated(storage: &Storage) -> bool {
    matches!(storage, Storage::Profile(_) | Storage::MdRaid0(_))
}

fn guest_has(what: &str) -> bool {
    if what == MD_RAID0 {
        return true;
    }
    match what.strip_prefix("scheduler ") {
        Some(scheduler) => SCHEDULERS.contains(&scheduler),
        None => Filesystem::ALL.iter().any(|filesystem| filesystem.kernel_name() == what),
    }
}

/// Returns the shell command that runs fonio with `words` in a guest; `None` if `words` already name a guest, or name
/// containers, which run on this machine only.
fn in_guest(words: &[OsString]) -> Option<String> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    // The words after `--` are another command's arguments.
    let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let names = |option: &str| {
        words[..own].iter().any(|word| {
            word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    };
    if names(IN) || names(COMPOSE) {
        return None;
    }
    let before = words[..own].iter().map(|word| output::quoted(word));
    let after = words[own..].iter().map(|word| output::quoted(word));
    let guest = [IN.to_owned(), GUEST.to_owned()];
    let line = std::iter::once("fonio".to_owned()).chain(before).chain(guest).chain(after);
    Some(line.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_runs_the_same_command() {
        for (words, expected) in [
            (
                &["run", "webbench", "--on", "ridata", "--fs", "nilfs2"][..],
                Some("fonio run webbench --on ridata --fs nilfs2 --in lab:6.12"),
            ),
            (
                &["launch", "--fs", "f2fs", "--", "sh", "-c", "echo 'a b'", ""],
                Some(r"fonio launch --fs f2fs --in lab:6.12 -- sh -c 'echo '\''a b'\''' ''"),
            ),
            (&["run", "webbench", "--in", "lab:4.4", "--fs", "f2fs"], None),
            (&["run", "webbench", "--in=lab:4.4"], None),
            (&["run", "--compose", "c.yml", "--fs", "f2fs"], None),
            (&["launch", "--", "x", "--in"], Some("fonio launch --in lab:6.12 -- x --in")),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(in_guest(&words).as_deref(), expected);
        }
    }

    #[test]
    fn a_guest_is_named_only_where_it_helps() {
        for (what, expected) in [
            ("nilfs2", true),
            ("ext3", true),
            ("scheduler bfq", true),
            ("md RAID-0", true),
            ("scheduler no-such", false),
            ("zfs", false),
        ] {
            assert_eq!(guest_has(what), expected, "{what}");
        }
        let lacks = |what: &str| {
            let (release, what) = ("6.18.0".to_owned(), what.to_owned());
            ExperimentError::from(HostError::NotInKernel { release, what })
        };
        let on = |storage| [Setup::on(storage)];
        let profile = on(Storage::Profile("ridata".to_owned()));
        let said = explain(lacks("f2fs"), &profile).to_string();
        assert!(said.starts_with("this kernel (6.18.0) has no f2fs; in a guest: fonio "), "{said}");
        let directory = on(Storage::Directory("/".into()));
        assert_eq!(explain(lacks("f2fs"), &directory).to_string(), "this kernel (6.18.0) has no f2fs");
        let said = explain(lacks("scheduler no-such"), &profile).to_string();
        assert_eq!(said, "this kernel (6.18.0) has no scheduler no-such");
    }
}
