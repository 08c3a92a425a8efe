//! Runs the user's workload on an emulated device.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};

use fonio_host::Step;
use fonio_system::ProcessId;
use fonio_system::command::start;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::emulator::Emulated;
use crate::error::EmulatorError;
use crate::power_cuts::{WORKLOAD_BEGINS, WORKLOAD_ENDS};

/// Interval of the checks whether the server has ended, or the user has pressed Ctrl-C. The end of the workload
/// ends a wait at once. More frequent checks would keep an idle machine awake.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// How a workload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadEnd {
    /// The workload ended by itself.
    Exited(ExitStatus),
    /// The user stopped the workload.
    Stopped,
}

impl Emulated {
    /// Runs `command` and marks its start and end in the log. Sets the environment variables `FONIO_MOUNT`
    /// (the mount point) and `FONIO_DEVICE` (the block device). With `quietly`, the workload's output goes to
    /// standard error. If `stop` returns true, kills the command with all its children. Fails with
    /// [`EmulatorError::Command`] if the command cannot be started, [`EmulatorError::ServerGone`] if the
    /// serving process has ended. Panics if `command` is empty.
    pub fn run_workload(
        &mut self,
        command: &[String],
        quietly: bool,
        stop: &dyn Fn() -> bool,
    ) -> Result<WorkloadEnd, EmulatorError> {
        let (program, arguments) = command.split_first().expect("a workload's command is not empty");
        self.mark(WORKLOAD_BEGINS)?;
        let started = start(program, arguments, |prepared: &mut Command| {
            prepared.stdin(Stdio::null()).process_group(0);
            if quietly {
                prepared.stdout(std::io::stderr());
            }
            if let Some(dir) = self.mount_dir() {
                prepared.env("FONIO_MOUNT", dir);
            }
            if let Some(device) = self.device() {
                prepared.env("FONIO_DEVICE", device);
            }
        });
        let mut child =
            started.map_err(|source| EmulatorError::Command { command: command.join(" "), source })?;
        let entry = match ProcessId::of(child.id()) {
            Some(id) => Some(self.ledger().begin(Step::Process { id, leads_group: true })?),
            None => None,
        };
        let ended = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let end = loop {
            let exited = child.try_wait().map_err(EmulatorError::system("wait for", program))?;
            if let Some(status) = exited {
                break Ok(WorkloadEnd::Exited(status));
            }
            if stop() {
                break Ok(WorkloadEnd::Stopped);
            }
            if !self.runs() {
                break Err(EmulatorError::ServerGone);
            }
            let waited = ended
                .as_ref()
                .map_err(|error| *error)
                .and_then(|ended| poll(&mut [PollFd::new(ended, PollFlags::IN)], Some(&LOOK_EVERY)));
            match waited {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => break Err(EmulatorError::system("wait for", program)(error)),
            }
        };
        if let Some(entry) = entry {
            self.ledger().undo(entry)?;
        }
        let _ = child.wait();
        let end = end?;
        self.mark(WORKLOAD_ENDS)?;
        Ok(end)
    }
}
