//! The program `fonio-recorder`: only the command `fonio record`, for devices with little storage.

use std::process::ExitCode;

use clap::Parser;
use fonio_core::BlockedIn;
use fonio_recorder::{CLEAN_UP, Record, exit};

/// Record what programs read and write on storage, and which threads wait for it.
///
/// Writes a recording that `fonio report` explains on another machine. The options are those of `fonio record`. Needs root.
/// Example: fonio-recorder --for 60s -o /tmp/recording
#[derive(Debug, Parser)]
#[command(name = "fonio-recorder", version, max_term_width = 100, after_help = exit::table())]
struct Arguments {
    #[command(flatten)]
    record: Record,
    /// Record for fonio on another machine, which talks through standard input and output.
    #[arg(long, hide = true, conflicts_with_all = ["command", "spill"])]
    attached: bool,
}

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == CLEAN_UP) {
        return exit::end("fonio-recorder", fonio_recorder::clean_up(), false);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return wrong_usage(&error),
    };
    let has_command = !arguments.record.command.is_empty();
    let outcome = match arguments.attached {
        true => fonio_recorder::run_attached(&arguments.record),
        false => fonio_recorder::run(&arguments.record, words),
    };
    exit::end("fonio-recorder", outcome, has_command)
}

/// Prints the usage error or the requested help.
fn wrong_usage(error: &clap::Error) -> ExitCode {
    // Ignore errors, because standard output or error may be closed.
    let _ = error.print();
    let has_command = std::env::args_os().any(|word| word == "--");
    if error.use_stderr() { ExitCode::from(exit::usage(has_command)) } else { ExitCode::SUCCESS }
}

/// Returns the operation in which a thread was blocked, as named in recordings.
fn words(blocked_in: BlockedIn) -> String {
    format!("in {}", blocked_in.name())
}
