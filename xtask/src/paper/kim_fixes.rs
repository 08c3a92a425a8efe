//! Figures 13 and 14: what moving places into memory, leaving syncs out, RAID-0 and phase-change memory gain.

use std::rc::Rc;

use anyhow::{Context, Result};

use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::{Runs, Series};

const TIMES: Quantity = Quantity::new("times as fast", 2, 1.5, 0.0);
/// Where next to no gain is published.
const LITTLE: Quantity = Quantity::new("times as fast", 2, 1.15, 0.0);

/// The workloads of both figures, and the share of them that is run.
const WORKLOADS: [(&str, &str); 2] = [("webbench", "0.1"), ("facebook", "0.1")];
const RIDATA: &str = "ridata";

/// Ours: the study gives bars without numbers.
const NOTEWORTHY: f64 = 1.2;

fn measured(runs: &mut Runs, workload: &str, scale: &str, card: &str, fixes: &str) -> Result<Rc<Series>> {
    let (scale, repeat) = if runs.full() { ("1", "3") } else { (scale, "1") };
    runs.in_the_setup(workload, card, "wifi", &["--scale", scale, "--repeat", repeat, "--fix", fixes])
}

fn speedup(series: &Series, card: &str, fix: &str) -> Result<f64> {
    Ok(series.named(&format!("{card}, {fix}"))?.speedup)
}

/// Figure 13.
pub(super) fn what_if(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let told = &published.kim.what_if;
    let why = runs.processor_why();
    let mut rows = Vec::new();
    for (workload, scale) in WORKLOADS {
        let fixes = "cache-in-ram,db-in-ram,all-in-ram,no-sync";
        let series = measured(runs, workload, scale, RIDATA, fixes)?;
        let gain = |fix| speedup(&series, RIDATA, fix);
        let cache = told.cache_in_ram_percent.get(workload);
        let cache = cache.with_context(|| format!("no gain is published for {workload}"))? / 100.0 + 1.0;
        let database = told.database_in_ram_factor.get(workload);
        let database = *database.with_context(|| format!("no gain is published for {workload}"))?;
        let in_ram = gain("db-in-ram")?;
        rows.push(LITTLE.row(format!("{workload}, cache in RAM"), cache, gain("cache-in-ram")?, false, why));
        rows.push(TIMES.row(format!("{workload}, databases in RAM"), database, in_ram, false, why));
        let all = gain("all-in-ram")?;
        rows.push(Row::statement(
            format!("{workload}, all in RAM"),
            "no significant gain over databases in RAM",
            format!("{:.2} times as fast as databases in RAM", all / in_ram),
            all / in_ram < 1.25,
            why,
        ));
        let unsynced = gain("no-sync")?;
        rows.push(Row::statement(
            format!("{workload}, no sync"),
            "comparable to databases in RAM",
            format!("{unsynced:.2} and {in_ram:.2} times as fast"),
            TIMES.tolerance.holds(in_ram, unsynced),
            "what is not synced still reaches the card, some of it within the run",
        ));
    }
    Ok(rows)
}

/// Figure 14.
pub(super) fn pilot(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let pilot = &published.kim.pilot;
    let raid = &pilot.raid0_factor;
    let mut rows = Vec::new();
    for card in &raid.cards {
        let mut unsynced = Vec::new();
        for (workload, scale) in WORKLOADS {
            let series = measured(runs, workload, scale, card, "raid0,no-sync,db-on-pcm,all-in-ram")?;
            let what = |fix: &str| format!("{card}, {workload}, {fix}");
            let gain = |fix| speedup(&series, card, fix);
            let striped = gain("raid0")?;
            rows.push(Row::statement(
                what("RAID-0"),
                format!("more than {} and less than {} times as fast", raid.above, raid.below),
                format!("{striped:.2} times as fast"),
                striped > raid.above && striped < raid.below,
                "half of the writes go to the phone's flash, and the other half spreads over less of the card, which the study saw give more than 2 on some cards",
            ));
            for (fix, name, told) in [
                ("no-sync", "selective sync", "noteworthy benefits"),
                ("db-on-pcm", "databases on PCM", "significant gains"),
            ] {
                let (gained, bound) = (gain(fix)?, gain("all-in-ram")?);
                rows.push(Row::statement(
                    what(name),
                    told,
                    format!("{gained:.2} times as fast; all in RAM {bound:.2}"),
                    gained > NOTEWORTHY,
                    "the databases' syncs are no large part of this run",
                ));
            }
            unsynced.push(gain("no-sync")?);
            let above = pilot.nilfs2_factor_above.get(card).copied().unwrap_or(1.0);
            rows.push(Row::cannot(
                what("SQLite on NILFS2"),
                format!("more than {above} times as fast"),
                "-",
                "cannot be had here: it needs a kernel that has NILFS2, as the lab's",
            ));
        }
        let [webbench, facebook] = unsynced[..] else { continue };
        rows.push(Row::statement(
            format!("{card}, whom selective sync helps"),
            "especially Facebook",
            format!("WebBench {webbench:.2}, Facebook {facebook:.2} times as fast"),
            facebook > webbench,
            "what Facebook stores besides its database still goes to the card, at a small scale a larger part",
        ));
    }
    Ok(rows)
}
