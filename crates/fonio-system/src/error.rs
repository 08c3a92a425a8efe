//! The error of a failed system call.

use std::io;
use std::path::PathBuf;

/// A system call failed. The message names the action and its object. The source of this error is the
/// kernel's error.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub struct SystemError {
    /// The failed action, as a verb: `read`, `listen at`.
    pub action: &'static str,
    /// The object of the action, usually a file.
    pub path: PathBuf,
    /// The kernel's error.
    pub source: io::Error,
}

impl SystemError {
    /// Returns a closure for `map_err` that creates the error: `.map_err(SystemError::on("read", path))`.
    pub fn on<E: Into<io::Error>>(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> SystemError {
        let path = path.into();
        move |source| SystemError { action, path, source: source.into() }
    }
}

/// The I/O error has the same kind, and the same message with its cause.
impl From<SystemError> for io::Error {
    fn from(error: SystemError) -> io::Error {
        io::Error::new(error.source.kind(), chain(&error))
    }
}

/// Joins an error and its causes into one sentence.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn the_message_is_a_sentence_and_the_answer_its_source() {
        let error = SystemError::on("listen at", "/run/x")(rustix::io::Errno::ACCESS);
        assert_eq!(error.to_string(), "cannot listen at /run/x");
        assert_eq!(
            error.source().map(ToString::to_string).as_deref(),
            Some("Permission denied (os error 13)")
        );
    }
}
