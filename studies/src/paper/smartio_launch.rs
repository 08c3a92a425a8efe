//! Reproduces Figure 13 and section 7.4: forty apps, launched cold and then warm, and then used. SmartIO's gain in
//! cold launches is in `smartio_apps`.
//!
//! As there, BFQ replaces CFQ, and an installer and a backup write beside the apps.

use anyhow::{Context, Result};
use fonio_experiment::TimesFigures;

use super::measured::{Kind, Measured};
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::{Named, OfRuns, Runs};
use super::workload::knows;
use crate::applications::{self, Applications, FORTY_APPS, FORTY_EVENTS};

const WORKLOAD: &str = "fortyapps";
const EVENTS: &str = "fortyevents";
const DEVICE: &str = "samsung_s5";

const TIMES: Quantity = Quantity::new("times as fast", 2, 1.5, 0.0);
const GAIN: Quantity = Quantity::new("times", 2, 1.25, 0.0);
const RATIO: Quantity = Quantity::new("reads to a write", 1, 1.5, 0.0);

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let told = |figure: &str| published.number(&format!("smartio.app_delay.{figure}"));
    let series = runs.run(&[WORKLOAD, "--on", DEVICE, "--scheduler", "bfq", "--runs", &Runs::repeat()])?;
    let variation = series.named(DEVICE)?;
    let phase = |name: &str| variation.each(Kind::Imitation, |run| run.phases_s.get(name).copied());
    let warm = phase("cold").over(&phase("warm")).known(knows(WORKLOAD, "warm_over_cold_percent_less")?);
    // The workload lists how many reads and how many replaced files a launch has.
    let ratio = runs.each_report(Kind::Construction, variation, |analysis| {
        Some(analysis.totals.reads as f64 / analysis.totals.writes as f64)
    })?;
    let mut rows = vec![
        TIMES.effect(
            "warm launches",
            1.0 / (1.0 - told("warm_over_cold_percent_less")? / 100.0),
            &warm,
            "an app's computation is the same warm and cold, and the workload does not include it",
        ),
        RATIO.row(
            "requests of launches",
            told("launch_reads_over_writes")?,
            &ratio,
            "an app's writes during its launch are not published",
        ),
    ];
    rows.extend(gains(published, runs)?);
    Ok(rows)
}

const WHY: &str = "an installer and a backup write beside the apps, and the guest's processor is mostly busy";

/// The groups of apps in the workload, and in the study.
const GROUPS: [&str; 4] = ["games", "streaming", "sensing", "miscellaneous"];

