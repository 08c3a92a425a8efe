//! `cargo studies paper`: tables and figures of published studies, and ours.
//!
//! Some are computed from models and files. The others run workloads on emulated devices with the built program, as a
//! user would, and print the command lines that they ran.

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

use published::{Published, published};
use row::{Row, Verdict};
use runs::Runs;

/// One table or figure.
struct Paper {
    id: &'static str,
    title: &'static str,
    rows: Rows,
}

/// The source of its rows.
enum Rows {
    /// Models and files, in moments and without privileges; with `--full`, writes to emulated devices too.
    Computed(fn(&Published, &mut Runs) -> Result<Vec<Row>>),
    /// Workloads that run on emulated devices, as root.
    Measured(fn(&Published, &mut Runs) -> Result<Vec<Row>>),
}

const PAPERS: &[Paper] = &[
    Paper {
        id: "kim-t2",
        title: "rates of the links to the phone (Kim et al. 2012, Table II)",
        rows: Rows::Measured(kim_network::rows),
    },
    Paper {
        id: "kim-t3",
        title: "raw performance of eight cards (Kim et al. 2012, Table III)",
        rows: Rows::Computed(kim_t3::rows),
    },
    Paper {
        id: "kim-t4",
        title: "apps that are installed, and their sizes (Kim et al. 2012, Table IV)",
        rows: Rows::Measured(kim_apps::installed),
    },
    Paper {
        id: "kim-t5",
        title: "bytes written and read, sequential and random (Kim et al. 2012, Table V)",
        rows: Rows::Measured(kim_io::breakdown),
    },
    Paper {
        id: "kim-t6",
        title: "bytes that ten launches move (Kim et al. 2012, Table VI)",
        rows: Rows::Measured(kim_apps::launched),
    },
    Paper {
        id: "kim-f4",
        title: "run time of WebBench over the devices (Kim et al. 2012, Figure 4)",
        rows: Rows::Measured(kim_devices::webbench),
    },
    Paper {
        id: "kim-f5",
        title: "run time of popular apps over the devices (Kim et al. 2012, Figure 5)",
        rows: Rows::Measured(kim_devices::apps),
    },
    Paper {
        id: "kim-f6",
        title: "WebBench's sequential and random I/O over time (Kim et al. 2012, Figure 6)",
        rows: Rows::Measured(kim_io::over_time),
    },
    Paper {
        id: "kim-f7",
        title: "what the browser keeps after WebBench (Kim et al. 2012, Figure 7)",
        rows: Rows::Measured(kim_io::store),
    },
    Paper {
        id: "kim-f8",
        title: "how the web cache and the databases are written (Kim et al. 2012, Figure 8)",
        rows: Rows::Measured(kim_io::by_place),
    },
    Paper {
        id: "kim-f9",
        title: "launch times over the devices and in memory (Kim et al. 2012, Figure 9)",
        rows: Rows::Measured(kim_launch::rows),
    },
    Paper {
        id: "kim-f10",
        title: "background I/O over two hours (Kim et al. 2012, Figure 10)",
        rows: Rows::Measured(kim_background::rows),
    },
    Paper {
        id: "kim-f11",
        title: "processor time of WebBench over the devices (Kim et al. 2012, Figure 11)",
        rows: Rows::Measured(kim_cpu::over_devices),
    },
    Paper {
        id: "kim-f12",
        title: "processor time of WebBench on a fast and a slow card (Kim et al. 2012, Figure 12)",
        rows: Rows::Measured(kim_cpu::fast_and_slow),
    },
    Paper {
        id: "kim-f13",
        title: "what if cache, databases or all were in memory, or nothing synced (Kim et al. 2012, Figure 13)",
        rows: Rows::Measured(kim_fixes::what_if),
    },
    Paper {
        id: "kim-f14",
        title: "pilot fixes (Kim et al. 2012, Figure 14)",
        rows: Rows::Measured(kim_fixes::pilot),
    },
    Paper {
        id: "kim-f15",
        title: "throughput against the write address range (Kim et al. 2012, Figure 15)",
        rows: Rows::Computed(kim_f15::rows),
    },
    Paper {
        id: "courville-t1",
        title: "reads for each write of thirteen workloads (Courville, Chen, Table I)",
        rows: Rows::Measured(courville::ratios),
    },
    Paper {
        id: "courville-t2",
        title: "requests, bytes and time between flushes (Courville, Chen, Table II)",
        rows: Rows::Measured(courville::flush_gaps),
    },
    Paper {
        id: "courville-t3",
        title: "requests, duration and share of the run time (Courville, Chen, Table III)",
        rows: Rows::Measured(courville::requests),
    },
    Paper {
        id: "courville-f2",
        title: "sizes and latencies of requests (Courville, Chen, Figure 2)",
        rows: Rows::Measured(courville::sizes_and_latencies),
    },
    Paper {
        id: "courville-f3",
        title: "latency against size (Courville, Chen, Figure 3)",
        rows: Rows::Measured(courville::latency_by_size),
    },
    Paper {
        id: "courville-f4",
        title: "places over time (Courville, Chen, Figure 4)",
        rows: Rows::Measured(courville::places_over_time),
    },
    Paper {
        id: "courville-f5",
        title: "requests between flushes (Courville, Chen, Figure 5)",
        rows: Rows::Measured(courville::requests_between_flushes),
    },
    Paper {
        id: "courville-f6",
        title: "places that are written again (Courville, Chen, Figure 6)",
        rows: Rows::Measured(courville::rewritten_places),
    },
    Paper {
        id: "courville-f7",
        title: "how much of the run time is storage, by group (Courville, Chen, Figure 7)",
        rows: Rows::Measured(courville::groups),
    },
    Paper {
        id: "smartio-f3",
        title: "iowait (Nguyen et al. 2015, Figure 3)",
        rows: Rows::Measured(smartio_iowait::share),
    },
    Paper {
        id: "smartio-f4",
        title: "slowdown of reads and writes beside each other (Nguyen et al. 2015, Figures 4 and 11)",
        rows: Rows::Measured(smartio_slowdown::rows),
    },
    Paper {
        id: "smartio-f7",
        title: "speedup of processes at once, under models of the schedulers (Nguyen et al. 2015, Figure 7)",
        rows: Rows::Computed(smartio_schedulers::speedup_rows),
    },
    Paper {
        id: "smartio-alg-6.1",
        title: "which queue SmartIO serves (Nguyen et al. 2015, Algorithm 6.1)",
        rows: Rows::Computed(smartio_schedulers::dispatch_rows),
    },
    Paper {
        id: "smartio-alg-6.2",
        title: "how much of a queue may be in flight (Nguyen et al. 2015, Algorithm 6.2)",
        rows: Rows::Computed(smartio_schedulers::may_dispatch_rows),
    },
    Paper {
        id: "smartio-f11",
        title: "slowdowns under models of CFQ and SmartIO (Nguyen et al. 2015, Figures 4 and 11)",
        rows: Rows::Computed(smartio_schedulers::slowdown_rows),
    },
    Paper {
        id: "smartio-f12",
        title: "mixed workloads under models of four schedulers (Nguyen et al. 2015, Figure 12)",
        rows: Rows::Computed(smartio_schedulers::comparison_rows),
    },
    Paper {
        id: "smartio-f10",
        title: "iowait and launches with SmartIO, with the gains of Figure 13 (Nguyen et al. 2015, sections 7.1 and 7.4)",
        rows: Rows::Measured(smartio_apps::rows),
    },
    Paper {
        id: "smartio-f13",
        title: "launches of forty apps, cold and warm (Nguyen et al. 2015, Figure 13 and section 7.4)",
        rows: Rows::Measured(smartio_launch::rows),
    },
    Paper {
        id: "smartio-f14",
        title: "an estimate of power with SmartIO (Nguyen et al. 2015, Figure 14 and section 7.4)",
        rows: Rows::Measured(smartio_power::rows),
    },
    Paper {
        id: "smartio-f15",
        title: "what a user of Facebook feels (Nguyen et al. 2015, Figure 15 and section 7.5)",
        rows: Rows::Measured(smartio_facebook::rows),
    },
    Paper {
        id: "bfuse-t1",
        title: "file systems of six phones (Jeong, Won 2014, Table 1)",
        rows: Rows::Computed(bfuse_phones::rows),
    },
    Paper {
        id: "bfuse-f2",
        title: "what each layer leaves of the device; with Figure 3 and Table 2 (Jeong, Won 2014)",
        rows: Rows::Computed(bfuse_stack::layers),
    },
    Paper {
        id: "bfuse-f4",
        title: "what a camcorder and a gallery do to the user partition (Jeong, Won 2014, Figure 4)",
        rows: Rows::Measured(bfuse_apps::rows),
    },
    Paper {
        id: "bfuse-f6",
        title: "throughput and, Figure 7, context switches against the FUSE I/O unit (Jeong, Won 2014)",
        rows: Rows::Computed(bfuse_stack::io_unit),
    },
    Paper {
        id: "bfuse-f10",
        title: "the buffer over its size, with and without its thread, and the interval (Jeong, Won 2014, Figure 10)",
        rows: Rows::Computed(bfuse_stack::buffer),
    },
    Paper {
        id: "bfuse-f11",
        title: "what reaches the device over the size of the buffer; with Figure 12 (Jeong, Won 2014, Figure 11)",
        rows: Rows::Computed(bfuse_stack::reaching),
    },
    Paper {
        id: "bfuse-t3",
        title: "write calls and device requests on five file systems, scaled to our file (Jeong, Won 2014, Table 3)",
        rows: Rows::Computed(bfuse_stack::calls),
    },
    Paper {
        id: "bfuse-f17",
        title: "schedulers, file systems, options; with Figures 13 to 16 (Jeong, Won 2014)",
        rows: Rows::Computed(bfuse_matrix::rows),
    },
];

