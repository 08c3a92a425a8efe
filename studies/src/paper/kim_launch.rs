//! Reproduces Figure 9: launch times on devices and in memory. The text of the study states how much the
//! launch times of four apps vary.

use std::collections::BTreeMap;

use anyhow::Result;
use fonio_experiment::VariationResult;

use super::measured::{Kind, Measured};
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::{Named, OfRuns, Runs};

const FOUR: &str = "internal_2010,transcend,kingston,pny";
const ALL: &str = "internal_2010,transcend,ridata,sandisk,kingston,wintec,adata,patriot,pny";
/// The card that the study combined with a RAM disk.
const CARD: &str = "pny";

const TIMES: Quantity = Quantity::new("times", 2, 1.25, 0.0);

const WHY: &str = "here, a launch consists of reads, inflating 2 MiB and a small network reply; the other \
    work of an app (loading classes, drawing) would reduce the differences between devices";

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let devices = runs.devices("internal_2010", if runs.full() { ALL } else { FOUR });
    let series = runs.in_the_setup("applaunch", &devices, "wifi", &["--runs", &Runs::repeat()])?;
    let mut rows = Vec::new();
    let spreads: BTreeMap<String, toml::Value> = published.at("kim.app_launch_spread_percent")?;
    for (app, percent) in &spreads {
        // One entry of the table is a sentence about a RAM disk, not a number.
        let Some(percent) = percent.as_integer() else { continue };
        let mut times: Vec<(Measured, &str)> = series
            .variations
            .iter()
            .map(|variation| (launch(variation, app), variation.name.as_str()))
            .collect();
        // A device without a measurement comes last, and its row says that it was not measured.
        let middle = |times: &Measured| times.value().unwrap_or(f64::INFINITY);
        times.sort_by(|a, b| middle(&a.0).total_cmp(&middle(&b.0)));
        let [(shortest, first), .., (longest, last)] = &times[..] else { continue };
        let row = TIMES.effect(app, percent as f64 / 100.0 + 1.0, &longest.over(shortest), WHY);
        rows.push(row.noted(format!("{last} over {first}")));
    }
    let more = ["--runs", &Runs::repeat(), "--fix", "all-in-ram"];
    let series = runs.in_the_setup("applaunch", CARD, "wifi", &more)?;
    let cold = |name: &str| -> Result<Measured> {
        Ok(series.named(name)?.each(Kind::Imitation, |run| run.phases_s.get("cold").copied()))
    };
    rows.push(Row::no_effect(
        "all in memory",
        "launch times do not significantly change",
        |gain| format!("{gain:.2} times as fast as on {CARD}"),
        (&cold(CARD)?.over(&cold(&format!("{CARD}, all-in-ram"))?), 1.1),
        "Nguyen et al. 2015 find launches bound by storage, like ours, which lack the app's own work",
    ));
    Ok(rows)
}

fn launch(variation: &VariationResult, app: &str) -> Measured {
    variation.each(Kind::Imitation, |run| run.spans_s.get(&format!("cold-{app}")).copied())
}
