//! Starts a user's command as `execvp` does: the shell runs scripts without a `#!` line.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::io::Errno;

/// Shell for scripts without a `#!` line.
const SHELL: &str = "/bin/sh";

/// The user's command could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct NotStarted {
    cause: io::Error,
    is_there: bool,
}

impl NotStarted {
    /// Returns the exit code that a shell would return: 126 if the program was found, otherwise 127.
    pub fn exit_code(&self) -> u8 {
        if self.is_there || self.cause.kind() != io::ErrorKind::NotFound { 126 } else { 127 }
    }
}

/// Failure of a user's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The command ended with this exit code, which is not 0.
    #[error("exit code {0}")]
    Code(i32),
    /// This signal ended the command.
    #[error("signal {0}")]
    Signal(i32),
}

impl Failure {
    /// Returns the failure of a command with this exit code or signal; `None` if the command succeeded or
    /// still runs.
    pub fn of(code: Option<i32>, signal: Option<i32>) -> Option<Failure> {
        match (code, signal) {
            (Some(0), _) | (None, None) => None,
            (Some(code), _) => Some(Failure::Code(code)),
            (None, Some(signal)) => Some(Failure::Signal(signal)),
        }
    }

    /// Returns the exit code that a shell reports: the command's own exit code, or 128 plus the signal
    /// number.
    pub fn exit_code(self) -> u8 {
        match self {
            Failure::Code(code) => code as u8,
            Failure::Signal(signal) => 128 + signal as u8,
        }
    }
}

/// Starts `program`. `prepare` sets all other options of the command, and may be called twice. Fails if the
/// program is not found or cannot be run.
pub fn start<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: &[A],
    prepare: impl Fn(&mut Command),
) -> Result<Child, NotStarted> {
    let program = program.as_ref();
    let start = |program: &OsStr, script: Option<&Path>| {
        let mut command = Command::new(program);
        command.args(script).args(arguments);
        prepare(&mut command);
        command.spawn()
    };
    let is_shell_script = |error: &io::Error| error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error());
    let outcome = match start(program, None) {
        Err(error) if is_shell_script(&error) => match find(program).filter(|file| is_text(file)) {
            Some(script) => start(OsStr::new(SHELL), Some(&script)),
            None => Err(error),
        },
        outcome => outcome,
    };
    outcome.map_err(|cause| NotStarted { cause, is_there: find(program).is_some() })
}

/// Returns the file that `execvp` would run.
fn find(program: &OsStr) -> Option<PathBuf> {
    let file = Path::new(program);
    if file.components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        return file.exists().then(|| file.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(is_program)
}

/// Returns whether a file looks like text, by the rule of shells. So a program for another CPU architecture
/// does not count as a script.
fn is_text(file: &Path) -> bool {
    let mut start = [0; 128];
    let read = File::open(file).and_then(|mut file| file.read(&mut start));
    let Ok(read) = read else { return false };
    let line = start[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
    !line.contains(&0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Stdio;

    use super::*;

    fn file(dir: &Path, content: &[u8], mode: u32) -> PathBuf {
        let path = dir.join(format!("program-{mode:o}-{}", content.len()));
        fonio_testing::write_program(&path, content);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
        path
    }

    #[test]
    fn a_script_without_a_first_line_is_run_by_the_shell() {
        let dir = tempfile::tempdir().expect("a folder");
        let script = file(dir.path(), b"printf '%s.' \"$@\" \"$SET\"\n", 0o755);
        let child = start(&script, &["a b", "-c"], |command| {
            command.env("SET", "by us").stdout(Stdio::piped());
        });
        let out = child.expect("it is run").wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&out.stdout), "a b.-c.by us.");
    }

    #[test]
    fn what_cannot_be_run_has_the_code_of_shells() {
        let dir = tempfile::tempdir().expect("a folder");
        let code = |program: &Path| start(program, &["x"], |_| ()).expect_err("it is not run").exit_code();
        assert_eq!(code(&file(dir.path(), b"\x7fELF\0 of another processor", 0o755)), 126);
        assert_eq!(code(&file(dir.path(), b"#!/no/such/shell\n", 0o755)), 126);
        assert_eq!(code(&file(dir.path(), b"echo\n", 0o644)), 126);
        assert_eq!(code(dir.path()), 126);
        assert_eq!(code(Path::new("/no/such/program")), 127);
        assert_eq!(code(Path::new("no-such-program-anywhere")), 127);
    }

    #[test]
    fn a_failure_has_the_code_of_shells() {
        for (code, signal, expected) in [
            (Some(0), None, None),
            (None, None, None),
            (Some(7), None, Some(("exit code 7", 7))),
            (None, Some(9), Some(("signal 9", 137))),
        ] {
            let failure = Failure::of(code, signal).map(|failure| (failure.to_string(), failure.exit_code()));
            assert_eq!(failure, expected.map(|(text, code)| (text.to_owned(), code)));
        }
    }
}
