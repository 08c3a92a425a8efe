//! `fonio fix prove`: measures a workload or a command with and without fixes.

use std::ffi::OsString;
use std::io::Write;

use anyhow::{Result, ensure};
use fonio_experiment::{
    Candidate, ExperimentError, PILOT_ROUNDS, ProofOptions, ProofPlan, Work, changes_databases,
};
use fonio_system::say;
use fonio_workload::definition::Workload;

use crate::cli::Colour;
use crate::cli::fix::FixProve;
use crate::cli::run::{Candidates, Runs};
use crate::commands::lab;
use crate::commands::run::{Refusal, Tried, measure, rounds, run_proof};
use crate::exit::Exit;
use crate::output;
use crate::progress::rounded;
use crate::roles::roles;
use crate::setups::{limits, setups};
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
            match arguments.setup.guest()? {
                Some(kernel) => lab::run_setup(kernel, &arguments.setup, None),
                None => measure(Work::Workload(&workload), &arguments.setup, &arguments.work, &tried, colour),
            }
        }
    }
}

fn of_command(arguments: &FixProve, tried: &Tried<'_>, colour: Colour) -> Result<Exit> {
    let at = &arguments.setup;
    ensure!(
        at.place.is_none(),
        "fixes cannot be measured with a command in a guest yet; name a workload, or leave out --in"
    );
    let of_databases = arguments.versus.is_some() || tried.candidates.iter().any(changes_databases);
    ensure!(
        !at.on.is_empty() || of_databases || !arguments.database.is_empty(),
        "name a folder on the disk to change with --on, such as --on /mnt/sd (or --on . for the current folder)"
    );
    // The time of a command, and its variation, are unknown before it has run.
    let runs = at.runs.unwrap_or(Runs::AUTO);
    let stop = begin()?;
    let (setups, limits, processor) = if at.on.is_empty() {
        let (limits, processor) = limits(at)?;
        (Vec::new(), limits, processor)
    } else {
        let setups = setups(at)?;
        let first = &setups[0].1;
        let (limits, processor) = (first.limits, first.processor.clone());
        (setups, limits, processor)
    };
    let roles = roles()?;
    let library = fonio_host::sync_library();
    let against = arguments.versus.as_ref().map(|line| ["sh", "-c", line].map(OsString::from));
    let options = ProofOptions {
        command: &arguments.command,
        against: against.as_ref().map(|words| &words[..]),
        candidates: tried.candidates,
        setups: &setups,
        limits,
        processor: processor.as_ref(),
        databases: &arguments.database,
        library: library.as_deref(),
        before_each: arguments.prepare.as_deref(),
        rounds: rounds(runs),
        seed: at.seed,
        roles: &roles,
        stop: &stop,
    };
    let others: Vec<Candidate>;
    let plan = match tried.proof(options.clone()) {
        // If the user named no fix, fixes that cannot be tested here are skipped.
        Err(error) if tried.refusal == Refusal::LeaveOut && is_about_databases(&error) => {
            say!("left out, because they change a database: {error}");
            others = tried.candidates.iter().filter(|fix| !changes_databases(fix)).cloned().collect();
            tried.proof(ProofOptions { candidates: &others, ..options })?
        }
        plan => plan?,
    };
    if arguments.dry_run {
        return dry_run(&plan, runs);
    }
    say!("{}", bound(&plan, runs));
    run_proof(&plan, at, colour)
}

/// Returns whether a proof cannot be planned only because of the command's databases.
fn is_about_databases(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(
            ExperimentError::NoDatabase { .. }
                | ExperimentError::SeveralDatabases { .. }
                | ExperimentError::NotFromOutside { .. }
        )
    )
}

/// Returns a sentence on the number of runs and their time.
fn bound(plan: &ProofPlan<'_>, runs: Runs) -> String {
    let setups = plan.arms.len();
    match runs {
        Runs::Number(number) => format!("Each of {setups} setups is measured {number} times."),
        Runs::Auto(budget) => format!(
            "Each of {setups} setups is measured {PILOT_ROUNDS} times, and then until each gain is known to within 25 %, \
             but all runs together take at most {} (--runs auto:TIME), unless {} runs take longer.",
            rounded(budget.as_secs_f64()),
            setups * PILOT_ROUNDS as usize
        ),
    }
}

fn dry_run(plan: &ProofPlan<'_>, runs: Runs) -> Result<Exit> {
    let mut out = output::screen();
    for database in &plan.databases {
        writeln!(out, "Each run would get a fresh copy of {}.", database.display())?;
    }
    for sqlite in &plan.sqlite {
        writeln!(out, "The command's connections use the SQLite library {}.", sqlite.display())?;
    }
    if let Some(library) = fonio_host::sync_library().filter(|_| plan.is_preloaded) {
        writeln!(out, "Their settings would be made by {} (LD_PRELOAD).", library.display())?;
    }
    let names: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
    writeln!(out, "These would be measured in turn: {}.", names.join("; "))?;
    writeln!(out, "{}", bound(plan, runs))?;
    Ok(Exit::Fine)
}
