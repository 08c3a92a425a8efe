//! The errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

use crate::architecture::Architecture;

/// Why a guest could not be prepared, started or used.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A program that this needs is not installed.
    #[error("`{program}` is not installed; on Debian: apt-get install --no-install-recommends {package}")]
    ProgramMissing {
        /// The program.
        program: &'static str,
        /// Debian's package that contains it.
        package: &'static str,
    },
    /// A program failed.
    #[error("`{command}` failed: {complaint}")]
    ProgramFailed {
        /// The command line.
        command: String,
        /// Its standard error.
        complaint: String,
    },
    /// This machine's configuration of apt names no mirror of Debian.
    #[error(
        "apt's configuration here names no mirror of Debian; set FONIO_DEBIAN_MIRROR to the address of one, as in \
         a line of sources.list"
    )]
    NoMirror,
    /// Debian's keys are missing, without which no download can be verified.
    #[error("Debian's keys are not in {}; on Debian: apt-get install debian-archive-keyring", path.display())]
    NoKeys {
        /// The expected place of the keys.
        path: PathBuf,
    },
    /// The archive cannot be reached, and no earlier copy of its lists is there.
    #[error("Debian's archive cannot be read ({complaint}); is the network up?")]
    Unreachable {
        /// The message of apt.
        complaint: String,
    },
    /// The text is not the name of a kernel.
    #[error(
        "`{text}` is not the name of a kernel; write a series or a version, as in lab:6.12, lab:6.12.117 or lab:newest"
    )]
    NotAKernel {
        /// The text.
        text: String,
    },
    /// The archive does not have this kernel.
    #[error("Debian's archive has no kernel {wanted}{nearest}; `fonio lab list` lists them")]
    NoKernel {
        /// The wanted kernel.
        wanted: String,
        /// [`fonio_core::nearest`] of the series that the archive has.
        nearest: String,
    },
    /// The archive does not have this package.
    #[error("Debian {suite} has no package `{package}` for {architecture}")]
    NoPackage {
        /// The name.
        package: String,
        /// Debian's release.
        suite: &'static str,
        /// The architecture.
        architecture: Architecture,
    },
    /// A kernel has no module of this name.
    #[error("Linux {kernel} of Debian has no module {module}; `fonio lab list` shows other kernels")]
    NoModule {
        /// The kernel.
        kernel: String,
        /// The module.
        module: String,
    },
    /// A module's file is invalid.
    #[error("the kernel module {} cannot be read: {reason}", path.display())]
    BadModule {
        /// The file.
        path: PathBuf,
        /// The reason why it is invalid.
        reason: String,
    },
    /// A library that a program needs is missing.
    #[error("{program} needs the library {library}, which is not there")]
    NoLibrary {
        /// The program.
        program: String,
        /// The library.
        library: String,
    },
    /// The laboratory does not run on this machine's architecture.
    #[error("guests need an x86-64 machine, and this machine is not one")]
    Architecture,
    /// This kind of guest does not support the architecture.
    #[error(
        "guests without a disk, whose clock can count instructions, are amd64 only: the programs in them are of this \
         machine's architecture; an {architecture} guest must be a whole Debian (`--system`)"
    )]
    SystemOnly {
        /// The architecture.
        architecture: Architecture,
    },
    /// The machine has too little free memory for the guest.
    #[error("the guest needs {needs} MiB of memory, and {free} MiB are free")]
    Memory {
        /// The guest's memory.
        needs: u64,
        /// The free memory.
        free: u64,
    },
    /// The guest ended before its command did.
    #[error("the guest with Linux {kernel} ended {when}; its console is in {}{}", console.display(), last(lines))]
    GuestEnded {
        /// The kernel.
        kernel: String,
        /// The stage at which it ended, as part of a sentence.
        when: &'static str,
        /// The file with everything that its console said.
        console: PathBuf,
        /// The last lines of it.
        lines: Vec<String>,
    },
    /// The guest did not become ready.
    #[error(
        "the guest with Linux {kernel} did not answer within {minutes} minutes; its console is in {}{}",
        console.display(),
        last(lines)
    )]
    GuestSilent {
        /// The kernel.
        kernel: String,
        /// How long this process waited.
        minutes: u64,
        /// The file with everything that its console said.
        console: PathBuf,
        /// The last lines of it.
        lines: Vec<String>,
    },
    /// The guest is off.
    #[error("the guest is off; switch it on first")]
    GuestOff,
    /// The guest does not have this snapshot.
    #[error("the guest has no snapshot `{name}`; it has these: {}", have.join(", "))]
    NoSnapshot {
        /// The name.
        name: String,
        /// The snapshots that it has.
        have: Vec<String>,
    },
    /// The state of a disk cannot be saved with that of the guest.
    #[error("the guest has a disk served at {}, whose content cannot be saved with the guest's memory; start the guest without that disk", socket.display())]
    ServedDisk {
        /// The socket at which it is served.
        socket: PathBuf,
    },
    /// QEMU or the agent in the guest refused a request.
    #[error("{by} refused `{request}`: {reason}")]
    Refused {
        /// The program that refused.
        by: &'static str,
        /// The request.
        request: String,
        /// Its answer.
        reason: String,
    },
    /// A file cannot be copied from or to a guest.
    #[error("cannot copy {} {direction} the guest: {reason}", path.display())]
    NotCopied {
        /// The file in the guest.
        path: PathBuf,
        /// `to` or `from`.
        direction: &'static str,
        /// The reason.
        reason: String,
    },
    /// The user asked the program to stop.
    #[error("interrupted")]
    Interrupted,
    /// The archive that came back from the guest is damaged.
    #[error("the files from the guest cannot be read: {reason}")]
    BadFiles {
        /// The reason why it is invalid.
        reason: String,
    },
    /// A system call failed.
    #[error("cannot {action} {}", path.display())]
    System {
        /// The attempted action.
        action: &'static str,
        /// The object of the action.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl LabError {
    /// For `map_err`: the error of a system call.
    pub(crate) fn system(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> LabError {
        let path = path.as_ref().to_owned();
        move |source| LabError::System { action, path, source }
    }
}

fn last(lines: &[String]) -> String {
    match lines {
        [] => String::new(),
        lines => format!(", at the end:\n  {}", lines.join("\n  ")),
    }
}
