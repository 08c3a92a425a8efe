//! Implements `fonio launch --in android`: launches an app of a phone repeatedly, in one trace.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use fonio_analysis::waits::uninterruptible::AppLaunch;
use fonio_android::{Component, Phone, StartFrom, Started, capture};
use fonio_core::{Nanos, Unit};
use fonio_system::progress::{Done, Progress};
use serde::Serialize;
use tempfile::NamedTempFile;

use super::{BEGINS, LONGEST, connect, import};
use crate::cli::run::{Launch, Runs, StartState};
use crate::cli::{Android, FilterArgs, Reading};
use crate::commands::report;
use crate::exit::Exit;
use crate::results::{RESULTS, results_directory};
use crate::{output, signals};

/// The launches of an app.
#[derive(Debug, Serialize)]
struct Launches {
    phone: String,
    app: String,
    start: &'static str,
    recording: PathBuf,
    launches: Vec<OneLaunch>,
}

/// One launch. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct OneLaunch {
    /// The time until the first frame, by `am start -W`.
    total_ms: Option<f64>,
    /// The state from which Android says that it launched.
    state: Option<String>,
    dropped_caches: bool,
    /// The time of the launch by the marks in the trace.
    traced_ms: Option<f64>,
    /// The waits of the app's UI thread: I/O by the kernel's count, other waits, and waits of unknown kind.
    io_ms: Option<f64>,
    other_ms: Option<f64>,
    unknown_ms: Option<f64>,
    /// The function of the kernel in which it waited longest.
    function: Option<String>,
}

impl OneLaunch {
    fn of(started: &Started, traced: Option<&AppLaunch>) -> OneLaunch {
        let ms = |time: Nanos| time.0 as f64 / 1e6;
        let ui = traced.and_then(|launch| launch.threads.iter().find(|thread| thread.is_ui));
        OneLaunch {
            total_ms: started.total.map(|total| total.as_secs_f64() * 1e3),
            state: started.state.clone(),
            dropped_caches: started.dropped_caches,
            traced_ms: traced.map(|launch| ms(launch.duration_ns)),
            io_ms: ui.map(|thread| ms(thread.time.io_ns)),
            other_ms: ui.map(|thread| ms(thread.time.not_io_ns)),
            unknown_ms: ui.map(|thread| ms(thread.time.unknown_ns)),
            function: ui.and_then(|thread| thread.function.clone()),
        }
    }
}

