//! Figures 11 and 12: how long the processors waited for storage while WebBench ran.

use anyhow::{Context, Result};
use fonio_analysis::Analysis;

use super::kim_devices::on_devices;
use super::measured::Measured;
use super::published::Published;
use super::row::Row;
use super::runs::{Named, OfRuns, Runs};

const FAST: &str = "transcend";
const SLOW: &str = "kingston";

/// Figure 11. The ticks are those of the complete machine, which also serves the emulated device and records: active
/// ticks show nothing about the workload and are not compared.
pub(super) fn over_devices(_: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let series = on_devices(runs, "wifi")?;
    let mut devices = Vec::new();
    for variation in &series.variations {
        let waits = runs.each_report(variation, iowait_ticks)?;
        let seconds = variation.wall_s().value().context("every run has a run time")?;
        devices.push((variation.name.as_str(), seconds, waits));
    }
    devices.sort_by(|a, b| a.1.total_cmp(&b.1));
    let waits: Vec<Option<f64>> = devices.iter().map(|(.., waits)| waits.value()).collect();
    let pairs: Vec<Option<bool>> = waits.windows(2).map(|pair| Some(pair[0]? <= pair[1]?)).collect();
    let in_order = pairs.iter().copied().collect::<Option<Vec<bool>>>();
    let share =
        in_order.map(|pairs| pairs.iter().filter(|in_order| **in_order).count() as f64 / pairs.len() as f64);
    let shown: Vec<String> = devices
        .iter()
        .zip(&waits)
        .map(|((name, ..), waits)| format!("{name} {:.0}", waits.unwrap_or(f64::NAN)))
        .collect();
    Ok(vec![Row::within(
        "iowait over the devices",
        "goes with the run time",
        |_| format!("ticks, by run time: {}", shown.join(", ")),
        (&Measured::once(share), 1.0..=1.0),
        "two devices of nearly the same run time change places, or the waiting is not for storage",
    )])
}

/// Figure 12.
pub(super) fn fast_and_slow(_: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let series = on_devices(runs, "wifi")?;
    let fast = runs.each_report(series.named(FAST)?, iowait_ticks)?;
    let slow = runs.each_report(series.named(SLOW)?, iowait_ticks)?;
    Ok(vec![Row::effect(
        "iowait",
        "more on the slow card",
        |ratio| format!("{SLOW} has {ratio:.1} times the ticks of {FAST}"),
        (&slow.over(&fast), 1.0..=f64::INFINITY),
        "the run on the slow card did not wait longer",
    )])
}

fn iowait_ticks(analysis: &Analysis) -> Option<f64> {
    Some(analysis.machine.cpu.as_ref()?.iowait_ticks? as f64)
}
