//! `cargo studies paper`: compares tables and figures of published studies with our results.
//!
//! Some comparisons need only models and files. All other comparisons run workloads on emulated devices with
//! the built program, as a user would do, and print the command lines.

mod bfuse_apps;
mod bfuse_matrix;
mod bfuse_phones;
mod bfuse_stack;
mod counts;
mod courville;
mod kim_apps;
mod kim_background;
mod kim_cpu;
mod kim_devices;
mod kim_f15;
mod kim_fixes;
mod kim_io;
mod kim_launch;
mod kim_monitor;
mod kim_network;
mod kim_t3;
mod measured;
mod numbers;
mod page;
mod published;
mod row;
mod runs;
mod smartio_apps;
mod smartio_equations;
mod smartio_facebook;
mod smartio_iowait;
mod smartio_launch;
mod smartio_power;
mod smartio_schedulers;
mod smartio_slowdown;
mod standing;
mod summary;
mod workload;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use fonio_report::document::Chart;
use serde::Serialize;
use xtask::results::StudyResult;

use counts::Counts;
use numbers::Numbers;
use published::Published;
use row::Row;
use runs::Runs;
use standing::{Standing, Verdict};

/// How the rows of a table or figure are obtained.
#[derive(Clone, Copy)]
enum Rows {
    /// Computes the rows from models and files. This is fast and needs no privileges.
    Computed(fn(&Published, &mut Runs) -> Result<Vec<Row>>),
    /// With `--full`, measures writes to emulated devices, as root. Without, lists what would be measured.
    MeasuredWithFull(fn(&Published, &mut Runs) -> Result<Vec<Row>>),
    /// Measures workloads on emulated devices, as root.
    Measured(fn(&Published, &mut Runs) -> Result<Vec<Row>>),
}

use Rows::{Computed, Measured, MeasuredWithFull};

