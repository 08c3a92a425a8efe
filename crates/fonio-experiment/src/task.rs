//! Executes the workload in a separate process, which returns the result.
//!
//! A separate process of this program executes a workload's task. The process prepares the workload, reports
//! that it is ready, and waits for the signal to start. The command that the recorder runs is [`start_task`],
//! which sends this signal and ends when the task ends. Therefore, the recording does not contain the
//! preparation. Marks and the outcome go to a file that is not on the device under test.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fonio_host::{LinkRates, PrivateLink};
use fonio_workload::app::{App, AppPlaces, AppRunner, FarEnd, Outside};
use fonio_workload::definition::Workload;
use fonio_workload::{Amounts, Mark, Observer, Options, Outcome, Places, Progress, Runner};
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use crate::test_bed::TestBed;
use crate::work::{AppWork, DATA, Work};

/// The task that a workload's process executes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) work: TaskWork,
    /// The socket on which the prepared process waits for the call to start.
    pub(crate) socket: PathBuf,
    /// The file to which the process writes the [`TaskResult`].
    pub(crate) result: PathBuf,
    /// Whether the process writes back dirty pages before it replies to the caller.
    pub(crate) write_back: bool,
    /// Whether this is the concurrent workload, which runs until its caller closes the connection and then
    /// writes a [`BackgroundResult`].
    pub(crate) is_background: bool,
}

/// What the process of a task executes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskWork {
    Workload {
        workload: Box<Workload>,
        places: BTreeMap<String, PathBuf>,
        options: Options,
    },
    App {
        app: Box<App>,
        script: String,
        root: Option<PathBuf>,
        data: PathBuf,
        scratch: PathBuf,
        scale: f64,
        /// The link to the services that declare one. The process is started at its near end.
        link: Option<LinkRates>,
        outside: Outside,
    },
}

impl Task {
    /// Returns the file to which the process of an app writes why it failed.
    pub(crate) fn complaint(&self) -> PathBuf {
        self.result.with_extension("error")
    }
}

impl TaskWork {
    pub(crate) fn of(
        work: Work<'_>,
        bed: &TestBed,
        link: Option<LinkRates>,
        options: Options,
    ) -> Result<TaskWork, ExperimentError> {
        Ok(match work {
            Work::Workload(workload) => TaskWork::Workload {
                workload: Box::new(workload.clone()),
                places: bed.places.clone(),
                options,
            },
            Work::App(AppWork { app, script, root, outside, .. }) => {
                let scratch = bed.scratch.join("app");
                std::fs::create_dir(&scratch).map_err(ExperimentError::system("make", &scratch))?;
                TaskWork::App {
                    app: Box::new(app.clone()),
                    script: script.clone(),
                    root: root.clone(),
                    data: bed.places[DATA].clone(),
                    scratch,
                    scale: options.scale,
                    link,
                    outside: outside.clone(),
                }
            }
        })
    }
}

/// The line that the process prints when it has prepared the workload.
pub(crate) const PREPARED: &str = "prepared";

/// The reply to the caller after a run without an error.
pub(crate) const DONE: &str = "done";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TaskResult {
    pub(crate) marks: Vec<Mark>,
    pub(crate) outcome: Outcome,
}

/// The result of a workload that ran concurrently with another workload.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct BackgroundResult {
    /// The share of its operations that the concurrent workload completed.
    pub(crate) done: f64,
    pub(crate) ran_ns: u64,
    pub(crate) ended_early: bool,
    pub(crate) amounts: Amounts,
}

/// The name of the process of a workload in the background; the kernel keeps 15 bytes of it. The analysis
/// (`fonio-analysis`, `question/threads.rs`) knows the process by this name.
const BACKGROUND_PROCESS: &CStr = c"fonio-backgroun";

/// Executes the task in `file`: prepares the workload, waits for the call, and runs the workload. Shows the
/// progress if standard error is a terminal. Returns whether the task succeeded: the reason for which an app failed is in a
/// file, from which the run tells it once. Fails with an [`ExperimentError`], which the caller prints on standard error before
/// it exits with an error code.
pub fn do_task(file: &Path) -> Result<bool, ExperimentError> {
    let text = std::fs::read(file).map_err(ExperimentError::system("read", file))?;
    let task: Task = serde_json::from_slice(&text)
        .map_err(|error| ExperimentError::system("understand", file)(error.into()))?;
    match (execute(&task), &task.work) {
        (Ok(()), _) => Ok(true),
        (Err(error), TaskWork::App { .. }) if std::fs::write(task.complaint(), chain(&error)).is_ok() => {
            Ok(false)
        }
        (Err(error), _) => Err(error),
    }
}