/// Implements `fonio launch --in android`: launches an app repeatedly, in one trace.
pub fn run(place: &Android, arguments: &Launch) -> Result<Exit> {
    let at = &arguments.setup;
    let [component] = &arguments.command[..] else {
        bail!("name only the activity to launch: `fonio launch --in android -- com.example/.Main`")
    };
    if let Some(option) = not_on_a_phone(arguments) {
        bail!("an app of a phone is launched as it is there: leave out {option}")
    }
    let component: Component = component.to_string_lossy().parse().map_err(anyhow::Error::msg)?;
    let Runs::Number(runs) = at.runs.unwrap_or_default() else {
        bail!("--runs auto needs a workload; give a number, such as --runs 10")
    };
    let (from, start) = match arguments.start.unwrap_or(StartState::Cold) {
        StartState::Cold => (StartFrom::Cold, "cold"),
        StartState::Warm => (StartFrom::Warm, "warm"),
        StartState::Hot => (StartFrom::Hot, "hot"),
    };
    let stop = signals::watch()?;
    let (adb, phone) = connect(place)?;
    fonio_android::prepare(&adb, &component, from)?;
    let trace = trace_file()?;
    let shown = Progress::phase(format!("Launching {component}"));
    let enough = AtomicBool::new(false);
    let (captured, started) = std::thread::scope(|scope| {
        let captured = scope.spawn(|| capture(&adb, &phone, LONGEST, trace.path(), &enough));
        // The trace begins before the first launch.
        std::thread::sleep(BEGINS);
        let mut started = Vec::new();
        let mut outcome = Ok(());
        for run in 0..runs {
            if stop.load(Ordering::Relaxed) || captured.is_finished() {
                break;
            }
            shown.set(format!("Launching {component}"), Done::Steps(u64::from(run), u64::from(runs)));
            match fonio_android::launch(&adb, &phone, &component, from) {
                Ok(one) => started.push(one),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        enough.store(true, Ordering::Relaxed);
        let captured = captured.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (captured, outcome.map(|()| started))
    });
    drop(shown);
    let started = started?;
    captured?;
    stop.store(false, Ordering::Relaxed);
    let out = results_directory(at.out.as_deref(), RESULTS)?.join("recording");
    import_or_keep(trace, &phone, &out, false, &stop)?;
    let explained = report::explain(
        std::slice::from_ref(&out),
        &Reading::default(),
        &FilterArgs::default(),
        &stop,
        None,
    )?;
    let traced = explained.analysis.uninterruptible.map(|found| found.launches).unwrap_or_default();
    let of_app: Vec<&AppLaunch> =
        traced.iter().filter(|launch| launch.package == component.package()).collect();
    // Without a launch in the trace for each launch by `am`, they cannot be told apart.
    let matched = of_app.len() == started.len();
    let launches: Vec<OneLaunch> = (started.iter().enumerate())
        .map(|(run, one)| OneLaunch::of(one, of_app.get(run).filter(|_| matched).copied()))
        .collect();
    let document =
        Launches { phone: phone.name(), app: component.to_string(), start, recording: out, launches };
    if at.json { output::json(&document) } else { show(&document, of_app.len()) }
}

/// Returns an option that was given and has no meaning on a phone.
fn not_on_a_phone(arguments: &Launch) -> Option<&'static str> {
    let at = &arguments.setup;
    let given = [
        (!at.on.is_empty(), "--on"),
        (!arguments.copy.is_empty(), "--copy"),
        (arguments.warmup.is_some(), "--warmup (`--start warm` launches an app that runs)"),
        (arguments.until_idle.is_some(), "--until-idle"),
        (arguments.show_output, "--show-output"),
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
    ];
    given.into_iter().find_map(|(is_given, option)| is_given.then_some(option))
}

fn show(document: &Launches, traced: usize) -> Result<Exit> {
    let mut out = output::screen();
    let Launches { app, start, launches, .. } = document;
    let figure = |value: Option<f64>| value.map_or("unknown".to_owned(), |ms| Unit::S.format(ms / 1e3));
    let median = |of: fn(&OneLaunch) -> Option<f64>| {
        let mut values: Vec<f64> = launches.iter().filter_map(of).collect();
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then(|| f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]))
    };
    writeln!(
        out,
        "A {start} launch of {app} took {} (median of {}, by `am start -W`). In this time, its UI thread was blocked in the \
         kernel: {} counted as I/O, {} not counted, {} unknown (medians).",
        figure(median(|one| one.total_ms)),
        launches.len(),
        figure(median(|one| one.io_ms)),
        figure(median(|one| one.other_ms)),
        figure(median(|one| one.unknown_ms)),
    )?;
    if traced != launches.len() {
        writeln!(
            out,
            "The trace has {traced} launches of this app, and `am` was called {} times, so their waits are not known.",
            launches.len()
        )?;
    }
    if *start == "cold" && launches.iter().any(|one| !one.dropped_caches) {
        writeln!(
            out,
            "The phone did not drop the page cache before each launch, so less may have been read than after a reboot."
        )?;
    }
    writeln!(
        out,
        "\n{:>6}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  Mostly in",
        "Launch", "By am", "By trace", "I/O", "Other", "Unknown"
    )?;
    for (number, one) in launches.iter().enumerate() {
        writeln!(
            out,
            "{:>6}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {}",
            number + 1,
            figure(one.total_ms),
            figure(one.traced_ms),
            figure(one.io_ms),
            figure(one.other_ms),
            figure(one.unknown_ms),
            one.function.as_deref().unwrap_or("–")
        )?;
    }
    writeln!(out, "\nNext: fonio report {}", document.recording.display())?;
    Ok(if launches.is_empty() { Exit::NotValid } else { Exit::Fine })
}

fn trace_file() -> Result<NamedTempFile> {
    let file = tempfile::Builder::new().prefix("fonio-phone-").suffix(".pftrace").tempfile();
    file.context("cannot create a temporary file for the trace; name a folder with TMPDIR=/folder")
}

/// Writes the recording of a trace. A trace that cannot be read is kept.
fn import_or_keep(
    trace: NamedTempFile,
    phone: &Phone,
    out: &Path,
    overwrite: bool,
    stop: &AtomicBool,
) -> Result<u64> {
    match import(trace.path(), phone, &[], out, overwrite, stop) {
        Ok(requests) => Ok(requests),
        Err(error) if !stop.load(Ordering::Relaxed) => {
            let (_, kept) = trace.keep().context("cannot keep the trace")?;
            bail!("{error:#}; the trace itself is kept: {}", kept.display())
        }
        Err(error) => Err(error),
    }
}
