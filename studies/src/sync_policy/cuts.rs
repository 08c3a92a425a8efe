//! `cargo studies cuts-sync-policy`: cuts the power of databases under a sync policy, and of plain files beside
//! them.
//!
//! A round runs a program for 3 s on an emulated card that logs every command. Each power cut of the round
//! builds an image that the card may contain after the cut, mounts it on a loop device, and opens the database.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fonio_core::random::{mix, seed_for};
use fonio_emulator::{Cut, scratch};

use super::bed::{MODES, Mode, Outcome, Promise, Recorded};
use super::{record, said};
use crate::shares::{self, Shares, Study, most, sum};
use crate::{process, tools};

static STUDY: Study = Study {
    id: "cuts-sync-policy",
    title: "losses of power cuts under a sync policy",
    command: "sudo cargo studies cuts-sync-policy",
    rows: "program and policy",
    columns: &[
        sum("cuts"),
        sum("promise broken"),
        sum("intact"),
        sum("corrupt"),
        sum("removed"),
        sum("plain files lost"),
        most("transactions lost at most", "", 0),
        most("longest span of lost transactions", "ms", 1),
        sum("transactions"),
        sum("changes of plain files"),
    ],
};

const ROUND_MAX: u64 = 100;
/// The maximum number of retries of a round after an error of the machine. For example, a process that has
/// just created a mount namespace keeps a file system busy.
const ATTEMPTS: u32 = 3;

#[derive(Args)]
pub struct Arguments {
    /// The number of power cuts to add.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    cuts: u64,
    /// Run one round of this mode instead, without changing the result.
    #[arg(long, requires = "seed")]
    mode: Option<String>,
    /// The seed of this round.
    #[arg(long, requires = "mode")]
    seed: Option<u64>,
    /// Repeat a failed cut with the log of its round.
    #[arg(long, value_name = "FILE", requires = "at")]
    log: Option<PathBuf>,
    /// The number of log records before this cut, and the seed of the cut.
    #[arg(long, num_args = 2, value_names = ["RECORDS", "SEED"], requires = "log")]
    at: Option<Vec<u64>>,
}

/// Performs more power cuts, and adds their counts to the result.
pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(process::is_root(), "emulated devices and mounts need root: run it with sudo");
    tools::ensure(&[tools::BUILD])?;
    let library = process::build_sync_library()?;
    let stop = process::outlive_signals()?;
    if let (Some(name), Some(seed)) = (&arguments.mode, arguments.seed) {
        let mode = mode_of(name)?;
        let outcome = if let (Some(log), Some(at)) = (&arguments.log, &arguments.at) {
            let cut = Cut { at: usize::try_from(at[0])?, seed: at[1] };
            said(said(Recorded::of(mode, &library, log))?.cut(&[cut], &|| false))?
        } else {
            round(mode, seed, arguments.cuts, &library, &stop)?.0
        };
        println!("{name}, seed {seed}: {outcome:?}");
        return Ok(());
    }
    let names = MODES.map(|mode| mode.name);
    let mut counted = Shares::open(&STUDY, &names)?;
    counted.note("Debug build of the library.");
    let mut left = arguments.cuts;
    while left > 0 && !stop.load(Ordering::Relaxed) {
        let mode = MODES.into_iter().min_by_key(|mode| counted.tried(mode.name) * 10 / weight(mode));
        let mode = mode.expect("there are modes");
        let cuts = (arguments.cuts * weight(&mode) / 82).clamp(1, ROUND_MAX).min(left);
        let seed = mix(seed_for(counted.tried(mode.name), mode.name.len() as u64));
        let mut attempts = 0;
        let (outcome, transactions, changes) = loop {
            match round(mode, seed, cuts, &library, &stop) {
                Ok(done) => break done,
                Err(error) if attempts < ATTEMPTS && !stop.load(Ordering::Relaxed) => {
                    attempts += 1;
                    eprintln!("{}, seed {seed}: {error:#}; again", mode.name);
                }
                Err(error) => return Err(error).with_context(|| format!("{}, seed {seed}", mode.name)),
            }
        };
        println!("{}: {} cuts, {} broke a promise", mode.name, outcome.cuts, outcome.broken);
        for (cut, why) in &outcome.failures {
            counted.note(&format!(
                "Failed: --mode '{}' --seed {seed} --at {} {}: {why}.",
                mode.name, cut.at, cut.seed
            ));
        }
        let counts = [outcome.cuts, outcome.broken, outcome.intact, outcome.corrupt, outcome.removed];
        let counts = counts.into_iter().chain([outcome.plain_lost]).map(f64::from);
        let rest = [outcome.lost_most as f64, outcome.span_ms_most, transactions as f64, changes as f64];
        counted.add(mode.name, &counts.chain(rest).collect::<Vec<_>>());
        counted.write()?;
        left -= u64::from(outcome.cuts).min(left);
    }
    counted.print()?;
    let tried: u64 = names.iter().map(|name| counted.tried(name)).sum();
    let failed: u64 = names.iter().map(|name| counted.failed(name)).sum();
    println!("{tried} tried, {failed} failed");
    ensure!(failed == 0, "{failed} cuts broke a promise");
    Ok(())
}

/// The mode without a promise needs few cuts: it only shows that cuts do damage.
fn weight(mode: &Mode) -> u64 {
    if mode.promise == Promise::Nothing { 2 } else { 10 }
}

fn mode_of(name: &str) -> Result<Mode> {
    let found = MODES.into_iter().find(|mode| mode.name == name);
    found.with_context(|| {
        format!(
            "there is no mode `{name}`; modes: {}",
            MODES.map(|mode| format!("`{}`", mode.name)).join(", ")
        )
    })
}

/// Runs the program, then cuts the power at random moments. Returns the outcome, the number of transactions,
/// and the number of changes of plain files.
fn round(
    mode: Mode,
    seed: u64,
    cuts: u64,
    library: &Path,
    stop: &AtomicBool,
) -> Result<(Outcome, usize, usize)> {
    let folder = tempfile::tempdir_in(scratch(64 << 20))?;
    let log = folder.path().join("log");
    let recorded = record(mode, library, seed, true, Some(&log))?;
    let plan = said(recorded.plan(u32::try_from(cuts)?, seed))?;
    let outcome = said(recorded.cut(&plan, &|| stop.load(Ordering::Relaxed)))?;
    for (cut, why) in &outcome.failures {
        let name = format!("{}-{seed}", mode.name.replace([' ', ',', '='], "-"));
        let kept = shares::keep_log(STUDY.id, &name, &log)?;
        println!("{}, seed {seed}, {cut:?}: {why}", mode.name);
        println!(
            "  repeat with: {} --mode '{}' --seed {seed} --log {} --at {} {}",
            STUDY.command,
            mode.name,
            kept.display(),
            cut.at,
            cut.seed
        );
    }
    Ok((outcome, recorded.transactions(), recorded.plain_changes()))
}
