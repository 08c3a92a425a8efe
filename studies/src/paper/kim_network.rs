//! Reproduces Table II: the rates of the phone's links, measured over the link of `fonio run --link`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::measured::Kind;
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::{Named, OfRuns, Runs};
use crate::process;

const RATE: Quantity = Quantity::new("MB/s", 2, 1.1, 0.0);

/// Number of bytes that are fetched and sent. The transfer takes two seconds on the fastest link, so the
/// initial burst of the token bucket hardly matters.
const BYTES: u64 = 16_000_000;

/// The workload stores no data, because only the link is measured.
const DEFINITION: &str = include_str!("kim_network.toml");

const WHY: &str = "packet headers are not counted as payload, and a token bucket lets a first burst pass";

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let file = process::scratch("paper")?.join("link.toml");
    std::fs::write(&file, DEFINITION).with_context(|| format!("cannot write {}", file.display()))?;
    let file = file.to_str().context("the target directory's name is not text")?.to_owned();
    let mut rows = Vec::new();
    for (link, rates) in published.at::<BTreeMap<String, BTreeMap<String, f64>>>("kim.network_mb_s")? {
        let arguments = [&file, "--on", "internal_2010", "--size", "448MiB", "--runs", "1", "--link", &link];
        let series = runs.run(&arguments)?;
        let run = series.named("internal_2010")?.first()?;
        for (what, phase, rate) in
            [("to the phone", "receive", rates["rx"]), ("from the phone", "send", rates["tx"])]
        {
            let seconds = Kind::Imitation.once(run.phases_s.get(phase).copied());
            // The link is shaped to the published rate.
            let ours = Kind::Construction.once(BYTES as f64 / 1e6).over(&seconds);
            rows.push(RATE.row(format!("{link}, {what}"), rate, &ours, WHY));
        }
    }
    Ok(rows)
}
