//! The exit codes of fonio.

use std::process::ExitCode;

use fonio_report::budget::BudgetError;

/// The exit codes. Usage errors and bad input are `anyhow` errors and exit with [`USAGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0.
    Fine,
    /// 1: a limit that the user stated is exceeded.
    BudgetBroken,
    /// 3: there was nothing to measure, or the measurement is not valid, or does not show what a budget names.
    NotValid,
    /// The code of the recorded command, or of the signal that ended it.
    Command(u8),
}

impl Exit {
    /// Returns the more severe of the two codes.
    pub fn worse(self, other: Exit) -> Exit {
        let weight = |exit| match exit {
            Exit::Fine => 0,
            Exit::BudgetBroken => 1,
            Exit::NotValid | Exit::Command(_) => 2,
        };
        if weight(other) > weight(self) { other } else { self }
    }
}

/// The exit code of usage errors and bad input.
pub const USAGE: u8 = 2;

/// Returns the exit code of a command that failed: 3 if the recording does not show the figure of a budget.
pub fn of_error(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<BudgetError>() {
        Some(BudgetError::NotKnown { .. }) => NOT_VALID,
        _ => USAGE,
    }
}

/// The exit code of [`Exit::NotValid`].
const NOT_VALID: u8 = 3;

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Fine => 0,
            Exit::BudgetBroken => 1,
            Exit::NotValid => NOT_VALID,
            Exit::Command(code) => code,
        })
    }
}
