//! Reproduces Figure 15: the time until Facebook is ready and until its timeline is ready, in seconds.
//!
//! The share of the processor (`--cpu`) was chosen so that the launch takes as long as on the Samsung Galaxy
//! S5. Therefore, these times are not evidence of a gain.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::measured::Kind;
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::{Named, OfRuns, Runs};
use super::smartio_apps::ratio;
use super::workload::knows;
use crate::applications;

/// The study's phones that have a profile: the study's name and the profile's name.
const PHONES: [(&str, &str); 3] = [("samsung_s5", "samsung_s5"), ("nexus_5", "nexus5"), ("razr", "razr")];
const FITTED: &str = "samsung_s5";

const SECONDS: Quantity = Quantity::new("s", 2, 1.5, 0.1);
const TIMES: Quantity = Quantity::new("times", 2, 1.25, 0.0);

const WHY: &str =
    "the app's computation is not published; phones with slower processors than the S5 take even longer";

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let cold: BTreeMap<String, [f64; 2]> = published.at("smartio.facebook_s.cold_launch")?;
    let timeline: BTreeMap<String, [f64; 2]> = published.at("smartio.facebook_s.timeline")?;
    let mut rows = Vec::new();
    for (phone, profile) in PHONES {
        let series =
            runs.run(&["facebook", "--on", profile, "--link", "usb", "--scheduler", "bfq", "--runs", "1"])?;
        let run = series.named(profile)?.first()?;
        let is_fitted = phone == FITTED && runs.slowed();
        let known = |figure: &str| knows("facebook", &format!("{figure}_{phone}_s"));
        let launch = Kind::Imitation.once(run.phases_s.get("launch").copied());
        let launch = launch.known(is_fitted || known("cold_launch")?);
        let drags = Kind::Imitation.once(run.spans_s.get("drag").map(|seconds| seconds / DRAGS));
        let drags = drags.known(known("timeline")?);
        let with_cfq = |times: &BTreeMap<String, [f64; 2]>| times.get(phone).map(|[cfq, _]| *cfq);
        if let Some(seconds) = with_cfq(&cold) {
            rows.push(SECONDS.row(format!("{phone}, cold launch"), seconds, &launch, WHY));
        }
        if let Some(seconds) = with_cfq(&timeline) {
            rows.push(SECONDS.row(format!("{phone}, timeline"), seconds, &drags, WHY));
        }
    }
    rows.extend(gains(cold[FITTED], runs)?);
    Ok(rows)
}

/// Returns SmartIO's gains over BFQ (instead of CFQ) in a guest during an installation and a backup. In the
/// study, Facebook ran alone. Here, an app that runs alone would not have to wait for any writes.
fn gains([cfq, smartio]: [f64; 2], runs: &mut Runs) -> Result<Vec<Row>> {
    let found = runs.applications(&applications::FACEBOOK)?;
    let launch = ratio(&found, |of| &of.launches_s)?;
    let drags = ratio(&found, |of| &of.spans_s)?.value().context("a round has no value")?;
    Ok(vec![
        TIMES.effect(format!("{FITTED}, cold launch, SmartIO over BFQ"), smartio / cfq, &launch, WHY),
        Row::ours_alone(
            Kind::Imitation,
            format!("{FITTED}, timeline, SmartIO over BFQ"),
            format!("{drags:.2} times"),
            "published only for the Razr and the S4",
        ),
    ])
}

/// Number of measured spans: the first load of the feed, and five drags.
const DRAGS: f64 = 6.0;
