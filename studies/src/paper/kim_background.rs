//! Reproduces Figure 10: the data written in two hours by apps and widgets that sync in the background.
//!
//! The pauses between the apps' sync rounds are shortened. Shorter pauses change only the amount of data that
//! the file system writes when its own timers expire. These timers expire less often in a shorter run.

use anyhow::Result;

use super::measured::{Kind, Measured};
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::{Named, OfRuns, Runs, Split};
use super::workload::knows;

const DEVICE: &str = "transcend";
/// The factor for the length of pauses: a minute instead of two hours.
const PACE: &str = "0.008";
const PACE_FULL: &str = "0.03";

const MB: Quantity = Quantity::new("MB", 2, 1.25, 0.1);
const FACTOR: Quantity = Quantity::new("times", 0, 1.25, 0.0);

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let pace = if runs.full() { PACE_FULL } else { PACE };
    let more = ["--pace", pace, "--runs", "1", "--write-back", "--fix", "db-in-ram"];
    let series = runs.in_the_setup("background", DEVICE, "wifi", &more)?;
    let run = series.named(DEVICE)?.first()?.clone();
    let without = series.named(&format!("{DEVICE}, db-in-ram"))?.first()?.write_bytes as f64;
    let report = runs.report(&run.recording)?;
    let told_written = published.number("kim.background.storage_write_mb")?;
    let told_received = published.number("kim.background.network_rx_mb")?;
    let mb = |bytes: u64, figure| -> Result<Measured> {
        Ok(Kind::Imitation.once(bytes as f64 / 1e6).known(knows("background", figure)?))
    };
    let written = mb(run.write_bytes, "storage_write_mb")?;
    let received = mb(run.fetched_bytes, "network_rx_mb")?;
    let write = &report.analysis.sequentiality.write;
    // Of the workload's writes, the transactions of its databases are many and its other files few.
    let kept = Kind::Construction.once(without).over(&Kind::Imitation.once(run.write_bytes as f64));
    let random =
        Kind::Imitation.once(write.random_bytes.0 as f64).over(&Kind::Imitation.once(write.bytes() as f64));
    let why = "the synced data of the apps is not published";
    Ok(vec![
        MB.row("written", told_written, &written, why),
        MB.row("received", told_received, &received, why),
        FACTOR
            .row("written over received", told_written / told_received, &written.over(&received), why)
            .of_numbers(0),
        Row::within(
            "what is written",
            "mostly SQLite data and indices",
            |kept| format!("{:.0} % of the data disappears with databases in memory", (1.0 - kept) * 100.0),
            (&kept, 0.0..=0.5),
            "settings and widgets write a larger share here",
        ),
        Row::within(
            "how it is written",
            "at random",
            |random| format!("{:.0} % of the bytes at random", random * 100.0),
            (&random, 0.5..=1.0),
            "the file system's journal is sequential and is included here",
        ),
    ])
}
