//! Chooses the exit codes, which are the same for every command of fonio.

use std::fmt::Write;
use std::io;
use std::process::ExitCode;

use anyhow::Result;
use fonio_system::command::{Failure, NotStarted};
use fonio_system::{say, signals};

/// The result of a fonio command that did not fail. Wrong usage and bad input are errors, with exit code 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The fonio command succeeded.
    Fine,
    /// A limit set by the user was exceeded, or a check requested by the user failed.
    LimitBroken,
    /// There was nothing to measure, or the measurement is not valid.
    NotValid,
    /// The user's command ended with this exit code. It is used even if fonio received a signal.
    Command(u8),
}

/// Exit codes and their meaning, for the help and the documents.
pub const TABLE: [(&str, &str); 9] = [
    ("0", "success"),
    ("1", "a limit was exceeded (--budget) or a check failed (--check)"),
    ("2", "wrong usage, bad input, or fonio failed"),
    ("3", "the measurement is not valid, or there was nothing to measure"),
    ("130", "interrupted by Ctrl-C"),
    ("143", "ended by SIGTERM"),
    ("125", "fonio failed, with a command after `--`"),
    ("126", "the command after `--` cannot be run"),
    ("127", "the command after `--` does not exist"),
];

/// Explains which exit code fonio returns if the user's command fails.
pub const OF_COMMAND: &str =
    "If a command after `--` fails, its exit code (128 + N after signal N) takes precedence over 1 and 3.";

/// Returns the table of exit codes as text.
pub fn table() -> String {
    let mut text = "Exit codes:\n".to_owned();
    for (code, meaning) in TABLE {
        let _ = writeln!(text, "  {code:<4} {meaning}");
    }
    text + OF_COMMAND
}

/// The error of a measurement that does not answer the user's question.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotShown(pub String);

impl Exit {
    /// Returns the more severe of two results. A failure of the user's command is the most severe, followed
    /// by an invalid measurement and an exceeded limit.
    pub fn worse(self, other: Exit) -> Exit {
        let weight = |exit| match exit {
            Exit::Fine | Exit::Command(0) => 0,
            Exit::LimitBroken => 1,
            Exit::NotValid => 2,
            Exit::Command(_) => 3,
        };
        if weight(other) > weight(self) { other } else { self }
    }

    /// Returns the result for a user's command that may have failed.
    pub fn of_command(failure: Option<Failure>) -> Exit {
        failure.map_or(Exit::Fine, |failure| Exit::Command(failure.exit_code()))
    }
}

/// Prints the error, if there is one, and returns the exit code. `has_command` says whether the user gave a
/// command after `--`.
pub fn end(program: &str, outcome: Result<Exit>, has_command: bool) -> ExitCode {
    ExitCode::from(match (outcome, signals::exit_code()) {
        (Ok(Exit::Command(code)), _) => code,
        // The program that reads fonio's output has closed the pipe, as in `fonio report X | head`.
        (Err(error), _) if is_closed_pipe(&error) => 0,
        (Ok(_), Some(signal)) => signal,
        (Err(_), Some(signal)) => {
            // The error was caused by a signal such as Ctrl-C.
            say!("{program}: interrupted");
            signal
        }
        (Ok(Exit::Fine), None) => 0,
        (Ok(Exit::LimitBroken), None) => 1,
        (Ok(Exit::NotValid), None) => 3,
        (Err(error), None) => {
            say!("{program}: {error:#}");
            of_error(&error, has_command)
        }
    })
}

/// Returns the exit code for wrong usage of fonio.
pub fn usage(has_command: bool) -> u8 {
    if has_command { 125 } else { 2 }
}

fn of_error(error: &anyhow::Error, has_command: bool) -> u8 {
    let of_cause = |cause: &(dyn std::error::Error + 'static)| {
        let of_failure = || Some(cause.downcast_ref::<Failure>()?.exit_code());
        let of_start = || Some(cause.downcast_ref::<NotStarted>()?.exit_code());
        let of_figure = cause.downcast_ref::<NotShown>().map(|_| 3);
        if has_command { of_figure.or_else(of_failure).or_else(of_start) } else { of_figure }
    };
    error.chain().find_map(of_cause).unwrap_or_else(|| usage(has_command))
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let of_io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let of_json = || cause.downcast_ref::<serde_json::Error>()?.io_error_kind();
        of_io.or_else(of_json) == Some(io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_short_enough_for_a_narrow_terminal() {
        assert_eq!(table().lines().filter(|line| line.chars().count() > 80).count(), 1, "{}", table());
    }

    #[test]
    fn the_failure_of_the_command_wins() {
        let failed = Exit::of_command(Some(Failure::Code(7)));
        assert_eq!(failed, Exit::Command(7));
        assert_eq!(Exit::NotValid.worse(failed), failed);
        assert_eq!(failed.worse(Exit::LimitBroken), failed);
        assert_eq!(Exit::LimitBroken.worse(Exit::NotValid), Exit::NotValid);
        assert_eq!(Exit::Command(0).worse(Exit::NotValid), Exit::NotValid);
    }

    #[test]
    fn errors_have_a_code() {
        let code = |error: anyhow::Error| (of_error(&error, false), of_error(&error, true));
        assert_eq!(code(anyhow::anyhow!("bad")), (2, 125));
        assert_eq!(code(anyhow::Error::from(NotShown("no figure".to_owned())).context("of a")), (3, 3));
        assert_eq!(code(anyhow::Error::from(Failure::Signal(9)).context("`x` failed")), (2, 137));
        let closed = serde_json::to_writer(Closed, &1).expect_err("it is closed");
        assert!(is_closed_pipe(&closed.into()));
        assert!(!is_closed_pipe(&io::Error::from(io::ErrorKind::NotFound).into()));
    }

    struct Closed;

    impl io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
