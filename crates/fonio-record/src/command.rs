//! The command that is run while the capture is on.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command as Program, ExitStatus};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::RecordError;

/// A running or ended command.
#[derive(Debug)]
pub(crate) struct Command {
    child: Child,
    /// Readable when it ends; kernels before 5.3 have none.
    ended: Option<OwnedFd>,
    status: Option<ExitStatus>,
}

impl Command {
    pub(crate) fn start(words: &[OsString]) -> Result<Command, RecordError> {
        let (program, arguments) = words.split_first().ok_or(RecordError::EmptyCommand)?;
        let child = Program::new(program).args(arguments).spawn().map_err(|source| RecordError::Command {
            program: program.to_string_lossy().into_owned(),
            source,
        })?;
        let ended = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        Ok(Command { child, ended, status: None })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What to poll for its end.
    pub(crate) fn ended(&self) -> Option<&OwnedFd> {
        self.ended.as_ref()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap_or_default();
        }
        self.status.is_some()
    }

    /// Sends SIGTERM, where it still runs.
    pub(crate) fn terminate(&mut self) {
        if !self.has_ended() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
    }

    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.status?.code()
    }

    pub(crate) fn exit_signal(&self) -> Option<i32> {
        self.status?.signal()
    }
}
