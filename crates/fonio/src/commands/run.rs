//! `fonio run` and `fonio fix`: workloads on devices, with and without fixes.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use fonio_analysis::{Analyser, AnalysisOptions};
use fonio_core::ByteCount;
use fonio_experiment::{
    Change, FIXES, Place, Roles, RunOptions, Series, Setup, Variation, do_task, document, fastest,
    run_series, serve_http, start_task,
};
use fonio_host::{Confirmation, Ledger};
use fonio_recording::{Recording, Tables};
use fonio_report::Document;
use fonio_workload::definition::{Workload, shipped};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cli::Colour;
use crate::cli::run::{Fix, Run, SetupArgs};
use crate::exit::Exit;
use crate::output;

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
    let Some(name) = &arguments.workload else { return list_workloads() };
    let tried = Tried { changes: &arguments.fix, refusal: Refusal::Error, best: None };
    measure(name, &arguments.setup, &tried, colour)
}

/// Lists the fixes, or proves them.
pub fn fix(arguments: &Fix, colour: Colour) -> Result<Exit> {
    let Some(workload) = &arguments.prove else { return list_fixes(arguments) };
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
    let changes: Vec<Change> = wanted(arguments).map(Change::Listed).collect();
    let tried = Tried { changes: &changes, refusal: Refusal::LeaveOut, best };
    measure(workload, &arguments.setup, &tried, colour)
}

/// The fixes that the flags leave over.
fn wanted(arguments: &Fix) -> impl Iterator<Item = &'static fonio_experiment::Fix> {
    let (safe, no_hardware) = (arguments.safe, arguments.no_hardware);
    FIXES.iter().filter(move |fix| (!safe || fix.loses.is_safe()) && !(no_hardware && fix.needs_hardware))
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

fn measure(name: &str, arguments: &SetupArgs, tried: &Tried<'_>, colour: Colour) -> Result<Exit> {
    let workload = Workload::load(name)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let recovery = Ledger::recover(&Ledger::default_dir())?;
    for undone in &recovery.undone {
        eprintln!("undone, of a run that was killed: {undone}");
    }
    for failed in &recovery.failed {
        eprintln!("warning: of a run that was killed, {failed}");
    }
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
                match change.apply(&mut changed, &workload) {
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
        workload: &workload,
        scale: arguments.scale,
        pace: arguments.pace,
        write_back: arguments.write_back,
        seed: arguments.seed,
        roles: &roles,
        stop: &stop,
    };
    let run = |variations: &[Variation], repeat: u32, out: &Path| {
        let count = variations.len() * repeat as usize;
        let mut at = 0;
        let mut say = |round: u32, _: u32, name: &str| {
            at += 1;
            eprintln!("[{at}/{count}] round {round}: {} on {name} …", workload.name);
        };
        run_series(variations, repeat, &options, out, &mut say)
    };
    if let Some(best) = tried.best {
        eprintln!("Every fix once, to find the {best} fastest:");
        let once = run(&variations, 1, &arguments.out.join("once"))?;
        variations = fastest(&variations, &once, best);
        eprintln!("These again, {} times each:", arguments.repeat);
    }
    let series = run(&variations, arguments.repeat, &arguments.out)?;
    let summary = arguments.out.join("summary.json");
    let text = serde_json::to_string_pretty(&series)?;
    std::fs::write(&summary, &text).with_context(|| format!("cannot write {}", summary.display()))?;
    let page = arguments.html.clone().unwrap_or_else(|| arguments.out.join("report.html"));
    output::write_html(&document(&series, explain_first(&series)?), Some(&page))?;
    if arguments.json {
        writeln!(io::stdout(), "{text}")?;
    } else {
        output::show_on_terminal(&document(&series, None), colour)?;
        writeln!(io::stdout(), "\nWhy, with pictures: {}", page.display())?;
    }
    let valid = series.variations.iter().flat_map(|variation| &variation.runs).all(|run| run.valid);
    Ok(if valid { Exit::Fine } else { Exit::NotValid })
}

/// The report on the recording of the first run.
fn explain_first(series: &Series) -> Result<Option<Document>> {
    let first = series.variations.first().and_then(|variation| variation.runs.first());
    let Some(run) = first else { return Ok(None) };
    let recording = Recording::open(&run.recording)?;
    let mut analyser = Analyser::new(AnalysisOptions::default());
    recording.replay(&mut analyser, Tables::ALL)?;
    let analysis = analyser.finish(recording.meta());
    Ok(Some(Document::from_analysis(&analysis, recording.meta())))
}

fn plain_name(place: &str, scheduler: &str, arguments: &SetupArgs) -> String {
    if arguments.scheduler.len() > 1 { format!("{place} with {scheduler}") } else { place.to_owned() }
}

fn setup(place: &str, scheduler: &str, arguments: &SetupArgs) -> Result<Setup> {
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
                .with_context(|| format!("{place} is no folder and no block device"))?;
            Place::Profile(place.to_owned())
        }
    };
    let in_folder = matches!(place, Place::Directory(_));
    if in_folder && (!arguments.mount_options.is_empty() || scheduler != "none") {
        bail!("a folder has its own file system and device: mount options and schedulers are for the others");
    }
    Ok(Setup {
        size: ByteCount(arguments.size),
        filesystem: arguments.filesystem,
        mount_options: arguments.mount_options.clone(),
        scheduler: scheduler.to_owned(),
        link: arguments.link,
        ..Setup::on(place)
    })
}

fn roles() -> Result<Roles> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Ok(Roles {
        program: std::env::current_exe().context("cannot find this program's file")?,
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
    writeln!(out, "\nNext: `fonio run NAME --on FOLDER`, or `--on PROFILE` (`fonio device list`) as root.")?;
    Ok(Exit::Fine)
}

fn list_fixes(arguments: &Fix) -> Result<Exit> {
    let one = arguments.name.as_ref().map(Change::name);
    let mut out = io::stdout().lock();
    for fix in wanted(arguments).filter(|fix| one.as_deref().is_none_or(|name| name == fix.name)) {
        writeln!(out, "{:<14} {}", fix.name, fix.does)?;
        writeln!(out, "{:<14} {} Source: {}.", "", fix.loses.sentence(), fix.source)?;
    }
    writeln!(out, "\nNext: `fonio fix NAME --prove WORKLOAD --on PLACE` measures before and after.")?;
    Ok(Exit::Fine)
}
