//! How fonio ends.

use std::process::ExitCode;

/// The exit codes; usage errors and bad input are `anyhow` errors and end in [`USAGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0.
    Fine,
    /// 1: a threshold that the user stated is broken.
    BudgetBroken,
    /// 3: there was nothing to measure, or what was measured does not stand.
    NotValid,
}

impl Exit {
    /// The one of two that must be told.
    pub fn worse(self, other: Exit) -> Exit {
        let weight = |exit| match exit {
            Exit::Fine => 0,
            Exit::BudgetBroken => 1,
            Exit::NotValid => 2,
        };
        if weight(other) > weight(self) { other } else { self }
    }
}

/// The exit code of usage errors and bad input.
pub const USAGE: u8 = 2;

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Fine => 0,
            Exit::BudgetBroken => 1,
            Exit::NotValid => 3,
        })
    }
}