/// The parts of a launch.
type Part = (&'static str, fn(&TimesFigures) -> f64);
const PARTS: [Part; 6] = [
    ("user", |times| times.user_s),
    ("system", |times| times.system_s),
    ("waits for a processor", |times| times.queued_s),
    ("storage", |times| times.blocked_s),
    ("network", |times| times.network_s),
    ("pauses", |times| times.paused_s),
];

/// Returns the rows that compare SmartIO with BFQ in a guest: warm launches, and user events.
fn gains(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let told = |figure: &str| {
        let percent = published.number(&format!("smartio.app_delay.{figure}"))?;
        Ok::<_, anyhow::Error>(1.0 - percent / 100.0)
    };
    let launches = runs.applications(&FORTY_APPS)?;
    let mut rows = vec![
        GAIN.effect(
            "warm launches, SmartIO over BFQ",
            told("warm_launch.mean")?,
            &over(&launches, "warm", |times| times.thread_s)?
                .known(knows(WORKLOAD, "warm_launch_gain_mean_percent")?),
            WHY,
        ),
        GAIN.effect(
            "waits of warm launches for storage, SmartIO over BFQ",
            told("warm_launch.disk_io_part_mean")?,
            &over(&launches, "warm", |times| times.blocked_s)?,
            WHY,
        ),
    ];
    let rate = |name: &str| {
        Ok::<_, anyhow::Error>(Kind::Imitation.runs(kernel(&launches, name)?.written_per_s.clone()))
    };
    rows.push(GAIN.effect(
        "time of the installer and the backup for a byte, SmartIO over BFQ",
        2.0 - told("install_write_slower_percent")?,
        &rate("bfq")?.over(&rate("smartio")?),
        "the study measured the installation of an app, and not a backup beside it",
    ));
    let events = runs.applications(&FORTY_EVENTS)?;
    let author = |figure: &str| knows(EVENTS, figure);
    rows.push(GAIN.effect(
        "run time over the user events, SmartIO over BFQ",
        told("run_time.mean")?,
        &over(&events, "events", |times| times.thread_s)?.known(author("run_time_gain_mean_percent")?),
        WHY,
    ));
    rows.push(
        GAIN.effect(
            "waits for storage during the user events, SmartIO over BFQ",
            told("run_time.disk_io_part_mean")?,
            &over(&events, "events", |times| times.blocked_s)?
                .known(author("run_time_disk_io_part_mean_percent")?),
            WHY,
        ),
    );
    for group in GROUPS {
        let of = |name: &str| {
            let kernel = kernel(&events, name)?;
            let apps: Vec<Vec<Option<f64>>> = kernel
                .parts(&format!("{group}-"))
                .iter()
                .map(|app| kernel.part(app, |times| times.thread_s))
                .collect();
            let rounds = kernel.times.len();
            let sum =
                |round: usize| apps.iter().map(|app| app.get(round).copied().flatten()).sum::<Option<f64>>();
            Ok::<_, anyhow::Error>(Kind::Imitation.runs((0..rounds).map(sum)))
        };
        rows.push(GAIN.effect(
            format!("run time over the user events, {group}, SmartIO over BFQ"),
            told(&format!("run_time_by_group_mean.{group}"))?,
            &of("smartio")?.over(&of("bfq")?).known(author(&format!("run_time_gain_{group}_percent"))?),
            WHY,
        ));
    }
    rows.push(extremes(&events)?);
    for (found, phase, what) in [
        (&launches, "cold", "cold launches"),
        (&launches, "warm", "warm launches"),
        (&events, "events", "user events"),
    ] {
        for scheduler in ["bfq", "smartio"] {
            rows.push(divided(kernel(found, scheduler)?, phase, &format!("{what} under {scheduler}"))?);
        }
    }
    Ok(rows)
}

fn kernel<'a>(found: &'a Applications, name: &str) -> Result<&'a applications::Measured> {
    found.of(name)?.kernel.as_ref().with_context(|| format!("the kernel has no {name}"))
}

/// Returns the ratio of SmartIO to BFQ, round by round.
fn over(found: &Applications, part: &str, of: fn(&TimesFigures) -> f64) -> Result<Measured> {
    let values =
        |name: &str| Ok::<_, anyhow::Error>(Kind::Imitation.runs(kernel(found, name)?.part(part, of)));
    Ok(values("smartio")?.over(&values("bfq")?))
}

/// Returns the smallest and the largest ratio of an app. Each is the median of the rounds, so both are further from 1
/// than they would be in a longer series.
fn extremes(events: &Applications) -> Result<Row> {
    let mut ratios = Vec::new();
    for group in GROUPS {
        for app in kernel(events, "bfq")?.parts(&format!("{group}-")) {
            ratios.push((over(events, &app, |times| times.thread_s)?.value(), app));
        }
    }
    let known: Option<Vec<(f64, String)>> =
        ratios.into_iter().map(|(ratio, app)| Some((ratio?, app))).collect();
    let mut known = known.context("an app was not measured in every round")?;
    known.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let [(low, fastest), .., (high, slowest)] = known.as_slice() else {
        anyhow::bail!("there are no apps in the results");
    };
    Ok(Row::ours_alone(
        Kind::Imitation,
        "run time over the user events, the apps with the largest and the smallest gain, SmartIO over BFQ",
        format!("{low:.2} ({fastest}) and {high:.2} ({slowest})"),
        "published: 0.70 and 0.98; an app has too few rounds to show its gain",
    ))
}

/// Returns where the time of a phase went, as shares; each is the median of the rounds.
fn divided(measured: &applications::Measured, phase: &str, what: &str) -> Result<Row> {
    let whole = Kind::Imitation.runs(measured.part(phase, |times| times.thread_s));
    let seconds = whole.value().with_context(|| format!("the results have no times of {phase}"))?;
    let mut parts = Vec::new();
    for (name, of) in PARTS {
        let share = Kind::Imitation.runs(measured.part(phase, of)).over(&whole).value();
        let percent = share.with_context(|| format!("the results have no {name} of {phase}"))? * 100.0;
        if percent >= 0.5 {
            parts.push(format!("{name} {percent:.0} %"));
        }
    }
    Ok(Row::ours_alone(
        Kind::Imitation,
        format!("where the time of {what} went"),
        format!("{seconds:.2} s: {}", parts.join(", ")),
        "the study divides the delays in this way, but prints no sums over the apps",
    ))
}
