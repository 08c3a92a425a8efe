//! `cargo studies readers`: compares the readers of foreign traces with each other and with other programs.

mod answers;
mod calls;
mod perfetto;
mod recorders;
mod rows;
mod speed;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::{process, tools};
pub use speed::{READ, WRITE, run_read, run_write};

const COMMAND: &str = "cargo studies readers";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Record two loads of fio with Perfetto, trace-cmd, perf and fonio at the same time, and compare the requests.
    Recorders,
    /// Record the same loads in a guest with a complete Debian, also with biosnoop, and calls on ext4 with
    /// ext4slower (20 minutes).
    Guest,
    /// Compare requests, waits, a launch and a late frame with the answers of Perfetto's trace_processor and of biosnoop.
    Answers,
    /// Measure the processor time and memory of each reader for a file of 1 GB.
    Speed,
}

#[derive(Args)]
pub struct Arguments {
    /// The parts to run (default: all).
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// Use this program, for example a release build (default: builds fonio as for tests).
    #[arg(long, value_name = "FONIO")]
    program: Option<PathBuf>,
    /// Folder with traces and the answers of trace_processor (default: ../shared/traces/phones). Skipped if it does not exist.
    #[arg(long, value_name = "FOLDER")]
    samples: Option<PathBuf>,
    /// Size of each file of the part `speed` in MB.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    megabytes: u64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let wants = |part: Part| arguments.parts.is_empty() || arguments.parts.contains(&part);
    process::outlive_signals()?;
    let mut live = None;
    if wants(Part::Recorders) {
        if !process::is_root() {
            bail!("recording needs root: run it with sudo");
        }
        tools::ensure(&[tools::READERS])?;
        let (fonio, build) = process::fonio_of_study(arguments.program.as_deref())?;
        live = Some(recorders::run(&fonio, build, COMMAND)?);
    }
    if wants(Part::Guest) {
        let (fonio, build) = process::fonio_of_study(arguments.program.as_deref())?;
        recorders::run_in_guest(&fonio, build, COMMAND)?;
    }
    let own = process::root().join("../shared/traces/phones");
    let samples = arguments.samples.as_deref().unwrap_or(&own);
    if wants(Part::Answers) {
        answers::run(samples, live.as_deref(), COMMAND)?;
    }
    if wants(Part::Speed) {
        speed::run(arguments.megabytes, samples, COMMAND)?;
    }
    Ok(())
}
