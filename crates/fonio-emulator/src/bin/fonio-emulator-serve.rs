//! The serving process as a separate program, for programs other than `fonio` that own an emulated device.

use std::process::ExitCode;

fn main() -> ExitCode {
    match fonio_emulator::serve() {
        Ok(()) => ExitCode::SUCCESS,
        // The owner receives the error on standard output.
        Err(_) => ExitCode::FAILURE,
    }
}
