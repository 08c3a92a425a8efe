//! The program `fonio`: parses the command line, runs the command, and prints errors.

mod cli;
mod commands;
mod exit;
mod filter;
mod input;
mod kept;
mod last;
mod offered;
mod output;
mod profiles;
mod progress;
mod results;
mod roles;
mod server;
mod setups;
mod signals;
mod temporary;
mod work;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};
use crate::commands::{
    bench, check, ci, compare, cure, device, export, fix, fleet, folder, import, lab, launch, manual, mount,
    record, replay, report, run, status, storebench, sync_policy, watch,
};
use crate::exit::Exit;

fn main() -> ExitCode {
    let words = mount::as_mount_helper(std::env::args_os());
    let has_command = exit::has_command(&Cli::command(), &words);
    match parse(&words) {
        Ok(cli) => exit::end("fonio", run(&cli), has_command),
        Err(error) => {
            // Ignore write errors: the output streams may be closed.
            let _ = error.print();
            if error.use_stderr() { exit::usage(has_command).into() } else { ExitCode::SUCCESS }
        }
    }
}

fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let cli = Cli::try_parse_from(words).map_err(cli::fix::with_verb)?;
    if cli.json && cli.command.is_some() {
        return Err(Cli::command().error(
            ErrorKind::ArgumentConflict,
            "--json before a command applies only to the storage summary; write it after the command: \
             `fonio COMMAND --json`",
        ));
    }
    Ok(cli)
}

fn run(cli: &Cli) -> Result<Exit> {
    match &cli.command {
        None => status::run(cli.json, cli.color),
        Some(Command::Check(arguments)) => check::run(arguments, cli.color),
        Some(Command::Cure(arguments)) => cure::run(arguments),
        Some(Command::Record(arguments)) => record::run(arguments),
        Some(Command::Report(arguments)) => report::run(arguments, cli.color),
        Some(Command::Compare(arguments)) => compare::run(arguments, cli.color),
        Some(Command::Ci(arguments)) => ci::run(arguments, cli.color),
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
        Some(Command::Fleet(arguments)) => fleet::run(arguments),
        Some(Command::Role { role }) => roles::play(role),
        Some(Command::Completions { shell }) => manual::completions(*shell),
        Some(Command::Man { dir }) => manual::pages(dir),
        Some(Command::Export(arguments)) => export::run(arguments),
    }
}
