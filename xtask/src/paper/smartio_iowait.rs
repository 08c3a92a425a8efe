//! Figures 3 and 10: iowait as a share of the time in which the processors were active or waiting.
//!
//! The study's are days of use and thousands of phones; ours are the shares of single apps on one emulated phone.

use anyhow::{Context, Result};

use super::published::Published;
use super::row::Row;
use super::runs::Runs;

const DEVICE: &str = "samsung_s5";
const WORKLOADS: [&str; 4] = ["facebook", "email", "messages", "pulse"];
const SCHEDULERS: &str = "none,mq-deadline,bfq";

fn iowait_percent(runs: &mut Runs, recording: &std::path::Path) -> Result<f64> {
    let report = runs.report(recording)?;
    let cpu = report.analysis.machine.cpu.context("the recording has no samples of the processors")?;
    Ok(cpu.iowait_share() * 100.0)
}

/// Figure 3.
pub(super) fn share(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let told = &published.smartio.iowait;
    let [least, most] = told.share_range_percent;
    let mut rows = Vec::new();
    for workload in WORKLOADS {
        let series = runs.run(&[workload, "--on", DEVICE, "--link", "usb", "--repeat", "1"])?;
        let percent = iowait_percent(runs, &series.named(DEVICE)?.first()?.recording)?;
        rows.push(Row::statement(
            workload,
            format!("{least:.0} to {most:.0} % on 40 % of the phones, S5 {} %", told.s5_percent_of_active),
            format!("{percent:.0} %"),
            (least..=most).contains(&percent),
            "one app that writes while nothing else runs waits more of its time than a phone does over days",
        ));
    }
    Ok(rows)
}

/// Figure 10.
pub(super) fn by_scheduler(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let arguments = ["facebook", "--on", DEVICE, "--link", "usb", "--scheduler", SCHEDULERS, "--repeat", "1"];
    let series = runs.run(&arguments)?;
    let mut shares = Vec::new();
    for variation in &series.variations {
        let percent = iowait_percent(runs, &variation.first()?.recording)?;
        shares.push(format!("{} {percent:.0} %", variation.name));
    }
    let ours = shares.join(", ");
    let why = "SmartIO is a scheduler in the kernel and needs the lab; these are this kernel's own";
    let rows = published.smartio.iowait.reduction_percent.iter().map(|(phone, percent)| {
        Row::cannot(phone, format!("{percent} % less than with CFQ"), ours.clone(), why)
    });
    Ok(rows.collect())
}
