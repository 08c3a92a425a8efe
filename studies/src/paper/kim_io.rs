//! Reproduces Table V and Figures 6 to 8: the I/O of the workloads.
//!
//! The study's cards had ext3 under Linux 2.6.35, mounted with `data=writeback`: with this option, a journal
//! commit does not also write the data of other files. Here, the workloads use the same file system and
//! option, on an emulation of the phone's own flash and WiFi. The recording includes the write-back of the
//! workload's dirty pages. The study does not define "sequential". We call a request sequential if it starts
//! at the end of the previous request. The study's ext3 queued each 4 KiB page separately, so we also count
//! the bytes by pages.

use std::rc::Rc;

use anyhow::Result;
use fonio_analysis::addresses::sequentiality::SequentialShare;
use fonio_experiment::RunFigures;
use fonio_report::json::Report;

use super::measured::{Kind, Measured};
use super::published::{Four, Published};
use super::row::{Part, Quantity, Row};
use super::runs::{Named, OfRuns, Runs, Split};
use super::workload::knows;

/// Unit and tolerance of totals, which are published with one decimal and vary with the apps' content.
const TOTAL: Quantity = Quantity::new("MB", 2, 1.25, 0.1);
const PART: Quantity = Quantity::new("MB", 2, 1.5, 0.1);

/// The study's name of each workload, our name, and the reason why the totals differ.
const WORKLOADS: [(&str, &str, &str); 7] = [
    (
        "webbench",
        "webbench",
        "a page takes half a second here, so most of the cache is trimmed before it is written back \
         (docs/papers.md)",
    ),
    ("app_install", "appinstall", COMMITS),
    ("email", "email", COMMITS),
    ("maps", "maps", COMMITS),
    ("facebook", "facebook", COMMITS),
    (
        "rlbench",
        "rlbench",
        "a thousand commits write most of the data; the number of commits in the closed app is not \
         published (docs/papers.md)",
    ),
    ("pulse", "pulse", COMMITS),
];

const COMMITS: &str = "the app's number of commits is not published";

const DEVICE: &str = "internal_2010";

