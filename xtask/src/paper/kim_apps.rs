//! Tables IV and VI: the apps that are installed and launched.

use anyhow::Result;

use super::kim_io::used_in_fit;
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::Runs;

const MB: Quantity = Quantity::new("MB", 2, 1.25, 0.1);

/// Table IV: as many bytes pass the network and end in packages as the table says.
pub(super) fn installed(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let series = runs.run(&["appinstall", "--on", "samsung_s5", "--repeat", "1"])?;
    let run = series.named("samsung_s5")?.first()?;
    let sizes = &published.kim.app_install_mb;
    let total: f64 = sizes.values().sum();
    let fitted = used_in_fit("appinstall", "packages_mb")?;
    let packages = run.files.get("package").copied();
    let (count, bytes) = packages.map_or((0, 0), |files| (files.count, files.bytes));
    let apps = Quantity::new("apps", 0, 1.0, 0.0);
    Ok(vec![
        apps.row("installed", sizes.len() as f64, count as f64, fitted, "the workload lists others"),
        MB.row("packages", total, bytes as f64 / 1e6, fitted, "the workload lists other sizes"),
        MB.row("fetched", total, run.fetched_bytes as f64 / 1e6, fitted, "the workload fetches other sizes"),
    ])
}

/// Table VI, in sum over the ten apps and their first, cold launch.
pub(super) fn launched(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let series =
        runs.in_the_setup("applaunch", "internal_2010", "wifi", &["--repeat", "1", "--write-back"])?;
    let run = series.named("internal_2010")?.first()?;
    let report = runs.report(&run.recording)?;
    let launches = &published.kim.app_launch_io_mb;
    let totals = &report.analysis.totals;
    let (read, written) = (totals.read_bytes as f64 / 1e6, totals.write_bytes as f64 / 1e6);
    Ok(vec![
        MB.row(
            "read",
            launches.values().map(|launch| launch.read).sum(),
            read,
            used_in_fit("applaunch", "read_mb")?,
            "what is read at random may have come with a readahead before",
        ),
        MB.row(
            "written",
            launches.values().map(|launch| launch.write).sum(),
            written,
            used_in_fit("applaunch", "write_mb")?,
            "each file that is renewed durably takes a commit of the file system's journal",
        ),
    ])
}
