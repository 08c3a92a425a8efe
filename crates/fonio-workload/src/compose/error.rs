//! What is wrong with a Compose file.

use std::io;
use std::path::PathBuf;

/// A Compose file that cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ComposeError {
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A value is wrong, or fonio cannot do what it asks for.
    #[error("{}, line {line}: {problem}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// The command line names a service that the file does not have.
    #[error("{} has no service `{service}`{nearest}", path.display())]
    NoService {
        /// The file.
        path: PathBuf,
        /// The service.
        service: String,
        /// The result of [`fonio_core::nearest`] among the services.
        nearest: String,
    },
    /// Another service needs the service that the run ends with.
    #[error("{}: {dependent} depends on {service}, so the run cannot end when {service} ends: name another service", path.display())]
    EndNeeded {
        /// The file.
        path: PathBuf,
        /// The service that was to end the run.
        service: String,
        /// The service that depends on it.
        dependent: String,
    },
}

/// What is wrong in a line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) line: usize,
    pub(super) problem: String,
}

impl Problem {
    pub(super) fn at(line: usize, problem: String) -> Problem {
        Problem { line, problem }
    }
}
