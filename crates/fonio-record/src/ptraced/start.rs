//! Starts a command under the tracer.
//!
//! The kernel ties a traced process to one thread of the tracer, and `fork` in the standard library waits for exec.
//! Therefore, another thread forks. The child reports its id, and waits until it is traced; then it installs the
//! filter and runs the program. If the program cannot be run, the other thread may fork again, for a shell.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use fonio_system::command::start;

use super::filter::Filter;
use super::kernel::{self, Change, Go, Stop};
use crate::error::RecordError;

/// The message of a child that could not install its filter is the negative errno.
type Message = i32;

/// Starts the command, and returns its process id. The process has stopped after its exec.
pub(super) fn start_traced(
    words: &[OsString],
    filter: Filter,
    prepare: impl Fn(&mut Command) + Send,
) -> Result<i32, RecordError> {
    let (program, arguments) = words.split_first().ok_or(RecordError::EmptyCommand)?;
    let pipe = || io::pipe().map_err(|source| RecordError::NoPtrace { source });
    let ((mut messages, reports), (waits, mut answers)) = (pipe()?, pipe()?);
    std::thread::scope(|scope| {
        let fork = scope.spawn(move || {
            // The closure in the child allocates no memory.
            let (filter, reports, waits) =
                (std::sync::Arc::new(filter), std::sync::Arc::new(reports), std::sync::Arc::new(waits));
            start(program, arguments, |command| {
                prepare(command);
                let (filter, reports, waits) = (filter.clone(), reports.clone(), waits.clone());
                // SAFETY: between fork and exec, the closure calls only getpid, write, read, seccomp and prctl.
                unsafe {
                    command.pre_exec(move || be_traced(&filter, &reports, &waits));
                }
            })
        });
        let mut refused = None;
        let mut running = None;
        let mut message = [0; 4];
        while running.is_none() && messages.read_exact(&mut message).is_ok() {
            let pid = Message::from_ne_bytes(message);
            if pid <= 0 {
                let source = io::Error::from_raw_os_error(-pid);
                refused = Some(RecordError::NoSeccomp { source });
                continue;
            }
            match kernel::seize(pid) {
                Ok(()) => {
                    let _ = answers.write_all(&[1]);
                    running = run_to_exec(pid).then_some(pid);
                }
                Err(source) => {
                    refused = Some(RecordError::NoPtrace { source });
                    let _ = answers.write_all(&[0]);
                }
            }
        }
        let started =
            fork.join().map_err(|_| RecordError::NoPtrace { source: io::ErrorKind::Other.into() })?;
        match (started, running, refused) {
            (Ok(_), Some(pid), _) => Ok(pid),
            (_, _, Some(refused)) => Err(refused),
            (Err(source), ..) => {
                Err(RecordError::Command { program: program.to_string_lossy().into_owned(), source })
            }
            (Ok(_), None, None) => Err(RecordError::NoPtrace { source: io::ErrorKind::Other.into() }),
        }
    })
}

/// Waits until the child has run its program. Returns false if the child ended instead. The other thread waits for
/// that end, too, so it is not taken away here.
fn run_to_exec(pid: i32) -> bool {
    while !kernel::has_ended(pid)
        && let Some((_, change)) = kernel::wait(pid)
    {
        match change {
            Change::Stopped(Stop::Exec) => return true,
            Change::Stopped(Stop::Signal(signal)) => kernel::go(pid, Go::On(signal)),
            Change::Stopped(Stop::Group) => kernel::go(pid, Go::Listen),
            Change::Stopped(_) => kernel::go(pid, Go::On(0)),
            Change::Ended(_) | Change::Killed(_) => return false,
        }
    }
    false
}

/// Runs in the child: waits until it is traced, and installs the filter.
fn be_traced(filter: &Filter, reports: &io::PipeWriter, waits: &io::PipeReader) -> io::Result<()> {
    let send = |message: Message| {
        let bytes = message.to_ne_bytes();
        // SAFETY: the pointer and the length describe `bytes`.
        unsafe { libc::write(reports.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    };
    // SAFETY: the call has no arguments.
    send(unsafe { libc::getpid() });
    let mut answer = [0_u8; 1];
    // SAFETY: the pointer and the length describe `answer`.
    let read = unsafe { libc::read(waits.as_raw_fd(), answer.as_mut_ptr().cast(), 1) };
    if read != 1 || answer[0] != 1 {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    filter.install().inspect_err(|error| send(-error.raw_os_error().unwrap_or(libc::EINVAL)))
}