/// A published table or figure: its ID, its number in the study, its title, and the source of its rows.
type Paper = (&'static str, &'static str, &'static str, Rows);

const KIM: [Paper; 18] = [
    ("kim-monitor", "section 3.2", "the cost of recording", Measured(kim_monitor::rows)),
    ("kim-t2", "Table II", "rates of the links to the phone", Measured(kim_network::rows)),
    ("kim-t3", "Table III", "raw performance of eight cards", Computed(kim_t3::rows)),
    ("kim-t4", "Table IV", "installed apps and their sizes", Measured(kim_apps::installed)),
    ("kim-t5", "Table V", "bytes written and read, sequential and random", Measured(kim_io::breakdown)),
    (
        "kim-t6",
        "Table VI",
        "bytes read, written and transferred by ten launches",
        Measured(kim_apps::launched),
    ),
    ("kim-f4", "Figure 4", "run time of WebBench over the devices", Measured(kim_devices::webbench)),
    ("kim-f5", "Figure 5", "run time of popular apps over the devices", Measured(kim_devices::apps)),
    ("kim-f6", "Figure 6", "WebBench's sequential and random I/O over time", Measured(kim_io::over_time)),
    ("kim-f7", "Figure 7", "data in the browser's storage after WebBench", Measured(kim_io::store)),
    ("kim-f8", "Figure 8", "write patterns of the web cache and the databases", Measured(kim_io::by_place)),
    ("kim-f9", "Figure 9", "launch times over the devices and in memory", Measured(kim_launch::rows)),
    ("kim-f10", "Figure 10", "background I/O over two hours", Measured(kim_background::rows)),
    ("kim-f11", "Figure 11", "processor time of WebBench over the devices", Measured(kim_cpu::over_devices)),
    (
        "kim-f12",
        "Figure 12",
        "processor time of WebBench on a fast and a slow card",
        Measured(kim_cpu::fast_and_slow),
    ),
    (
        "kim-f13",
        "Figure 13",
        "gains with cache, databases or everything in memory, or without syncs",
        Measured(kim_fixes::what_if),
    ),
    ("kim-f14", "Figure 14", "pilot fixes", Measured(kim_fixes::pilot)),
    ("kim-f15", "Figure 15", "throughput against the write address range", Computed(kim_f15::rows)),
];

const COURVILLE: [Paper; 9] = [
    ("courville-t1", "Table I", "reads for each write of thirteen workloads", Measured(courville::ratios)),
    ("courville-t2", "Table II", "requests, bytes and time between flushes", Measured(courville::flush_gaps)),
    (
        "courville-t3",
        "Table III",
        "requests, duration and share of the run time",
        Measured(courville::requests),
    ),
    ("courville-f2", "Figure 2", "sizes and latencies of requests", Measured(courville::sizes_and_latencies)),
    ("courville-f3", "Figure 3", "latency against size", Measured(courville::latency_by_size)),
    ("courville-f4", "Figure 4", "addresses over time", Measured(courville::places_over_time)),
    ("courville-f5", "Figure 5", "requests between flushes", Measured(courville::requests_between_flushes)),
    ("courville-f6", "Figure 6", "rewritten addresses", Measured(courville::rewritten_places)),
    ("courville-f7", "Figure 7", "share of storage in the run time, by group", Measured(courville::groups)),
];

const SMARTIO: [Paper; 13] = [
    ("smartio-eq-1", "equation (1)", "the storage delay of a launch", Computed(smartio_equations::storage)),
    ("smartio-eq-2", "equation (2)", "the network delay of a launch", Computed(smartio_equations::network)),
    ("smartio-f3", "Figure 3", "iowait", Measured(smartio_iowait::share)),
    (
        "smartio-f4",
        "Figures 4 and 11",
        "slowdown of concurrent reads and writes",
        Measured(smartio_slowdown::rows),
    ),
    (
        "smartio-f7",
        "Figure 7",
        "speedup of concurrent processes, under models of the schedulers",
        Computed(smartio_schedulers::speedup_rows),
    ),
    (
        "smartio-alg-6.1",
        "Algorithm 6.1",
        "SmartIO's choice of the queue",
        Computed(smartio_schedulers::dispatch_rows),
    ),
    (
        "smartio-alg-6.2",
        "Algorithm 6.2",
        "SmartIO's limit of requests in flight per queue",
        Computed(smartio_schedulers::may_dispatch_rows),
    ),
    (
        "smartio-f11",
        "Figures 4 and 11",
        "slowdowns under models of CFQ and SmartIO",
        Computed(smartio_schedulers::slowdown_rows),
    ),
    (
        "smartio-f12",
        "Figure 12",
        "mixed workloads under models of four schedulers",
        Computed(smartio_schedulers::comparison_rows),
    ),
    (
        "smartio-f10",
        "sections 7.1 and 7.4",
        "iowait and launches with SmartIO, with the gains of Figure 13",
        Measured(smartio_apps::rows),
    ),
    (
        "smartio-f13",
        "Figure 13 and section 7.4",
        "launches of forty apps, cold and warm",
        Measured(smartio_launch::rows),
    ),
    (
        "smartio-f14",
        "Figure 14 and section 7.4",
        "an estimate of power with SmartIO",
        Measured(smartio_power::rows),
    ),
    (
        "smartio-f15",
        "Figure 15 and section 7.5",
        "Facebook's response times",
        Measured(smartio_facebook::rows),
    ),
];

const BFUSE: [Paper; 8] = [
    ("bfuse-t1", "Table 1", "file systems of six phones", Computed(bfuse_phones::rows)),
    (
        "bfuse-f2",
        "",
        "throughput left after each layer; with Figure 3 and Table 2",
        MeasuredWithFull(bfuse_stack::layers),
    ),
    (
        "bfuse-f4",
        "Figure 4",
        "I/O of a camcorder and a gallery on the user partition",
        Measured(bfuse_apps::rows),
    ),
    (
        "bfuse-f6",
        "",
        "throughput and context switches (Figure 7) against the FUSE I/O unit",
        MeasuredWithFull(bfuse_stack::io_unit),
    ),
    (
        "bfuse-f10",
        "Figure 10",
        "effect of the buffer's size, thread and flush interval",
        MeasuredWithFull(bfuse_stack::buffer),
    ),
    (
        "bfuse-f11",
        "Figure 11",
        "requests to the device against the size of the buffer; with Figure 12",
        MeasuredWithFull(bfuse_stack::reaching),
    ),
    (
        "bfuse-t3",
        "Table 3",
        "write calls and device requests on five file systems, scaled to our file",
        MeasuredWithFull(bfuse_stack::calls),
    ),
    (
        "bfuse-f17",
        "",
        "schedulers, file systems, options; with Figures 13 to 16",
        MeasuredWithFull(bfuse_matrix::rows),
    ),
];

/// The studies: the name, the name in ids and in `published.toml`, and the tables and figures.
const PAPERS: [(&str, &str, &[Paper]); 4] = [
    ("Kim et al. 2012", "kim", &KIM),
    ("Courville, Chen", "courville", &COURVILLE),
    ("Nguyen et al. 2015", "smartio", &SMARTIO),
    ("Jeong, Won 2014", "bfuse", &BFUSE),
];

#[derive(Serialize)]
struct Outcome {
    id: &'static str,
    title: String,
    /// How many numbers of this table or figure are in `published.toml`.
    published: u32,
    counts: Counts,
    /// The command lines that gave the results in the rows.
    commands: Vec<String>,
    rows: Vec<Row>,
    /// Charts for the page.
    #[serde(skip)]
    pictures: Vec<Chart>,
}

#[derive(Args)]
pub struct Arguments {
    /// Print these tables and figures, or `all` (default: those that need only models and files).
    #[arg(value_name = "ID", value_parser = PossibleValuesParser::new(ids()))]
    ids: Vec<String>,
    /// Run all devices and workloads at full scale, and also measure on emulated devices (root).
    #[arg(long)]
    full: bool,
    /// Measure only this device and the best device.
    #[arg(long, value_name = "DEVICE")]
    on: Option<String>,
    /// Run everything in a guest, such as lab:6.12. By default, only workloads that need a feature missing
    /// from this kernel run in a guest.
    #[arg(long = "in", value_name = "lab:KERNEL", value_parser = kernel)]
    guest: Option<String>,
    /// Give the workloads this share of a processor, or the processor of another machine, as `fonio run --cpu`
    /// does; `full` for all of this machine's. Default: the processor of the study's phone if fonio knows it.
    #[arg(long, value_name = "SHARE")]
    cpu: Option<String>,
    /// Use this build of fonio instead of building it.
    #[arg(long, value_name = "PROGRAM")]
    fonio: Option<PathBuf>,
    /// Print the rows as JSON.
    #[arg(long)]
    json: bool,
    /// Write a page with the tables and their charts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn papers() -> impl Iterator<Item = (&'static str, &'static Paper)> {
    PAPERS.iter().flat_map(|(study, _, papers)| papers.iter().map(|paper| (*study, paper)))
}

fn ids() -> Vec<&'static str> {
    ["all"].into_iter().chain(papers().map(|(_, (id, ..))| *id)).collect()
}

