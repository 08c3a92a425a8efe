//! `fonio fix prove`: measures a workload or a command with and without fixes.

use anyhow::{Result, ensure};
use fonio_experiment::{Candidate, CommandOptions};
use fonio_workload::definition::Workload;

use crate::cli::Colour;
use crate::cli::fix::FixProve;
use crate::cli::run::Candidates;
use crate::commands::lab;
use crate::commands::run::{Refusal, Tried, measure, run_and_publish};
use crate::exit::Exit;
use crate::roles::roles;
use crate::setups::setups;
use crate::signals::begin;

pub fn run(arguments: &FixProve, colour: Colour) -> Result<Exit> {
    let proof = arguments.proof()?;
    let (candidates, refusal) = match proof.names {
        Some(Candidates(names)) => (names, Refusal::Error),
        // If the user named no fix, all fixes are tried, and fixes that cannot be tested here are skipped.
        None => (super::chosen(arguments.choice).map(Candidate::Listed).collect(), Refusal::LeaveOut),
    };
    let tried = Tried { candidates: &candidates, refusal, best: arguments.best, verbose: arguments.verbose };
    match &proof.workload {
        None => of_command(arguments, &tried, colour),
        Some(name) => {
            // Before a guest starts.
            let workload = Workload::load(name)?;
            match &arguments.setup.guest {
                Some(kernel) => lab::run_setup(kernel, &arguments.setup),
                None => measure(&workload, &arguments.setup, &arguments.work, &tried, colour),
            }
        }
    }
}

fn of_command(arguments: &FixProve, tried: &Tried<'_>, colour: Colour) -> Result<Exit> {
    let at = &arguments.setup;
    ensure!(
        at.guest.is_none(),
        "fixes cannot be measured with a command in a guest yet; name a workload, or leave out --in"
    );
    ensure!(
        !at.on.is_empty(),
        "name a folder on the disk to change with --on, such as --on /mnt/sd (or --on . for the current folder)"
    );
    let stop = begin()?;
    let setups = setups(at)?;
    let arms = tried.arms(&setups, None)?;
    let roles = roles()?;
    let options = CommandOptions {
        command: &arguments.command,
        replay: None,
        before_each: arguments.prepare.as_deref(),
        seed: at.seed,
        roles: &roles,
        stop: &stop,
    };
    run_and_publish(&arms, &options, at, colour)
}
