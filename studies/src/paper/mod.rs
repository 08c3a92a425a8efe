//! `cargo studies paper`: compares tables and figures of published studies with our results.
//!
//! Some comparisons need only models and files. All other comparisons run workloads on emulated devices with
//! the built program, as a user would do, and print the command lines.

mod bfuse_apps;
mod bfuse_matrix;
mod bfuse_phones;
mod bfuse_stack;
mod courville;
mod kim_apps;
mod kim_background;
mod kim_cpu;
mod kim_devices;
mod kim_f15;
mod kim_fixes;
mod kim_io;
mod kim_launch;
mod kim_network;
mod kim_t3;
mod measured;
mod page;
mod published;
mod row;
mod runs;
mod smartio_apps;
mod smartio_facebook;
mod smartio_iowait;
mod smartio_launch;
mod smartio_power;
mod smartio_schedulers;
mod smartio_slowdown;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use xtask::results::StudyResult;

use published::Published;
use row::{Row, Verdict};
use runs::Runs;

/// How the rows of a table or figure are obtained.
#[derive(Clone, Copy)]
enum Rows {
    /// Computes the rows from models and files. This is fast and needs no privileges. With `--full`, also
    /// measures writes to emulated devices.
    Computed(fn(&Published, &mut Runs) -> Result<Vec<Row>>),
    /// Measures workloads on emulated devices, as root.
    Measured(fn(&Published, &mut Runs) -> Result<Vec<Row>>),
}

use Rows::{Computed, Measured};

/// A published table or figure: its ID, its number in the study, its title, and the source of its rows.
type Paper = (&'static str, &'static str, &'static str, Rows);

const KIM: [Paper; 17] = [
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

const SMARTIO: [Paper; 11] = [
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
        Computed(bfuse_stack::layers),
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
        Computed(bfuse_stack::io_unit),
    ),
    (
        "bfuse-f10",
        "Figure 10",
        "effect of the buffer's size, thread and flush interval",
        Computed(bfuse_stack::buffer),
    ),
    (
        "bfuse-f11",
        "Figure 11",
        "requests to the device against the size of the buffer; with Figure 12",
        Computed(bfuse_stack::reaching),
    ),
    (
        "bfuse-t3",
        "Table 3",
        "write calls and device requests on five file systems, scaled to our file",
        Computed(bfuse_stack::calls),
    ),
    (
        "bfuse-f17",
        "",
        "schedulers, file systems, options; with Figures 13 to 16",
        Computed(bfuse_matrix::rows),
    ),
];

const PAPERS: [(&str, &[Paper]); 4] = [
    ("Kim et al. 2012", &KIM),
    ("Courville, Chen", &COURVILLE),
    ("Nguyen et al. 2015", &SMARTIO),
    ("Jeong, Won 2014", &BFUSE),
];

#[derive(Serialize)]
struct Outcome {
    id: &'static str,
    title: String,
    counts: Counts,
    /// The command lines that gave the results in the rows.
    commands: Vec<String>,
    rows: Vec<Row>,
}

/// The number of rows with each verdict. Rows that were used in a fit count neither as agreeing nor as
/// differing.
#[derive(Default, Serialize)]
struct Counts {
    agree: usize,
    differ: usize,
    cannot: usize,
    used_in_fit: usize,
}

impl Counts {
    fn sentence(&self) -> String {
        let Counts { agree, differ, cannot, used_in_fit } = self;
        format!(
            "Of rows not used in a fit, {agree} agree, {differ} differ, {cannot} cannot be measured here; \
             {used_in_fit} were used in a fit."
        )
    }

    fn of(rows: &[Row]) -> Counts {
        let count =
            |verdict| rows.iter().filter(|row| !row.used_in_fit() && row.verdict() == verdict).count();
        Counts {
            agree: count(Verdict::Agrees),
            differ: count(Verdict::Differs),
            cannot: count(Verdict::Cannot),
            used_in_fit: rows.iter().filter(|row| row.used_in_fit()).count(),
        }
    }
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
    /// Give the workloads this share of a processor, as on a phone.
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
    PAPERS.iter().flat_map(|(study, papers)| papers.iter().map(|paper| (*study, paper)))
}

fn ids() -> Vec<&'static str> {
    ["all"].into_iter().chain(papers().map(|(_, (id, ..))| *id)).collect()
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { ids: wanted, full, on, guest, cpu, fonio, json: as_json, html } = arguments;
    let all = wanted.iter().any(|id| id == "all");
    let is_computed = |rows: Rows| matches!(rows, Computed(_));
    let published = Published::read()?;
    let mut runs = Runs::new(*full, cpu.clone(), on.clone(), guest.clone(), fonio.clone());
    let mut outcomes = Vec::new();
    for (study, &(id, place, title, rows)) in papers() {
        let is_wanted =
            all || wanted.iter().any(|wanted| wanted == id) || wanted.is_empty() && is_computed(rows);
        if !is_wanted {
            continue;
        }
        let (Computed(make) | Measured(make)) = rows;
        let rows = make(&published, &mut runs).with_context(|| format!("{id} failed"))?;
        let comma = if place.is_empty() { "" } else { ", " };
        let title = format!("{title} ({study}{comma}{place})");
        let counts = Counts::of(&rows);
        let outcome = Outcome { id, title, counts, commands: runs.commands(), rows };
        if !*as_json {
            show(&outcome);
            keep(&outcome, &command_line(arguments, id), on.is_none() && cpu.is_none())?;
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
    let columns = ["", "published", "ours", "each run", "verdict", "why"];
    let mut result = StudyResult::begin(&id, &outcome.title, command, &columns)?;
    result.rows = outcome.rows.iter().map(Row::kept).collect();
    result.remark = outcome.remark();
    result.keep(is_complete)?;
    Ok(())
}

impl Outcome {
    /// Returns the number of rows with each verdict, and the scored rows if there are few.
    fn remark(&self) -> String {
        const SHOWN: usize = 8;
        let Counts { agree, differ, cannot, used_in_fit } = self.counts;
        let counts =
            [(agree, "agree"), (differ, "differ"), (cannot, "not shown"), (used_in_fit, "used in a fit")];
        let counts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let scored = self.rows.iter().filter(|row| !row.used_in_fit() && row.verdict() != Verdict::Cannot);
        let said = |row: &Row| {
            format!("{} {} (published {}; {})", row.what(), row.ours(), row.published(), row.verdict().name())
        };
        let scored: Vec<String> = scored.map(said).collect();
        let more =
            if scored.len() > SHOWN { format!("; and {} more", scored.len() - SHOWN) } else { String::new() };
        let shown = scored.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
        let text = if shown.is_empty() { shown } else { format!(": {shown}{more}") };
        // Replace each `|`, which would end a table cell.
        format!("{}{text}.", counts.join(", ")).replace('|', "/")
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
    println!("{}: {}\n{}", outcome.id, outcome.title, outcome.counts.sentence());
    for command in &outcome.commands {
        println!("Measured by: {command}");
    }
    println!("\n{:<34} {:<34} {:<34} {:<6} {:<8} {:<4}", "", "published", "ours", "ratio", "verdict", "fit");
    for row in &outcome.rows {
        println!(
            "{:<34} {:<34} {:<34} {:<6} {:<8} {:<4} {}",
            row.what(),
            row.published(),
            row.ours(),
            row.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            row.verdict().name(),
            if row.used_in_fit() { "used" } else { "-" },
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
            if let Computed(rows) = rows {
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
