//! The serving process as a program of its own, for owners that have no `fonio` at hand.

use std::process::ExitCode;

fn main() -> ExitCode {
    match fonio_emulator::serve() {
        Ok(()) => ExitCode::SUCCESS,
        // The owner was told on standard output.
        Err(_) => ExitCode::FAILURE,
    }
}
