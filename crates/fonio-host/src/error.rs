//! Defines the errors of the test bed.

use std::io;
use std::path::PathBuf;

use fonio_core::ByteCount;
use fonio_system::SystemError;

use crate::schedulers::way_to;

/// An error of the test bed. Messages name the failed action, its object and, if possible, the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the error messages explain the fields")]
pub enum HostError {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A program that the test bed needs is not installed.
    #[error("{program} is not installed; on Debian: apt-get install {package}")]
    ProgramMissing { program: String, package: &'static str },
    /// A program that the test bed ran ended with an error. The output is the end of its standard error, or
    /// of its standard output if it wrote nothing to standard error.
    #[error("`{command}` failed ({status}): {output}")]
    ProgramFailed { command: String, status: String, output: String },
    /// A program of the test bed needs a file that does not exist.
    #[error("{program} needs {}, which does not exist; to create it: {remedy}", path.display())]
    FileMissing { program: &'static str, path: PathBuf, remedy: &'static str },
    /// The running kernel lacks a file system or scheduler, which is neither built in nor available as a
    /// module. `what` is the file system's name, or `scheduler` and the scheduler's name.
    #[error("this kernel ({release}) has no {what}{}", way_to(what.strip_prefix("scheduler ").unwrap_or_default()))]
    NotInKernel { release: String, what: String },
    /// The operation requires root.
    #[error("{needs} needs root")]
    NotRoot { needs: &'static str },
    /// A device is not empty, and the user did not confirm that it may be overwritten.
    #[error("{} holds {found}; to overwrite it, add --erase {}", path.display(), path.display())]
    HoldsData { path: PathBuf, found: String },
    /// A device is in use.
    #[error("{} is in use: {by}", path.display())]
    InUse { path: PathBuf, by: String },
    /// Another program keeps a database locked.
    #[error(
        "{} cannot be copied, because {by} has it locked: stop that program, or try again when it is idle",
        path.display()
    )]
    DatabaseBusy { path: PathBuf, by: String },
    /// The kernel's ublk driver cannot be used.
    #[error("ublk devices cannot be created here: {reason}")]
    NoUblk { reason: String },
    /// No device number from `from` to `to` is free.
    #[error("no number from {from} to {to} is free for a {device} device")]
    NoNumber { device: &'static str, from: u32, to: u32 },
    /// The kernel offers no scheduler of this name for the device.
    #[error("{device} has no scheduler `{wanted}`; available: {}{}", offered.join(", "), way_to(wanted))]
    NoScheduler { device: String, wanted: String, offered: Vec<String> },
    /// The requested queue depth is out of range.
    #[error("{device} cannot have a depth of {wanted}: loop devices allow {min} to {max}")]
    Depth { device: String, wanted: u32, min: u32, max: u32 },
    /// The kernel cannot limit processor time or memory on this machine.
    #[error("{what} cannot be limited here: {reason}")]
    NoLimit { what: &'static str, reason: String },
    /// The memory limit is too low.
    #[error("{} of memory is too little: write at least {}", wanted.to_exact_text(), least.to_exact_text())]
    MemoryLimit { wanted: ByteCount, least: ByteCount },
    /// The requested share of a processor is invalid.
    #[error("{share} is not a share of a processor: write a number from 0.01 to below 1, such as 0.25")]
    CpuShare { share: String },
    /// This machine has fewer processors than the limit needs.
    #[error("a limit to {wanted} processors needs as many, and there are only {has}")]
    Cores { wanted: u32, has: usize },
    /// A setting cannot be applied to an object, or a change of the setting could not be undone. The field
    /// `reason` is a clause.
    #[error("{setting} cannot be set on {}: {reason}", path.display())]
    NotSettable { setting: String, path: PathBuf, reason: String },
    /// A setting cannot be kept across reboots. The field `reason` is a clause.
    #[error("{value} cannot be kept on {} across reboots: {reason}", path.display())]
    NotKept { value: String, path: PathBuf, reason: String },
    /// Parts of a folder could not be copied. All other parts were copied; nothing was removed.
    #[error("some files could not be copied to {}: {}", place.display(), failures.join("; "))]
    NotCopied { place: PathBuf, failures: Vec<String> },
    /// Another process is changing the same setting, perhaps in a trial that alternates between two values.
    #[error(
        "another fonio process, such as `fonio fix trial`, is changing {setting}: wait until it ends, or stop it with Ctrl-C"
    )]
    BeingTested { setting: String },
    /// A ledger cannot be read; none of its steps was undone.
    #[error("{}: line {line} is not a ledger entry", path.display())]
    Ledger { path: PathBuf, line: usize, source: serde_json::Error },
    /// A ledger names something that fonio never makes, so the step is neither executed nor undone.
    #[error(
        "{}: fonio does not make {step} ({reason}), so nothing was undone; check what it is, then remove this ledger",
        ledger.display()
    )]
    NotMade { ledger: PathBuf, step: String, reason: &'static str },
    /// Some steps could not be undone; the ledger keeps these steps for the next run.
    #[error("could not undo: {}", failures.join("; "))]
    NotUndone { failures: Vec<String> },
}

impl HostError {
    /// Returns a closure for `map_err` that describes a failed system call on `path`.
    pub(crate) fn system<E: Into<io::Error>>(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> HostError {
        let failed = SystemError::on(action, path);
        move |source: E| failed(source).into()
    }

    pub(crate) fn check_root(needs: &'static str) -> Result<(), HostError> {
        if rustix::process::geteuid().is_root() { Ok(()) } else { Err(HostError::NotRoot { needs }) }
    }
}
