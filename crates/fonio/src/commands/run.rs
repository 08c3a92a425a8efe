//! `fonio run` and `fonio fix`: workloads on devices, with and without fixes.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use fonio_analysis::Answer;
use fonio_core::ByteCount;
use fonio_experiment::{
    Change, FIXES, Place, Roles, RunOptions, Series, Setup, Variation, VariationResult, do_task, run_series,
    serve_http, start_task,
};
use fonio_host::{Confirmation, Ledger};
use fonio_workload::definition::{Workload, shipped};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cli::run::{Fix, Run, SetupArgs};
use crate::exit::Exit;

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
pub fn run(arguments: &Run) -> Result<Exit> {
    let Some(name) = &arguments.workload else { return list_workloads() };
    measure(name, &arguments.setup, &arguments.fix, Refusal::Error)
}

/// Lists the fixes, or proves them.
pub fn fix(arguments: &Fix) -> Result<Exit> {
    let Some(workload) = &arguments.prove else { return list_fixes(arguments) };
    match &arguments.name {
        Some(change) => measure(workload, &arguments.setup, std::slice::from_ref(change), Refusal::Error),
        None => {
            let tried: Vec<Change> = FIXES
                .iter()
                .filter(|fix| !arguments.safe || fix.loses.is_safe())
                .map(Change::Listed)
                .collect();
            measure(workload, &arguments.setup, &tried, Refusal::LeaveOut)
        }
    }
}

/// What to do with a fix that means nothing for a setup.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Error,
    LeaveOut,
}

