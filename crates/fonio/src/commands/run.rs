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
use fonio_core::ByteCount;
use fonio_emulator::Fault;
use fonio_experiment::{
    Analysed, Arm, Beside, Candidate, Combination, CommandOptions, ExperimentError, Matrix, MdRaid0, Replay,
    Roles, Rounds, RunOptions, Series, Setup, Storage, Variation, do_task, document, fastest, replay,
    run_command_series, run_series, serve_http, start_task, variations,
};
use fonio_host::{Confirmation, Ledger, Limits};
use fonio_report::Document;
use fonio_system::say;
use fonio_workload::definition::{Workload, shipped};

use crate::cli::Colour;
use crate::cli::run::{Fix, Repeat, Run, SetupArgs};
use crate::commands::bench_target::check_profile;
use crate::commands::{fix, kernel, lab, launch, model};
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
        /// Replay file-system calls, not the I/O of the disk.
        #[arg(long)]
        calls: bool,
        /// Without pauses.
        #[arg(long)]
        fast: bool,
        /// Write what was done into this file.
        #[arg(long)]
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
        Role::Replay { recording, file, calls, fast, result } => {
            let done = replay::plan(recording, what(*calls))?.replay(file, *fast)?;
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
    if arguments.launch.launch {
        return launch::run(arguments, colour);
    }
    let in_model = arguments.setup.on.iter().any(|place| place.starts_with(model::PREFIX));
    match &arguments.recording {
        Some(recording) if in_model => return model::run(recording, arguments, colour),
        Some(recording) => return replay_recording(recording, arguments, colour),
        None => ensure!(
            !in_model,
            "--on {}… needs --recording DIR: only recordings are replayed in models",
            model::PREFIX
        ),
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
    let tried = Tried { candidates: &arguments.fix, refusal: Refusal::Error, best: None };
    measure(&workload, &setup, &tried, colour)
}

/// Replays the I/O of a recording in each setup, and with each fix.
fn replay_recording(recording: &Path, arguments: &Run, colour: Colour) -> Result<Exit> {
    let at = &arguments.setup;
    no_beside(at)?;
    let stop = begin()?;
    let recording = fs::canonicalize(recording)
        .with_context(|| format!("cannot find the recording {}", recording.display()))?;
    let plan = replay::plan(&recording, what(arguments.calls))?;
    tell(&plan);
    let setups = setups(at)?;
    let arms = variations(&setups, &arguments.fix, None, &Setup::check_kernel, &mut Err)
        .map_err(|error| kernel::explain(error, setups.iter().map(|(_, setup)| setup)))?;
    let roles = roles()?;
    let options = CommandOptions {
        command: &[],
        replay: Some(Replay { recording: &recording, plan: &plan, fast: arguments.fast }),
        before_each: None,
        seed: at.seed,
        roles: &roles,
        stop: &stop,
    };
    run_and_publish(&arms, &options, at, colour)
}

fn what(calls: bool) -> replay::What {
    if calls { replay::What::Calls } else { replay::What::Blocks }
}

/// Says what is replayed, and what is not.
fn tell(plan: &replay::Plan) {
    let room = output::bytes(plan.room());
    match plan {
        replay::Plan::Blocks(plan) => {
            let (accesses, threads) = (plan.len(), plan.threads.len());
            say!("Replaying {accesses} reads, writes and flushes of {threads} threads on {room} …");
            if plan.left_out + plan.of_other_devices > 0 {
                say!(
                    "left out: {} discards and other operations, {} accesses of other devices",
                    plan.left_out,
                    plan.of_other_devices
                );
            }
        }
        replay::Plan::Calls(plan) => {
            let (calls, files, threads) = (plan.len(), plan.files.len(), plan.threads.len());
            say!("Replaying {calls} calls on {files} files, at most {threads} at a time, in {room} …");
            for (reason, count) in &plan.left_out {
                let why = match reason {
                    replay::calls::LeftOut::Failed => "failed in the recording",
                    replay::calls::LeftOut::Elsewhere => {
                        "are on other file systems than most of its writes and syncs"
                    }
                    replay::calls::LeftOut::Unknown => {
                        "have a file or a place that the recording does not show"
                    }
                    replay::calls::LeftOut::Kind => "are of a kind that is not replayed, such as msync",
                };
                say!("left out: {count} calls that {why}");
            }
        }
    }
}

/// Runs a series of commands, and shows it.
fn run_and_publish(
    arms: &[Arm<Variation>],
    options: &CommandOptions<'_>,
    at: &SetupArgs,
    colour: Colour,
) -> Result<Exit> {
    let out = results_directory(at.out.as_deref(), RESULTS)?;
    let mut estimate = Estimate::new();
    let series = run_command_series(arms, rounds(at.repeat), options, &out, &mut |trial| {
        estimate.announce(trial, trial.name);
    });
    let (series, first) = series.inspect_err(|_| {
        // Removes the folder if no run ended; fails if it holds a recording.
        let _ = fs::remove_dir(&out);
    })?;
    publish(&series, &first, at, &out, colour)
}

/// Measures fixes on a workload.
pub fn prove(name: &str, arguments: &Fix, colour: Colour) -> Result<Exit> {
    if let Some(kernel) = &arguments.setup.guest {
        return lab::run_setup(kernel, &arguments.setup);
    }
    let workload = &Workload::load(name)?;
    let best = arguments.best;
    if let Some(candidate) = &arguments.name {
        let candidates = std::slice::from_ref(candidate);
        return measure(
            workload,
            &arguments.setup,
            &Tried { candidates, refusal: Refusal::Error, best },
            colour,
        );
    }
    let candidates: Vec<Candidate> = fix::wanted(arguments).map(Candidate::Listed).collect();
    let tried = Tried { candidates: &candidates, refusal: Refusal::LeaveOut, best };
    measure(workload, &arguments.setup, &tried, colour)
}

/// Measures a fix on a command of the user.
pub fn prove_command(arguments: &Fix, colour: Colour) -> Result<Exit> {
    let at = &arguments.setup;
    no_beside(at)?;
    ensure!(
        at.guest.is_none(),
        "a command cannot be proved in a guest yet; name a workload, or leave out --in"
    );
    ensure!(
        arguments.prove.as_deref().is_none_or(str::is_empty),
        "name either a workload after --prove or a command after `--`"
    );
    let candidates: Vec<Candidate> = match &arguments.name {
        Some(candidate) => vec![candidate.clone()],
        None => bail!(
            "name the fix to prove on the command, such as `fonio fix bfq --prove --on /mnt/sd -- COMMAND`"
        ),
    };
    ensure!(
        at.on != [SetupArgs::ON_DEFAULT],
        "name a directory on the disk to change with --on, such as --on /mnt/sd (or --on ./ for the one here)"
    );
    let stop = begin()?;
    let setups = setups(at)?;
    let possible = &Setup::check_kernel;
    let arms = variations(&setups, &candidates, None, possible, &mut Err)
        .map_err(|error| kernel::explain(error, setups.iter().map(|(_, setup)| setup)))?;
    let roles = roles()?;
    let options = CommandOptions {
        command: &arguments.arguments,
        replay: None,
        before_each: arguments.before_each.as_deref(),
        seed: at.seed,
        roles: &roles,
        stop: &stop,
    };
    run_and_publish(&arms, &options, at, colour)
}

/// Refuses a workload beside a command.
pub(super) fn no_beside(arguments: &SetupArgs) -> Result<()> {
    ensure!(
        arguments.beside.is_none(),
        "--beside needs a workload of the list, not a command: start what should run beside it yourself"
    );
    Ok(())
}

/// The fixes that are compared with the plain setup.
struct Tried<'a> {
    candidates: &'a [Candidate],
    refusal: Refusal,
    /// Measure only this many of the fixes, the fastest.
    best: Option<usize>,
}

