//! Reproduces Figure 13 and section 7.4: forty apps, launched cold and then warm. The gains of the study need
//! its own kernel with its scheduler. Here, we compare launches without this scheduler.

use anyhow::Result;

use super::kim_io::used_in_fit;
use super::measured::Measured;
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::{Named, OfRuns, Runs};

const WORKLOAD: &str = "fortyapps";
const DEVICE: &str = "samsung_s5";

const TIMES: Quantity = Quantity::new("times as fast", 2, 1.5, 0.0);
const RATIO: Quantity = Quantity::new("reads to a write", 1, 1.5, 0.0);

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let told = |figure: &str| published.number(&format!("smartio.app_delay.{figure}"));
    let series = runs.run(&[WORKLOAD, "--on", DEVICE, "--scheduler", "bfq", "--runs", &Runs::repeat()])?;
    let variation = series.named(DEVICE)?;
    let phase = |name: &str| variation.each(|run| run.phases_s.get(name).copied());
    let warm =
        phase("cold").over(&phase("warm")).shaped(used_in_fit(WORKLOAD, "warm_over_cold_percent_less")?);
    let ratio = runs.each_report(variation, |analysis| {
        let writes = Measured::once(analysis.totals.writes as f64);
        Measured::once(analysis.totals.reads as f64).over(&writes).value()
    })?;
    let ratio = ratio.shaped(used_in_fit(WORKLOAD, "launch_reads_over_writes")?);
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
