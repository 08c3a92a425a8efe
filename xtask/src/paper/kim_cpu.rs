//! Figures 11 and 12: what the processors did while WebBench ran: active, idle, waiting for storage.

use anyhow::{Context, Result};

use super::kim_devices::on_devices;
use super::published::Published;
use super::row::Row;
use super::runs::{Cpu, Runs};

const FAST: &str = "transcend";
const SLOW: &str = "kingston";

const SERVED: &str = "the ticks are the whole machine's, which serves the emulated device and records meanwhile: both take more on a slow card, whatever the workload does";

/// Each device's run time in seconds and ticks, the shortest run first.
fn ticks(runs: &mut Runs) -> Result<Vec<(String, f64, Cpu)>> {
    let series = on_devices(runs, "wifi")?;
    let mut ticks = Vec::new();
    for variation in &series.variations {
        let report = runs.report(&variation.first()?.recording)?;
        let cpu = report.analysis.machine.cpu.context("the recording has no samples of the processors")?;
        ticks.push((variation.name.clone(), variation.wall_s, cpu));
    }
    ticks.sort_by(|a, b| a.1.total_cmp(&b.1));
    Ok(ticks)
}

fn shown(cpu: &Cpu) -> String {
    format!("{} active, {} idle, {} iowait", cpu.active_ticks, cpu.idle_ticks, cpu.iowait_ticks)
}

/// Figure 11.
pub(super) fn over_devices(_: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let ticks = ticks(runs)?;
    let waits: Vec<u64> = ticks.iter().map(|(_, _, cpu)| cpu.iowait_ticks).collect();
    let active: Vec<u64> = ticks.iter().map(|(_, _, cpu)| cpu.active_ticks).collect();
    let in_order = |values: &[u64]| values.is_sorted();
    let list = |values: &[u64]| values.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let devices: Vec<&str> = ticks.iter().map(|(device, ..)| device.as_str()).collect();
    Ok(vec![
        Row::statement(
            "iowait over the devices",
            "goes with the run time",
            format!("{} ticks ({})", list(&waits), devices.join(", ")),
            in_order(&waits),
            "two devices of nearly the same run time change places, or the waiting is not for storage",
        ),
        Row::cannot(
            "active over the devices",
            "varies for the same work",
            format!("{} ticks", list(&active)),
            SERVED,
        ),
    ])
}

/// Figure 12.
pub(super) fn fast_and_slow(_: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let ticks = ticks(runs)?;
    let of = |name: &str| {
        let found = ticks.iter().find(|(device, ..)| device == name);
        found.map(|(.., cpu)| *cpu).with_context(|| format!("{name} was not run"))
    };
    let (fast, slow) = (of(FAST)?, of(SLOW)?);
    Ok(vec![
        Row::cannot(
            "active ticks",
            "more on the slow card",
            format!("{FAST}: {}; {SLOW}: {}", shown(&fast), shown(&slow)),
            SERVED,
        ),
        Row::statement(
            "iowait",
            "more on the slow card",
            format!(
                "{:.0} % and {:.0} % of not idle",
                fast.iowait_share() * 100.0,
                slow.iowait_share() * 100.0
            ),
            slow.iowait_ticks > fast.iowait_ticks,
            "the run on the slow card was not the longer one",
        ),
    ])
}