/// What to do with a fix that does not apply to a setup.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
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

    fn tell(&self) {
        for (reason, fixes) in &self.0 {
            let colon = if fixes.is_empty() { "" } else { ": " };
            say!("left out: {}{colon}{reason}", fixes.join(", "));
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

/// `--repeat auto`: gains known within 25 percent, for three minutes at most.
const AUTO_FACTOR: f64 = 1.25;
const AUTO_BUDGET: Duration = Duration::from_secs(180);

fn measure(workload: &Workload, arguments: &SetupArgs, tried: &Tried<'_>, colour: Colour) -> Result<Exit> {
    let stop = begin()?;
    let setups = setups(arguments)?;
    let mut left_out = LeftOut::default();
    let mut refused = |error| match tried.refusal {
        Refusal::Error => Err(error),
        Refusal::LeaveOut => {
            left_out.add(error);
            Ok(())
        }
    };
    let planned = variations(&setups, tried.candidates, Some(workload), &Setup::check_kernel, &mut refused);
    left_out.tell();
    let mut arms = planned.map_err(|error| kernel::explain(error, setups.iter().map(|(_, setup)| setup)))?;
    let roles = roles()?;
    let other = arguments.beside.as_deref().map(Workload::load).transpose()?;
    let options = RunOptions {
        workload,
        scale: arguments.scale,
        beside: other.as_ref().map(|workload| Beside { workload, scale: arguments.beside_scale }),
        pace: arguments.pace,
        write_back: arguments.write_back,
        seed: arguments.seed,
        roles: &roles,
        stop: &stop,
    };
    let out = results_directory(arguments.out.as_deref(), RESULTS)?;
    let run = |arms: &[Arm<Variation>], rounds: Rounds, out: &Path| {
        let mut estimate = Estimate::new();
        run_series(arms, rounds, &options, out, &mut |trial| {
            estimate.announce(trial, &format!("{} on {}", workload.name, trial.name));
        })
    };
    let rounds = rounds(arguments.repeat);
    if let Some(best) = tried.best {
        say!("Running every fix once to find the {best} fastest:");
        let (once, _) = run(&arms, Rounds::Fixed(1), &out.join("once"))?;
        arms = fastest(&arms, &once, best);
        match arguments.repeat {
            Repeat::Times(times) => say!("Measuring the fastest, {times} times each:"),
            Repeat::Auto => say!("Measuring the fastest, at first three times each:"),
        }
    }
    let (series, first) = run(&arms, rounds, &out).inspect_err(|_| {
        // Removes the folder if no run began; fails if it holds a recording.
        let _ = fs::remove_dir(&out);
    })?;
    publish(&series, &first, arguments, &out, colour)
}

fn rounds(repeat: Repeat) -> Rounds {
    match repeat {
        Repeat::Times(times) => Rounds::Fixed(times),
        Repeat::Auto => Rounds::Pilot { factor: AUTO_FACTOR, budget: AUTO_BUDGET },
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
    let matrix = Matrix {
        places: &arguments.on,
        filesystems: &arguments.filesystem,
        schedulers: &arguments.scheduler,
    };
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

fn list_workloads() -> Result<Exit> {
    let mut out = output::screen();
    for workload in shipped() {
        writeln!(out, "{:<18} {}", workload.name, Workload::load(workload.name)?.title)?;
    }
    writeln!(out, "{MOBIBENCH:<18} Mobibench, with its own options after `--`")?;
    writeln!(out, "\nNext: `fonio run NAME --on FOLDER`, or `--on PROFILE` (`fonio device list`) as root.")?;
    Ok(Exit::Fine)
}
