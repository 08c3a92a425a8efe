//! The process that serves a mount: in the foreground, or on its own once the mount stands.

use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fonio_system::signals;
use rustix::fs::{Mode, OFlags};

use crate::error::MountError;
use crate::mount::Mount;
use crate::options::Options;

/// Mounts, calls `when_ready`, and serves until somebody unmounts or SIGTERM, SIGINT or SIGHUP comes; then everything
/// that was written is below.
///
/// # Errors
/// Those of [`Mount::start`], and where the mount cannot be taken away.
pub fn serve(
    source: &Path,
    dir: &Path,
    options: Options,
    when_ready: impl FnOnce(&Mount),
) -> Result<(), MountError> {
    let stop = signals::wake_on(&signals::ENDING).map_err(MountError::system("catch signals for", dir))?;
    let mount = Mount::start(source, dir, options)?;
    when_ready(&mount);
    mount.wait(Some(stop.as_fd()))?;
    mount.stop()
}

/// Leaves the terminal and its streams behind: nobody reads them once the mount stands.
///
/// # Errors
/// The kernel's.
pub fn leave_terminal() -> Result<(), MountError> {
    let null = Path::new("/dev/null");
    let failed = || MountError::system("take as standard streams", null);
    let stream = rustix::fs::open(null, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(MountError::system("open", null))?;
    // Who leads a process group already has left.
    let _ = rustix::process::setsid();
    rustix::stdio::dup2_stdin(&stream).map_err(failed())?;
    rustix::stdio::dup2_stdout(&stream).map_err(failed())?;
    rustix::stdio::dup2_stderr(&stream).map_err(failed())?;
    Ok(())
}

/// Starts `daemon`, which prints one line when its mount stands and then calls [`leave_terminal`], and returns the
/// line; `None` where it ended without, having said why on standard error.
///
/// # Errors
/// Where it cannot be started.
pub fn start_in_background(mut daemon: Command) -> Result<Option<String>, MountError> {
    let program = Path::new(daemon.get_program()).to_owned();
    let mut child: Child = daemon
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(MountError::system("start", &program))?;
    let mut line = String::new();
    if let Some(said) = child.stdout.take() {
        BufReader::new(said).read_line(&mut line).map_err(MountError::system("listen to", &program))?;
    }
    if line.is_empty() {
        // Its status is that of the error that it told.
        let _ = child.wait();
        return Ok(None);
    }
    Ok(Some(line.trim_end().to_owned()))
}
