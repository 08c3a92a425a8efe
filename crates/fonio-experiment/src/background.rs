//! Runs a workload in the background of the measured workload or app, on the same storage, until that one ends.
//!
//! The workload's process has a name of its own, by which the analysis tells its waits from those of the measured
//! program, in this and in every later report on the recording. Each run starts it anew: the data, the random
//! choices and the phases of its timers follow from the seed of the round, so all setups of a round have the same
//! background.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fonio_analysis::{Analyser, AnalysisOptions, Filter, FilterOptions};
use fonio_core::{Nanos, Op, Request, RowSink, Thread, ignore_rows};
use fonio_recording::{Recording, Table, Tables};
use fonio_workload::definition::Workload;
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
    /// Number of committed SQLite write transactions.
    #[serde(default)]
    pub transactions: u64,
    /// Number of syncs of files, without those of SQLite.
    #[serde(default)]
    pub syncs: u64,
    /// Bytes written to files, without those of SQLite.
    #[serde(default)]
    pub file_bytes: u64,
    /// The transactions in a minute and the file bytes in a minute that follow from the definition of the concurrent
    /// workload, at the pace of the run; `None` if its threads are not driven by timers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defined_per_min: Option<(f64, f64)>,
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
    /// Computes the figures of the process `pid` and its descendants from a recording.
    pub(crate) fn of(recording: &Path, pid: u32) -> Result<OwnFigures, ExperimentError> {
        let recording = Recording::open(recording)?;
        let mut family = Family::default();
        recording.replay(&mut family, Tables::NONE.with(Table::Threads))?;
        let mut process = Process { tids: family.threads_of(pid), own: OwnFigures::default() };
        if process.tids.is_empty() {
            return Ok(process.own);
        }
        recording.replay(&mut process, Tables::NONE.with(Table::Requests))?;
        let options = FilterOptions { tids: process.tids.into_iter().collect(), ..FilterOptions::default() };
        // The analysis must know that requests are missing: a thread can wait behind the requests of others.
        let known = AnalysisOptions { filter: Some(options.clone()), ..AnalysisOptions::default() };
        let analyser = Analyser::new(known);
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

/// The processes of a recording: their threads and parents.
#[derive(Debug, Default)]
struct Family {
    /// Each thread, with its process.
    threads: BTreeSet<(u32, u32)>,
    parents: BTreeMap<u32, u32>,
}

impl Family {
    /// Returns the threads of a process and of all its descendants.
    fn threads_of(&self, pid: u32) -> BTreeSet<u32> {
        let mut pids = BTreeSet::from([pid]);
        loop {
            let is_child = |(child, parent): &(&u32, &u32)| pids.contains(parent) && !pids.contains(child);
            let children: Vec<u32> = self.parents.iter().filter(is_child).map(|(child, _)| *child).collect();
            if children.is_empty() {
                break;
            }
            pids.extend(children);
        }
        self.threads.iter().filter(|(_, pid)| pids.contains(pid)).map(|(tid, _)| *tid).collect()
    }
}

impl RowSink for Family {
    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        if let Some(pid) = row.pid {
            self.threads.insert((row.tid, pid));
            // A process whose parent ended gets another one; the first one started it.
            if let Some(parent) = row.parent_pid {
                self.parents.entry(pid).or_insert(parent);
            }
        }
        Ok(())
    }
    ignore_rows! {
        began, request, bio, link, call, statement, wait, blocked_count, file, sample, mark, diagnostic, settled
    }
}

/// Counts the requests that the threads of a process caused.
struct Process {
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
    ignore_rows! {
        began, bio, link, thread, call, statement, wait, blocked_count, file, sample, mark, diagnostic, settled
    }
}

pub(crate) struct BackgroundWorker {
    worker: Worker,
    workload: String,
    defined_per_min: Option<(f64, f64)>,
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
            defined_per_min: defined_per_min(background.workload, measured.pace),
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
            transactions: result.amounts.transactions,
            syncs: result.amounts.syncs,
            file_bytes: result.amounts.file_bytes_written,
            defined_per_min: self.defined_per_min,
            own: OwnFigures::of(recording, pid)?,
        })
    }
}

/// Returns the transactions and the file bytes in a minute at the given pace.
fn defined_per_min(workload: &Workload, pace: f64) -> Option<(f64, f64)> {
    let rates = workload.rates().filter(|_| pace > 0.0)? * (1.0 / pace);
    Some((rates.transactions_per_min, rates.file_bytes_per_min))
}

#[cfg(test)]
mod tests {
    use fonio_core::{
        BlockedIn, ByteCount, DeviceId, Meta, Sector, Timestamp, Wait, WaitReason, meta::SHOWS_BLOCKED,
    };
    use fonio_recording::{Writer, WriterOptions};

    use super::*;

    const DEVICE: DeviceId = DeviceId(8 << 20);

    fn ms(number: u64) -> Timestamp {
        Timestamp(number * 1_000_000)
    }

    /// A request of a thread in flight from one millisecond to another.
    fn request(id: u64, tid: u32, (from, until): (u64, u64)) -> Request {
        Request {
            request_id: id,
            sector: Some(Sector(id * 8)),
            queued: Some(ms(from)),
            issued: Some(ms(from)),
            completed: Some(ms(until)),
            tid: Some(tid),
            ..Request::new(DEVICE, Op::Write, ByteCount(4096))
        }
    }

    fn wait(tid: u32, (from, until): (u64, u64), waker: Option<u32>) -> Wait {
        Wait {
            tid,
            began: ms(from),
            ended: Some(ms(until)),
            reason: WaitReason::Storage,
            request_id: None,
            waker_tid: waker,
            blocked_in: Some(BlockedIn::Fsync),
            file_id: None,
            io_wait: None,
            function: None,
        }
    }

    /// A wait for the journal, which other threads write, counts for the program that waits.
    #[test]
    fn waits_behind_the_requests_of_others_count() {
        const LAUNCHER: u32 = 10;
        const JOURNAL: u32 = 30;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("recording");
        let mut writer = Writer::create(&path, WriterOptions::default()).expect("it begins");
        for (tid, comm, parent_pid) in [(LAUNCHER, "launcher", 1), (20, "installer", 1), (JOURNAL, "jbd2", 2)]
        {
            let (pid, comm, parent_pid) = (Some(tid), Some(comm.to_owned()), Some(parent_pid));
            let thread = Thread { tid, pid, comm, parent_pid, ..Thread::default() };
            writer.thread(&thread).expect("it is written");
        }
        for row in [wait(LAUNCHER, (10, 15), None), wait(LAUNCHER, (20, 40), Some(JOURNAL))] {
            writer.wait(&row).expect("it is written");
        }
        for row in [request(1, LAUNCHER, (9, 15)), request(2, 20, (16, 50)), request(3, JOURNAL, (19, 40))] {
            writer.request(&row).expect("it is written");
        }
        let mut meta = Meta { watched: vec![DEVICE], ..Meta::default() };
        (meta.began, meta.ended) = (Some(ms(0)), Some(ms(60)));
        meta.source.shows.push(SHOWS_BLOCKED.to_owned());
        writer.finish(meta).expect("it is complete");

        let own = OwnFigures::of(&path, LAUNCHER).expect("it is read");
        assert_eq!((own.requests, own.write_bytes), (1, 4096));
        assert_eq!(own.blocked_s.map(|s| (s * 1e3).round()), Some(25.0));
    }
}
