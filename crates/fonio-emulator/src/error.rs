//! What can go wrong with an emulated device.

use std::io;
use std::path::PathBuf;

use fonio_core::{ByteCount, Nanos};
use fonio_host::HostError;
use fonio_system::SystemError;

/// An error of the emulator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// The test bed failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The device model cannot be had.
    #[error("{profile}: {reason}")]
    Profile {
        /// Which one was asked for.
        profile: String,
        /// Why not.
        reason: String,
    },
    /// The serving process said that it failed.
    #[error("the serving process failed: {reason}")]
    Server {
        /// Its words.
        reason: String,
    },
    /// The serving process ended before it was asked to.
    #[error("the serving process ended unexpectedly{}", if complaint.is_empty() { String::new() } else { format!(": {complaint}") })]
    ServerGone {
        /// The last that it wrote to standard error.
        complaint: String,
    },
    /// This machine is too slow for the device.
    #[error(
        "this machine needs {:.0} µs for a command that takes no time at all, and {profile} answers its fastest in \
         {:.0} µs; --dilate {dilate} makes device and workload's view of it {dilate} times slower",
        floor.0 as f64 / 1e3, fastest.0 as f64 / 1e3
    )]
    BelowFloor {
        /// The profile.
        profile: String,
        /// The least that this machine reaches.
        floor: Nanos,
        /// The shortest service time of the profile.
        fastest: Nanos,
        /// The factor that would do.
        dilate: u64,
    },
    /// A fault's description cannot be understood.
    #[error("fault `{text}`: {reason}")]
    Fault {
        /// As it was given.
        text: String,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// A log of commands is damaged.
    #[error("{}: byte {offset}: {reason}", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong there.
        reason: &'static str,
    },
    /// The image exists and has another size.
    #[error("{} holds {} bytes, and the device is to have {}", path.display(), found.0, wanted.0)]
    ImageSize {
        /// The image.
        path: PathBuf,
        /// Its size.
        found: ByteCount,
        /// The device's.
        wanted: ByteCount,
    },
    /// No power can be cut before anything was written.
    #[error("the workload wrote nothing, so that there is no point at which to cut the power")]
    NothingWritten,
    /// A command of the user's could not be started.
    #[error("cannot start `{command}`")]
    Command {
        /// The command line.
        command: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

impl EmulatorError {
    pub(crate) fn system(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> EmulatorError {
        let failed = SystemError::on(action, path);
        move |source| failed(source).into()
    }
}
