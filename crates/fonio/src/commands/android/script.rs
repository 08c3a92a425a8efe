//! Implements `fonio run script.toml --in android`: runs a script of actions on a phone, and records it meanwhile.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use fonio_android::{Done, Script, ScriptOptions, Step};
use fonio_core::Unit;
use fonio_system::say;
use serde::Serialize;

use super::{BEGINS, Connected, LONGEST, Recorder};
use crate::cli::Android;
use crate::cli::run::{Run, Runs};
use crate::exit::Exit;
use crate::results::{RESULTS, results_directory};
use crate::{output, signals};

/// The most bytes of a script.
const BYTES_MAX: u64 = 4 << 20;
/// The name of the result next to the recordings.
const RESULT: &str = "actions.json";

/// The result of a script.
#[derive(Debug, Serialize)]
struct Scripted {
    phone: String,
    script: String,
    seed: u64,
    runs: Vec<OneRun>,
}

/// One run of a script.
#[derive(Debug, Serialize)]
struct OneRun {
    /// The recording; null if the phone lets fonio record nothing.
    recording: Option<PathBuf>,
    /// The time of all actions.
    seconds: f64,
    actions: Vec<Action>,
}

/// One action. Times are in seconds since the first action began.
#[derive(Debug, Serialize)]
struct Action {
    at: f64,
    took: f64,
    action: String,
    note: Option<String>,
}

impl From<&Done> for Action {
    fn from(done: &Done) -> Action {
        Action {
            at: done.at.as_secs_f64(),
            took: done.took.as_secs_f64(),
            action: done.action.clone(),
            note: done.note.clone(),
        }
    }
}

/// Runs a script on the phone, as often as the user wants.
pub fn run(place: &Android, arguments: &Run) -> Result<Exit> {
    let at = &arguments.setup;
    let Some(path) = arguments.workload.as_deref().filter(|name| name.ends_with(".toml")) else {
        bail!(
            "on a phone, fonio runs a script of actions; name its file: `fonio run script.toml --in android` \
             (docs/phones.md describes scripts)"
        )
    };
    if let Some(option) = not_on_a_phone(arguments) {
        bail!("a script of a phone is run as it is: leave out {option}")
    }
    let path = Path::new(path);
    let text = fonio_system::regular::read_text(path, BYTES_MAX)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let script = Script::parse(&text, path)?;
    let Runs::Number(runs) = at.runs.unwrap_or(Runs::Number(1)) else {
        bail!("--runs auto needs a workload; give a number, such as --runs 3")
    };
    let stop = signals::watch()?;
    let out = results_directory(at.out.as_deref(), RESULTS)?;
    let mut done = Vec::new();
    let mut phone = String::new();
    let outcome = (1..=runs).try_for_each(|number| {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let connected = Connected::open(place)?;
        phone = connected.phone.name();
        let name = if runs == 1 { "recording".to_owned() } else { format!("recording-{number}") };
        done.push(once(connected, &script, arguments, &out.join(name), &stop)?);
        anyhow::Ok(())
    });
    // Remove the folder if nothing is in it.
    let _ = fs::remove_dir(&out);
    outcome?;
    let document = Scripted { phone, script: script.name, seed: at.seed, runs: done };
    let result = out.join(RESULT);
    fs::write(&result, serde_json::to_vec_pretty(&document)?)
        .with_context(|| format!("cannot write {}", result.display()))?;
    if at.json { output::json(&document) } else { show(&document, &result) }
}

/// Runs the script once, and writes a recording to `out`.
fn once(
    connected: Connected,
    script: &Script,
    arguments: &Run,
    out: &Path,
    stop: &AtomicBool,
) -> Result<OneRun> {
    let options = ScriptOptions { seed: arguments.setup.seed, pace: arguments.work.pace, stop };
    let mut tell = |done: &Done| {
        let note = done.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        say!("{:>7.1} s  {}{note}", done.at.as_secs_f64(), done.action);
    };
    let adb = &connected.adb;
    fonio_android::run_script(adb, script, &script.prepare, options, &mut tell)?;
    let enough = AtomicBool::new(false);
    let (captured, actions) = std::thread::scope(|scope| {
        let (sender, begins) = std::sync::mpsc::channel();
        let (connected, enough) = (&connected, &enough);
        let captured = scope.spawn(move || {
            let recorder = Recorder::Found(arguments.recorder.as_deref());
            connected.capture(LONGEST, recorder, enough, &mut |step| {
                if *step == Step::Begins {
                    let _ = sender.send(());
                }
            })
        });
        // The recording begins before the first action. If the phone allows none, the channel ends.
        let actions = match begins.recv() {
            Ok(()) => {
                std::thread::sleep(BEGINS);
                fonio_android::run_script(adb, script, &script.steps, options, &mut tell).map(Some)
            }
            Err(_) => Ok(None),
        };
        std::thread::sleep(BEGINS);
        enough.store(true, Ordering::Relaxed);
        let captured = captured.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (captured, actions)
    });
    // A script that failed explains itself; a recording without a script is of no use.
    let actions = actions?;
    let captured = captured?;
    let actions = actions.unwrap_or_default();
    let was_stopped = stop.swap(false, Ordering::Relaxed);
    let requests = connected.keep(captured, out, false, stop)?;
    stop.store(was_stopped, Ordering::Relaxed);
    let seconds = actions.iter().map(|done| done.at + done.took).max().unwrap_or_default().as_secs_f64();
    Ok(OneRun {
        recording: requests.map(|_| out.to_owned()),
        seconds,
        actions: actions.iter().map(Action::from).collect(),
    })
}

/// Returns an option that was given and has no meaning for a script.
fn not_on_a_phone(arguments: &Run) -> Option<&'static str> {
    let (at, work) = (&arguments.setup, &arguments.work);
    let given = [
        (!at.on.is_empty(), "--on"),
        (at.erase.is_some(), "--erase"),
        (!at.fault.is_empty(), "--fault"),
        (!at.filesystem.is_empty(), "--fs"),
        (!at.mount_options.is_empty(), "--mount-options"),
        (!at.scheduler.is_empty(), "--scheduler"),
        (at.full.is_some(), "--full"),
        (at.cpu.is_some(), "--cpu"),
        (at.memory.is_some(), "--memory"),
        (at.link.is_some(), "--link"),
        (at.html.is_some(), "--html (`fonio report RECORDING --html FILE` writes the page)"),
        (work.background.is_some(), "--background"),
        ((work.scale - 1.0).abs() > f64::EPSILON, "--scale"),
        (work.write_back, "--write-back"),
        (arguments.fix.is_some(), "--fix"),
        (arguments.mobigen.is_some(), "--mobigen"),
        (!arguments.arguments.is_empty(), "the arguments after --"),
    ];
    given.into_iter().find_map(|(is_given, option)| is_given.then_some(option))
}

fn show(document: &Scripted, result: &Path) -> Result<Exit> {
    let mut out = output::screen();
    for (number, run) in document.runs.iter().enumerate() {
        let count = if document.runs.len() == 1 { String::new() } else { format!(" (run {})", number + 1) };
        writeln!(
            out,
            "{} took {} with seed {}: {} actions{count}.",
            document.script,
            Unit::S.format(run.seconds),
            document.seed,
            run.actions.len()
        )?;
    }
    writeln!(out, "The actions are in {}.", result.display())?;
    for recording in document.runs.iter().filter_map(|run| run.recording.as_ref()) {
        writeln!(out, "Next: fonio report {}", recording.display())?;
    }
    Ok(if document.runs.is_empty() { Exit::NotValid } else { Exit::Fine })
}
