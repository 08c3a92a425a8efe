//! `fonio run`: workloads on devices, with and without fixes.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail, ensure};
use fonio_core::ByteCount;
use fonio_emulator::Fault;
use fonio_experiment::{
    Analysed, Arm, Background, Candidate, Combination, CommandOptions, ExperimentError, Matrix, MdRaid0,
    Roles, Rounds, RunOptions, Series, Setup, Storage, Variation, do_task, document, fastest, replay,
    run_command_series, run_series, serve_http, start_task, variations,
};
use fonio_host::{Confirmation, Ledger, Limits};
use fonio_report::Document;
use fonio_system::say;
use fonio_workload::definition::{Workload, shipped};
use serde::Serialize;

use crate::cli::Colour;
use crate::cli::run::{Layer, Run, Runs, SetupArgs, WorkArgs};
use crate::commands::bench_target::check_profile;
use crate::commands::replay::layer as engine_layer;
use crate::commands::{kernel, lab, model};
use crate::exit::Exit;
use crate::output;
use crate::progress::Estimate;
use crate::signals;

/// The workload that accepts Mobibench's options.
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
    /// Replay a recording on a file.
    Replay {
        /// The recording.
        recording: PathBuf,
        /// The file or folder that was prepared for it.
        file: PathBuf,
        /// Replay this layer of the recording.
        #[arg(long, value_enum, default_value_t = Layer::Blocks)]
        layer: Layer,
        /// Replay without pauses, as fast as possible.
        #[arg(long)]
        fast: bool,
        /// Write what was done into this file.
        #[arg(long, value_name = "FILE")]
        result: PathBuf,
    },
    /// Start a prepared workload, and end with it.
    Start {
        /// Where it waits.
        socket: PathBuf,
    },
}

/// Runs a role.
pub fn play(role: &Role) -> Result<Exit> {
    match role {
        Role::Http { address } => serve_http(*address)?,
        Role::Task { file } => do_task(file)?,
        Role::Replay { recording, file, layer, fast, result } => {
            let done = replay::sequence(recording, engine_layer(*layer))?.replay(file, *fast)?;
            done.save(result)?;
            say!("replayed {} accesses, {}", done.accesses, output::bytes(done.bytes));
            if done.short_reads > 0 {
                say!("{} reads got less than in the recording", done.short_reads);
            }
        }
        Role::Start { socket } => start_task(socket)?,
    }
    Ok(Exit::Fine)
}

/// Runs a workload.
pub fn run(arguments: &Run, colour: Colour) -> Result<Exit> {
    if let Some(kernel) = &arguments.setup.guest {
        return lab::run_setup(kernel, &arguments.setup);
    }
    if let Some(place) = arguments.setup.on.iter().find(|place| place.starts_with(model::PREFIX)) {
        bail!(
            "{place} is a model, in which only recordings are replayed: `fonio replay RECORDING --on {place}`"
        );
    }
    let mut setup = Cow::Borrowed(&arguments.setup);
    let workload = match (&arguments.mobigen, arguments.workload.as_deref()) {
        (Some(trace), _) => {
            let trace = std::fs::canonicalize(trace)
                .with_context(|| format!("cannot find the trace {}", trace.display()))?;
            fonio_workload::mobigen::workload(&trace)
        }
        (None, None) => return list_workloads(setup.json),
        (None, Some(MOBIBENCH)) => {
            let words: Vec<_> = arguments.arguments.iter().map(|word| word.to_string_lossy()).collect();
            let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
            let parsed = fonio_workload::mobibench::parse(&words)?;
            if let Some(directory) = parsed.directory {
                if !setup.on.is_empty() {
                    bail!("-p and --on both set the directory of Mobibench: use only one of them");
                }
                setup.to_mut().on = vec![directory];
            }
            parsed.workload
        }
        (None, Some(name)) => Workload::load(name)?,
    };
    if !arguments.arguments.is_empty() && arguments.workload.as_deref() != Some(MOBIBENCH) {
        bail!(
            "only the workload {MOBIBENCH} takes arguments after `--`; to run a command, use `fonio launch -- CMD`"
        );
    }
    let candidates = arguments.fix.as_ref().map_or(&[][..], |fixes| &fixes.0);
    let tried = Tried { candidates, refusal: Refusal::Error, best: None, verbose: false };
    measure(&workload, &setup, &arguments.work, &tried, colour)
}