/// Returns the table of all studies for a document: how many of their rows agree, by the kind of our numbers.
pub fn summary(results: &BTreeMap<String, StudyResult>) -> Result<String> {
    let ids = |papers: &[Paper]| papers.iter().map(|(id, ..)| *id).collect();
    summary::table(&PAPERS.map(|(name, key, papers)| (name, key, ids(papers))), results)
}

/// Returns the headline of a table or figure for a document, and its remark.
pub fn described(result: &StudyResult) -> Result<String> {
    let id = result.id.trim_start_matches("paper-");
    Ok(format!("{} {}", summary::headline(id, result)?, result.remark).trim_end().to_owned())
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { ids: wanted, full, on, guest, cpu, fonio, json: as_json, html } = arguments;
    let all = wanted.iter().any(|id| id == "all");
    let is_computed = |rows: Rows| matches!(rows, Computed(_));
    let published = Published::read()?;
    let numbers = Numbers::read()?;
    let mut runs = Runs::new(*full, cpu.clone(), on.clone(), guest.clone(), fonio.clone());
    let mut outcomes = Vec::new();
    for (study, &(id, place, title, rows)) in papers() {
        let is_wanted =
            all || wanted.iter().any(|wanted| wanted == id) || wanted.is_empty() && is_computed(rows);
        if !is_wanted {
            continue;
        }
        let (Computed(make) | MeasuredWithFull(make) | Measured(make)) = rows;
        runs.on_the_phone_of(study);
        let found = make(&published, &mut runs).with_context(|| format!("{id} failed"))?;
        let comma = if place.is_empty() { "" } else { ", " };
        let title = format!("{title} ({study}{comma}{place})");
        let counts = Counts::of(&found);
        let (commands, pictures) = (runs.commands(), runs.pictures());
        let outcome =
            Outcome { id, title, published: numbers.of(id), counts, commands, rows: found, pictures };
        if !*as_json {
            show(&outcome);
            let is_listed = matches!(rows, MeasuredWithFull(_)) && !*full;
            keep(&outcome, &command_line(arguments, id), on.is_none() && cpu.is_none() && !is_listed)?;
        }
        outcomes.push(outcome);
    }
    if let Some(file) = html {
        write_page(&outcomes, file)?;
    }
    if *as_json {
        println!("{}", serde_json::to_string_pretty(&outcomes)?);
    } else if wanted.is_empty() && !all {
        let left = papers().filter(|(_, (.., rows))| !is_computed(*rows)).map(|(_, (id, ..))| *id);
        let left: Vec<&str> = left.collect();
        println!(
            "These need root, and are measured on emulated devices only if named (`all` names them all): {}.",
            left.join(", ")
        );
    }
    Ok(())
}

