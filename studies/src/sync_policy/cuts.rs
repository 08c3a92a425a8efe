//! Runs the rounds of the study. Each round runs a program once on an emulated card, with up to 250 power
//! cuts. The state file lists the finished rounds, so an interrupted study can be continued.

#[allow(dead_code, reason = "the emulator's tests use the other items")]
#[path = "../../../crates/fonio-emulator/tests/bed/sync_policy.rs"]
mod sync_policy;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fonio_core::ByteCount;
use fonio_emulator::{Options, ServeConfig, Through};
use fonio_host::Filesystem;
use serde::{Deserialize, Serialize};
use xtask::results::{Cell, StudyResult};

use sync_policy::{MODES, Mode, Outcome, Promise, Recorded};

/// The number of cuts in a complete study, and the command line of such a study.
pub const CUTS: u32 = 10_000;
const COMMAND: &str = "cargo studies sync-policy --cuts 10000";
const ROUND: u32 = 250;
/// The maximum number of retries of a round after a machine error.
const ATTEMPTS: u32 = 5;
const LASTING: Duration = Duration::from_secs(3);
/// The profile of an A2 card. It has a volatile cache, so a completed write can still be lost.
const PROFILE: &str = "sd_a2";

#[derive(Serialize, Deserialize)]
struct Done {
    mode: String,
    round: u32,
    transactions: usize,
    outcome: Outcome,
}

/// The argument with which this program serves an emulated card.
pub const SERVE: &str = "serve";

pub fn serve(_: &[String]) -> anyhow::Result<()> {
    Ok(fonio_emulator::serve()?)
}

/// Performs the power cuts that `state` still lacks.
pub fn run(library: &Path, state: &Path, cuts: u32, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let stopped = || stop.load(Ordering::Relaxed);
    let text = fs::read_to_string(state).unwrap_or_default();
    let mut done: Vec<Done> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    if done.is_empty() {
        costs(library)?;
    }
    // The control mode needs only few cuts; the remaining cuts are divided among the modes under the policy.
    let promising = MODES.iter().filter(|mode| mode.promise != Promise::Nothing).count() as u32;
    for mode in MODES {
        let wanted = match mode.promise {
            Promise::Nothing => ROUND.min(cuts),
            _ => cuts.div_ceil(promising),
        };
        let mut round = 0;
        let mut made = 0;
        while made < wanted {
            let count = ROUND.min(wanted - made);
            let is_done = done
                .iter()
                .any(|done| done.mode == mode.name && done.round == round && done.outcome.cuts >= count);
            if !is_done {
                let mut attempts = 0;
                let new = loop {
                    match one_round(mode, library, round, count, &stopped) {
                        Ok(new) => break new,
                        // This is an error of the machine. For example, a process that has just created a
                        // mount namespace keeps a file system busy.
                        Err(error) if attempts < ATTEMPTS && !stopped() => {
                            attempts += 1;
                            eprintln!("{}, round {round}: {error}; again", mode.name);
                        }
                        Err(error) => return Err(error),
                    }
                };
                let Some(new) = new else {
                    println!("Interrupted; the same command continues from here.");
                    return Ok(());
                };
                eprintln!("{}, round {round}: {} cuts, {} broken", mode.name, count, new.outcome.broken);
                done.retain(|done| done.mode != mode.name || done.round != round);
                done.push(new);
                let lines: Vec<String> = done.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
                fs::write(state, lines.join("\n") + "\n")?;
            }
            made += count;
            round += 1;
        }
    }
    keep(&done, cuts >= CUTS)?;
    if done.iter().any(|done| done.outcome.broken > 0) {
        return Err("a promise was broken".into());
    }
    Ok(())
}

fn one_round(
    mode: Mode,
    library: &Path,
    round: u32,
    cuts: u32,
    stopped: &dyn Fn() -> bool,
) -> Result<Option<Done>, Box<dyn Error>> {
    let seed = u64::from(round) + 1;
    let recorded = Recorded::new(mode, library, &options, server()?, (LASTING, seed), true)?;
    let Some(outcome) = recorded.cut(cuts, seed, stopped)? else { return Ok(None) };
    Ok(Some(Done { mode: mode.name.to_owned(), round, transactions: recorded.transactions(), outcome }))
}

fn options(state: &Path) -> Options {
    let serve = ServeConfig::of(PROFILE, ByteCount(48 << 20), 1);
    Options {
        through: Some(Through::Loop),
        filesystem: Some(Filesystem::Ext4),
        mount: Some(PathBuf::new()),
        ..Options::of(serve, state.to_owned())
    }
}

fn server() -> Result<Command, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(SERVE);
    Ok(command)
}

/// Measures the cost of a transaction without power cuts and without the disturbing process.
fn costs(library: &Path) -> Result<(), Box<dyn Error>> {
    println!(
        "Writes, flushes and KiB of the device for each transaction (5 rows, {} s on `{PROFILE}`, ext4):\n",
        LASTING.as_secs()
    );
    let columns = ["program and policy", "transactions", "writes", "flushes", "KiB"];
    let title = "cost of a transaction under a sync policy";
    let mut result = StudyResult::begin("sync-policy-cost", title, COMMAND, &columns)?;
    result.seed = Some(1);
    let plain = |journal| Mode {
        name: if journal == "wal" {
            "WAL FULL, without the library"
        } else {
            "TRUNCATE FULL, without the library"
        },
        journal,
        synchronous: "FULL",
        checkpoint: 60,
        class: None,
        promise: Promise::Nothing,
    };
    for mode in [plain("wal"), plain("truncate")].into_iter().chain(MODES.into_iter().skip(1)) {
        let recorded = Recorded::new(mode, library, &options, server()?, (LASTING, 1), false)?;
        let [writes, flushes, bytes] = recorded.costs()?;
        let cells = vec![
            Cell::count(recorded.transactions()),
            Cell::once(writes, "", 2),
            Cell::once(flushes, "", 2),
            Cell::once(bytes / 1024.0, "", 0),
        ];
        result.row(mode.name, cells);
    }
    result.keep(true)?;
    Ok(())
}

fn keep(done: &[Done], is_complete: bool) -> anyhow::Result<()> {
    println!("Power cuts on `{PROFILE}`, ext4, writes in doubt torn into units of 4 KiB:\n");
    let columns = [
        "program and policy",
        "cuts",
        "intact",
        "corrupt",
        "removed",
        "transactions lost at most",
        "longest span of lost transactions",
        "promise broken",
    ];
    let title = "losses of power cuts under a sync policy";
    let mut result = StudyResult::begin("sync-policy-cuts", title, COMMAND, &columns)?;
    result.seed = Some(1);
    for mode in MODES {
        let mut all = Outcome::default();
        for done in done.iter().filter(|done| done.mode == mode.name) {
            all.add(&done.outcome);
        }
        if all.cuts == 0 {
            continue;
        }
        let cells = vec![
            Cell::count(all.cuts),
            Cell::count(all.intact),
            Cell::count(all.corrupt),
            Cell::count(all.removed),
            Cell::count(all.lost_most),
            Cell::once(all.span_ms_most, "ms", 1),
            Cell::count(all.broken),
        ];
        result.row(mode.name, cells);
        if let Some(example) = &all.example {
            eprintln!("{}: {example}", mode.name);
        }
    }
    result.keep(is_complete)?;
    Ok(())
}
