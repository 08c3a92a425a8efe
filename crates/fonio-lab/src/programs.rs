//! Runs programs that are installed on this machine.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::error::LabError;

/// Maximum length of a failed program's output in an error message, in bytes.
const COMPLAINT_BYTES: usize = 1500;

/// Runs `command` and returns its standard output. `package` contains the program.
pub(crate) fn output(command: &mut Command, package: &'static str) -> Result<String, LabError> {
    let out = command.stdin(Stdio::null()).output().map_err(|error| not_started(command, package, error))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err(failed(command, &out.stderr))
}

/// Runs `command` and sends its standard output to `shown`.
pub(crate) fn run(command: &mut Command, package: &'static str, shown: Stdio) -> Result<(), LabError> {
    let child = command.stdin(Stdio::null()).stdout(shown).stderr(Stdio::piped()).spawn();
    let child = child.map_err(|error| not_started(command, package, error))?;
    let name = command.get_program().to_owned();
    let out = child.wait_with_output().map_err(LabError::system("wait for", &name))?;
    if out.status.success() { Ok(()) } else { Err(failed(command, &out.stderr)) }
}

/// How often a running program is asked whether it has ended, and a lock whether it is free.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) success: bool,
    /// What it wrote to standard error.
    pub(crate) complaint: Vec<u8>,
}

/// Runs `command`, as [`run`] does, but kills it when `stop` becomes true, and fails then with [`LabError::Interrupted`].
pub(crate) fn run_until(
    command: &mut Command,
    package: &'static str,
    shown: Stdio,
    stop: &AtomicBool,
) -> Result<(), LabError> {
    let ended = ended(command, package, shown, stop)?;
    if ended.success { Ok(()) } else { Err(failed(command, &ended.complaint)) }
}

/// Runs `command` until it ends, or until `stop` becomes true: then it is killed, and the call fails with
/// [`LabError::Interrupted`].
pub(crate) fn ended(
    command: &mut Command,
    package: &'static str,
    shown: Stdio,
    stop: &AtomicBool,
) -> Result<Ended, LabError> {
    let child = command.stdin(Stdio::null()).stdout(shown).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| not_started(command, package, error))?;
    let mut said = child.stderr.take().expect("it is a pipe");
    let reader = thread::spawn(move || {
        let mut complaint = Vec::new();
        // A complaint that cannot be read to its end is shown as far as it was read.
        let _ = said.read_to_end(&mut complaint);
        complaint
    });
    let status = loop {
        if stop.load(Ordering::Relaxed) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(LabError::Interrupted);
        }
        match child.try_wait().map_err(LabError::system("wait for", command.get_program()))? {
            Some(status) => break status,
            None => thread::sleep(POLL),
        }
    };
    let complaint = reader.join().unwrap_or_default();
    if stop.load(Ordering::Relaxed) {
        return Err(LabError::Interrupted);
    }
    Ok(Ended { success: status.success(), complaint })
}

/// Returns a command that runs a shell script in mount and process namespaces of its own, which end with this process. The
/// caller adds the script's arguments.
pub(crate) fn in_namespaces(script: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        "--pdeathsig",
        "KILL",
        "--",
        "unshare",
        "--mount",
        "--pid",
        "--ipc",
        "--fork",
        "--kill-child",
    ]);
    command.args(["--", "sh", "-c", script, "sh"]);
    command
}

pub(crate) fn not_started(command: &Command, package: &'static str, error: io::Error) -> LabError {
    let program = command.get_program();
    if error.kind() != io::ErrorKind::NotFound {
        return LabError::system("start", program)(error);
    }
    LabError::ProgramMissing { program: program.to_string_lossy().into_owned(), package }
}

pub(crate) fn failed(command: &Command, complaint: &[u8]) -> LabError {
    let complaint = String::from_utf8_lossy(complaint);
    let mut from = complaint.len().saturating_sub(COMPLAINT_BYTES);
    while !complaint.is_char_boundary(from) {
        from += 1;
    }
    // Do not print the options that pass our configuration, because these options would fill a screen.
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    let said = words.iter().position(|word| !word.starts_with('-') && !word.contains('=')).unwrap_or(0);
    let name = command.get_program().to_string_lossy();
    LabError::ProgramFailed {
        command: format!("{name} {}", words[said.min(words.len())..].join(" ")),
        complaint: complaint[from..].trim().to_owned(),
    }
}

/// Writes a copy of `program` without debug information to `copy`. If this machine has no `strip`, the copy
/// keeps the debug information. Fails if `program` cannot be copied.
pub fn stripped(program: &Path, copy: &Path) -> Result<PathBuf, LabError> {
    let mut strip = Command::new("strip");
    strip.arg("-o").args([copy, program]).stdin(Stdio::null()).stderr(Stdio::null());
    if !strip.status().is_ok_and(|status| status.success()) {
        std::fs::copy(program, copy).map_err(LabError::system("copy", program))?;
    }
    Ok(copy.to_owned())
}
