//! Generates manual pages and shell completions from the definition of the command line.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use fonio_experiment::FIXES;
use fonio_sim::profile::SHIPPED;
use fonio_workload::definition::shipped;

use crate::cli::Cli;
use crate::exit::Exit;
use crate::output;

/// Writes the manual page `fonio.1` and a page for each command into `dir`.
pub fn pages(dir: &Path) -> Result<Exit> {
    std::fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    clap_mangen::generate_to(Cli::command(), dir)
        .with_context(|| format!("the manual pages cannot be written to {}", dir.display()))?;
    writeln!(
        output::screen(),
        "Manual pages are in {}; read one with `man -l {}/fonio.1`.",
        dir.display(),
        dir.display()
    )?;
    Ok(Exit::Fine)
}

pub fn completions(shell: Shell) -> Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut with_names(Cli::command()), "fonio", &mut text);
    io::stdout().write_all(&text)?;
    Ok(Exit::Fine)
}

/// Adds the names of shipped workloads, fixes and profiles, which commands accept in addition to files.
fn with_names(command: Command) -> Command {
    let workloads: Vec<&str> = shipped().iter().map(|workload| workload.name).collect();
    let fixes: Vec<&str> = FIXES.iter().map(|fix| fix.name).collect();
    let profiles: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
    let offer = |command: Command, argument: &'static str, names: &[&'static str]| {
        let names = PossibleValuesParser::new(names.to_vec());
        let positional: Vec<_> = command.get_positionals().map(|known| known.get_id().clone()).collect();
        let command = command.mut_arg(argument, |argument| argument.value_parser(names));
        // `mut_arg` moves an argument to the end, so call it for all positional arguments in their order.
        positional.iter().fold(command, |command, known| command.mut_arg(known, |known| known))
    };
    command
        .mut_subcommand("run", |run| {
            let run = offer(run, "workload", &workloads);
            offer(offer(run, "fix", &fixes), "on", &profiles)
        })
        .mut_subcommand("launch", |launch| offer(launch, "on", &profiles))
        .mut_subcommand("replay", |replay| offer(offer(replay, "fix", &fixes), "on", &profiles))
        .mut_subcommand("fix", |fix| {
            let fix = ["show", "apply", "undo", "trial"]
                .into_iter()
                .fold(fix, |fix, name| fix.mut_subcommand(name, |command| offer(command, "name", &fixes)));
            fix.mut_subcommand("prove", |prove| {
                let words = [&fixes[..], &workloads].concat();
                offer(offer(prove, "words", &words), "on", &profiles)
            })
        })
        .mut_subcommand("device", |device| {
            ["show", "verify", "emulate"].into_iter().fold(device, |device, name| {
                device.mut_subcommand(name, |command| offer(command, "profile", &profiles))
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_offer_names() {
        let mut text = Vec::new();
        clap_complete::generate(Shell::Bash, &mut with_names(Cli::command()), "fonio", &mut text);
        let text = String::from_utf8(text).expect("a script is text");
        for name in ["webbench", "wal-normal", "kingston"] {
            assert!(text.contains(name), "{name}");
        }
        Cli::command().debug_assert();
    }
}
