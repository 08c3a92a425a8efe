//! Performs one run: creates a test bed, records the workload on it, and collects the results.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fonio_core::{ByteCount, Mark, Nanos, RowSink, Timestamp};
use fonio_emulator::ServeReport;
use fonio_host::Confined;
use fonio_record::{CommandSetting, Progress, RecordOptions, StopReason, record_with};
use fonio_system::say;
use fonio_workload::{Options, Outcome};

use crate::analysed::Analysed;
use crate::background::{BackgroundFigures, BackgroundWorker, OwnFigures};
use crate::error::ExperimentError;
use crate::filling::write_back;
use crate::held::{Held, Holding};
use crate::rounds::check_stop;
use crate::setup::{Background, Setup};
use crate::task::{Task, TaskResult, TaskWork};
use crate::test_bed::{Roles, TestBed};
use crate::work::{BACKGROUND_SHOWN, DATA, DATA_SHOWN, Work};
use crate::worker::Worker;

/// The workload of a run and its options.
#[derive(Clone, Debug)]
pub struct RunOptions<'a> {
    /// What to measure.
    pub work: Work<'a>,
    /// The share of the workload's full amount to run, above 0.
    pub scale: f64,
    /// A workload that runs in the background, on the same storage and within the same limits.
    pub background: Option<Background<'a>>,
    /// The factor by which the workload's pauses are multiplied.
    pub pace: f64,
    /// Whether to record until the workload's dirty pages are written back. The run time excludes write-back.
    pub write_back: bool,
    /// The seed of content and device model.
    pub seed: u64,
    /// The command lines with which this program starts its own processes.
    pub roles: &'a Roles,
    /// A flag that a signal handler sets to end the run as soon as possible.
    pub stop: &'a AtomicBool,
}

/// The results of a run.
#[derive(Debug)]
pub struct Run {
    /// The outcome of the workload, with its run time.
    pub outcome: Outcome,
    /// The number of bytes that files can use on the run's new, empty file system; `None` in a directory.
    pub usable: Option<ByteCount>,
    /// The directory of the run's recording.
    pub recording: PathBuf,
    /// The analysis of the run's recording.
    pub analysed: Analysed,
    /// The spans that the workload marked, ordered by their end times.
    pub marks: Vec<fonio_workload::Mark>,
    /// The report of each emulated device, with its profile.
    pub devices: Vec<(String, ServeReport)>,
    /// Processor time used to serve the emulated devices during the run.
    pub server_cpu: Nanos,
    /// The processor that the run got; `None` if it did not have the processor of another machine.
    pub held: Option<Held>,
    /// The measured workload's own I/O, and the concurrent workload's figures; `None` without a concurrent
    /// workload.
    pub background: Option<(OwnFigures, BackgroundFigures)>,
}

/// Runs the workload once and writes its recording to `out`. Fails with an [`ExperimentError`]. All changes
/// to the machine are then undone; a recording that had started is kept.
pub fn run_once(setup: &Setup, options: &RunOptions<'_>, out: &Path) -> Result<Run, ExperimentError> {
    let mut bed = TestBed::make(setup, options.work, options.background, options.seed, options.roles)?;
    let (result, socket) = (bed.scratch.join("result.json"), bed.scratch.join("call"));
    let run_options = Options {
        scale: options.scale,
        pace: options.pace,
        seed: options.seed,
        http: bed.http,
        overrides: setup.overrides.clone(),
    };
    let task = Task {
        work: TaskWork::of(options.work, &bed, setup.link, run_options.clone())?,
        socket: socket.clone(),
        result: result.clone(),
        write_back: options.write_back,
        is_background: false,
    };
    bed.unpace()?;
    let mut other = match options.background {
        Some(background) => {
            Some(BackgroundWorker::prepare(&mut bed, background, &run_options, options.roles, options.stop)?)
        }
        None => None,
    };
    let mut worker = Worker::prepare(&mut bed, "task", &task, options.roles, options.stop)?;
    // The limits apply only to the run, not to its preparation. The ledger removes the control groups.
    let confined = Confined::make(bed.ledger(), setup.limits)?;
    let holding = Holding::begin(&mut bed, setup, &confined, options.roles)?;
    confine(&confined, &worker)?;
    other.as_ref().map_or(Ok(()), |other| confined.add(other.pid()))?;
    if let Some(share) = setup.full {
        bed.fill(share, options.seed, options.stop)?;
    }
    match options.work {
        Work::App(work) if !work.is_cold() => write_back(&bed.places[DATA])?,
        _ => bed.forget_caches()?,
    }
    bed.pace()?;
    let cpu_before = server_cpu(&bed.reports()?);
    check_stop(options.stop)?;

    let finished = record_task(&bed, options, socket, &result, other.as_mut(), out)?;
    check_stop(options.stop)?;
    let needs_more_memory = || match setup.limits.memory.filter(|_| confined.kills() > 0) {
        Some(limit) => Err(ExperimentError::OutOfMemory { limit }),
        None => Ok(()),
    };
    let Some(TaskResult { marks, outcome }) = finished else {
        needs_more_memory()?;
        return Err(worker.failure());
    };
    needs_more_memory()?;
    let pid = worker.pid();
    worker.end(&mut bed)?;
    let background = match other {
        Some(other) => Some((OwnFigures::of(out, pid)?, other.end(&mut bed, out)?)),
        None => None,
    };
    let (devices, usable) = (bed.reports()?, bed.usable());
    let held = holding.map(|holding| holding.end(&mut bed)).transpose()?;
    bed.close_measured()?;
    let server_cpu = Nanos(server_cpu(&devices) - cpu_before);
    let analysed = Analysed::of(out)?;
    Ok(Run {
        outcome,
        usable,
        recording: out.to_owned(),
        analysed,
        marks,
        devices,
        server_cpu,
        held,
        background,
    })
}

