//! `cargo studies sync-policy`: measures the cost of a transaction under a sync policy, and the data losses
//! after power cuts.

mod cuts;

use anyhow::{Result, ensure};
use clap::Args;

use crate::{process, tools};

pub use cuts::{SERVE, serve};

#[derive(Args)]
pub struct Arguments {
    /// The number of power cuts.
    #[arg(long, value_name = "N", default_value_t = cuts::CUTS)]
    cuts: u32,
}

/// Cuts the power of emulated cards; continues an interrupted run.
pub fn run(Arguments { cuts }: &Arguments) -> Result<()> {
    ensure!(process::is_root(), "emulated devices and mounts need root: run it with sudo");
    tools::ensure(&[tools::BUILD])?;
    let library = process::build_sync_library()?;
    let state = process::scratch("sync-policy")?.join("rounds.jsonl");
    let stop = process::outlive_signals()?;
    cuts::run(&library, &state, *cuts, &stop).map_err(|error| anyhow::anyhow!("{error}"))?;
    println!("\nThe rounds are in {}; remove this file to start again.", state.display());
    Ok(())
}
