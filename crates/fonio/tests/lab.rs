//! Tests that a guest boots, has a file system that most machines lack, and survives a power cut of its
//! device.

use std::process::{Command, Output};

use fonio_testing::{Need, skip, skip_without};

use super::{json, text};

/// Parts of fonio's messages when this machine cannot fetch a kernel or has too little memory for a guest.
pub const CANNOT: [&str; 3] = ["archive cannot be read", "`apt-get ", "MiB of memory"];

/// Runs fonio in a guest. Returns `None` if this machine cannot run guests; the test is then skipped.
fn in_guest(arguments: &[&str]) -> Option<Output> {
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fonio"));
    let out = command.args(arguments).current_dir(dir.path()).output().expect("fonio starts");
    let said = text(&out.stderr);
    if CANNOT.iter().any(|why| said.contains(why)) && !out.status.success() {
        skip(Need::Guests, said.trim().to_owned());
        return None;
    }
    let left: Vec<_> =
        dir.path().read_dir().expect("the folder").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    Some(out)
}

#[test]
fn a_guest_has_other_file_systems_and_hands_on_output_and_exit_code() {
    skip_without!(Guests);
    let script = "echo in the guest; grep \" $FONIO_MOUNT nilfs2 \" /proc/mounts; cat /sys/block/ublkb*/queue/nr_requests; \
                  echo to standard error >&2; exit 7";
    let arguments =
        ["device", "emulate", "ridata", "--in", "lab:6.12", "--size", "256MiB", "--fs", "nilfs2", "--mount"];
    let Some(out) = in_guest(&[&arguments[..], &["--", "sh", "-c", script]].concat()) else { return };
    let (said, errors) = (text(&out.stdout), text(&out.stderr));
    assert!(said.contains("in the guest\n/dev/ublkb"), "{said}\n{errors}");
    assert!(said.contains(" nilfs2 rw"), "{said}");
    assert!(errors.contains("to standard error"), "{errors}");
    assert_eq!(out.status.code(), Some(7), "{errors}");
}

/// A guest takes many seconds to boot.
#[test]
fn a_wrong_workload_is_an_error_before_the_guest_boots() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fonio"));
        let out = command.args(["run", "--in", "lab:6.12", "--on", "sd_a1"]).args(arguments).output();
        let out = out.expect("fonio starts");
        (out.status.code(), text(&out.stdout).to_owned(), text(&out.stderr).to_owned())
    };
    let (code, _, error) = run(&["appinstal"]);
    assert!(code == Some(2) && error.contains("the nearest name is `appinstall`"), "{error}");
    let (code, _, error) = run(&["webbench", "--background", "phon"]);
    assert!(code == Some(2) && error.contains("there is no workload `phon`"), "{error}");
    let (code, list, error) = run(&[]);
    assert!(code == Some(0) && list.contains("appinstall "), "{error}");
    assert_eq!(error, "");
}

#[test]
fn a_guests_device_loses_its_power() {
    skip_without!(Guests);
    let write = "for i in 1 2 3 4 5 6 7 8; do echo line $i >>$FONIO_MOUNT/file; sync; done";
    let check = "grep -q 'line 1' $FONIO_MOUNT/file || ! test -e $FONIO_MOUNT/file";
    let arguments =
        ["device", "emulate", "ridata", "--in", "lab:6.12", "--size", "64MiB", "--power-cuts", "2"];
    let Some(out) = in_guest(&[&arguments[..], &["--check", check, "--", "sh", "-c", write]].concat()) else {
        return;
    };
    let errors = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{}\n{errors}", text(&out.stdout));
}

#[test]
fn an_emulated_device_is_measured_in_a_guest() {
    skip_without!(Guests);
    let arguments = "bench device ridata --quick --set four --size 64MiB --range 16MiB --in lab:6.12 --json";
    let Some(out) = in_guest(&arguments.split(' ').collect::<Vec<_>>()) else { return };
    let errors = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{errors}");
    let said = json(&out);
    assert_eq!(said["tests"].as_array().map(Vec::len), Some(4), "{said}");
    assert_eq!(said["place"]["model"], "ridata, emulated");
}

/// A script that runs a workload on an array whose last device vanishes, and on an array while fonio is
/// killed. The script prints exit codes and leftovers.
const ARRAYS: &str = include_str!("lab_arrays.sh");

#[test]
fn an_array_without_a_device_gives_errors_and_nothing_stays() {
    skip_without!(Guests);
    let Some(out) = in_guest(&["lab", "run", "6.12", "--", "sh", "-c", ARRAYS]) else { return };
    let (said, errors) = (text(&out.stdout), text(&out.stderr));
    let lines: Vec<&str> = said.lines().collect();
    // If fonio is killed, its next start removes the emulated devices.
    assert!(lines.starts_with(&["vanished 2", "killed 137", "md700"]), "{said}\n{errors}");
    assert_eq!(lines.last(), Some(&"finished 0"), "{said}\n{errors}");
    assert!(
        errors.contains("I/O error") && errors.contains("Cleaned up after an interrupted run: "),
        "{errors}"
    );
}

#[test]
fn a_command_in_a_guest_has_a_file_and_gives_json() {
    skip_without!(Guests);
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file");
    std::fs::write(&file, "of this machine\n").expect("a file");
    let put = file.to_str().expect("UTF-8");
    let script = format!("cat {put}; echo error >&2; exit 7");
    let arguments = ["lab", "run", "--json", "--copy", put, "6.12", "--", "sh", "-c", &script];
    let Some(out) = in_guest(&arguments) else { return };
    let errors = text(&out.stderr);
    assert_eq!(out.status.code(), Some(7), "{errors}");
    let said = json(&out);
    assert_eq!(
        (&said["stdout"], &said["stderr"]),
        (&"of this machine\n".into(), &"error\n".into()),
        "{said}"
    );
    assert_eq!((&said["exit_code"], &said["architecture"]), (&7.into(), &"amd64".into()), "{said}");
}

#[test]
fn only_a_whole_debian_has_another_architecture_and_packages() {
    for option in [["--arch", "arm64"], ["--packages", "fio"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fonio"));
        let out =
            command.args(["lab", "run"]).args(option).args(["--", "true"]).output().expect("fonio starts");
        let errors = text(&out.stderr);
        assert_eq!(out.status.code(), Some(125), "{errors}");
        assert!(errors.contains("--system"), "{errors}");
    }
}
