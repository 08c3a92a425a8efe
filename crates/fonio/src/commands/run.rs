//! `fonio run` and `fonio fix --prove`: workloads on devices, with and without fixes.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fonio_analysis::{Analyser, AnalysisOptions};
use fonio_core::ByteCount;
use fonio_experiment::{
    Change, Place, Roles, Rounds, RunOptions, Series, Setup, Variation, do_task, document, fastest,
    run_series, serve_http, start_task,
};
use fonio_host::{Confirmation, Ledger};
use fonio_recording::{Recording, Tables};
use fonio_report::Document;
use fonio_workload::definition::{Workload, shipped};

use crate::cli::Colour;
use crate::cli::run::{Fix, Repeat, Run, SetupArgs};
use crate::commands::{fix, launch};
use crate::exit::Exit;
use crate::output;
use crate::progress::Estimate;
use crate::signals;

/// The workload that takes Mobibench's options.
const MOBIBENCH: &str = "mobibench";

/// The roles in which a run starts this program; none is for people.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Role {
    /// Serve objects over HTTP.
    Http {
        /// Where to listen.
        address: SocketAddr,
    },
    /// Prepare and run a workload.
    Task {
        /// What to do.
        file: PathBuf,
    },
    /// Start a prepared workload, and end with it.
    Start {
        /// Where it waits.
        socket: PathBuf,
    },
}

/// Plays a role.
pub fn play(role: &Role) -> Result<Exit> {
    match role {
        Role::Http { address } => serve_http(*address)?,
        Role::Task { file } => do_task(file)?,
        Role::Start { socket } => start_task(socket)?,
    }
    Ok(Exit::Fine)
}

/// Runs a workload.
pub fn run(arguments: &Run, colour: Colour) -> Result<Exit> {
    if arguments.launch.launch {
        return launch::run(arguments, colour);
    }
    let mut setup = Cow::Borrowed(&arguments.setup);
    let workload = match (&arguments.mobigen, arguments.workload.as_deref()) {
        (Some(trace), _) => {
            let trace = std::fs::canonicalize(trace)
                .with_context(|| format!("cannot find the trace {}", trace.display()))?;
            fonio_workload::mobigen::workload(&trace)
        }
        (None, None) => return list_workloads(),
        (None, Some(MOBIBENCH)) => {
            let words: Vec<_> = arguments.arguments.iter().map(|word| word.to_string_lossy()).collect();
            let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
            let parsed = fonio_workload::mobibench::parse(&words)?;
            if let Some(directory) = parsed.directory {
                if setup.on != [SetupArgs::ON_DEFAULT] {
                    bail!("-p and --on both set the directory of Mobibench: use only one of them");
                }
                setup.to_mut().on = vec![directory];
            }
            parsed.workload
        }
        (None, Some(name)) => Workload::load(name)?,
    };
    if !arguments.arguments.is_empty() && arguments.workload.as_deref() != Some(MOBIBENCH) {
        bail!("arguments after `--` need --launch or the workload {MOBIBENCH}");
    }
    let tried = Tried { changes: &arguments.fix, refusal: Refusal::Error, best: None };
    measure(&workload, &setup, &tried, colour)
}

/// Proves fixes on a workload.
pub fn prove(name: &str, arguments: &Fix, colour: Colour) -> Result<Exit> {
    let workload = &Workload::load(name)?;
    let best = arguments.best;
    if let Some(change) = &arguments.name {
        let changes = std::slice::from_ref(change);
        return measure(
            workload,
            &arguments.setup,
            &Tried { changes, refusal: Refusal::Error, best },
            colour,
        );
    }
    let changes: Vec<Change> = fix::wanted(arguments).map(Change::Listed).collect();
    let tried = Tried { changes: &changes, refusal: Refusal::LeaveOut, best };
    measure(workload, &arguments.setup, &tried, colour)
}

/// What is tried beside the plain setup.
struct Tried<'a> {
    changes: &'a [Change],
    refusal: Refusal,
    /// Only the so many fastest are measured.
    best: Option<usize>,
}

/// What to do with a fix that means nothing for a setup.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Error,
    LeaveOut,
}

