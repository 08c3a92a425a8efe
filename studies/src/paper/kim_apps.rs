//! Reproduces Tables IV and VI: the installed and launched apps.

use std::collections::BTreeMap;

use anyhow::Result;

use super::measured::{Kind, Measured};
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::{Named, OfRuns, Runs};
use super::workload::knows;

const MB: Quantity = Quantity::new("MB", 2, 1.25, 0.1);

/// Returns the rows of Table IV: the network traffic and package sizes, in bytes.
pub(super) fn installed(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let series = runs.run(&["appinstall", "--on", "samsung_s5", "--runs", "1"])?;
    let run = series.named("samsung_s5")?.first()?;
    let sizes = published.numbers("kim.app_install_mb")?;
    let total: f64 = sizes.values().sum();
    let packages = run.files.get("package").copied();
    // The workload lists the apps with the sizes of their packages.
    let count = Kind::Construction.once(packages.map(|files| files.count as f64));
    let bytes = Kind::Construction.once(packages.map(|files| files.bytes as f64 / 1e6));
    let fetched = Kind::Construction.once(run.fetched_bytes as f64 / 1e6);
    let apps = Quantity::new("apps", 0, 1.0, 0.0);
    Ok(vec![
        apps.row("installed", sizes.len() as f64, &count, "the workload lists others").of_numbers(0),
        MB.row("packages", total, &bytes, "the workload lists other sizes").of_numbers(sizes.len() as u32),
        MB.row("fetched", total, &fetched, "the workload fetches other sizes").of_numbers(0),
    ])
}

/// Returns the rows of Table VI: the totals of the ten apps at their first, cold launch.
pub(super) fn launched(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let series = runs.in_the_setup("applaunch", "internal_2010", "wifi", &["--runs", "1", "--write-back"])?;
    let run = series.named("internal_2010")?.first()?;
    let report = runs.report(&run.recording)?;
    let launches: BTreeMap<String, BTreeMap<String, f64>> = published.at("kim.app_launch_io_mb")?;
    let told = |figure: &str| launches.values().filter_map(|launch| launch.get(figure)).sum();
    let totals = &report.analysis.totals;
    let of = |bytes: u64, figure| -> Result<Measured> {
        Ok(Kind::Imitation.once(bytes as f64 / 1e6).known(knows("applaunch", figure)?))
    };
    let (read, written) = (of(totals.read_bytes.0, "read_mb")?, of(totals.write_bytes.0, "write_mb")?);
    let apps = launches.len() as u32;
    Ok(vec![
        MB.row("read", told("read"), &read, "readahead may have read the randomly read data before")
            .of_numbers(apps),
        MB.row(
            "written",
            told("write"),
            &written,
            "each durable replacement of a file needs a commit of the file system's journal",
        )
        .of_numbers(apps),
    ])
}
