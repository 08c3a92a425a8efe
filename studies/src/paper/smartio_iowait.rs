//! Reproduces Figure 3: iowait as a share of the time in which processors are active or in iowait.
//!
//! The study observed thousands of phones for days. We measure the shares of individual apps on one emulated
//! phone.

use anyhow::Result;

use super::measured::{Kind, Measured};
use super::published::Published;
use super::row::Row;
use super::runs::{Named, Runs};

const DEVICE: &str = "samsung_s5";
const WORKLOADS: [&str; 4] = ["facebook", "email", "messages", "pulse"];

pub(super) fn share(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let [least, most]: [f64; 2] = published.at("smartio.iowait.share_range_percent")?;
    let s5 = published.number("smartio.iowait.s5_percent_of_active")?;
    let mut rows = Vec::new();
    for (at, workload) in WORKLOADS.into_iter().enumerate() {
        let series = runs.run(&[workload, "--on", DEVICE, "--link", "usb", "--runs", "1"])?;
        let percent: Measured = runs.each_report(Kind::Imitation, series.named(DEVICE)?, |analysis| {
            Some(analysis.machine.cpu.as_ref()?.iowait_of_not_idle_share? * 100.0)
        })?;
        let row = Row::within(
            workload,
            format!("{least:.0} to {most:.0} % on 40 % of the phones, S5 {s5} %"),
            |percent| format!("{percent:.0} %"),
            (&percent, least..=most),
            "a single writing app waits for a larger share of the time than a phone does over days",
        );
        // The study gives the two ends once.
        rows.push(row.of_numbers(if at == 0 { 2 } else { 0 }));
    }
    Ok(rows)
}
