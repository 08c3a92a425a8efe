//! One run: a bed, the workload on it under the recorder, and what came of it.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use fonio_analysis::{Analyser, Analysis, AnalysisOptions};
use fonio_core::{Mark, RowSink, Timestamp};
use fonio_emulator::ServeReport;
use fonio_host::{ConfinedCpu, Entry, ProcessId, Step};
use fonio_record::{Progress, RecordOptions, StopReason, record_with};
use fonio_recording::{Recording, Tables};
use fonio_workload::definition::Workload;
use fonio_workload::{Options, Outcome};

use crate::bed::{Bed, Roles};
use crate::error::ExperimentError;
use crate::setup::Setup;
use crate::task::{PREPARED, Task, Told};

/// What is run, however often.
#[derive(Clone, Debug)]
pub struct RunOptions<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// The share of its full amount, above 0.
    pub scale: f64,
    /// What its pauses are multiplied by.
    pub pace: f64,
    /// Whether the recording goes on until what the workload left in memory is written back. The run time does not.
    pub write_back: bool,
    /// Of the content and of the device model.
    pub seed: u64,
    /// How this program starts itself.
    pub roles: &'a Roles,
    /// Set by a signal handler: the run ends as soon as it can.
    pub stop: &'a AtomicBool,
}

/// What came of a run.
#[derive(Debug)]
pub struct Run {
    /// What the workload did and how long it took.
    pub outcome: Outcome,
    /// The recording.
    pub recording: PathBuf,
    /// Its analysis.
    pub analysis: Analysis,
    /// What the workload marked, in the order in which it ended.
    pub marks: Vec<fonio_workload::Mark>,
    /// What each emulated device did, by profile.
    pub devices: Vec<(String, ServeReport)>,
}

/// Runs once and records to `out`.
///
/// # Errors
///
/// [`ExperimentError`]; everything that was made is undone, but for a recording that was begun.
pub fn run_once(setup: &Setup, options: &RunOptions<'_>, out: &Path) -> Result<Run, ExperimentError> {
    let mut bed = Bed::make(setup, options.workload, options.seed, options.roles)?;
    let (told, socket) = (bed.scratch().join("told.json"), bed.scratch().join("call"));
    let task = Task {
        workload: options.workload.clone(),
        places: bed.places().clone(),
        options: Options {
            scale: options.scale,
            pace: options.pace,
            seed: options.seed,
            http: bed.http(),
            overrides: setup.overrides.clone(),
        },
        socket: socket.clone(),
        told: told.clone(),
        write_back: options.write_back,
    };
    bed.unpace()?;
    let mut worker = Worker::prepare(&mut bed, &task, options)?;
    if let Some(share) = setup.cpu {
        // What it prepared took all that it wanted. The group goes with the bed.
        ConfinedCpu::make(bed.ledger(), share)?.add(worker.child.id())?;
    }
    bed.forget_caches()?;
    bed.pace()?;
    check(options.stop)?;

    let mut command = vec![options.roles.program.clone().into_os_string()];
    command.extend(options.roles.start_task.iter().map(Into::into));
    command.push(socket.into());
    let record_options = RecordOptions {
        select: bed.watched().to_vec(),
        command: Some(command),
        // What was really started is this program, to wake the one that has prepared.
        told_command: Some(told_command(options)),
        overwrite: true,
        ..RecordOptions::new(out)
    };
    let mut result: Option<Told> = None;
    let mut beside = |sink: &mut dyn RowSink| -> io::Result<()> {
        // Without it the command failed, which is said below.
        let Ok(text) = std::fs::read(&told) else { return Ok(()) };
        let found: Told = serde_json::from_slice(&text)?;
        for mark in &found.marks {
            sink.mark(&Mark {
                at: Timestamp(mark.start_ns),
                until: Some(Timestamp(mark.end_ns)),
                name: mark.name.clone(),
                tid: u32::try_from(mark.tid).ok(),
            })?;
        }
        result = Some(found);
        Ok(())
    };
    let summary = record_with(&record_options, &mut beside, &mut |progress| {
        if let Progress::Note(note) = progress {
            eprintln!("note: {note}");
        }
    })?;
    if matches!(summary.stopped_by, StopReason::Interrupted | StopReason::Terminated) {
        return Err(ExperimentError::Interrupted);
    }
    check(options.stop)?;
    let Some(told) = result else { return Err(worker.failure()) };
    worker.end(&mut bed)?;
    let devices = bed.reports()?;
    bed.close()?;
    let recording = Recording::open(out)?;
    let mut analyser = Analyser::new(AnalysisOptions::default());
    recording.replay(&mut analyser, Tables::ALL)?;
    let analysis = analyser.finish(recording.meta());
    Ok(Run { outcome: told.outcome, recording: out.to_owned(), analysis, marks: told.marks, devices })
}

/// The command line of a run by itself.
fn told_command(options: &RunOptions<'_>) -> Vec<String> {
    let mut words = vec!["fonio".to_owned(), "run".to_owned(), options.workload.name.clone()];
    if options.scale != 1.0 {
        words.extend(["--scale".to_owned(), options.scale.to_string()]);
    }
    words
}

/// The process that does the task.
struct Worker {
    child: Child,
    entry: Option<Entry>,
}

impl Worker {
    /// Starts it and waits until it is prepared.
    fn prepare(bed: &mut Bed, task: &Task, options: &RunOptions<'_>) -> Result<Worker, ExperimentError> {
        let path = bed.scratch().join("task.json");
        let text = serde_json::to_vec(task).expect("a workload that was read can be written");
        std::fs::write(&path, text).map_err(ExperimentError::system("write", &path))?;
        let program = &options.roles.program;
        let mut command = Command::new(program);
        command.args(&options.roles.do_task).arg(&path).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(ExperimentError::system("start", program))?;
        // One that has ended already left nothing behind.
        let entry = match ProcessId::of(child.id()) {
            Some(id) => Some(bed.ledger().begin(Step::Process { id, leads_group: false })?),
            None => None,
        };
        let mut line = String::new();
        let out = child.stdout.take().expect("its output is piped");
        BufReader::new(out).read_line(&mut line).map_err(ExperimentError::system("hear", program))?;
        let mut worker = Worker { child, entry };
        check(options.stop)?;
        if line.trim() == PREPARED { Ok(worker) } else { Err(worker.failure()) }
    }

    /// Why there is no outcome; the process has said more on standard error.
    fn failure(&mut self) -> ExperimentError {
        let _ = self.child.kill();
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        ExperimentError::TaskFailed { status, complaint: "it says why above".to_owned() }
    }

    /// It has told its outcome; it ends by itself.
    fn end(&mut self, bed: &mut Bed) -> Result<(), ExperimentError> {
        let waited = self.child.wait();
        waited.map_err(ExperimentError::system("wait for", "the workload's process"))?;
        match self.entry.take() {
            Some(entry) => Ok(bed.ledger().end(entry)?),
            None => Ok(()),
        }
    }
}

pub(crate) fn check(stop: &AtomicBool) -> Result<(), ExperimentError> {
    if stop.load(Ordering::Relaxed) { Err(ExperimentError::Interrupted) } else { Ok(()) }
}
