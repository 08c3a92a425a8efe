//! Table V and Figures 6 to 8: what the workloads do to storage.
//!
//! The study's cards held ext3 under Linux 2.6.35, which mounted it with `data=writeback`: a commit of the journal did not
//! drag the data of other files along. The workloads run so here, on the phone's own flash, over its WiFi; what they leave
//! in memory is written back inside the recording. The study does not say what it takes for sequential: a request that
//! starts where the one before it ended is ours. Its ext3 queued every page of 4 KiB by itself, so the same bytes are
//! shown counted by pages too.

use std::rc::Rc;

use anyhow::{Context, Result};

use super::published::{Four, Published};
use super::row::{Quantity, Row};
use super::runs::{Report, Run, Runs, Split};
use crate::process;

/// Totals; the published ones have one decimal, and the apps' own content varies between runs.
const TOTAL: Quantity = Quantity::new("MB", 2, 1.25, 0.1);
/// A part of the total.
const PART: Quantity = Quantity::new("MB", 2, 1.5, 0.1);

/// The study's names of the workloads, ours, and why totals differ where they do.
const WORKLOADS: [(&str, &str, &str); 7] = [
    (
        "webbench",
        "webbench",
        "a page takes half a second here, so that most of the cache is trimmed before it is written back (docs/papers.md)",
    ),
    ("app_install", "appinstall", COMMITS),
    ("email", "email", COMMITS),
    ("maps", "maps", COMMITS),
    ("facebook", "facebook", COMMITS),
    (
        "rlbench",
        "rlbench",
        "a thousand commits of their own are most of it; how many the closed app makes is not published (docs/papers.md)",
    ),
    ("pulse", "pulse", COMMITS),
];

const COMMITS: &str = "how often the app commits is not published";

/// The phone's own flash.
const DEVICE: &str = "internal_2010";

fn measured(runs: &mut Runs, workload: &str, fix: Option<&str>) -> Result<(Run, Rc<Report>)> {
    let mut more = vec!["--repeat", "1", "--write-back"];
    let name = match fix {
        None => DEVICE.to_owned(),
        Some(fix) => {
            more.extend(["--fix", fix]);
            format!("{DEVICE}, {fix}")
        }
    };
    let series = runs.in_the_setup(workload, DEVICE, "wifi", &more)?;
    let run = series.named(&name)?.first()?.clone();
    let report = runs.report(&run.recording)?;
    Ok((run, report))
}

/// Table V.
pub(super) fn breakdown(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (theirs, ours, why) in WORKLOADS {
        let figures = published.kim.io_breakdown_mb.get(theirs);
        let figures = figures.with_context(|| format!("nothing is published for {theirs}"))?;
        let (_, report) = measured(runs, ours, None)?;
        let fitted = used_in_fit(ours, "write_mb")?;
        rows.extend(of_workload(ours, figures, fitted, why, &report));
    }
    Ok(rows)
}

fn of_workload(name: &str, figures: &Four, fitted: bool, why: &str, report: &Report) -> Vec<Row> {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let split = &report.analysis.sequentiality;
    let paged = |split: Split| split.bytes() - split.random_page_bytes();
    let write = split.write;
    let row = |quantity: Quantity, what: &str, published: f64, ours: u64, fitted: bool, why: &str| {
        quantity.row(format!("{name} {what}"), published, mb(ours), fitted, why)
    };
    // The other way of counting is shown, not scored: of two tries one would agree too easily.
    let part = |what: &str, published: f64, ours: u64, by_pages: u64| {
        row(PART, what, published, ours, false, SPLIT_WHY).noted(format!("{:.2} by pages", mb(by_pages)))
    };
    vec![
        row(TOTAL, "written", figures.seq_write + figures.rand_write, write.bytes(), fitted, why),
        part("seq. written", figures.seq_write, write.sequential_bytes, paged(write)),
        part("random written", figures.rand_write, write.random_bytes, write.random_page_bytes()),
        row(TOTAL, "read", figures.seq_read + figures.rand_read, split.read.bytes(), false, READ_WHY),
    ]
}

const SPLIT_WHY: &str = "a file or a commit in one request is random by its start, however long it is; by pages all but its first page is sequential; which of them the study counted is unknown";
const READ_WHY: &str = "what an app and the system read of their own code is only in some of ours: the study's Facebook found its code in memory, its browser did not";

/// Whether the workload was adjusted to a published figure: it says so itself.
pub(super) fn used_in_fit(workload: &str, figure: &str) -> Result<bool> {
    let path = process::root().join("crates/fonio-workload/workloads").join(format!("{workload}.toml"));
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let definition: toml::Table =
        toml::from_str(&text).with_context(|| format!("{} is not understood", path.display()))?;
    let used = definition.get("published").and_then(|published| published.get("used_in_fit"));
    let used = used.and_then(toml::Value::as_array);
    Ok(used.is_some_and(|names| names.iter().any(|name| name.as_str() == Some(figure))))
}

