//! Figure 10: what apps and widgets that sync by themselves write in two hours.
//!
//! The pauses between rounds are shortened: what is written stays the same, but for the file system's own timers, which
//! run less often.

use anyhow::Result;

use super::kim_io::used_in_fit;
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::Runs;

const DEVICE: &str = "transcend";
/// Of the pauses: a minute instead of two hours.
const PACE: &str = "0.008";
const PACE_FULL: &str = "0.03";

const MB: Quantity = Quantity::new("MB", 2, 1.25, 0.1);
const FACTOR: Quantity = Quantity::new("times", 0, 1.25, 0.0);

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let pace = if runs.full() { PACE_FULL } else { PACE };
    let more = ["--pace", pace, "--repeat", "1", "--write-back", "--fix", "db-in-ram"];
    let series = runs.in_the_setup("background", DEVICE, "wifi", &more)?;
    let run = series.named(DEVICE)?.first()?.clone();
    let without = series.named(&format!("{DEVICE}, db-in-ram"))?.first()?.write_bytes as f64;
    let report = runs.report(&run.recording)?;
    let background = &published.kim.background;
    let (written, received) = (run.write_bytes as f64 / 1e6, run.fetched_bytes as f64 / 1e6);
    let write = report.analysis.sequentiality.write;
    let share = 1.0 - without / run.write_bytes as f64;
    let random = write.random_bytes as f64 / write.bytes().max(1) as f64;
    let fitted = |figure| used_in_fit("background", figure);
    let why = "what the apps sync is not published";
    Ok(vec![
        MB.row("written", background.storage_write_mb, written, fitted("storage_write_mb")?, why),
        MB.row("received", background.network_rx_mb, received, fitted("network_rx_mb")?, why),
        FACTOR.row(
            "written over received",
            background.storage_write_mb / background.network_rx_mb,
            written / received,
            fitted("storage_write_mb")?,
            why,
        ),
        Row::statement(
            "what is written",
            "mostly SQLite's data and indices",
            format!("{:.0} % is gone with the databases in memory", share * 100.0),
            share > 0.5,
            "settings and widgets weigh more here",
        ),
        Row::statement(
            "how it is written",
            "at random",
            format!("{:.0} % of the bytes at random", random * 100.0),
            random > 0.5,
            "the journal of the file system is written in order and counts here too",
        ),
        Row::cannot(
            "duration",
            format!("{:.0} s", background.duration_s),
            format!("its pauses times {pace}"),
            "nobody waits two hours for a row",
        ),
    ])
}