fn measure(name: &str, arguments: &SetupArgs, changes: &[Change], refusal: Refusal) -> Result<Exit> {
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
            for change in changes {
                let mut changed = plain.clone();
                match change.apply(&mut changed, &workload) {
                    Ok(()) => variations.push(Variation {
                        name: format!("{base}, {}", change.name()),
                        compared_with: Some(base_at),
                        loses: Some(change.loses()),
                        setup: changed,
                    }),
                    Err(error) if refusal == Refusal::LeaveOut => eprintln!("left out: {error}"),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    let roles = roles()?;
    let options = RunOptions {
        workload: &workload,
        scale: arguments.scale,
        seed: arguments.seed,
        roles: &roles,
        stop: &stop,
    };
    let count = variations.len();
    let mut at = 0;
    let mut say = |round: u32, rounds: u32, name: &str| {
        at += 1;
        eprintln!("[{at}/{}] round {round}: {} on {name} …", count * rounds as usize, workload.name);
    };
    let series = run_series(&variations, arguments.repeat, &options, &arguments.out, &mut say)?;
    let summary = arguments.out.join("summary.json");
    let text = serde_json::to_string_pretty(&series)?;
    std::fs::write(&summary, &text).with_context(|| format!("cannot write {}", summary.display()))?;
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{text}")?;
    } else {
        show(&mut out, &series, arguments)?;
    }
    let valid = series.variations.iter().flat_map(|variation| &variation.runs).all(|run| run.valid);
    Ok(if valid { Exit::Fine } else { Exit::NotValid })
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
    for fix in FIXES.iter().filter(|fix| one.as_deref().is_none_or(|name| name == fix.name)) {
        if arguments.safe && !fix.loses.is_safe() {
            continue;
        }
        writeln!(out, "{:<14} {}", fix.name, fix.does)?;
        writeln!(out, "{:<14} {} Source: {}.", "", fix.loses.sentence(), fix.source)?;
    }
    writeln!(out, "\nNext: `fonio fix NAME --prove WORKLOAD --on PLACE` measures before and after.")?;
    Ok(Exit::Fine)
}

fn show(out: &mut impl Write, series: &Series, arguments: &SetupArgs) -> Result<()> {
    writeln!(out, "{}\n", verdict(series))?;
    let width = series.variations.iter().map(|variation| variation.name.chars().count()).max().unwrap_or(0);
    writeln!(
        out,
        "{:width$}  {:>10} {:>8} {:>8} {:>9} {:>9} {:>8} {:>6}",
        "", "run time", "± 95 %", "faster", "requests", "written", "flushes", "busy"
    )?;
    for variation in &series.variations {
        let runs = variation.runs.len() as f64;
        let mean = |value: fn(&fonio_experiment::RunFigures) -> f64| {
            variation.runs.iter().map(value).sum::<f64>() / runs
        };
        let half = variation.wall_s_half.map_or_else(|| "-".to_owned(), |half| format!("{half:.2} s"));
        writeln!(
            out,
            "{:width$}  {:>8.2} s {half:>8} {:>6.2} × {:>9.0} {:>6.1} MB {:>8.0} {:>4.0} %",
            variation.name,
            variation.wall_s,
            variation.speedup,
            mean(|run| run.requests as f64),
            mean(|run| run.write_bytes as f64 / 1e6),
            mean(|run| run.flushes as f64),
            mean(|run| run.busy_share.unwrap_or(0.0) * 100.0),
        )?;
    }
    writeln!(out)?;
    for variation in &series.variations {
        if let Some(power_cut) = &variation.power_cut {
            writeln!(out, "{}: {power_cut}", variation.name)?;
        }
    }
    if arguments.scale != 1.0 {
        writeln!(out, "Scaled: {} of the full amount of work, in the same mix.", arguments.scale)?;
    }
    let first = series.variations.first().and_then(|variation| variation.runs.first());
    if let Some(run) = first {
        writeln!(out, "On the first run's recording: {}", run.verdict)?;
        writeln!(
            out,
            "Seed {}. Next: fonio report {} --html report.html",
            series.seed,
            run.recording.display()
        )?;
    }
    Ok(())
}

/// What was shown, in a sentence.
fn verdict(series: &Series) -> String {
    let Some((first, others)) = series.variations.split_first() else { return String::new() };
    let took = format!("{} on {} took {:.2} s", series.workload, first.name, first.wall_s);
    let shown = |variation: &&VariationResult| {
        variation.difference.as_ref().is_some_and(|difference| difference.answer == Answer::Lower)
    };
    let best = |safe: bool| {
        others
            .iter()
            .filter(shown)
            .filter(|variation| !safe || variation.safe)
            .max_by(|a, b| a.speedup.total_cmp(&b.speedup))
    };
    let once = series.variations.iter().any(|variation| variation.runs.len() < 2);
    match (best(true), others.is_empty()) {
        (_, true) => format!("{took}."),
        _ if once => format!("{took}; with one run of each no difference can be shown (--repeat 3)."),
        (Some(variation), _) => format!(
            "{took}; {} is {:.2} times as fast as {} ({:.2} s).",
            variation.name,
            variation.speedup,
            variation.compared_with.as_deref().unwrap_or(&first.name),
            variation.wall_s
        ),
        (None, _) if best(false).is_some() => {
            format!("{took}; only what a power cut can destroy was shown to be faster.")
        }
        _ => format!("{took}; nothing that was tried was shown to be faster."),
    }
}

#[cfg(test)]
mod tests {
    use fonio_analysis::{Difference, Estimate};

    use super::*;

    fn result(name: &str, safe: bool, times: &[f64], first: &[f64]) -> VariationResult {
        let (own, base) = (Estimate::of_repeats(times).unwrap(), Estimate::of_repeats(first).unwrap());
        let run = |wall_s: &f64| fonio_experiment::RunFigures {
            wall_s: *wall_s,
            think_s: 0.0,
            requests: 0,
            read_bytes: 0,
            write_bytes: 0,
            sequential_write_bytes: 0,
            flushes: 0,
            sync_write_share: None,
            busy_share: None,
            verdict: String::new(),
            valid: true,
            recording: PathBuf::new(),
        };
        VariationResult {
            name: name.to_owned(),
            compared_with: Some("card".to_owned()),
            power_cut: None,
            safe,
            runs: times.iter().map(run).collect(),
            wall_s: own.value,
            wall_s_half: own.half_interval(),
            speedup: base.value / own.value,
            difference: Some(Difference::between(Some(base), Some(own))),
        }
    }

    #[test]
    fn verdicts() {
        let base = [10.0, 10.1, 9.9];
        let of = |others: Vec<VariationResult>| {
            let mut variations = vec![result("card", true, &base, &base)];
            variations.extend(others);
            verdict(&Series { workload: "web".to_owned(), scale: 1.0, seed: 1, variations })
        };
        assert_eq!(of(vec![]), "web on card took 10.00 s.");
        let (fast, unsafe_fast) = ([5.0, 5.1, 4.9], [2.0, 2.1, 1.9]);
        assert_eq!(
            of(vec![result("a", true, &fast, &base), result("b", false, &unsafe_fast, &base)]),
            "web on card took 10.00 s; a is 2.00 times as fast as card (5.00 s)."
        );
        assert_eq!(
            of(vec![result("b", false, &unsafe_fast, &base)]),
            "web on card took 10.00 s; only what a power cut can destroy was shown to be faster."
        );
        assert_eq!(
            of(vec![result("c", true, &base, &base)]),
            "web on card took 10.00 s; nothing that was tried was shown to be faster."
        );
        assert!(of(vec![result("c", true, &[5.0], &base)]).contains("--repeat 3"));
    }
}
