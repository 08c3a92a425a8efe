//! Errors of a policy and of its databases.

use std::io;
use std::path::{Path, PathBuf};

use crate::fault::Fault;

/// An error that states what failed, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.display())]
    System {
        /// The failed action, as a verb.
        action: &'static str,
        /// The file that the call accessed.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The policy file is invalid.
    #[error("{}{}: {reason}", path.display(), at(*line))]
    Syntax {
        /// The policy file.
        path: PathBuf,
        /// The number of the line, counted from 1, if known.
        line: Option<usize>,
        /// The mistake in the policy, and the allowed alternatives.
        reason: String,
    },
    /// The file is not used; the fault says why.
    #[error("{}", fault.about(path))]
    Refused {
        /// The file.
        path: PathBuf,
        /// The reason.
        fault: Fault,
    },
    /// The database must be removed, but another process uses it.
    #[error(
        "{} is a cache from a boot that did not end cleanly, and the process {pid} uses it: stop the process, and enable fonio-sync-policy.service, which removes such databases before programs start",
        path.display()
    )]
    InUse {
        /// The path of the database.
        path: PathBuf,
        /// The id of the process that uses the database.
        pid: u32,
    },
}

impl PolicyError {
    pub(crate) fn of(fault: Fault, path: &Path) -> PolicyError {
        match fault {
            Fault::System { action, error } => PolicyError::system(action, path)(error.into()),
            fault => PolicyError::Refused { path: path.to_owned(), fault },
        }
    }

    pub(crate) fn system(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> PolicyError {
        let path = path.into();
        move |source| PolicyError::System { action, path, source }
    }
}

fn at(line: Option<usize>) -> String {
    line.map(|line| format!(", line {line}")).unwrap_or_default()
}
