//! Reproduces Figures 13 and 14: the gains of data in memory, no syncs, RAID-0 and phase-change memory.

use std::rc::Rc;

use anyhow::Result;
use fonio_experiment::Series;
use fonio_host::Filesystem;

use super::measured::{Kind, Measured};
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::{Named, OfRuns, Runs};

const TIMES: Quantity = Quantity::new("times as fast", 2, 1.5, 0.0);
/// The unit and tolerance of published gains that are close to zero.
const LITTLE: Quantity = Quantity::new("times as fast", 2, 1.15, 0.0);

/// The workloads of Figures 13 and 14, and the scales at which they run.
const WORKLOADS: [(&str, &str); 2] = [("webbench", "0.1"), ("facebook", "0.1")];
const RIDATA: &str = "ridata";

/// Our limits for the words with which the study describes gains. The study shows bars without numbers.
const NOTEWORTHY: f64 = 1.2;
const SIGNIFICANT: f64 = 1.25;
const COMPARABLE: f64 = 1.5;

fn measured(runs: &mut Runs, workload: &str, scale: &str, card: &str, fixes: &str) -> Result<Rc<Series>> {
    let scale = if runs.full() { "1" } else { scale };
    let more = ["--scale", scale, "--runs", &Runs::repeat(), "--fix", fixes];
    runs.in_the_setup(workload, card, "wifi", &more)
}

fn gain(series: &Series, card: &str, fix: &str) -> Result<Measured> {
    let seconds = |name: &str| Ok::<_, anyhow::Error>(series.named(name)?.wall_s(Kind::Imitation));
    Ok(seconds(card)?.over(&seconds(&format!("{card}, {fix}"))?))
}

/// Returns the rows of Figure 13.
pub(super) fn what_if(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let all_in_ram: String = published.at("kim.what_if.all_in_ram")?;
    let no_sync: String = published.at("kim.what_if.no_sync")?;
    let why = runs.processor_why();
    let mut rows = Vec::new();
    for (workload, scale) in WORKLOADS {
        let fixes = "cache-in-ram,db-in-ram,all-in-ram,no-sync";
        let series = measured(runs, workload, scale, RIDATA, fixes)?;
        let gain = |fix| gain(&series, RIDATA, fix);
        let cache = published.number(&format!("kim.what_if.cache_in_ram_percent.{workload}"))? / 100.0 + 1.0;
        let database = published.number(&format!("kim.what_if.database_in_ram_factor.{workload}"))?;
        let (in_ram, all, unsynced) = (gain("db-in-ram")?, gain("all-in-ram")?, gain("no-sync")?);
        rows.push(LITTLE.effect(format!("{workload}, cache in RAM"), cache, &gain("cache-in-ram")?, why));
        rows.push(TIMES.effect(format!("{workload}, databases in RAM"), database, &in_ram, why));
        rows.push(Row::no_effect(
            format!("{workload}, all in RAM"),
            &all_in_ram,
            |more| format!("{more:.2} times as fast as databases in RAM"),
            (&all.over(&in_ram), SIGNIFICANT),
            why,
        ));
        rows.push(Row::no_effect(
            format!("{workload}, no sync"),
            &no_sync,
            |more| format!("{more:.2} times as fast as databases in RAM"),
            (&unsynced.over(&in_ram), COMPARABLE),
            "unsynced data still reaches the card, partly within the run",
        ));
    }
    Ok(rows)
}