fn command_line(arguments: &Arguments, id: &str) -> String {
    let mut line = format!("cargo studies paper {id}");
    for (option, value) in [("--on", &arguments.on), ("--in", &arguments.guest), ("--cpu", &arguments.cpu)] {
        line += &value.as_ref().map_or_else(String::new, |value| format!(" {option} {value}"));
    }
    if arguments.full { line + " --full" } else { line }
}

fn keep(outcome: &Outcome, command: &str, is_complete: bool) -> Result<()> {
    let id = format!("paper-{}", outcome.id);
    let mut result = StudyResult::begin(&id, &outcome.title, command, &row::COLUMNS)?;
    result.rows = outcome.rows.iter().map(Row::kept).collect();
    result.remark = outcome.remark();
    result.keep(is_complete)?;
    Ok(())
}

impl Outcome {
    fn headline(&self) -> String {
        self.counts.headline(self.published)
    }

    /// Returns the scored rows with a verdict, if they are few; otherwise, the first ones.
    fn remark(&self) -> String {
        const SHOWN: usize = 8;
        let is_told = |row: &&Row| {
            let Standing { unscored, verdict, .. } = row.standing();
            unscored.is_none() && matches!(verdict, Verdict::Agrees | Verdict::Differs)
        };
        let said = |row: &Row| {
            let verdict = row.standing().verdict.name();
            format!("{} {} (published {}; {verdict})", row.what(), row.ours(), row.published())
        };
        let told: Vec<String> = self.rows.iter().filter(is_told).map(said).collect();
        if told.is_empty() {
            return String::new();
        }
        let more = told.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let shown = told.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
        // Replace each `|`, which would end a table cell.
        format!("{shown}{more}.").replace('|', "/")
    }
}

