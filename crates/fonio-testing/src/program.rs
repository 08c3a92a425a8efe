//! Programs that tests write and run.
//!
//! Another process writes their files. If the test did, and another test started a child at the same moment,
//! that child would hold the file open for writing until it calls `execve`, and until then nobody could run
//! the program (`ETXTBSY`).

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program with mode 0755, which can be run at once.
#[track_caller]
pub fn write_program(path: &Path, content: impl AsRef<[u8]>) {
    let mut command = Command::new("tee");
    command.arg(path).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut tee = command.spawn().expect("tee is started");
    let mut input = tee.stdin.take().expect("a pipe");
    input.write_all(content.as_ref()).expect("tee reads the program");
    drop(input);
    assert!(tee.wait().expect("tee ends").success(), "{path:?} cannot be written");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("its mode is set");
}

/// Copies a program with its mode to the file `to`. The copy can be run at once.
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: &Path) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to).status().expect("cp is started");
    assert!(copied.success(), "{to:?} cannot be written");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_can_be_run_at_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let [program, copy] = ["program", "copy"].map(|name| dir.path().join(name));
        for code in [3, 4] {
            write_program(&program, format!("#!/bin/sh\nexit {code}\n"));
            copy_program(&program, &copy);
            for program in [&program, &copy] {
                assert_eq!(Command::new(program).status().expect("it is run").code(), Some(code));
            }
        }
    }
}
