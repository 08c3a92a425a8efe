//! Runs the user's workload on an emulated device.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use fonio_host::Step;
use fonio_system::ProcessId;
use fonio_system::command::start;

use crate::emulator::Emulated;
use crate::error::EmulatorError;
use crate::power_cuts::{WORKLOAD_BEGINS, WORKLOAD_ENDS};

/// Interval of the checks whether the workload or the server has ended, or the user has pressed Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(10);

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
            thread::sleep(LOOK_EVERY);
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