fn kernel(value: &str) -> Result<String> {
    value.parse::<fonio_lab::Wanted>()?;
    Ok(value.to_owned())
}

fn write_page(outcomes: &[Outcome], file: &Path) -> Result<()> {
    let mut out =
        BufWriter::new(File::create(file).with_context(|| format!("cannot make {}", file.display()))?);
    fonio_report::render_html(&page::document(outcomes), &mut out)?;
    out.flush().with_context(|| format!("cannot write {}", file.display()))
}

fn show(outcome: &Outcome) {
    println!("{}: {}\n{}", outcome.id, outcome.title, outcome.headline());
    for command in &outcome.commands {
        println!("Measured by: {command}");
    }
    println!(
        "\n{:<34} {:<34} {:<34} {:<6} {:<15} {:<8}",
        "", "published", "ours", "ratio", "kind", "verdict"
    );
    for row in &outcome.rows {
        let (kind, verdict) = row.standing().words();
        println!(
            "{:<34} {:<34} {:<34} {:<6} {kind:<15} {verdict:<8} {}",
            row.what(),
            row.published(),
            row.ours(),
            row.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            row.why()
        );
    }
    println!();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The simulator reads no files, so its code contains a copy of the numbers of the cards. This copy must
    /// equal the numbers in the file.
    #[test]
    fn the_published_numbers_are_the_simulators() {
        let cards: Vec<published::Card> = Published::read().unwrap().at("kim.card").unwrap();
        assert_eq!(cards.len(), fonio_sim::published::CARDS.len());
        for (card, known) in cards.iter().zip(&fonio_sim::published::CARDS) {
            assert_eq!(card.name, known.name);
            for (ours, theirs) in [(card.phone_mb_s, known.phone), (card.desktop_mb_s, known.desktop)] {
                assert_eq!(
                    [ours.seq_write, ours.seq_read, ours.rand_write, ours.rand_read],
                    [theirs.seq_write, theirs.seq_read, theirs.rand_write, theirs.rand_read],
                    "{}",
                    card.name
                );
            }
        }
    }

    /// The repository's file of published numbers contains all transcriptions from the studies.
    #[test]
    fn the_published_numbers_are_complete() {
        let folder = crate::process::root();
        let shared = folder.join("../shared/papers/published.toml");
        let Ok(shared) = std::fs::read_to_string(&shared) else {
            fonio_testing::skip(fonio_testing::Need::Shared, format!("there is no {}", shared.display()));
            return;
        };
        let own = std::fs::read_to_string(folder.join("studies/published.toml"))
            .expect("the file is in the repository");
        let table = |text: &str| toml::Value::Table(text.parse().expect("it is TOML"));
        let (shared, own) = (table(&shared), table(&own));
        let mut missing = Vec::new();
        compare(&shared, Some(&own), "", &mut missing);
        assert!(missing.is_empty(), "missing or different: {}", missing.join(", "));
    }

    fn compare(theirs: &toml::Value, own: Option<&toml::Value>, path: &str, missing: &mut Vec<String>) {
        match theirs {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    compare(value, own.and_then(|own| own.get(key)), &format!("{path}.{key}"), missing);
                }
            }
            value if own == Some(value) => {}
            _ => missing.push(path.to_owned()),
        }
    }

    /// Only computed tables and figures are checked, because measured ones need root and take minutes.
    #[test]
    fn every_computed_paper_has_rows() {
        let published = Published::read().unwrap();
        for (_, (id, .., rows)) in papers() {
            if let Computed(rows) | MeasuredWithFull(rows) = rows {
                let mut runs = Runs::new(false, None, None, None, None);
                assert!(!rows(&published, &mut runs).expect("it runs").is_empty(), "{id}");
            }
        }
    }

    #[test]
    fn ids_are_unique() {
        let all = ids();
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
    }
}