/// Runs a series of commands, and shows it.
pub(super) fn run_and_publish(
    arms: &[Arm<Variation>],
    options: &CommandOptions<'_>,
    at: &SetupArgs,
    colour: Colour,
) -> Result<Exit> {
    let out = results_directory(at.out.as_deref(), RESULTS)?;
    let mut estimate = Estimate::new();
    let series = run_command_series(arms, rounds(at.runs), options, &out, &mut |measurement| {
        estimate.announce(measurement, measurement.name);
    });
    let (series, first) = series.inspect_err(|_| {
        // Removes the folder if no run ended; fails if it holds a recording.
        let _ = fs::remove_dir(&out);
    })?;
    publish(&series, &first, at, &out, colour)
}

/// The fixes that are compared with the plain setup.
pub(super) struct Tried<'a> {
    pub candidates: &'a [Candidate],
    pub refusal: Refusal,
    /// Measure only this many of the fixes, the fastest.
    pub best: Option<usize>,
    /// Name each fix that is left out, with the reason.
    pub verbose: bool,
}

impl Tried<'_> {
    /// The setups, each also with each fix that can be tried on it. Says which fixes are left out.
    pub fn arms(
        &self,
        setups: &[(String, Setup)],
        workload: Option<&Workload>,
    ) -> Result<Vec<Arm<Variation>>> {
        let mut left_out = LeftOut::default();
        let mut refused = |error| match self.refusal {
            Refusal::Error => Err(error),
            Refusal::LeaveOut => {
                left_out.add(error);
                Ok(())
            }
        };
        let planned = variations(setups, self.candidates, workload, &Setup::check_kernel, &mut refused);
        left_out.tell(self.verbose);
        planned.map_err(|error| kernel::explain(error, setups.iter().map(|(_, setup)| setup)))
    }
}

/// The treatment of a fix that does not apply to a setup.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Error,
    LeaveOut,
}

/// The fixes that are not measured, by reason.
#[derive(Default)]
struct LeftOut(Vec<(String, Vec<String>)>);

impl LeftOut {
    fn add(&mut self, error: ExperimentError) {
        let (reason, fix) = match error {
            ExperimentError::NotApplicable { fix, reason } => (reason, Some(fix)),
            other => (other.to_string(), None),
        };
        match self.0.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, fixes)) => fixes.extend(fix),
            None => self.0.push((reason, fix.into_iter().collect())),
        }
    }

    fn tell(&self, verbose: bool) {
        if verbose {
            for (reason, fixes) in &self.0 {
                let colon = if fixes.is_empty() { "" } else { ": " };
                say!("left out: {}{colon}{reason}", fixes.join(", "));
            }
        } else if !self.0.is_empty() {
            let fixes: BTreeSet<&String> = self.0.iter().flat_map(|(_, fixes)| fixes).collect();
            say!("{} fixes cannot be tried here; -v lists the reasons", fixes.len());
        }
    }
}

/// Returns the flag that SIGINT and SIGTERM set. Cleans up after runs that were killed.
pub(super) fn begin() -> Result<Arc<AtomicBool>> {
    let stop = signals::watch()?;
    recover()?;
    Ok(stop)
}

/// Cleans up after runs that were killed.
pub(super) fn recover() -> Result<()> {
    let recovery = Ledger::recover(&Ledger::default_dir())?;
    for undone in &recovery.undone {
        say!("Cleaned up after an interrupted run: {undone}");
    }
    for failed in &recovery.failed {
        say!("warning: after an interrupted run, {failed}");
    }
    Ok(())
}

/// `--runs auto`: gains known within 25 percent.
const AUTO_FACTOR: f64 = 1.25;

