//! `fonio`: parses the command line, calls the command, prints errors.

mod cli;
mod commands;
mod exit;
mod filter;
mod input;
mod output;
mod progress;
mod signals;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::commands::{
    bench, check, compare, device, export, fix, folder, import, lab, launch, manual, mount, record, replay,
    report, run, status, storebench, sync_policy, watch,
};

fn main() -> ExitCode {
    let cli = Cli::parse_from(mount::as_mount_helper(std::env::args_os()));
    let outcome = match &cli.command {
        None => status::run(cli.json, cli.color),
        Some(Command::Check(arguments)) => check::run(arguments, cli.color),
        Some(Command::Record(arguments)) => record::run(arguments),
        Some(Command::Report(arguments)) => report::run(arguments, cli.color),
        Some(Command::Compare(arguments)) => compare::run(arguments, cli.color),
        Some(Command::Import(arguments)) => import::run(arguments),
        Some(Command::Bench(what)) => bench::run(what, cli.color),
        Some(Command::StoreBench(arguments)) => storebench::run(arguments, cli.color),
        Some(Command::Device(arguments)) => device::run(arguments, cli.color),
        Some(Command::Mount(arguments)) => mount::run(arguments),
        Some(Command::Run(arguments)) => run::run(arguments, cli.color),
        Some(Command::Launch(arguments)) => launch::run(arguments, cli.color),
        Some(Command::Replay(arguments)) => replay::run(arguments, cli.color),
        Some(Command::Fix(arguments)) => fix::run(arguments, cli.color),
        Some(Command::Lab(arguments)) => lab::run(arguments),
        Some(Command::Folder(command)) => folder::run(command),
        Some(Command::SyncPolicy(command)) => sync_policy::run(command),
        Some(Command::Watch(command)) => watch::run(command, cli.color),
        Some(Command::Role { role }) => run::play(role),
        Some(Command::Completions { shell }) => manual::completions(*shell),
        Some(Command::Man { dir }) => manual::pages(dir),
        Some(Command::Export(arguments)) => export::run(arguments),
    };
    match outcome {
        Ok(exit) => exit.into(),
        // The reader of our output closed it: `fonio report X | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let (text, code) = match signals::exit_code() {
                // The error is a consequence of the signal.
                Some(code) => ("interrupted".to_owned(), code),
                None => (format!("{error:#}"), exit::of_error(&error)),
            };
            // Standard error may be closed too.
            let _ = writeln!(io::stderr(), "fonio: {text}");
            ExitCode::from(code)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
