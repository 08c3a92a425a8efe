//! Runs programs that are installed on this machine.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
