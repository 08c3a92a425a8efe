//! Reasons why a setting cannot be applied.

use std::path::{Path, PathBuf};

use crate::error::HostError;

/// The reason why a setting is not possible.
#[derive(Debug)]
pub(super) enum Refusal {
    /// A clause about the object.
    Reason(String),
    /// A clause about another object, with that object.
    On(PathBuf, String),
    /// A complete error.
    Error(HostError),
}

impl Refusal {
    /// Returns the error that `setting` is not possible on `path`.
    pub(super) fn of(self, setting: &str, path: &Path) -> HostError {
        let not_settable =
            |path: PathBuf, reason| HostError::NotSettable { setting: setting.to_owned(), path, reason };
        match self {
            Refusal::Reason(reason) => not_settable(path.to_owned(), reason),
            Refusal::On(path, reason) => not_settable(path, reason),
            Refusal::Error(error) => error,
        }
    }
}

impl From<String> for Refusal {
    fn from(reason: String) -> Refusal {
        Refusal::Reason(reason)
    }
}

impl From<HostError> for Refusal {
    fn from(error: HostError) -> Refusal {
        Refusal::Error(error)
    }
}