/// The result of a paper's rows.
#[derive(Serialize)]
struct Outcome {
    id: &'static str,
    title: &'static str,
    counts: Counts,
    /// The command lines that were measured for the rows.
    commands: Vec<String>,
    rows: Vec<Row>,
}

/// Number of rows by verdict. Only rows that no fit used count as agreeing or differing.
#[derive(Serialize)]
struct Counts {
    agree: usize,
    differ: usize,
    cannot: usize,
    used_in_fit: usize,
}

impl Counts {
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

/// The options of `cargo studies paper`.
#[derive(Args)]
pub struct Arguments {
    /// Print these tables and figures, or `all` (default: those that models and files alone can show).
    #[arg(value_name = "ID", value_parser = PossibleValuesParser::new(ids()))]
    ids: Vec<String>,
    /// Run all devices and workloads at full scale, and also measure on emulated devices (root).
    #[arg(long)]
    full: bool,
    /// Measure this device and the best, instead of all.
    #[arg(long, value_name = "DEVICE")]
    on: Option<String>,
    /// Run everything in a guest, such as lab:6.12. Without it, only what this kernel lacks runs in a guest.
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
    /// Write a page with the tables, and with a chart of each.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn ids() -> Vec<&'static str> {
    ["all"].into_iter().chain(PAPERS.iter().map(|paper| paper.id)).collect()
}

/// Prints the wanted tables and figures.
pub fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { ids: wanted, full, on, guest, cpu, fonio, json: as_json, html } = arguments;
    let all = wanted.iter().any(|id| id == "all");
    let computed = |paper: &Paper| matches!(paper.rows, Rows::Computed(_));
    let chosen = |paper: &&Paper| {
        all || wanted.iter().any(|id| id == paper.id) || (wanted.is_empty() && computed(paper))
    };
    let published = published()?;
    let mut runs = Runs::new(*full, cpu.clone(), on.clone(), guest.clone(), fonio.clone());
    let mut outcomes = Vec::new();
    for paper in PAPERS.iter().filter(chosen) {
        let rows = match paper.rows {
            Rows::Computed(rows) | Rows::Measured(rows) => rows(&published, &mut runs),
        };
        let rows = rows.with_context(|| format!("{} could not be made", paper.id))?;
        let counts = Counts::of(&rows);
        let outcome = Outcome { id: paper.id, title: paper.title, counts, commands: runs.commands(), rows };
        if !*as_json {
            show(&outcome);
            keep(&outcome, &command_line(arguments, paper.id), on.is_none() && cpu.is_none())?;
        }
        outcomes.push(outcome);
    }
    if let Some(file) = html {
        write_page(&outcomes, file)?;
    }
    if *as_json {
        println!("{}", serde_json::to_string_pretty(&outcomes)?);
    } else if wanted.is_empty() && !all {
        let left: Vec<&str> = PAPERS.iter().filter(|paper| !computed(paper)).map(|paper| paper.id).collect();
        println!(
            "Measured on emulated devices, as root, when named (`all` names them all): {}.",
            left.join(", ")
        );
    }
    Ok(())
}

