//! Defines the errors of this crate.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use crate::architecture::Architecture;

/// An error while preparing, starting or using a guest.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the error messages explain the fields")]
pub enum LabError {
    /// A program that fonio requires is not installed.
    #[error("`{program}` is not installed; on Debian: apt-get install --no-install-recommends {package}")]
    ProgramMissing { program: String, package: &'static str },
    /// A program that fonio started has failed.
    #[error("`{command}` failed: {complaint}")]
    ProgramFailed { command: String, complaint: String },
    /// This machine's apt configuration has no Debian mirror.
    #[error(
        "apt's configuration on this machine names no Debian mirror; set FONIO_DEBIAN_MIRROR to the address of \
         a mirror, as in a line of sources.list"
    )]
    NoMirror,
    /// Debian's signing keys are missing. Without these keys, no download can be verified.
    #[error("Debian's keys are not in {}; on Debian: apt-get install debian-archive-keyring", path.display())]
    NoKeys { path: PathBuf },
    /// The archive cannot be reached, and there is no earlier copy of its lists.
    #[error("Debian's archive cannot be read ({complaint}); is the network up?")]
    Unreachable { complaint: String },
    /// A text is not the name of a kernel.
    #[error(
        "`{text}` is not the name of a kernel; write a series or a version, as in lab:6.12, lab:6.12.117 or lab:newest"
    )]
    NotAKernel { text: String },
    /// The archive does not have the requested kernel.
    #[error("Debian's archive has no kernel {wanted}{nearest}; `fonio lab list` lists them")]
    NoKernel {
        wanted: String,
        /// The suggestion of [`fonio_core::nearest`] from the available series.
        nearest: String,
    },
    /// The archive does not have the requested package.
    #[error("Debian {suite} has no package `{package}` for {architecture}")]
    NoPackage { package: String, suite: &'static str, architecture: Architecture },
    /// The archive has the requested package, but not in this version.
    #[error("Debian's archive has no version {version} of `{package}`; it has {has}")]
    NoVersion { package: String, version: String, has: String },
    /// An image of containers cannot be pulled or read.
    #[error(
        "the image {image} cannot be pulled ({complaint}): save it where it is, with `podman save {image} -o {file}` or \
         `docker save {image} -o {file}`, and add `--image-file {file}`"
    )]
    NoImage { image: String, complaint: String, file: String },
    /// An image cannot be read from its file.
    #[error("the image {image} cannot be read from {} ({complaint})", path.display())]
    ImageUnreadable { image: String, path: PathBuf, complaint: String },
    /// An image would have to be built.
    #[error(
        "the service {service} is built from {folder}, which fonio does not do: build it with `podman build -t {image} \
         {folder}`, save it with `podman save {image} -o {file}`, and add `--image-file {file}`"
    )]
    ImageNotBuilt { image: String, service: String, folder: String, file: String },
    /// A file has no image that a service uses.
    #[error("{} holds {holds}, and the services use {wanted}: if it is one of these, write --image-file NAME={}", path.display(), path.display())]
    ImageNotWanted { path: PathBuf, holds: String, wanted: String },
    /// A file is not an image of containers.
    #[error(
        "{} is not an image of containers: make it with `podman save IMAGE -o FILE` or `docker save IMAGE -o FILE`",
        path.display()
    )]
    NotAnImage { path: PathBuf },
    /// PyPI cannot be reached.
    #[error("PyPI cannot be read ({complaint}); is the network up?")]
    NoPypi { complaint: String },
    /// PyPI does not have the requested package.
    #[error("PyPI has no package `{name}`")]
    NoWheel { name: String },
    /// PyPI has the requested package, but not in this version.
    #[error(
        "PyPI has no version {version} of `{name}`; the newest one for the Python of this Debian is {newest}"
    )]
    NoWheelVersion { name: String, version: String, newest: String },
    /// The requested version of a package is for another Python.
    #[error(
        "version {version} of `{name}` needs another Python than the one of this Debian; name an older or a newer version"
    )]
    WheelForOtherPython { name: String, version: String },
    /// Packages of PyPI need different versions of the same package.
    #[error("pip cannot install {wheels} Change the versions in `python`.")]
    WheelsConflict { wheels: String },
    /// A package of PyPI cannot be built.
    #[error(
        "the package `{wheel}` of PyPI must be built from its sources, and this fails ({complaint}); name another version"
    )]
    WheelNotBuilt { wheel: String, complaint: String },
    /// A kernel has no module with this name.
    #[error("Linux {kernel} of Debian has no module {module}; `fonio lab list` shows other kernels")]
    NoModule { kernel: String, module: String },
    /// A module file is invalid.
    #[error("the kernel module {} cannot be read: {reason}", path.display())]
    BadModule { path: PathBuf, reason: String },
    /// A library that a program needs is missing.
    #[error("{program} needs the library {library}, which is missing")]
    NoLibrary { program: String, library: String },
    /// Guests do not run on this machine's architecture.
    #[error("guests need an x86-64 machine, and this machine is not one")]
    Architecture,
    /// The requested kind of guest does not support the architecture.
    #[error(
        "guests without a disk, whose clock can count instructions, run this machine's programs and are amd64 \
         only; an {architecture} guest must be a complete Debian (`--system`)"
    )]
    SystemOnly { architecture: Architecture },
    /// The machine has too little free memory for the guest.
    #[error("the guest needs {needs} MiB of memory, but only {free} MiB are free")]
    Memory { needs: u64, free: u64 },
    /// The guest ended before its command did.
    #[error("the guest with Linux {kernel} ended {when}; its console output is in {}{}", console.display(), last(lines))]
    GuestEnded {
        kernel: String,
        /// The stage at which the guest ended, as a clause.
        when: &'static str,
        console: PathBuf,
        lines: Vec<String>,
    },
    /// The guest did not become ready in time.
    #[error(
        "the guest with Linux {kernel} did not answer within {minutes} minutes; its console output is in {}{}",
        console.display(),
        last(lines)
    )]
    GuestSilent { kernel: String, minutes: u64, console: PathBuf, lines: Vec<String> },
    /// The guest is switched off.
    #[error("the guest is off; switch it on first")]
    GuestOff,
    /// The guest does not have the requested snapshot.
    #[error("the guest has no snapshot `{name}`; available: {}", have.join(", "))]
    NoSnapshot { name: String, have: Vec<String> },
    /// The state of a disk cannot be saved with the guest's state.
    #[error("the guest has a disk served at {}, whose content cannot be saved with the guest's memory; start the guest without that disk", socket.display())]
    ServedDisk { socket: PathBuf },
    /// QEMU or the agent in the guest rejected a request.
    #[error("{by} refused `{request}`: {reason}")]
    Refused { by: &'static str, request: String, reason: String },
    /// A file cannot be copied to or from a guest.
    #[error("cannot copy {} {direction} the guest: {reason}", path.display())]
    NotCopied {
        path: PathBuf,
        /// The direction of the copy: `to` or `from`.
        direction: &'static str,
        reason: String,
    },
    /// The user stopped the program.
    #[error("interrupted")]
    Interrupted,
    /// The archive of files that the guest sent is damaged.
    #[error("the files from the guest cannot be read: {reason}")]
    BadFiles { reason: String },
    /// A system call failed.
    #[error("cannot {action} {}", path.display())]
    System { action: &'static str, path: PathBuf, source: io::Error },
}

impl LabError {
    /// Returns a closure for `map_err` that describes a failed system call on `path`.
    pub(crate) fn system(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> LabError {
        let path = path.as_ref().to_owned();
        move |source| LabError::System { action, path, source }
    }

    pub(crate) fn refused(by: &'static str, request: &str, reason: impl Display) -> LabError {
        LabError::Refused { by, request: request.to_owned(), reason: reason.to_string() }
    }
}

fn last(lines: &[String]) -> String {
    match lines {
        [] => String::new(),
        lines => format!(", at the end:\n  {}", lines.join("\n  ")),
    }
}
