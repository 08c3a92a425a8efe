//! Reproduces Figure 13 and section 7.4: forty apps, launched cold and then warm. The gains of the study need
//! its own kernel with its scheduler. Here, we compare launches without this scheduler.

use anyhow::Result;

use super::measured::Kind;
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::{Named, OfRuns, Runs};
use super::workload::knows;

const WORKLOAD: &str = "fortyapps";
const DEVICE: &str = "samsung_s5";

const TIMES: Quantity = Quantity::new("times as fast", 2, 1.5, 0.0);
const RATIO: Quantity = Quantity::new("reads to a write", 1, 1.5, 0.0);

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let told = |figure: &str| published.number(&format!("smartio.app_delay.{figure}"));
    let series = runs.run(&[WORKLOAD, "--on", DEVICE, "--scheduler", "bfq", "--runs", &Runs::repeat()])?;
    let variation = series.named(DEVICE)?;
    let phase = |name: &str| variation.each(Kind::Imitation, |run| run.phases_s.get(name).copied());
    let warm = phase("cold").over(&phase("warm")).known(knows(WORKLOAD, "warm_over_cold_percent_less")?);
    // The workload lists how many reads and how many replaced files a launch has.
    let ratio = runs.each_report(Kind::Construction, variation, |analysis| {
        Some(analysis.totals.reads as f64 / analysis.totals.writes as f64)
    })?;
    Ok(vec![
        TIMES.effect(
            "warm launches",
            1.0 / (1.0 - told("warm_over_cold_percent_less")? / 100.0),
            &warm,
            "an app's computation is the same warm and cold, and the workload does not include it",
        ),
        RATIO.row(
            "requests of launches",
            told("launch_reads_over_writes")?,
            &ratio,
            "an app's writes during its launch are not published",
        ),
    ])
}
