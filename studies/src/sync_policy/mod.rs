//! `cargo studies sync-policy`: measures the cost of a transaction under a sync policy.
//! `cargo studies cuts-sync-policy` (`cuts.rs`) counts the losses of power cuts.

pub mod cuts;

#[allow(dead_code, reason = "the emulator's tests use the other items")]
#[path = "../../../crates/fonio-emulator/tests/bed/sync_policy.rs"]
mod bed;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use fonio_core::ByteCount;
use fonio_emulator::{Options, ServeConfig, Through};
use fonio_host::Filesystem;
use xtask::results::{Cell, StudyResult};

use crate::{process, tools};
use bed::{MODES, Mode, Promise, Recorded};

const COMMAND: &str = "cargo studies sync-policy";
const LASTING: Duration = Duration::from_secs(3);
/// The profile of an A2 card. It has a volatile cache, so a completed write can still be lost.
const PROFILE: &str = "sd_a2";

#[derive(Args)]
pub struct Arguments {}

/// The argument with which this program serves an emulated card.
pub const SERVE: &str = "serve";

pub fn serve(_: &[String]) -> Result<()> {
    Ok(fonio_emulator::serve()?)
}

/// Measures the cost of a transaction without power cuts and without the disturbing process.
pub fn run(_: &Arguments) -> Result<()> {
    ensure!(process::is_root(), "emulated devices and mounts need root: run it with sudo");
    tools::ensure(&[tools::BUILD])?;
    let library = process::build_sync_library()?;
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
        process::check_signals()?;
        let recorded = record(mode, &library, 1, false, None)?;
        let [writes, flushes, bytes] = said(recorded.costs())?;
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

fn record(mode: Mode, library: &Path, seed: u64, disturbed: bool, log: Option<&Path>) -> Result<Recorded> {
    said(Recorded::new(mode, library, &options, server()?, (LASTING, seed), disturbed, log))
}

/// Turns an error of the test bed into an error of this program.
fn said<T>(outcome: Result<T, Box<dyn std::error::Error>>) -> Result<T> {
    outcome.map_err(|error| anyhow!("{error}"))
}

fn options(state: &Path) -> Options {
    let serve = ServeConfig::of(PROFILE, ByteCount(48 << 20), 1);
    Options {
        through: Some(Through::Loop),
        filesystem: Some(Filesystem::Ext4),
        mount: Some(PathBuf::new()),
        // Neither the counted costs nor the losses depend on the shortest latencies.
        at_floor: true,
        ..Options::of(serve, state.to_owned())
    }
}

fn server() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.arg(SERVE);
    Ok(command)
}