/// Measures a workload in each setup, and with each fix.
pub(super) fn measure(
    workload: &Workload,
    arguments: &SetupArgs,
    work: &WorkArgs,
    tried: &Tried<'_>,
    colour: Colour,
) -> Result<Exit> {
    let stop = begin()?;
    let mut arms = tried.arms(&setups(arguments)?, Some(workload))?;
    let roles = roles()?;
    let other = work.background.as_deref().map(Workload::load).transpose()?;
    let background = other.as_ref().map(|workload| Background { workload, scale: work.background_scale });
    let options = RunOptions {
        workload,
        scale: work.scale,
        background,
        pace: work.pace,
        write_back: work.write_back,
        seed: arguments.seed,
        roles: &roles,
        stop: &stop,
    };
    let out = results_directory(arguments.out.as_deref(), RESULTS)?;
    let run = |arms: &[Arm<Variation>], rounds: Rounds, out: &Path| {
        let mut estimate = Estimate::new();
        run_series(arms, rounds, &options, out, &mut |measurement| {
            estimate.announce(measurement, &format!("{} on {}", workload.name, measurement.name));
        })
    };
    let rounds = rounds(arguments.runs);
    if let Some(best) = tried.best {
        say!("Running every fix once to find the {best} fastest:");
        let (once, _) = run(&arms, Rounds::Fixed(1), &out.join("once"))?;
        arms = fastest(&arms, &once, best);
        match arguments.runs {
            Runs::Number(number) => say!("Measuring the fastest, {number} times each:"),
            Runs::Auto(_) => say!("Measuring the fastest, at first three times each:"),
        }
    }
    let (series, first) = run(&arms, rounds, &out).inspect_err(|_| {
        // Removes the folder if no run began; fails if it holds a recording.
        let _ = fs::remove_dir(&out);
    })?;
    publish(&series, &first, arguments, &out, colour)
}

fn rounds(runs: Runs) -> Rounds {
    match runs {
        Runs::Number(number) => Rounds::Fixed(number),
        Runs::Auto(budget) => Rounds::Pilot { factor: AUTO_FACTOR, budget },
    }
}

/// Writes the summary and the report of a series, and shows it.
fn publish(
    series: &Series,
    first: &Analysed,
    arguments: &SetupArgs,
    out: &Path,
    colour: Colour,
) -> Result<Exit> {
    let text = summarise(series, out)?;
    let page = page(arguments, out);
    let explained = first.document();
    // The terminal shows only the findings and the fixes; the HTML page also has the other questions.
    let short = Document { sections: Vec::new(), provenance: Vec::new(), ..explained.clone() };
    output::write_html(&document(series, Some(explained)), Some(&page))?;
    if arguments.json {
        writeln!(io::stdout(), "{text}")?;
    } else {
        output::show_on_terminal(&document(series, Some(short)), colour)?;
        writeln!(output::screen(), "\nFull report with charts: {}", page.display())?;
    }
    let valid = series.variations.iter().flat_map(|variation| &variation.runs).all(|run| run.valid);
    Ok(if valid { Exit::Fine } else { Exit::NotValid })
}

/// Returns the path of the HTML report.
pub(super) fn page(arguments: &SetupArgs, out: &Path) -> PathBuf {
    arguments.html.clone().unwrap_or_else(|| out.join("report.html"))
}

/// The default name of a series' results directory.
pub(super) const RESULTS: &str = "fonio-runs";

/// Creates a directory that no other series uses: the one that the user named, or the first free one of `default`,
/// `default-2`, …
pub(super) fn results_directory(named: Option<&Path>, default: &str) -> Result<PathBuf> {
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
        let name = if number == 1 { default.to_owned() } else { format!("{default}-{number}") };
        // Creating the directory claims it: two series that start at the same time get different ones.
        match fs::create_dir(&name) {
            Ok(()) => return Ok(name.into()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot create {name}")),
        }
    }
    unreachable!("a directory holds fewer than 2^32 names")
}

/// Writes `summary.json` and returns its text.
pub(super) fn summarise(series: &impl serde::Serialize, out: &Path) -> Result<String> {
    let summary = out.join("summary.json");
    let text = serde_json::to_string_pretty(series)?;
    std::fs::write(&summary, &text).with_context(|| format!("cannot write {}", summary.display()))?;
    Ok(text)
}

