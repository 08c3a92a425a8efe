//! What an app needs from outside of its root directory: files of this machine, and commands that run with them.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use super::definition::{App, Step};
use super::root::{failed, is_full};
use crate::error::WorkloadError;

/// Files and folders of this machine that an app needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outside {
    /// Files and folders, each with the path of its copy in the data. Instead of a missing one, an empty folder is made.
    pub copies: Vec<(PathBuf, PathBuf)>,
    /// Folders that the app reaches at the same paths in its root directory.
    pub folders: Vec<PathBuf>,
}

impl Outside {
    /// Copies files and folders into the data, with their owners and times. Fails if one cannot be copied.
    pub(super) fn copy(&self, app: &App, data: &Path) -> Result<(), WorkloadError> {
        for (from, to) in &self.copies {
            let to = data.join(to);
            let parent = to.parent().unwrap_or(data);
            fs::create_dir_all(parent).map_err(failed("create", parent))?;
            if !from.exists() {
                fs::create_dir(&to).map_err(failed("create", &to))?;
                continue;
            }
            let mut copy = Command::new("cp");
            copy.args(["-a", "-T", "--"]).args([from, &to]).stdin(Stdio::null());
            let ended = copy.output().map_err(failed("copy", from))?;
            if !ended.status.success() {
                let hint = if is_full(data) { "; the device is full: use a larger one" } else { "" };
                let said = String::from_utf8_lossy(&ended.stderr);
                return Err(WorkloadError::AppFailed {
                    app: app.told(),
                    part: from.display().to_string(),
                    problem: format!("it cannot be copied to the device{hint}: {}", said.trim()),
                });
            }
        }
        Ok(())
    }
}

/// A command with the files of this machine. It is started before the root directory is entered, because afterwards this
/// process cannot see these files, and waits until it is told to begin. It ends with this process at the latest.
#[derive(Debug)]
pub(super) struct Waiting {
    child: Child,
    log: File,
}

impl Waiting {
    /// Prepares the command of a step, in a mount namespace of its own and in the network namespace of this process.
    pub(super) fn of(app: &App, step: &Step, scale: f64) -> Result<Waiting, WorkloadError> {
        let units = step.scaled_units(scale).to_string();
        let words = step.run.iter().flatten().map(|word| word.replace("$UNITS", &units));
        let place = PathBuf::from(step.told());
        let log = memfd_create("log", MemfdFlags::CLOEXEC).map_err(failed("make a file for", &place))?;
        let log = File::from(log);
        let mut command = Command::new("unshare");
        // What is unmounted outside is unmounted here too, so that no device of another run stays in use.
        command.args(["--mount", "--propagation", "slave", "--"]);
        // The pipe closes when this process ends, however it ends.
        let script = "echo waiting && read -r begin && exec \"$@\" </dev/null >&2";
        command.args(["sh", "-c", script, "sh"]).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(log.try_clone().map_err(failed("share", &place))?);
        let mut child = command.spawn().map_err(|error| WorkloadError::AppFailed {
            app: app.told(),
            part: step.told(),
            problem: format!("unshare cannot be started: {error}"),
        })?;
        // This process may enter its root directory only when the command is in its own namespace.
        let mut line = String::new();
        let out = child.stdout.take().expect("it is a pipe");
        BufReader::new(out).read_line(&mut line).map_err(failed("read from", &place))?;
        Ok(Waiting { child, log })
    }

    /// Lets the command begin. Returns its process and its output, which is also at the path [`log_path`].
    pub(super) fn begin(mut self) -> io::Result<(Child, File)> {
        let mut stdin = self.child.stdin.take().expect("it is a pipe");
        stdin.write_all(b"begin\n")?;
        Ok((self.child, self.log))
    }
}

/// Returns the path of an open file, for this process.
pub(super) fn log_path(log: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", log.as_raw_fd()))
}
