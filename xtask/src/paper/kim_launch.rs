//! Figure 9: launch times over the devices and in memory. The text tells by how much they vary for four of the apps.

use anyhow::{Context, Result};

use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::{Runs, Variation};

const FOUR: &str = "internal_2010,transcend,kingston,pny";
const ALL: &str = "internal_2010,transcend,ridata,sandisk,kingston,wintec,adata,patriot,pny";
/// The card below the RAM disk of the study.
const CARD: &str = "pny";

const TIMES: Quantity = Quantity::new("times", 2, 1.25, 0.0);

const WHY: &str = "a launch here is reads, 2 MiB of inflating and a small answer; what an app does besides (loading classes, drawing) would make all devices more alike";

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let devices = if runs.full() { ALL } else { FOUR };
    let series = runs.in_the_setup("applaunch", devices, "wifi", &["--repeat", "1"])?;
    let mut rows = Vec::new();
    for (app, percent) in &published.kim.app_launch_spread_percent {
        let mut times = Vec::new();
        for variation in &series.variations {
            times.push((launch(variation, app)?, variation.name.as_str()));
        }
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let [(shortest, first), .., (longest, last)] = times[..] else { continue };
        let row = TIMES.row(app, percent / 100.0 + 1.0, longest / shortest, false, WHY);
        rows.push(row.noted(format!("{last} {longest:.2} s over {first} {shortest:.2} s")));
    }
    let series = runs.in_the_setup("applaunch", CARD, "wifi", &["--repeat", "1", "--fix", "all-in-ram"])?;
    let (card, memory) = (series.named(CARD)?, series.named(&format!("{CARD}, all-in-ram"))?);
    let cold = |variation: &Variation| -> Result<f64> {
        variation.first()?.phases_s.get("cold").copied().context("the workload has a cold phase")
    };
    let gain = cold(card)? / cold(memory)?;
    rows.push(Row::statement(
        "all in memory",
        "launch times do not significantly change",
        format!("{gain:.2} times as fast as on {CARD}"),
        gain < 1.1,
        "another study (Nguyen et al. 2015) finds launches bound by storage; without the app's own work ours are",
    ));
    Ok(rows)
}

fn launch(variation: &Variation, app: &str) -> Result<f64> {
    let seconds = variation.first()?.spans_s.get(&format!("cold-{app}")).copied();
    seconds.with_context(|| format!("{app} was not launched"))
}
