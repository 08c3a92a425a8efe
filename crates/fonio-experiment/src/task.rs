//! What the workload's own process is told, and what it tells.
//!
//! That process is this program again and does nothing else. It prepares, says so, and waits to be called: the recorder's
//! command is a [`start_task`] that calls it and ends when it has ended, so that preparing is not in the recording.
//! Marks and outcome go to a file that is not on the device under test.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use fonio_workload::definition::Workload;
use fonio_workload::{Mark, Observer, Options, Outcome, Places, Progress, Runner};
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;

/// A task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) workload: Workload,
    pub(crate) places: BTreeMap<String, PathBuf>,
    pub(crate) options: Options,
    /// Where it can be called once it is prepared.
    pub(crate) socket: PathBuf,
    /// Where [`Told`] goes.
    pub(crate) told: PathBuf,
    /// Whether what is left in memory at the end is written back before the caller is answered.
    pub(crate) write_back: bool,
}

/// What the process says on standard output when it is prepared.
pub(crate) const PREPARED: &str = "prepared";

/// What it answers when the run is over.
const DONE: &str = "done";

/// What a run tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) marks: Vec<Mark>,
    pub(crate) outcome: Outcome,
}

/// Does the task in `file`: prepares, waits to be called, runs. Progress goes to standard error where that is a terminal.
///
/// # Errors
///
/// [`ExperimentError`]; the caller says it on standard error and ends with a failure.
pub fn do_task(file: &Path) -> Result<(), ExperimentError> {
    let text = std::fs::read(file).map_err(ExperimentError::system("read", file))?;
    let task: Task = serde_json::from_slice(&text)
        .map_err(|error| ExperimentError::system("understand", file)(error.into()))?;
    let places = Places { root: None, named: task.places };
    let mut runner = Runner::new(&task.workload, &places, task.options)?;
    runner.prepare(&mut ())?;
    let socket = &task.socket;
    let listener = UnixListener::bind(socket).map_err(ExperimentError::system("listen on", socket))?;
    let mut out = std::io::stdout();
    writeln!(out, "{PREPARED}")
        .and_then(|()| out.flush())
        .map_err(ExperimentError::system("write to", "standard output"))?;
    let (mut caller, _) = listener.accept().map_err(ExperimentError::system("listen on", socket))?;
    let mut listening = Listener::default();
    let mut ran = runner.run(&mut listening);
    if task.write_back
        && ran.is_ok()
        && let Err(error) = runner.write_back()
    {
        ran = Err(error);
    }
    listening.end();
    let told = ran
        .map_err(ExperimentError::from)
        .and_then(|outcome| write(&task.told, &Told { marks: listening.marks, outcome }));
    let answer = told.as_ref().map_or_else(chain, |()| DONE.to_owned());
    caller.write_all(answer.as_bytes()).map_err(ExperimentError::system("write to", socket))?;
    told
}

/// Calls the process that waits at `socket`, and ends when it has done its task.
///
/// # Errors
///
/// [`ExperimentError::TaskFailed`] with what it said.
pub fn start_task(socket: &Path) -> Result<(), ExperimentError> {
    let mut stream = UnixStream::connect(socket).map_err(ExperimentError::system("call", socket))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(ExperimentError::system("hear", socket))?;
    match answer.as_str() {
        DONE => Ok(()),
        "" => Err(failed("it died")),
        complaint => Err(failed(complaint)),
    }
}

fn failed(complaint: &str) -> ExperimentError {
    ExperimentError::TaskFailed { status: "no outcome".to_owned(), complaint: complaint.to_owned() }
}

/// An error and its causes in one sentence.
fn chain(error: &ExperimentError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn write(path: &Path, told: &Told) -> Result<(), ExperimentError> {
    let failed = || ExperimentError::system("write", path);
    let mut out = BufWriter::new(File::create(path).map_err(failed())?);
    serde_json::to_writer(&mut out, told).map_err(|error| failed()(error.into()))?;
    out.flush().map_err(failed())
}

/// Keeps the marks and shows progress.
#[derive(Debug, Default)]
struct Listener {
    marks: Vec<Mark>,
    shown: bool,
}

/// Shorter runs show no progress.
const PROGRESS_AFTER_S: f64 = 2.0;

impl Listener {
    fn end(&self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

impl Observer for Listener {
    fn mark(&mut self, mark: &Mark) {
        self.marks.push(mark.clone());
    }

    fn progress(&mut self, progress: &Progress) {
        use std::io::IsTerminal;
        if progress.elapsed_s < PROGRESS_AFTER_S || !std::io::stderr().is_terminal() {
            return;
        }
        let left = progress.left_s.map(|left| format!(", about {left:.0} s left")).unwrap_or_default();
        eprint!("\r\x1b[K{:.0} % of the workload done{left}", progress.done * 100.0);
        self.shown = true;
    }
}