/// Gives what the signals that end a program set; and undoes what a killed run left.
pub(super) fn begin() -> Result<Arc<AtomicBool>> {
    let stop = signals::watch()?;
    let recovery = Ledger::recover(&Ledger::default_dir())?;
    for undone in &recovery.undone {
        eprintln!("Cleaned up after an interrupted run: {undone}");
    }
    for failed in &recovery.failed {
        eprintln!("warning: after an interrupted run, {failed}");
    }
    Ok(stop)
}

/// `--repeat auto`: gains within 25 percent, for three minutes at most.
const AUTO_FACTOR: f64 = 1.25;
const AUTO_BUDGET: Duration = Duration::from_secs(180);

fn measure(workload: &Workload, arguments: &SetupArgs, tried: &Tried<'_>, colour: Colour) -> Result<Exit> {
    let stop = begin()?;
    let mut variations = Vec::new();
    for place in &arguments.on {
        for scheduler in &arguments.scheduler {
            let plain = setup(place, scheduler, arguments)?;
            let base = plain_name(place, scheduler, arguments);
            let base_at = variations.len();
            variations.push(Variation {
                name: base.clone(),
                compared_with: (base_at > 0).then_some(0),
                loses: None,
                setup: plain.clone(),
            });
            for change in tried.changes {
                let mut changed = plain.clone();
                match change.apply(&mut changed, workload) {
                    Ok(()) => variations.push(Variation {
                        name: format!("{base}, {}", change.name()),
                        compared_with: Some(base_at),
                        loses: Some(change.loses()),
                        setup: changed,
                    }),
                    Err(error) if tried.refusal == Refusal::LeaveOut => eprintln!("left out: {error}"),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    let roles = roles()?;
    let options = RunOptions {
        workload,
        scale: arguments.scale,
        pace: arguments.pace,
        write_back: arguments.write_back,
        seed: arguments.seed,
        roles: &roles,
        stop: &stop,
    };
    let out = results_directory(arguments.out.as_deref())?;
    let run = |variations: &[Variation], rounds: Rounds, out: &Path| {
        let mut estimate = Estimate::new();
        let mut say = |round: u32, rounds: u32, name: &str| {
            let (at, left) = estimate.next(variations.len() * rounds as usize);
            eprintln!("[{at}] round {round}: {} on {name}{left} …", workload.name);
        };
        run_series(variations, rounds, &options, out, &mut say)
    };
    let rounds = match arguments.repeat {
        Repeat::Times(times) => Rounds::Fixed(times),
        Repeat::Auto => Rounds::Pilot { factor: AUTO_FACTOR, budget: AUTO_BUDGET },
    };
    if let Some(best) = tried.best {
        eprintln!("Running every fix once to find the {best} fastest:");
        let once = run(&variations, Rounds::Fixed(1), &out.join("once"))?;
        variations = fastest(&variations, &once, best);
        match arguments.repeat {
            Repeat::Times(times) => eprintln!("Measuring the fastest, {times} times each:"),
            Repeat::Auto => eprintln!("Measuring the fastest, at first three times each:"),
        }
    }
    let series = run(&variations, rounds, &out)?;
    let text = summarise(&series, &out)?;
    let page = page(arguments, &out);
    let explained = explain_first(&series)?;
    // Here and now: what was found, and what helps; the page has the other questions.
    let short = explained.clone().map(|document| Document {
        sections: Vec::new(),
        provenance: Vec::new(),
        ..document
    });
    output::write_html(&document(&series, explained), Some(&page))?;
    if arguments.json {
        writeln!(io::stdout(), "{text}")?;
    } else {
        output::show_on_terminal(&document(&series, short), colour)?;
        writeln!(io::stdout(), "\nFull report with charts: {}", page.display())?;
    }
    let valid = series.variations.iter().flat_map(|variation| &variation.runs).all(|run| run.valid);
    Ok(if valid { Exit::Fine } else { Exit::NotValid })
}

/// The report on the recording of the first run.
fn explain_first(series: &Series) -> Result<Option<Document>> {
    let first = series.variations.first().and_then(|variation| variation.runs.first());
    first.map(|run| explain(&run.recording)).transpose()
}

/// The report on a run's recording.
pub(super) fn explain(recording: &Path) -> Result<Document> {
    let recording = Recording::open(recording)?;
    let mut analyser = Analyser::new(AnalysisOptions::default());
    recording.replay(&mut analyser, Tables::ALL)?;
    let analysis = analyser.finish(recording.meta());
    Ok(Document::from_analysis(&analysis, recording.meta()))
}

/// Where the HTML report goes.
pub(super) fn page(arguments: &SetupArgs, out: &Path) -> PathBuf {
    arguments.html.clone().unwrap_or_else(|| out.join("report.html"))
}

/// The default name of the directory of a series' results.
const RESULTS: &str = "fonio-runs";

/// A directory that no other series has used or uses: the one that was named, or the first free one.
pub(super) fn results_directory(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(named) = named {
        fs::create_dir_all(named).with_context(|| format!("cannot create {}", named.display()))?;
        let mut entries = fs::read_dir(named).with_context(|| format!("cannot list {}", named.display()))?;
        ensure!(
            entries.next().is_none(),
            "{} is not empty; name a new directory with --output",
            named.display()
        );
        return Ok(named.to_owned());
    }
    for number in 1_u32.. {
        let name = if number == 1 { RESULTS.to_owned() } else { format!("{RESULTS}-{number}") };
        // Who creates it has it: two that start at once get two.
        match fs::create_dir(&name) {
            Ok(()) => return Ok(name.into()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot create {name}")),
        }
    }
    unreachable!("a directory holds fewer than 2^32 names")
}

/// Writes `summary.json`, and gives it.
pub(super) fn summarise(series: &impl serde::Serialize, out: &Path) -> Result<String> {
    let summary = out.join("summary.json");
    let text = serde_json::to_string_pretty(series)?;
    std::fs::write(&summary, &text).with_context(|| format!("cannot write {}", summary.display()))?;
    Ok(text)
}

pub(super) fn plain_name(place: &str, scheduler: &str, arguments: &SetupArgs) -> String {
    if arguments.scheduler.len() > 1 { format!("{place} with {scheduler}") } else { place.to_owned() }
}

pub(super) fn setup(place: &str, scheduler: &str, arguments: &SetupArgs) -> Result<Setup> {
    let path = Path::new(place);
    let kind = std::fs::metadata(path).ok().map(|metadata| metadata.file_type());
    let place = match kind {
        Some(kind) if kind.is_dir() => Place::Directory(path.to_owned()),
        Some(kind) if kind.is_block_device() => {
            let twice = arguments.erase.as_deref() == Some(path);
            let confirmation = if twice { Confirmation::NamedTwice } else { Confirmation::NamedOnce };
            Place::Device { path: path.to_owned(), confirmation }
        }
        _ => {
            // Says what is wrong with it before anything is begun.
            fonio_emulator::profile::device(place, ByteCount(arguments.size), arguments.seed)
                .with_context(|| format!("{place} is neither a directory nor a block device"))?;
            Place::Profile(place.to_owned())
        }
    };
    let in_folder = matches!(place, Place::Directory(_));
    if in_folder && (!arguments.mount_options.is_empty() || scheduler != "none") {
        bail!(
            "a directory keeps its file system and device; --mount-options and --scheduler need a device or a profile"
        );
    }
    Ok(Setup {
        size: ByteCount(arguments.size),
        filesystem: arguments.filesystem,
        mount_options: arguments.mount_options.clone(),
        scheduler: scheduler.to_owned(),
        link: arguments.link,
        cpu: arguments.cpu,
        ..Setup::on(place)
    })
}

pub(super) fn roles() -> Result<Roles> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Ok(Roles {
        program: std::env::current_exe().context("cannot find the fonio executable")?,
        serve_device: words(&["device", "serve"]),
        serve_http: words(&["role", "http"]),
        do_task: words(&["role", "task"]),
        start_task: words(&["role", "start"]),
    })
}

fn list_workloads() -> Result<Exit> {
    let mut out = io::stdout().lock();
    for workload in shipped() {
        writeln!(out, "{:<18} {}", workload.name, Workload::load(workload.name)?.title)?;
    }
    writeln!(out, "{MOBIBENCH:<18} Mobibench, with its own options after `--`")?;
    writeln!(out, "\nNext: `fonio run NAME --on FOLDER`, or `--on PROFILE` (`fonio device list`) as root.")?;
    Ok(Exit::Fine)
}
