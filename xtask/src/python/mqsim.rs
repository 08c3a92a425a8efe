//! Runs the experiments of `python/tests/mqsim.py` in MQSim and in fonio, and keeps the result.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;
use xtask::process;
use xtask::results::{Cell, StudyResult};

/// The results of an experiment in both simulators.
#[derive(Deserialize)]
struct Row {
    name: String,
    requests: u64,
    mqsim: Numbers,
    fonio: Numbers,
}

#[derive(Deserialize)]
struct Numbers {
    response_us: f64,
    amplification: f64,
    processor_s: f64,
}

/// The fewest requests for which the processor time of a request is shown. With fewer, it would be the time to start.
const MANY: u64 = 1_000_000;

/// Runs the experiments in the MQSim that was built in `folder`.
pub(super) fn run(python: &Path, folder: &Path) -> Result<()> {
    let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
    let script = process::root().join("python/tests/mqsim.py");
    let text = process::output(Command::new(python).arg(script).arg(folder))?;
    let rows: Vec<Row> = serde_json::from_str(&text).context("the output of mqsim.py is not its JSON")?;
    let title = "the simulator and MQSim";
    let columns = [
        "",
        "response, MQSim",
        "response, fonio",
        "amplification, MQSim",
        "amplification, fonio",
        "processor time of a request, MQSim",
        "processor time of a request, fonio",
    ];
    let command = "cargo xtask python --mqsim FOLDER";
    let mut result = StudyResult::begin("python-mqsim", title, command, &columns)?;
    for Row { name, requests, mqsim, fonio } in rows {
        let times = [&mqsim, &fonio].map(|numbers| Cell::once(numbers.response_us, "µs", 0));
        let ratios = [&mqsim, &fonio].map(|numbers| Cell::once(numbers.amplification, "", 3));
        let each = [&mqsim, &fonio].map(|numbers| {
            let ns = 1e9 * numbers.processor_s / requests as f64;
            Cell::once((requests >= MANY).then_some(ns), "ns", 0)
        });
        result.row(name, times.into_iter().chain(ratios).chain(each).collect());
    }
    result.remark =
        "MQSim is commit 7ec40e3 of github.com/CMU-SAFARI/MQSim. It prints whole microseconds.".to_owned();
    result.keep(true)?;
    Ok(())
}
