//! Kills a writer of recordings, or lets its disk be full, at each of its calls that change files.

#![allow(clippy::unwrap_used)]

use crate::generated;

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use fonio_core::Meta;
use fonio_recording::{Recording, Table, Tables, Writer, WriterOptions};
use fonio_testing::skip_without;
use generated::Generated;

/// The calls that change files. Not every architecture has all of them.
const CALLS: &str = "openat write pwrite64 fallocate fsync rename renameat renameat2 unlink unlinkat ftruncate \
    fchmod fchown chmod mkdir mkdirat rmdir";
/// The calls that need space.
const NEED_SPACE: &str = "openat write pwrite64 fallocate fsync mkdir mkdirat";
/// The path at which `a_helper_writes_a_recording` writes.
const PLACE: &str = "FONIO_TEST_PLACE";
const OLD_REQUESTS: u64 = 7;
const NEW_REQUESTS: u64 = 2000;

fn write(dir: &Path, requests: u64) -> Result<u64, String> {
    let options = WriterOptions { overwrite: true, keep_what_fits: true, ..WriterOptions::default() };
    let mut writer = Writer::create(dir, options).map_err(|error| error.to_string())?;
    let generated = Generated { seed: 5, requests, depth: 8, bios: true, stuck: false };
    generated.feed(&mut writer).map_err(|error| error.to_string())?;
    let done = writer.install(Meta::default()).map_err(|error| error.to_string())?;
    Ok(done.incomplete.iter().map(|table| table.missing).sum())
}

/// Replaces a recording, as a process that the tests below kill. Does nothing on its own.
#[test]
fn a_helper_writes_a_recording() {
    let Some(dir) = std::env::var_os(PLACE) else { return };
    // The fault can happen while this is printed.
    let _ = match write(Path::new(&dir), NEW_REQUESTS) {
        Ok(missing) => writeln!(io::stderr(), "written, {missing} rows are missing"),
        Err(error) => writeln!(io::stderr(), "refused: {error}"),
    };
}

/// Starts the helper with a fault at its `at`th call of a kind. Returns its output, and whether the fault happened.
fn with_fault(place: &Path, trace: &Path, call: &str, fault: &str, at: u32) -> (Output, bool) {
    let mut strace = Command::new("strace");
    // With --seccomp-bpf, strace delivers no signal.
    strace.args(["-f", "-qq", "-o"]).arg(trace);
    strace.args(["-e", &format!("trace=?{call}"), "-e", &format!("inject=?{call}:{fault}:when={at}")]);
    strace.arg(std::env::current_exe().unwrap()).args(["--test-threads=1", "--nocapture", "--exact"]);
    let output = strace.arg("faults::a_helper_writes_a_recording").env(PLACE, place).output().unwrap();
    let is_killed = output.status.signal() == Some(9);
    let was_faulty = is_killed || fs::read_to_string(trace).unwrap().contains("(INJECTED)");
    (output, was_faulty)
}

/// Lets a fault happen at each call of a writer that replaces a recording, or writes a new one. Afterwards, the old
/// or the new recording is complete, and the next writer leaves no other files.
fn leaves_a_recording(calls: &str, fault: &str, is_new: bool) {
    let mut faults = 0;
    for call in calls.split_whitespace() {
        for at in 1..1000 {
            let dir = tempfile::tempdir().unwrap();
            let folder = dir.path().join("folder");
            let place = folder.join("run");
            fs::create_dir(&folder).unwrap();
            if !is_new {
                write(&place, OLD_REQUESTS).unwrap();
            }
            let (output, was_faulty) = with_fault(&place, &dir.path().join("trace"), call, fault, at);
            if !was_faulty {
                break;
            }
            faults += 1;
            let said = String::from_utf8_lossy(&output.stderr);
            let case = format!("{call} {at} {fault}, new: {is_new}: {said}");
            assert!(!said.contains("panicked"), "{case}");
            if place.exists() {
                let mut rows = fonio_core::CollectedRows::default();
                let recording = Recording::open(&place).unwrap_or_else(|error| panic!("{case}: {error}"));
                let requests = recording.rows(Table::Requests);
                recording.replay(&mut rows, Tables::ALL).unwrap_or_else(|error| panic!("{case}: {error}"));
                let is_complete = [OLD_REQUESTS, NEW_REQUESTS].contains(&requests);
                let says_missing = rows.diagnostics.iter().any(|row| row.code == "disk-full");
                assert!(is_complete || says_missing, "{case}: {requests} requests");
            } else {
                assert!(is_new, "{case}: the old recording is gone");
            }
            if output.status.success() {
                let left = names(&folder);
                // A writer that cannot list a folder cannot remove it. The next writer does.
                let is_clean = left.is_empty() || left == ["run"] || call == "openat";
                assert!(is_clean, "{case}: {left:?}");
            }
            write(&place, OLD_REQUESTS).unwrap();
            assert_eq!(names(&folder), ["run"], "{case}");
        }
    }
    assert!(faults > 30, "only {faults} faults happened");
    eprintln!("{faults} faults ({fault}, new: {is_new}) tried");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_kill_at_any_write_leaves_a_complete_recording() {
    skip_without!(Strace);
    leaves_a_recording(CALLS, "signal=KILL", true);
    leaves_a_recording(CALLS, "signal=KILL", false);
}

#[test]
fn a_full_disk_at_any_write_leaves_a_readable_recording() {
    skip_without!(Strace);
    leaves_a_recording(NEED_SPACE, "error=ENOSPC", true);
    leaves_a_recording(NEED_SPACE, "error=EDQUOT", false);
}
