//! Runs the process that serves a mount, in the foreground or in the background.

use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use fonio_system::signals;
use rustix::fs::{Mode, OFlags};
use rustix::mm::MlockAllFlags;

use crate::error::MountError;
use crate::mount::Mount;
use crate::options::Options;

/// Mounts, calls `when_ready`, and serves until the directory is unmounted or SIGTERM, SIGINT or SIGHUP
/// arrives. Then writes all buffered data to the source files and unmounts. Returns errors of
/// [`Mount::start`], of locking memory, and of the unmount.
pub fn serve(
    source: &Path,
    dir: &Path,
    options: Options,
    when_ready: impl FnOnce(&Mount),
) -> Result<(), MountError> {
    let stop = signals::wake_on(&signals::ENDING).map_err(MountError::system("catch signals for", dir))?;
    lock_memory()?;
    let mount = Mount::start(source, dir, options)?;
    when_ready(&mount);
    mount.wait(Some(stop.as_fd()))?;
    mount.stop()
}

/// Locks all memory of this process as soon as it is used, so that requests do not wait for swap. An ordinary
/// user has too low a limit, so only the buffer is locked then, if possible.
fn lock_memory() -> Result<(), MountError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    rustix::mm::mlockall(flags).map_err(MountError::not_locked("the daemon"))
}

/// Detaches the process from the terminal and closes the standard streams. Returns errors of the system calls
/// that open and replace the streams.
pub fn leave_terminal() -> Result<(), MountError> {
    let null = Path::new("/dev/null");
    let failed = || MountError::system("take as standard streams", null);
    let stream = rustix::fs::open(null, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(MountError::system("open", null))?;
    // The call fails if the process already leads a process group; in this case, the process has no terminal.
    let _ = rustix::process::setsid();
    rustix::stdio::dup2_stdin(&stream).map_err(failed())?;
    rustix::stdio::dup2_stdout(&stream).map_err(failed())?;
    rustix::stdio::dup2_stderr(&stream).map_err(failed())?;
    Ok(())
}

/// Starts `daemon`, which prints one line after mounting and then calls [`leave_terminal`]. Returns the line, or
/// the status of a daemon that ended before it had mounted. A daemon that was not ended by a signal has printed
/// the reason to standard error. Fails if the program `daemon` cannot be started.
pub fn start_in_background(mut daemon: Command) -> Result<Result<String, ExitStatus>, MountError> {
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
        return child.wait().map(Err).map_err(MountError::system("wait for", &program));
    }
    Ok(Ok(line.trim_end().to_owned()))
}