/// Returns every combination of the places, file systems and schedulers, with its name.
pub(super) fn setups(arguments: &SetupArgs) -> Result<Vec<(String, Setup)>> {
    let places = arguments.places();
    let matrix =
        Matrix { places: &places, filesystems: &arguments.filesystem, schedulers: &arguments.scheduler };
    let combinations = matrix.combinations()?.into_iter();
    combinations.map(|of| Ok((of.name.clone(), setup(&of, arguments)?))).collect()
}

fn setup(of: &Combination<'_>, arguments: &SetupArgs) -> Result<Setup> {
    let place = of.place;
    let path = Path::new(place);
    let kind = std::fs::metadata(path).ok().map(|metadata| metadata.file_type());
    let storage = match kind {
        Some(kind) if kind.is_dir() => Storage::Directory(path.to_owned()),
        Some(kind) if kind.is_block_device() => {
            let twice = arguments.erase.as_deref() == Some(path);
            let confirmation = if twice { Confirmation::NamedTwice } else { Confirmation::NamedOnce };
            // Checked before anything is written: each run leaves its file system on the device to the next.
            fonio_host::check_empty(path, confirmation)?;
            Storage::Device { path: path.to_owned(), confirmation: Confirmation::NamedTwice }
        }
        // An invalid profile is reported before anything is begun.
        _ => match MdRaid0::parse(place).transpose()? {
            Some(array) => {
                for (profile, size) in array.sized(ByteCount(arguments.size)) {
                    fonio_emulator::profile::device(profile, size, arguments.seed)
                        .with_context(|| format!("{place} cannot be made"))?;
                }
                Storage::MdRaid0(array)
            }
            None => {
                check_profile(place, ByteCount(arguments.size), arguments.seed)?;
                Storage::Profile(place.to_owned())
            }
        },
    };
    for text in &arguments.fault {
        text.parse::<Fault>()?;
    }
    let emulated = matches!(storage, Storage::Profile(_) | Storage::MdRaid0(_));
    ensure!(
        emulated || (arguments.fault.is_empty() && arguments.dilate == 1.0),
        "--fault and --dilate need an emulated device; {place} is a real one"
    );
    let in_folder = matches!(storage, Storage::Directory(_));
    let chosen = !arguments.mount_options.is_empty()
        || of.filesystem.is_some()
        || of.scheduler.is_some()
        || arguments.full.is_some();
    if in_folder && chosen {
        bail!(
            "a directory keeps its file system and device; --fs, --mount-options, --scheduler and --full need a device or a profile"
        );
    }
    let plain = Setup::on(storage);
    Ok(Setup {
        size: ByteCount(arguments.size),
        faults: arguments.fault.clone(),
        filesystem: of.filesystem.unwrap_or(plain.filesystem),
        mount_options: arguments.mount_options.clone(),
        scheduler: of.scheduler.map(str::to_owned),
        link: arguments.link,
        dilate: arguments.dilate,
        full: arguments.full,
        limits: Limits { cpu: arguments.cpu, memory: arguments.memory.map(ByteCount) },
        ..plain
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
        replay: words(&["role", "replay"]),
        mount: words(&["mount", "--foreground"]),
    })
}

/// A workload, for `--json`.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: String,
}

fn list_workloads(as_json: bool) -> Result<Exit> {
    let named = |name| Ok(Listed { name, title: Workload::load(name)?.title });
    let mut workloads: Vec<Listed> =
        shipped().iter().map(|workload| named(workload.name)).collect::<Result<_>>()?;
    let title = "Mobibench, with its own options after `--`".to_owned();
    workloads.push(Listed { name: MOBIBENCH, title });
    let mut out = output::screen_unless(as_json);
    if as_json {
        writeln!(out, "{}", serde_json::to_string_pretty(&workloads)?)?;
        return Ok(Exit::Fine);
    }
    for Listed { name, title } in workloads {
        writeln!(out, "{name:<18} {title}")?;
    }
    writeln!(out, "\nNext: `fonio run NAME --on FOLDER`, or `--on PROFILE` (`fonio device list`) as root.")?;
    Ok(Exit::Fine)
}
