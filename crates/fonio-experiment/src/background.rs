//! Runs a second workload concurrently with the measured workload, on the same storage, until the measured
//! workload ends.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fonio_analysis::{Analyser, AnalysisOptions, Filter, FilterOptions};
use fonio_core::{Nanos, Op, Request, RowSink, Thread, ignore_rows};
use fonio_recording::{Recording, Table, Tables};
use fonio_workload::{Options, Overrides};
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use crate::setup::Background;
use crate::task::{BackgroundResult, DONE, Task, TaskWork};
use crate::test_bed::{Roles, TestBed};
use crate::worker::Worker;

/// The figures of a concurrent workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackgroundFigures {
    /// The name of the concurrent workload.
    pub workload: String,
    /// How long the concurrent workload ran, in seconds.
    pub ran_s: f64,
    /// The share of its operations that the concurrent workload completed.
    pub done_share: f64,
    /// Whether the concurrent workload ended by itself before the measured workload ended.
    pub ended_early: bool,
    /// The I/O of the concurrent workload.
    #[serde(flatten)]
    pub own: OwnFigures,
}

/// The I/O that one of several workloads caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnFigures {
    /// Number of the workload's requests to the devices under test.
    pub requests: u64,
    /// Bytes that the workload's requests read.
    pub read_bytes: u64,
    /// Bytes that the workload's requests wrote.
    pub write_bytes: u64,
    /// The time in seconds for which the workload's threads were blocked on storage, summed over these
    /// threads; `None` if the recording does not show waits.
    pub blocked_s: Option<f64>,
    /// The workload's longest wait for storage, in seconds; `None` if the recording has no long waits.
    pub longest_wait_s: Option<f64>,
}

impl OwnFigures {
    /// Computes the figures of the process `pid` from a recording.
    pub(crate) fn of(recording: &Path, pid: u32) -> Result<OwnFigures, ExperimentError> {
        let recording = Recording::open(recording)?;
        let mut process = Process { pid, tids: BTreeSet::new(), own: OwnFigures::default() };
        recording.replay(&mut process, Tables::NONE.with(Table::Threads))?;
        if process.tids.is_empty() {
            return Ok(process.own);
        }
        recording.replay(&mut process, Tables::NONE.with(Table::Requests))?;
        let options = FilterOptions { tids: process.tids.into_iter().collect(), ..FilterOptions::default() };
        let analyser = Analyser::new(AnalysisOptions::default());
        let mut filter = Filter::new(options, analyser).expect("a filter by thread IDs is valid");
        recording.replay(&mut filter, Tables::ALL)?;
        let analysis = filter.into_inner().finish(recording.meta());
        let blocked = analysis.blocked.as_ref();
        let longest =
            blocked.and_then(|blocked| blocked.programs.iter().filter_map(|of| of.longest_ns).max());
        Ok(OwnFigures {
            blocked_s: blocked
                .map(|blocked| blocked.programs.iter().map(|of| of.time_ns.as_secs_f64()).sum()),
            longest_wait_s: longest.map(Nanos::as_secs_f64),
            ..process.own
        })
    }
}

/// Collects the threads of a process, and counts the requests that these threads caused.
struct Process {
    pid: u32,
    tids: BTreeSet<u32>,
    own: OwnFigures,
}

impl RowSink for Process {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        // Attribute each request to the thread that caused the request, not to a thread that queued another
        // thread's data.
        if row.cause_tid.or(row.tid).is_some_and(|tid| self.tids.contains(&tid)) {
            self.own.requests += 1;
            match row.op {
                Op::Read => self.own.read_bytes += row.bytes.0,
                Op::Write => self.own.write_bytes += row.bytes.0,
                _ => {}
            }
        }
        Ok(())
    }

    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        if row.pid == Some(self.pid) {
            self.tids.insert(row.tid);
        }
        Ok(())
    }
    ignore_rows! {
        began, bio, link, call, statement, wait, blocked_count, file, sample, mark, diagnostic, settled
    }
}

pub(crate) struct BackgroundWorker {
    worker: Worker,
    workload: String,
    socket: PathBuf,
    result: PathBuf,
    /// The connection on which this process started the workload.
    called: Option<UnixStream>,
}

impl BackgroundWorker {
    /// Starts the process, and waits until it has prepared the workload.
    pub(crate) fn prepare(
        bed: &mut TestBed,
        background: Background<'_>,
        measured: &Options,
        roles: &Roles,
        stop: &AtomicBool,
    ) -> Result<BackgroundWorker, ExperimentError> {
        let (socket, result) = (bed.scratch.join("beside-call"), bed.scratch.join("beside-result.json"));
        let task = Task {
            work: TaskWork::Workload {
                workload: Box::new(background.workload.clone()),
                places: bed.background_places.clone(),
                options: Options {
                    scale: background.scale,
                    pace: measured.pace,
                    // The concurrent workload must make different random choices and write different content than
                    // the measured workload.
                    seed: measured.seed ^ (1 << 63),
                    http: bed.http,
                    // A fix changes only the measured workload.
                    overrides: Overrides::default(),
                },
            },
            socket: socket.clone(),
            result: result.clone(),
            write_back: false,
            is_background: true,
        };
        let worker = Worker::prepare(bed, "beside", &task, roles, stop)?;
        Ok(BackgroundWorker {
            worker,
            workload: background.workload.name.clone(),
            socket,
            result,
            called: None,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.worker.pid()
    }

    pub(crate) fn begin(&mut self) -> Result<(), ExperimentError> {
        let called =
            UnixStream::connect(&self.socket).map_err(ExperimentError::system("call", &self.socket))?;
        self.called = Some(called);
        Ok(())
    }

    /// Ends the concurrent workload, and returns its figures. `recording` shows the workload's I/O.
    pub(crate) fn end(
        mut self,
        bed: &mut TestBed,
        recording: &Path,
    ) -> Result<BackgroundFigures, ExperimentError> {
        let Some(mut called) = self.called.take() else { return Err(self.worker.failure()) };
        let socket = &self.socket;
        // Ignore the error if the process has already ended, because its result can still be read.
        let _ = called.shutdown(Shutdown::Write);
        let mut answer = String::new();
        called.read_to_string(&mut answer).map_err(ExperimentError::system("read from", socket))?;
        if answer != DONE {
            return Err(self.worker.failure());
        }
        let pid = self.pid();
        let text = std::fs::read(&self.result).map_err(ExperimentError::system("read", &self.result))?;
        let result: BackgroundResult = serde_json::from_slice(&text)
            .map_err(|error| ExperimentError::system("understand", &self.result)(error.into()))?;
        self.worker.end(bed)?;
        Ok(BackgroundFigures {
            workload: self.workload,
            ran_s: result.ran_ns as f64 / 1e9,
            done_share: result.done,
            ended_early: result.ended_early,
            own: OwnFigures::of(recording, pid)?,
        })
    }
}
