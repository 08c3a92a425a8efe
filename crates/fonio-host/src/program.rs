//! Runs system programs.

use std::ffi::OsStr;
use std::io;
use std::process::{Command, Stdio};

use crate::error::HostError;

/// Maximum number of bytes of a failed program's output in an error message.
const COMPLAINT_BYTES_MAX: usize = 2000;

/// Runs `program` to its end, with empty standard input, and returns its standard output.
///
/// `package` is the Debian package that contains the program. Fails with [`HostError::ProgramMissing`] or
/// [`HostError::ProgramFailed`].
pub fn run<S: AsRef<OsStr>>(
    program: &'static str,
    package: &'static str,
    arguments: &[S],
) -> Result<String, HostError> {
    let mut command = Command::new(program);
    find_in_system(&mut command);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null());
    let out = command.output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => HostError::ProgramMissing { program: program.to_owned(), package },
        _ => HostError::system("start", program)(source),
    })?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    // Some programs, such as mkfs.f2fs, print errors on standard output.
    let is_silent = out.stderr.trim_ascii().is_empty();
    let complaint = String::from_utf8_lossy(if is_silent { &out.stdout } else { &out.stderr });
    let mut from = complaint.len().saturating_sub(COMPLAINT_BYTES_MAX);
    while !complaint.is_char_boundary(from) {
        from += 1;
    }
    let words: Vec<_> = arguments.iter().map(|word| word.as_ref().to_string_lossy()).collect();
    Err(HostError::ProgramFailed {
        command: format!("{program} {}", words.join(" ")),
        status: out.status.to_string(),
        output: complaint[from..].trim().to_owned(),
    })
}

/// Adds the system folders (for mkfs), which users' PATH often lacks, to the PATH of `command`.
pub(crate) fn find_in_system(command: &mut Command) {
    if let Some(mut path) = std::env::var_os("PATH") {
        path.push(":/usr/local/sbin:/usr/sbin:/sbin");
        command.env("PATH", path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_is_given_and_its_failure_is_an_error() {
        assert_eq!(run("echo", "coreutils", &["a", "b"]).expect("echo"), "a b\n");
        let failed = run("sh", "dash", &["-c", "echo no >&2; exit 3"]).expect_err("it fails");
        assert_eq!(failed.to_string(), "`sh -c echo no >&2; exit 3` failed (exit status: 3): no");
        let failed = run("sh", "dash", &["-c", "echo no; exit 3"]).expect_err("it fails");
        assert_eq!(failed.to_string(), "`sh -c echo no; exit 3` failed (exit status: 3): no");
        let missing = run::<&str>("fonio-no-such-program", "none", &[]).expect_err("it is missing");
        assert!(matches!(missing, HostError::ProgramMissing { .. }));
    }
}
