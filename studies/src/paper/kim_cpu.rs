//! Reproduces Figures 11 and 12: the busy time and iowait of the processors during WebBench. Both figures are
//! measured in a guest, because the ticks of this machine would include all its other programs.

use anyhow::{Context, Result};
use fonio_analysis::Analysis;
use fonio_experiment::VariationResult;

use super::kim_devices::on_devices_at;
use super::measured::Measured;
use super::published::Published;
use super::row::Row;
use super::runs::{Named, OfRuns, Runs};

const FAST: &str = "transcend";
const SLOW: &str = "kingston";
const TICKS: f64 = 100.0;
const WHY_ACTIVE: &str = "this processor does more in a tick than the phone's, and waiting costs it little; \
    the recorder's ticks are included";

/// A device, with its run time in seconds, its iowait ticks and its active ticks.
type Device<'a> = (&'a str, f64, Measured, Measured);

/// Returns the rows of Figure 11.
pub(super) fn over_devices(_: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let at = runs.guest();
    let series = on_devices_at(&at, runs, "wifi")?;
    let mut devices: Vec<Device<'_>> = Vec::new();
    for variation in &series.variations {
        let waits = runs.each_report(variation, iowait_ticks)?;
        let active = active_ticks(runs, variation)?;
        let seconds = variation.wall_s().value().context("a run has no run time")?;
        devices.push((variation.name.as_str(), seconds, waits, active));
    }
    devices.sort_by(|a, b| a.1.total_cmp(&b.1));
    let waits: Vec<Option<f64>> = devices.iter().map(|(_, _, waits, _)| waits.value()).collect();
    let pairs: Vec<Option<bool>> = waits.windows(2).map(|pair| Some(pair[0]? <= pair[1]?)).collect();
    let in_order = pairs.iter().copied().collect::<Option<Vec<bool>>>();
    let share =
        in_order.map(|pairs| pairs.iter().filter(|in_order| **in_order).count() as f64 / pairs.len() as f64);
    let list = |values: &[Option<f64>]| {
        let named = devices.iter().zip(values);
        let named = named.map(|((name, ..), ticks)| format!("{name} {:.0}", ticks.unwrap_or(f64::NAN)));
        named.collect::<Vec<_>>().join(", ")
    };
    let shown = list(&devices.iter().map(|(.., active)| active.value()).collect::<Vec<_>>());
    let by_ticks = |a: &&Device<'_>, b: &&Device<'_>| {
        let of = |device: &Device<'_>| device.3.value().unwrap_or(f64::NAN);
        of(a).total_cmp(&of(b))
    };
    let (least, most) = (devices.iter().min_by(by_ticks), devices.iter().max_by(by_ticks));
    let (least, most) = least.zip(most).context("there are devices")?;
    Ok(vec![
        Row::within(
            "iowait over the devices",
            "correlates with the run time",
            |_| format!("ticks, by run time: {}", list(&waits)),
            (&Measured::once(share), 1.0..=1.0),
            "two devices with almost equal run times are swapped, or the waits are not for storage",
        )
        .noted(at.noted()),
        Row::effect(
            "active over the devices",
            "some devices need more for the same work",
            |ratio| format!("{} needs {ratio:.2} times the ticks of {}", most.0, least.0),
            (&most.3.over(&least.3), 1.0..=f64::INFINITY),
            WHY_ACTIVE,
        )
        .noted(format!("ticks without the emulator's: {shown}"))
        .noted(at.noted()),
    ])
}

/// Returns the rows of Figure 12.
pub(super) fn fast_and_slow(_: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let at = runs.guest();
    let series = on_devices_at(&at, runs, "wifi")?;
    let (fast, slow) = (series.named(FAST)?, series.named(SLOW)?);
    let waits = runs.each_report(slow, iowait_ticks)?.over(&runs.each_report(fast, iowait_ticks)?);
    let active = active_ticks(runs, slow)?.over(&active_ticks(runs, fast)?);
    Ok(vec![
        Row::effect(
            "iowait",
            "more on the slow card",
            |ratio| format!("{SLOW} has {ratio:.1} times the ticks of {FAST}"),
            (&waits, 1.0..=f64::INFINITY),
            "the run on the slow card did not wait longer",
        )
        .noted(at.noted()),
        Row::effect(
            "active",
            "more on the slow card",
            |ratio| format!("{SLOW} needs {ratio:.2} times the ticks of {FAST}, without the emulator's"),
            (&active, 1.0..=f64::INFINITY),
            WHY_ACTIVE,
        )
        .noted(at.noted()),
    ])
}

fn iowait_ticks(analysis: &Analysis) -> Option<f64> {
    Some(analysis.machine.cpu.as_ref()?.iowait_ticks? as f64)
}

/// Returns the active ticks of each run, without the ticks of the processes that serve the emulated device.
fn active_ticks(runs: &mut Runs, variation: &VariationResult) -> Result<Measured> {
    let mut ticks = Vec::new();
    for run in &variation.runs {
        let report = runs.report(&run.recording)?;
        let active = report.analysis.machine.cpu.as_ref().map(|cpu| cpu.active_ticks as f64);
        ticks.push(active.map(|active| active - run.server_cpu_s * TICKS));
    }
    Ok(Measured::runs(ticks))
}
