//! Tables I to III and Figure 7 of the block-trace study: thirteen workloads on an emulated Nexus 5.

use std::rc::Rc;

use anyhow::Result;

use super::kim_io::used_in_fit;
use super::published::{CourvilleWorkload, Published};
use super::row::{Quantity, Row};
use super::runs::{Report, Run, Runs};

const DEVICE: &str = "nexus5";

/// Without `--full` only workloads that were no longer than this.
const SHORT_MS: f64 = 8_000.0;

const REQUESTS: Quantity = Quantity::new("requests", 0, 1.25, 0.0);
const RATIO: Quantity = Quantity::new("reads to a write", 2, 1.25, 0.05);
const SECONDS: Quantity = Quantity::new("s", 2, 1.25, 0.0);
const PERCENT: Quantity = Quantity::new("% of the time", 1, 1.5, 1.0);
const GAP_REQUESTS: Quantity = Quantity::new("requests", 0, 2.0, 1.0);
const GAP_KB: Quantity = Quantity::new("kB", 0, 2.0, 4.0);
const GAP_SECONDS: Quantity = Quantity::new("s", 3, 2.0, 0.01);

/// Light below 9 percent is the study's; heavy from 15 percent ours, between its groups.
const LIGHT_BELOW: f64 = 9.0;
const HEAVY_FROM: f64 = 15.0;

const WHY_COUNTS: &str = "the calls of the app are not published; ours were chosen to come near the counts without readahead and write-back";
const WHY_GAPS: &str = "here each commit is five or six flushes of its own; the study's phone had readers and writers of other services between them, which are not in the workload";
const WHY_SHARE: &str = "what the phone's other services wrote meanwhile is not in the workload, and the profile's write times are partly assumed";

/// Runs those that are wanted.
fn each(
    published: &Published,
    runs: &mut Runs,
    mut row: impl FnMut(&CourvilleWorkload, &Run, &Report) -> Result<Vec<Row>>,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for workload in &published.courville.workload {
        if !runs.full() && workload.duration_ms > SHORT_MS {
            continue;
        }
        let (run, report) = measured(runs, &workload.name)?;
        rows.extend(row(workload, &run, &report)?);
    }
    Ok(rows)
}

fn measured(runs: &mut Runs, name: &str) -> Result<(Run, Rc<Report>)> {
    let series = runs.run(&[name, "--on", DEVICE, "--scheduler", "bfq", "--repeat", "1"])?;
    let run = series.named(DEVICE)?.first()?.clone();
    let report = runs.report(&run.recording)?;
    Ok((run, report))
}

/// Table I.
pub(super) fn ratios(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    each(published, runs, |workload, _, report| {
        let totals = &report.analysis.totals;
        let ours = totals.reads as f64 / totals.writes.max(1) as f64;
        let fitted = used_in_fit(&workload.name, "read_write_ratio")?;
        Ok(vec![RATIO.row(&workload.name, workload.read_write_ratio, ours, fitted, WHY_COUNTS)])
    })
}

/// Table II.
pub(super) fn flush_gaps(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    each(published, runs, |workload, _, report| {
        let (name, told) = (&workload.name, workload.flush_gap_p90);
        let flushes = &report.analysis.flushes;
        let Some(gaps) = &flushes.gaps else {
            let why = format!("{} flushes have no gap between them", flushes.flushes);
            return Ok(vec![GAP_REQUESTS.cannot(name, told.requests, &why)]);
        };
        let row = |quantity: Quantity, what: &str, published: f64, ours: f64| {
            quantity.row(format!("{name}, {what}"), published, ours, false, WHY_GAPS)
        };
        Ok(vec![
            row(GAP_REQUESTS, "requests", told.requests, gaps.requests.p90),
            row(GAP_KB, "kB", told.kb, gaps.bytes.p90 / 1e3),
            row(GAP_SECONDS, "seconds", told.seconds, gaps.time_ns.p90 / 1e9),
        ])
    })
}

/// Table III.
pub(super) fn requests(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    each(published, runs, |workload, _, report| {
        let name = &workload.name;
        let analysis = &report.analysis;
        let fitted = |figure| used_in_fit(name, figure);
        let what = |what: &str| format!("{name}, {what}");
        let (reads, writes) = (analysis.totals.reads as f64, analysis.totals.writes as f64);
        let took = analysis.span.duration_ns as f64 / 1e9;
        Ok(vec![
            REQUESTS.row(what("reads"), workload.reads, reads, fitted("reads")?, WHY_COUNTS),
            REQUESTS.row(what("writes"), workload.writes, writes, fitted("writes")?, WHY_COUNTS),
            SECONDS.row(
                what("duration"),
                workload.duration_ms / 1e3,
                took,
                fitted("duration_ms")?,
                WHY_COUNTS,
            ),
            PERCENT.row(
                what("latency"),
                workload.io_latency_percent,
                share_percent(report),
                fitted("io_latency_percent")?,
                WHY_SHARE,
            ),
        ])
    })
}

/// Summed latency over the run time, as the study has it.
fn share_percent(report: &Report) -> f64 {
    report.analysis.io_share.all.as_ref().map_or(0.0, |share| share.latency_sum_share * 100.0)
}

fn group(percent: f64) -> &'static str {
    match percent {
        percent if percent < LIGHT_BELOW => "light",
        percent if percent < HEAVY_FROM => "moderate",
        _ => "heavy",
    }
}

/// Figure 7.
pub(super) fn groups(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    each(published, runs, |workload, _, report| {
        let (theirs, ours) = (workload.io_latency_percent, share_percent(report));
        Ok(vec![Row::statement(
            &workload.name,
            format!("{} ({theirs:.1} %)", group(theirs)),
            format!("{} ({ours:.1} %)", group(ours)),
            group(theirs) == group(ours),
            WHY_SHARE,
        )])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_the_studys() {
        for (percent, name) in [(8.16, "light"), (9.0, "moderate"), (13.38, "moderate"), (16.79, "heavy")] {
            assert_eq!(group(percent), name);
        }
    }
}
