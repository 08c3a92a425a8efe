//! Running the user's workload on an emulated device.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use fonio_host::Step;
use fonio_system::ProcessId;

use crate::EmulatorError;
use crate::emulator::Emulated;
use crate::power_cuts::{WORKLOAD_BEGINS, WORKLOAD_ENDS};

/// How often it is looked whether the workload, the server or the user has ended it.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How a workload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadEnd {
    /// By itself.
    Exited(ExitStatus),
    /// The user stopped it.
    Stopped,
}

impl Emulated {
    /// Runs `command` and marks its beginning and end in the log. It finds the mount in `FONIO_MOUNT` and the block
    /// device in `FONIO_DEVICE`. It is killed with all its children when `stop` says so.
    ///
    /// # Errors
    ///
    /// [`EmulatorError::Command`] where it cannot be started, [`EmulatorError::ServerGone`] where the device died.
    ///
    /// # Panics
    ///
    /// Where `command` is empty.
    pub fn run_workload(
        &mut self,
        command: &[String],
        stop: &dyn Fn() -> bool,
    ) -> Result<WorkloadEnd, EmulatorError> {
        let (program, arguments) = command.split_first().expect("a workload has a program");
        let mut prepared = Command::new(program);
        prepared.args(arguments).stdin(Stdio::null()).process_group(0);
        if let Some(dir) = self.mount_dir() {
            prepared.env("FONIO_MOUNT", dir);
        }
        if let Some(device) = self.device() {
            prepared.env("FONIO_DEVICE", device);
        }
        self.mark(WORKLOAD_BEGINS)?;
        let spawned = prepared.spawn();
        let mut child =
            spawned.map_err(|source| EmulatorError::Command { command: command.join(" "), source })?;
        // One that has ended already left nothing behind.
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
                break Err(EmulatorError::ServerGone { complaint: String::new() });
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
