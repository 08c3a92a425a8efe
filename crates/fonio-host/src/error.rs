//! What can go wrong with the test bed.

use std::io;
use std::path::PathBuf;

use fonio_system::SystemError;

/// An error of the test bed. Each says what was tried, on what, and where it can, the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A program that the test bed needs is not installed.
    #[error("{program} is not installed; on Debian: apt-get install {package}")]
    ProgramMissing {
        /// Its name.
        program: String,
        /// The Debian package that holds it.
        package: &'static str,
    },
    /// A program ended with an error.
    #[error("`{command}` failed ({status}): {output}")]
    ProgramFailed {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// The end of what it wrote to standard error.
        output: String,
    },
    /// The user may not do this.
    #[error("{needs} needs root")]
    NotRoot {
        /// What was wanted.
        needs: &'static str,
    },
    /// The device is not empty, and its name was not given a second time.
    #[error("{} holds {found}; to overwrite it, name it twice", path.display())]
    HoldsData {
        /// The device.
        path: PathBuf,
        /// What was found on it.
        found: String,
    },
    /// The device is in use.
    #[error("{} is in use: {by}", path.display())]
    InUse {
        /// The device.
        path: PathBuf,
        /// By whom.
        by: String,
    },
    /// No free loop device number was found.
    #[error("no free number for a loop device between {from} and {to}")]
    NoLoopNumber {
        /// The first number tried.
        from: u32,
        /// The last one.
        to: u32,
    },
    /// The kernel does not offer a scheduler of this name for this device.
    #[error("{device} has no scheduler `{wanted}`; it has {}", offered.join(", "))]
    NoScheduler {
        /// The device's name.
        device: String,
        /// What was asked for.
        wanted: String,
        /// What there is.
        offered: Vec<String>,
    },
    /// A queue cannot be as shallow or as deep as was asked for.
    #[error("{device} cannot have a depth of {wanted}: a loop device's is between {min} and {max}")]
    Depth {
        /// The device's name.
        device: String,
        /// What was asked for.
        wanted: u32,
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },
    /// The kernel cannot limit processor time here.
    #[error("processor time cannot be limited here: {reason}")]
    NoCpuLimit {
        /// Why, and the line that changes it.
        reason: String,
    },
    /// A share of a processor that cannot be had.
    #[error("{share} is not a share of a processor: write a number from 0.01 to below 1, such as 0.25")]
    CpuShare {
        /// What was asked for.
        share: String,
    },
    /// A setting that means nothing here, or that could not be taken back.
    #[error("{setting} cannot be set on {}: {reason}", path.display())]
    NotSettable {
        /// The setting.
        setting: String,
        /// On what.
        path: PathBuf,
        /// Why, in a sentence's words.
        reason: String,
    },
    /// A ledger cannot be read; nothing of it was undone.
    #[error("{}: line {line} is not an entry of a ledger", path.display())]
    Ledger {
        /// The ledger.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// Some steps could not be undone; the ledger keeps them for the next start.
    #[error("could not undo: {}", failures.join("; "))]
    NotUndone {
        /// One sentence each.
        failures: Vec<String>,
    },
}

impl HostError {
    /// A failed system call on `path`.
    pub(crate) fn system(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> HostError {
        let failed = SystemError::on(action, path);
        move |source| failed(source).into()
    }
}