/// Limits a process and all that it started. What it starts from now on is limited too.
fn confine(confined: &Confined, worker: &Worker) -> Result<(), ExperimentError> {
    let mut limited = BTreeSet::new();
    // A process can start another one between the reading of the list and its own limit.
    loop {
        let new: Vec<u32> = worker.pids().into_iter().filter(|pid| !limited.contains(pid)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for pid in new {
            confined.add(pid)?;
            limited.insert(pid);
        }
    }
}

/// Returns the processor time that the serving processes have used, in nanoseconds.
fn server_cpu(devices: &[(String, ServeReport)]) -> u64 {
    devices.iter().map(|(_, report)| report.cpu_ns.0).sum()
}

/// Starts the prepared task and the concurrent task under the recorder, and waits until the prepared task
/// ends. Returns `None` if the prepared task wrote no result.
fn record_task(
    bed: &TestBed,
    options: &RunOptions<'_>,
    socket: PathBuf,
    result: &Path,
    mut other: Option<&mut BackgroundWorker>,
    out: &Path,
) -> Result<Option<TaskResult>, ExperimentError> {
    let mut command = vec![options.roles.program.clone().into_os_string()];
    command.extend(options.roles.start_task.iter().map(Into::into));
    command.push(socket.into());
    // The folder of the data has another path in every run.
    let mut copies = match options.work {
        Work::App(_) => vec![(bed.places[DATA].clone(), PathBuf::from(DATA_SHOWN))],
        Work::Workload(_) => Vec::new(),
    };
    copies.extend(bed.background_top.iter().map(|top| (top.clone(), PathBuf::from(BACKGROUND_SHOWN))));
    let record_options = RecordOptions {
        select: bed.watched.to_vec(),
        command: Some(command),
        // The recorder's command only wakes the prepared process, so record the workload's command line
        // instead.
        told_command: Some(command_line(options)),
        setting: CommandSetting { copies, ..CommandSetting::default() },
        overwrite: true,
        ..RecordOptions::new(out)
    };
    let mut finished: Option<TaskResult> = None;
    let mut add_marks = |sink: &mut dyn RowSink| -> io::Result<()> {
        // A task that failed wrote no result; the caller reports the failure.
        let Ok(text) = std::fs::read(result) else { return Ok(()) };
        let found: TaskResult = serde_json::from_slice(&text)?;
        for mark in &found.marks {
            sink.mark(&Mark {
                at: Timestamp(mark.start_ns),
                until: Some(Timestamp(mark.end_ns)),
                name: mark.name.clone(),
                tid: u32::try_from(mark.tid).ok(),
            })?;
        }
        finished = Some(found);
        Ok(())
    };
    let mut begun = Ok(());
    let summary = record_with(&record_options, &mut add_marks, &mut |progress| match progress {
        Progress::Note(note) => say!("note: {note}"),
        Progress::CommandStarted { .. } => {
            if let Some(other) = &mut other {
                begun = other.begin();
            }
        }
        _ => {}
    })?;
    begun?;
    if matches!(summary.stopped_by, StopReason::Interrupted | StopReason::Terminated) {
        return Err(ExperimentError::Interrupted);
    }
    Ok(finished)
}

fn command_line(options: &RunOptions<'_>) -> Vec<String> {
    let mut words = vec!["fonio".to_owned(), "run".to_owned(), options.work.given().to_owned()];
    if options.scale != 1.0 {
        words.extend(["--scale".to_owned(), options.scale.to_string()]);
    }
    if let Some(background) = options.background {
        words.extend(["--background".to_owned(), background.workload.name.clone()]);
        if background.scale != 1.0 {
            words.extend(["--background-scale".to_owned(), background.scale.to_string()]);
        }
    }
    words
}
