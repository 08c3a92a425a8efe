//! Lists the reasons why a setting cannot be applied.

use std::path::{Path, PathBuf};

use crate::error::HostError;

#[derive(Debug)]
pub(super) enum Refusal {
    /// The reason is a clause about the setting's object.
    Reason(String),
    /// The reason is a clause about another object, whose path is given.
    On(PathBuf, String),
    /// The reason is a complete error.
    Error(HostError),
}

impl Refusal {
    /// Returns the error that `setting` cannot be applied to `path`.
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