/// Returns the command line that prints one table or figure.
fn command_line(arguments: &Arguments, id: &str) -> String {
    let mut line = format!("cargo studies paper {id}");
    for (option, value) in [("--on", &arguments.on), ("--in", &arguments.guest), ("--cpu", &arguments.cpu)] {
        line += &value.as_ref().map_or_else(String::new, |value| format!(" {option} {value}"));
    }
    if arguments.full { line + " --full" } else { line }
}

/// Keeps the rows as a result.
fn keep(outcome: &Outcome, command: &str, is_complete: bool) -> Result<()> {
    let id = format!("paper-{}", outcome.id);
    let columns = ["", "published", "ours", "each run", "verdict", "why"];
    let mut result = StudyResult::begin(&id, outcome.title, command, &columns)?;
    result.rows = outcome.rows.iter().map(Row::kept).collect();
    result.remark = outcome.remark();
    result.keep(is_complete)?;
    Ok(())
}

impl Outcome {
    /// Returns the counts, and the rows that count, if they are few.
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
        // A bar would end the cell of a table.
        format!("{}{text}.", counts.join(", ")).replace('|', "/")
    }
}

/// Parses the value of `--in`.
fn kernel(value: &str) -> Result<String> {
    value.parse::<fonio_lab::Wanted>()?;
    Ok(value.to_owned())
}