/// Returns the rows of Figure 14, including the bars C (SQLite on NILFS2, see [`log_structured`]).
pub(super) fn pilot(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    const RAID: &str = "kim.pilot.raid0_factor_figure_14";
    let bound = |end: &str| published.number(&format!("{RAID}.{end}"));
    let (above, below) = (bound("min_above")?, bound("max_below")?);
    let cards: Vec<String> = published.at(&format!("{RAID}.cards"))?;
    let mut rows = Vec::new();
    for card in &cards {
        let mut unsynced = Vec::new();
        for (workload, scale) in WORKLOADS {
            let series = measured(runs, workload, scale, card, "raid0,no-sync,db-on-pcm")?;
            let what = |fix: &str| format!("{card}, {workload}, {fix}");
            let gain = |fix| gain(&series, card, fix);
            let raid = Row::effect(
                what("RAID-0"),
                format!("more than {above} and less than {below} times as fast"),
                |gain| format!("{gain:.2} times as fast"),
                (&gain("raid0")?, above..=below),
                "half of the writes go to the phone's flash, and the other half uses a smaller part of the \
                 card; in the study, this gave a gain above 2 on some cards",
            );
            // The study gives the two bounds once, for all bars.
            let is_first = rows.is_empty();
            rows.push(raid.of_numbers(if is_first { 2 } else { 0 }));
            for (fix, name, told) in [
                ("no-sync", "selective sync", "noteworthy benefits"),
                ("db-on-pcm", "databases on PCM", "significant gains"),
            ] {
                rows.push(Row::effect(
                    what(name),
                    told,
                    |gain| format!("{gain:.2} times as fast"),
                    (&gain(fix)?, NOTEWORTHY..=f64::INFINITY),
                    "the databases' syncs are only a small part of this run",
                ));
            }
            unsynced.push(gain("no-sync")?);
            // The study gives one bound for each card.
            let is_first = unsynced.len() == 1;
            rows.push(log_structured(published, runs, card, workload, scale)?.of_numbers(is_first.into()));
        }
        let [webbench, facebook] = &unsynced[..] else { continue };
        rows.push(Row::effect(
            format!("{card}, the app that selective sync helps"),
            "especially Facebook",
            |more| format!("Facebook's gain is {more:.2} times WebBench's gain"),
            (&facebook.over(webbench), 1.0..=f64::INFINITY),
            "Facebook's other data still goes to the card; at a small scale, it is a larger part",
        ));
    }
    Ok(rows)
}

/// Returns the row of a workload whose databases are on a partition with NILFS2; its note has the gains with all files
/// on NILFS2 or F2FS. All are measured on the same kernel as ext3 alone.
fn log_structured(
    published: &Published,
    runs: &mut Runs,
    card: &str,
    workload: &str,
    scale: &str,
) -> Result<Row> {
    let told = published.number(&format!("kim.pilot.nilfs2_factor_above.{card}"))?;
    let at = runs.place_for(&[Filesystem::Nilfs2, Filesystem::F2fs]);
    let scale = if runs.full() { "1" } else { scale };
    let repeat = Runs::repeat();
    let more = ["--scale", scale, "--runs", &repeat];
    let with_fix = [&more[..], &["--fix", "db-on-nilfs2"]].concat();
    let ext3 = runs.in_the_setup_at(&at, workload, card, "wifi", &with_fix)?;
    let databases = gain(&ext3, card, "db-on-nilfs2")?;
    let others = ["--size", "448MiB", "--fs", "nilfs2,f2fs", "--link", "wifi"];
    let others = runs.run_at(&at, &[&[workload, "--on", card], &others[..], &more[..]].concat())?;
    let with_all = |name: &str| -> Result<f64> {
        let on = others.named(&format!("{card} with {name}"))?;
        let gain = ext3.named(card)?.wall_s(Kind::Imitation).over(&on.wall_s(Kind::Imitation));
        Ok(gain.value().unwrap_or(f64::NAN))
    };
    let (nilfs2, f2fs) = (with_all("nilfs2")?, with_all("f2fs")?);
    let row = Row::effect(
        format!("{card}, {workload}, SQLite on NILFS2"),
        format!("more than {told} times as fast"),
        |gain| format!("{gain:.2} times as fast"),
        (&databases, told..=f64::INFINITY),
        "each sync of NILFS2 writes a checkpoint",
    );
    Ok(row.noted(format!("with all files on NILFS2 {nilfs2:.2} times, on F2FS {f2fs:.2}")).noted(at.noted()))
}