fn execute(task: &Task) -> Result<(), ExperimentError> {
    match &task.work {
        TaskWork::Workload { workload, places, options } => {
            let places = Places { root: None, named: places.clone() };
            let mut runner = Runner::new(workload, &places, options.clone())?;
            runner.prepare(&mut ())?;
            if task.is_background {
                rustix::thread::set_name(BACKGROUND_PROCESS).map_err(|error| {
                    ExperimentError::system("name", "the background's process")(error.into())
                })?;
            }
            let mut caller = called(&task.socket)?;
            if task.is_background {
                let mut listening = Listener { is_quiet: true, ..Listener::default() };
                let written = run_background(&mut runner, &mut listening, &caller, &task.socket)
                    .and_then(|result| write(&task.result, &result));
                return answer(&mut caller, &task.socket, written);
            }
            let written = measure(task, &mut |listening| {
                let outcome = runner.run(listening)?;
                if task.write_back {
                    runner.write_back()?;
                }
                Ok(outcome)
            });
            answer(&mut caller, &task.socket, written)
        }
        TaskWork::App { app, script, root, data, scratch, scale, link, outside } => {
            let needed = [task.socket.parent().unwrap_or(Path::new("/"))];
            let far = link.map(|_| FarEnd { address: PrivateLink::SERVER, namespace: PrivateLink::FAR });
            let places = AppPlaces { data, root: root.as_deref(), scratch, needed: &needed, far, outside };
            let mut runner = AppRunner::enter((**app).clone(), Some(script), *scale, &places)?;
            end_with_caller();
            runner.prepare()?;
            let mut caller = called(&task.socket)?;
            let written = measure(task, &mut |listening| {
                let outcome = runner.run(listening)?;
                if task.write_back {
                    runner.write_back()?;
                }
                Ok(outcome)
            });
            answer(&mut caller, &task.socket, written)?;
            Ok(runner.end()?)
        }
    }
}

/// Reports that the task is prepared, and waits for the call to start.
fn called(socket: &Path) -> Result<UnixStream, ExperimentError> {
    let listener = UnixListener::bind(socket).map_err(ExperimentError::system("listen on", socket))?;
    let mut out = std::io::stdout();
    writeln!(out, "{PREPARED}")
        .and_then(|()| out.flush())
        .map_err(ExperimentError::system("write to", "standard output"))?;
    let (caller, _) = listener.accept().map_err(ExperimentError::system("listen on", socket))?;
    Ok(caller)
}

/// Runs the measured part of a task and writes its result.
fn measure(
    task: &Task,
    run: &mut dyn FnMut(&mut Listener) -> Result<Outcome, ExperimentError>,
) -> Result<(), ExperimentError> {
    let mut listening = Listener::default();
    let ran = run(&mut listening);
    listening.end();
    write(&task.result, &TaskResult { marks: listening.marks, outcome: ran? })
}

/// Ends this process when its caller has ended, and with it all programs of its process namespace.
fn end_with_caller() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
}

fn answer(
    caller: &mut UnixStream,
    socket: &Path,
    written: Result<(), ExperimentError>,
) -> Result<(), ExperimentError> {
    let answer = written.as_ref().map_or_else(chain, |()| DONE.to_owned());
    caller.write_all(answer.as_bytes()).map_err(ExperimentError::system("write to", socket))?;
    written
}

/// Runs the concurrent workload until the workload ends, or the caller closes the connection.
fn run_background(
    runner: &mut Runner,
    listening: &mut Listener,
    caller: &UnixStream,
    socket: &Path,
) -> Result<BackgroundResult, ExperimentError> {
    let mut from_caller = caller.try_clone().map_err(ExperimentError::system("read from", socket))?;
    let stop = runner.stop_flag();
    let stopped = Arc::clone(&stop);
    // This thread ends only with the process.
    std::thread::spawn(move || {
        let _ = from_caller.read(&mut [0]);
        stop.store(true, Ordering::Relaxed);
    });
    let outcome = runner.run_until_stopped(listening)?;
    let ended_early = !stopped.load(Ordering::Relaxed);
    let done = if ended_early { 1.0 } else { listening.done };
    let amounts = outcome.amounts;
    Ok(BackgroundResult { done, ran_ns: outcome.wall_ns, ended_early, amounts })
}

/// Calls the process that waits at `socket`, and returns when its task is complete. Returns whether the task succeeded; the
/// process tells the reason of a failure. Fails with [`ExperimentError::TaskFailed`] if the process died.
pub fn start_task(socket: &Path) -> Result<bool, ExperimentError> {
    let mut stream = UnixStream::connect(socket).map_err(ExperimentError::system("call", socket))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(ExperimentError::system("read from", socket))?;
    match answer.as_str() {
        DONE => Ok(true),
        "" => Err(ExperimentError::TaskFailed {
            status: "no outcome".to_owned(),
            complaint: "it died".to_owned(),
        }),
        _ => Ok(false),
    }
}

fn chain(error: &ExperimentError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn write(path: &Path, result: &impl Serialize) -> Result<(), ExperimentError> {
    let failed = || ExperimentError::system("write", path);
    let mut out = BufWriter::new(File::create(path).map_err(failed())?);
    serde_json::to_writer(&mut out, result).map_err(|error| failed()(error.into()))?;
    out.flush().map_err(failed())
}

#[derive(Debug, Default)]
struct Listener {
    marks: Vec<Mark>,
    shown: bool,
    done: f64,
    is_quiet: bool,
}

/// Time in seconds before progress is shown. Runs that are shorter than this time show no progress.
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
        self.done = progress.done;
        if self.is_quiet || progress.elapsed_s < PROGRESS_AFTER_S || !std::io::stderr().is_terminal() {
            return;
        }
        let left = progress.left_s.map(|left| format!(", about {left:.0} s left")).unwrap_or_default();
        eprint!("\r\x1b[K{:.0} % of the workload done{left}", progress.done * 100.0);
        self.shown = true;
    }
}