fn measured(runs: &mut Runs, workload: &str, fix: Option<&str>) -> Result<(RunFigures, Rc<Report>)> {
    let mut more = vec!["--runs", "1", "--write-back"];
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

/// Returns the rows of Table V.
pub(super) fn breakdown(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (theirs, ours, why) in WORKLOADS {
        let figures: Four = published.at(&format!("kim.io_breakdown_mb.{theirs}"))?;
        let (_, report) = measured(runs, ours, None)?;
        let known = Known {
            written: knows(ours, "write_mb")?
                || knows(ours, "seq_write_mb")? && knows(ours, "rand_write_mb")?,
            sequential: knows(ours, "seq_write_mb")?,
            random: knows(ours, "rand_write_mb")?,
            read: knows(ours, "seq_read_mb")? && knows(ours, "rand_read_mb")?,
        };
        rows.extend(of_workload(ours, &figures, known, why, &report));
    }
    Ok(rows)
}

/// The published numbers that the author of a workload knew.
struct Known {
    written: bool,
    sequential: bool,
    random: bool,
    read: bool,
}

fn of_workload(name: &str, figures: &Four, known: Known, why: &str, report: &Report) -> Vec<Row> {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let split = &report.analysis.sequentiality;
    let write = &split.write;
    let total = Kind::Imitation.once(mb(write.bytes())).known(known.written);
    let sequential = Kind::Imitation.once(mb(write.sequential_bytes.0)).known(known.sequential);
    let random = Kind::Imitation.once(mb(write.random_bytes.0)).known(known.random);
    let read = Kind::Imitation.once(mb(split.read.bytes())).known(known.read);
    let part = |quantity, what: &str, published, ours, why| Part {
        quantity,
        what: format!("{name} {what}"),
        published,
        ours,
        why,
    };
    let [total, sequential, random] = Quantity::total_and_parts(
        part(TOTAL, "written", figures.seq_write + figures.rand_write, &total, why),
        [
            part(PART, "seq. written", figures.seq_write, &sequential, SPLIT_WHY),
            part(PART, "random written", figures.rand_write, &random, SPLIT_WHY),
        ],
    );
    // The bytes counted by pages are not scored, because with two scored counts, one could agree by chance.
    let by_pages = |row: Row, bytes: u64| row.noted(format!("{:.2} by pages", mb(bytes)));
    // The study gives the parts; the totals are their sums.
    vec![
        total.of_numbers(0),
        by_pages(sequential, write.bytes() - write.random_page_bytes()),
        by_pages(random, write.random_page_bytes()),
        TOTAL
            .row(format!("{name} read"), figures.seq_read + figures.rand_read, &read, READ_WHY)
            .of_numbers(2),
    ]
}

const SPLIT_WHY: &str = "a large request is random if its start is random, but by pages only its first page \
    is random; it is unknown which count the study used";
const READ_WHY: &str = "only some of our workloads read the code of the app and the system: in the study, \
    Facebook's code was in memory, the browser's was not";

/// Returns the rows of Figure 6.
pub(super) fn over_time(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let (_, report) = measured(runs, "webbench", None)?;
    let analysis = &report.analysis;
    let (split, totals) = (&analysis.sequentiality, &analysis.totals);
    let written = Kind::Imitation.once(totals.write_bytes.0 as f64).known(knows("webbench", "write_mb")?);
    let curves = &split.cumulative;
    let read: Vec<u64> =
        curves.sequential_read_bytes.iter().zip(&curves.random_read_bytes).map(|(a, b)| a + b).collect();
    let half = read.iter().position(|bytes| totals.read_bytes.0 > 0 && bytes * 2 >= totals.read_bytes.0);
    // The workload reads no files, so all reads are the file system's, and come at the mount.
    let half = Kind::Construction.once(half.map(|at| at as f64 / read.len() as f64));
    let ratios = published.numbers("kim.sequential_over_random_writes")?;
    let told = ratios.iter().map(|(where_, ratio)| format!("{ratio} ({where_})"));
    let told = told.collect::<Vec<_>>().join(", ");
    let write = &split.write;
    let over_random = |random: u64| {
        Kind::Imitation.once((write.bytes() - random) as f64).over(&Kind::Imitation.once(random as f64))
    };
    let by_page = over_random(write.random_page_bytes());
    let lowest = ratios.values().copied().fold(f64::INFINITY, f64::min);
    let highest = ratios.values().copied().fold(0.0, f64::max);
    let figures: Four = published.at("kim.io_breakdown_mb.webbench")?;
    let (read_told, written_told) =
        (figures.seq_read + figures.rand_read, figures.seq_write + figures.rand_write);
    Ok(vec![
        Row::within(
            "reads",
            format!("few: {read_told:.1} of {:.1} MB", read_told + written_told),
            |ratio| format!("one byte read for {ratio:.0} written"),
            (&written.over(&Kind::Imitation.once(totals.read_bytes.0 as f64)), 5.0..=f64::INFINITY),
            "the workload reads more than it should",
        ),
        Row::within(
            "when reads come",
            "most reads in the beginning",
            |half| format!("half of the bytes in the first {:.0} % of the time", half * 100.0),
            (&half, 0.0..=0.25),
            "the run ends with its own reads",
        ),
        // Table V also contains this split of the bytes, and its rows are with Table V.
        Row::within(
            "seq. over random bytes written",
            told,
            |ratio| match by_page.value() {
                Some(by_page) => format!("{ratio:.2} ({by_page:.2} by pages)"),
                None => format!("{ratio:.2}"),
            },
            (&over_random(write.random_bytes.0).known(true), lowest / 1.5..=highest * 1.5),
            SPLIT_WHY,
        )
        .of_numbers(2),
    ])
}

/// Returns the rows of Figure 7.
pub(super) fn store(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let (run, _) = measured(runs, "webbench", None)?;
    let told = published.numbers("kim.webbench_store")?;
    let files = run.files.get("object");
    // The workload keeps this many files, and its sizes, rows and pages were chosen from these figures.
    let chosen = |value: Option<f64>, figure| -> Result<Measured> {
        Ok(Kind::Construction.once(value).known(knows("webbench", figure)?))
    };
    let database = |name: &str| run.database_bytes.get(name).map(|bytes| *bytes as f64 / 1e3);
    let count = Quantity::new("files", 0, 1.1, 0.0);
    let kb = Quantity::new("kB", 0, 1.25, 0.0);
    let form_data = "the study's sites left more cookies and form data than our four cookies per page";
    let cached = chosen(files.map(|files| files.count as f64), "cache_files")?;
    let bytes = chosen(files.map(|files| files.bytes as f64 / 1e6), "cache_mb")?;
    let index = chosen(database("index"), "webview_cache_db_kb")?;
    let state = chosen(database("state"), "webview_db_kb")?;
    Ok(vec![
        count.row("cache", told["cache_files"], &cached, ""),
        TOTAL.row("cache", told["cache_mb"], &bytes, ""),
        kb.row("webviewCache.db", told["webview_cache_db_kb"], &index, ""),
        kb.row("webview.db", told["webview_db_kb"], &state, form_data),
    ])
}

/// Returns the rows of Figure 8: with the databases in memory, only the cache is written to the card; with
/// the cache in memory, only the databases are written to the card.
pub(super) fn by_place(_: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let (_, cache) = measured(runs, "webbench", Some("db-in-ram"))?;
    let (_, databases) = measured(runs, "webbench", Some("cache-in-ram"))?;
    let sequential = |report: &Report, random: fn(&SequentialShare) -> u64| {
        let write = &report.analysis.sequentiality.write;
        let sequential = (write.bytes() - random(write)) as f64;
        Kind::Imitation.once(sequential).over(&Kind::Imitation.once(write.bytes() as f64))
    };
    let by_request = |report| sequential(report, |write: &SequentialShare| write.random_bytes.0);
    let paged = |report| sequential(report, SequentialShare::random_page_bytes).value().unwrap_or(f64::NAN);
    let again = |report: &Report| Kind::Imitation.once(report.analysis.locality.written.again_share);
    let shown = |share: f64, paged: f64| {
        format!("{:.0} % sequential, {:.0} % by pages", share * 100.0, paged * 100.0)
    };
    let (cache_again, database_again) = (again(&cache), again(&databases));
    Ok(vec![
        Row::within(
            "web cache",
            "mostly sequential",
            |share| shown(share, paged(&cache)),
            (&by_request(&cache), 0.5..=1.0),
            SPLIT_WHY,
        ),
        Row::within(
            "SQLite files",
            "a high degree of random writes",
            |share| shown(share, paged(&databases)),
            (&by_request(&databases), 0.0..=0.5),
            "the file system's journal is sequential and is included here",
        ),
        Row::within(
            "SQLite: the same places again",
            "updates to the same block addresses",
            |ratio| format!("{ratio:.2} times the cache's share of such writes"),
            (&database_again.over(&cache_again), 1.0..=f64::INFINITY),
            "the cache reuses addresses too, as the study says",
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_pages() {
        use fonio_core::ByteCount;
        let split = |random_requests, random_bytes| SequentialShare {
            random_bytes: ByteCount(random_bytes),
            random_requests,
            ..SequentialShare::default()
        };
        assert_eq!(split(2, 65536 + 4096).random_page_bytes(), 8192);
        assert_eq!(split(2, 4096).random_page_bytes(), 4096, "requests smaller than a page");
    }
}
