//! Implements `fonio launch --in android`: launches an app of a phone repeatedly, in one trace.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use fonio_analysis::waits::uninterruptible::AppLaunch;
use fonio_android::{Component, StartFrom, Started, Step};
use fonio_core::{Nanos, Unit};
use fonio_system::progress::{Done, Progress};
use serde::Serialize;

use super::{BEGINS, Connected, LONGEST, Recorder};
use crate::cli::run::{Launch, Runs, StartState};
use crate::cli::{Android, FilterArgs, Reading};
use crate::commands::report;
use crate::exit::Exit;
use crate::results::{RESULTS, results_directory};
use crate::{output, signals};

/// The reason for which launches are not recorded by fonio's recorder. Programs write their marks into the kernel's main
/// trace buffer; the recorder has an instance of its own.
const NO_MARKS: &str = "it does not see the marks of Android, which show the launches";

/// The launches of an app.
#[derive(Debug, Serialize)]
struct Launches {
    phone: String,
    app: String,
    start: &'static str,
    /// The recording; null if the phone shows only what its apps did.
    recording: Option<PathBuf>,
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
    let connected = Connected::open(place)?;
    let (adb, phone) = (&connected.adb, &connected.phone);
    fonio_android::prepare(adb, &component, from)?;
    let shown = Progress::phase(format!("Launching {component}"));
    let enough = AtomicBool::new(false);
    let (captured, started) = std::thread::scope(|scope| {
        let (sender, begins) = std::sync::mpsc::channel();
        let (connected, enough) = (&connected, &enough);
        let captured = scope.spawn(move || {
            connected.capture(LONGEST, Recorder::Left(NO_MARKS), enough, &mut |step| {
                if *step == Step::Begins {
                    let _ = sender.send(());
                }
            })
        });
        let mut started = Vec::new();
        let mut outcome = Ok(());
        // The trace begins before the first launch. If the phone allows none, the channel ends.
        let runs = if begins.recv().is_ok() { runs } else { 0 };
        std::thread::sleep(BEGINS);
        for run in 0..runs {
            if stop.load(Ordering::Relaxed) || captured.is_finished() {
                break;
            }
            shown.set(format!("Launching {component}"), Done::Steps(u64::from(run), u64::from(runs)));
            match fonio_android::launch(adb, phone, &component, from) {
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
    let captured = captured?;
    stop.store(false, Ordering::Relaxed);
    let name = phone.name();
    let out = results_directory(at.out.as_deref(), RESULTS)?.join("recording");
    let recording = connected.keep(captured, &out, false, &stop)?.map(|_| out);
    let explain = |recording: &PathBuf| {
        let inputs = std::slice::from_ref(recording);
        report::explain(inputs, &Reading::default(), &FilterArgs::default(), &stop, None)
    };
    let explained = recording.as_ref().map(explain).transpose()?;
    let waits = explained.and_then(|explained| explained.analysis.uninterruptible);
    let traced = waits.map(|found| found.launches).unwrap_or_default();
    let of_app: Vec<&AppLaunch> =
        traced.iter().filter(|launch| launch.package == component.package()).collect();
    // Without a launch in the trace for each launch by `am`, they cannot be told apart.
    let matched = of_app.len() == started.len();
    let launches: Vec<OneLaunch> = (started.iter().enumerate())
        .map(|(run, one)| OneLaunch::of(one, of_app.get(run).filter(|_| matched).copied()))
        .collect();
    let document = Launches { phone: name, app: component.to_string(), start, recording, launches };
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
    if let Some(recording) = &document.recording {
        writeln!(out, "\nNext: fonio report {}", recording.display())?;
    }
    Ok(if launches.is_empty() { Exit::NotValid } else { Exit::Fine })
}
