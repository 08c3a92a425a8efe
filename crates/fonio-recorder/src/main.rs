//! `fonio-recorder`: `fonio record` alone, for devices with little room.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use fonio_core::BlockedIn;
use fonio_recorder::Record;

/// Record what programs read and write on storage, and which threads wait for it.
///
/// Writes a recording that `fonio report` explains on another machine. The options are those of `fonio record`. Needs root.
/// Example: fonio-recorder --for 60s -o /tmp/recording
#[derive(Debug, Parser)]
#[command(name = "fonio-recorder", version, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    record: Record,
}

/// The exit code of usage errors and of recordings that failed.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match fonio_recorder::run(&arguments.record, words) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "fonio-recorder: {error:#}");
            ExitCode::from(USAGE)
        }
    }
}

/// The operation in which a thread was blocked, as the recording names it.
fn words(blocked_in: BlockedIn) -> String {
    format!("in {}", blocked_in.name())
}