/// Figure 6.
pub(super) fn over_time(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let (_, report) = measured(runs, "webbench", None)?;
    let analysis = &report.analysis;
    let (split, totals) = (&analysis.sequentiality, &analysis.totals);
    let written_over_read = totals.write_bytes as f64 / totals.read_bytes.max(1) as f64;
    let curves = &split.cumulative;
    let read: Vec<u64> =
        curves.sequential_read_bytes.iter().zip(&curves.random_read_bytes).map(|(a, b)| a + b).collect();
    let half_at = read.iter().position(|bytes| bytes * 2 >= totals.read_bytes).unwrap_or(0);
    let half_at = half_at as f64 / read.len().max(1) as f64;
    let ratios = &published.kim.sequential_over_random_writes;
    let told = ratios.iter().map(|(where_, ratio)| format!("{ratio} ({where_})"));
    let told = told.collect::<Vec<_>>().join(", ");
    let write = split.write;
    let ratio = |random: u64| (write.bytes() - random) as f64 / random.max(1) as f64;
    let (by_request, by_page) = (ratio(write.random_bytes), ratio(write.random_page_bytes()));
    let lowest = ratios.values().copied().fold(f64::INFINITY, f64::min);
    let highest = ratios.values().copied().fold(0.0, f64::max);
    let near = |ratio: f64| ratio * 1.5 >= lowest && ratio <= highest * 1.5;
    Ok(vec![
        Row::statement(
            "reads",
            "few: 7.3 of 80.8 MB",
            format!("one byte for {written_over_read:.0} written"),
            written_over_read > 5.0,
            "the workload reads more than it should",
        ),
        Row::statement(
            "when reads come",
            "most of them in the beginning",
            format!("half of the bytes by {:.0} % of the time", half_at * 100.0),
            half_at < 0.25,
            "the run ends with reads of its own",
        ),
        Row::statement(
            "seq. over random bytes written",
            told,
            format!("{by_request:.2} ({by_page:.2} by pages)"),
            near(by_request),
            SPLIT_WHY,
        ),
    ])
}

/// Figure 7.
pub(super) fn store(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let (run, _) = measured(runs, "webbench", None)?;
    let store = &published.kim.webbench_store;
    let files = run.files.get("object").context("WebBench keeps objects")?;
    let database = |name: &str| {
        let bytes = run.database_bytes.get(name).with_context(|| format!("WebBench has a database {name}"));
        bytes.map(|bytes| *bytes as f64 / 1e3)
    };
    let count = Quantity::new("files", 0, 1.1, 0.0);
    let kb = Quantity::new("kB", 0, 1.25, 0.0);
    let form_data = "the study's sites left more cookies and form data than four cookies a page";
    let fitted = |figure| used_in_fit("webbench", figure);
    Ok(vec![
        count.row("cache", store.cache_files, files.count as f64, fitted("cache_files")?, ""),
        TOTAL.row("cache", store.cache_mb, files.bytes as f64 / 1e6, fitted("cache_mb")?, ""),
        kb.row("webviewCache.db", store.webview_cache_db_kb, database("index")?, false, ""),
        kb.row("webview.db", store.webview_db_kb, database("state")?, false, form_data),
    ])
}

/// Figure 8: with the databases in memory the card sees the cache alone, and the other way round.
pub(super) fn by_place(_: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let (_, cache) = measured(runs, "webbench", Some("db-in-ram"))?;
    let (_, databases) = measured(runs, "webbench", Some("cache-in-ram"))?;
    let sequential = |report: &Report| {
        let write = report.analysis.sequentiality.write;
        let share = |random: u64| 1.0 - random as f64 / write.bytes().max(1) as f64;
        (share(write.random_bytes), share(write.random_page_bytes()))
    };
    let again = |report: &Report| report.analysis.locality.written.again_share.unwrap_or(0.0);
    let ((cache_share, cache_paged), (db_share, db_paged)) = (sequential(&cache), sequential(&databases));
    let shown = |share: f64, paged: f64| {
        format!("{:.0} % sequential, {:.0} % by pages", share * 100.0, paged * 100.0)
    };
    let (cache_again, db_again) = (again(&cache), again(&databases));
    Ok(vec![
        Row::statement(
            "web cache",
            "mostly sequential",
            shown(cache_share, cache_paged),
            cache_share > 0.5,
            SPLIT_WHY,
        ),
        Row::statement(
            "SQLite files",
            "a high degree of random writes",
            shown(db_share, db_paged),
            db_share < 0.5,
            "the journal of the file system is written in order and counts here too",
        ),
        Row::statement(
            "SQLite: the same places again",
            "updates to the same block addresses",
            format!("{:.0} % of its writes; of the cache's {:.0} %", db_again * 100.0, cache_again * 100.0),
            db_again > cache_again,
            "the cache reuses addresses too, as the study says",
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table is read from the definitions that are there.
    #[test]
    fn fits_are_declared_by_the_workloads() {
        for (_, workload, _) in WORKLOADS {
            assert_eq!(used_in_fit(workload, "write_mb").unwrap(), workload != "rlbench", "{workload}");
        }
        assert!(used_in_fit("no such workload", "write_mb").is_err());
    }

    #[test]
    fn random_pages() {
        let split =
            |random_requests, random_bytes| Split { sequential_bytes: 0, random_bytes, random_requests };
        assert_eq!(split(2, 65536 + 4096).random_page_bytes(), 8192);
        assert_eq!(split(2, 4096).random_page_bytes(), 4096, "requests smaller than a page");
    }
}