/// Writes the page.
fn write_page(outcomes: &[Outcome], file: &Path) -> Result<()> {
    let papers: Vec<page::Paper> = serde_json::from_value(serde_json::to_value(outcomes)?)?;
    let mut out =
        BufWriter::new(File::create(file).with_context(|| format!("cannot make {}", file.display()))?);
    fonio_report::render_html(&page::document(&papers), &mut out)?;
    out.flush().with_context(|| format!("cannot write {}", file.display()))
}

fn show(outcome: &Outcome) {
    let Counts { agree, differ, cannot, used_in_fit } = outcome.counts;
    println!("{}: {}", outcome.id, outcome.title);
    println!(
        "Of what no fit used, {agree} agree, {differ} differ, {cannot} cannot be had here; {used_in_fit} were used in a fit."
    );
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

    /// The simulator has its own copy of the cards' numbers, because it does no I/O; both must be the same.
    #[test]
    fn the_published_numbers_are_the_simulators() {
        let published = published().expect("the file is in the repository");
        assert_eq!(published.kim.card.len(), fonio_sim::published::CARDS.len());
        for (card, known) in published.kim.card.iter().zip(&fonio_sim::published::CARDS) {
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

    /// The project's own file has everything that was transcribed from the studies.
    #[test]
    fn the_published_numbers_are_complete() {
        let folder = crate::process::root();
        let shared = folder.join("../shared/papers/published.toml");
        let Ok(shared) = std::fs::read_to_string(&shared) else {
            fonio_testing::skip(fonio_testing::Need::Shared, format!("there is no {}", shared.display()));
            return;
        };
        let own =
            std::fs::read_to_string(folder.join("studies/published.toml")).expect("it is in the repository");
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

    /// The measured papers need root and minutes.
    #[test]
    fn every_computed_paper_has_rows() {
        let published = published().expect("the file is in the repository");
        for paper in PAPERS {
            if let Rows::Computed(rows) = paper.rows {
                let mut runs = Runs::new(false, None, None, None, None);
                assert!(!rows(&published, &mut runs).expect("it runs").is_empty(), "{}", paper.id);
            }
        }
    }

    #[test]
    fn ids_are_unique() {
        let ids: std::collections::BTreeSet<&str> = PAPERS.iter().map(|paper| paper.id).collect();
        assert_eq!(ids.len(), PAPERS.len());
    }
}
