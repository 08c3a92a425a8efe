//! Runs a workload with real files, SQLite and HTTP, and measures its run time.
//!
//! Lifecycle: [`Runner::new`] checks the workload without touching the workload's files. [`Runner::prepare`]
//! creates the initial state and writes it back. The time of [`Runner::run`] is measured. Before `run`, the
//! caller may drop caches and start a recording. Each run needs its own `prepare`.

mod buffer;
mod files;
mod groups;
mod replay;
mod sql;
mod steps;
mod times;
mod work;
mod worker;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::{Deserialize, Serialize};

use crate::clock::monotonic_ns;
use crate::definition::{Phase, Step, Workload};
use crate::error::WorkloadError;
use crate::observer::{Mark, Observer, Progress};
use crate::outcome::{
    Amounts, DatabaseOutcome, FilesOutcome, Outcome, PhaseOutcome, StepOutcome, ThreadTimes,
};
use crate::places::{Overrides, Places, resolve};
use crate::scale::{self, Planned};
use groups::Group;
use worker::Worker;

/// The options of a workload run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Scale of the run relative to the full amount, above 0 and at most 1000. `docs/workloads.md` lists the
    /// scaled steps.
    pub scale: f64,
    /// Seed of all content and random choices.
    pub seed: u64,
    /// Factor by which think times are multiplied: 1 keeps the user's pace, 0 removes all pauses.
    pub pace: f64,
    /// Address of the object server; `None` if the workload does not fetch over HTTP.
    pub http: Option<SocketAddr>,
    /// Settings that a fix overrides.
    pub overrides: Overrides,
}

impl Default for Options {
    fn default() -> Self {
        Options { scale: 1.0, seed: 1, pace: 1.0, http: None, overrides: Overrides::default() }
    }
}

/// Runs a workload in given directories.
#[derive(Debug)]
pub struct Runner {
    workload: Workload,
    options: Options,
    places: BTreeMap<String, PathBuf>,
    groups: BTreeMap<String, Mutex<Group>>,
    counters: Mutex<BTreeMap<String, u64>>,
    traces: BTreeMap<PathBuf, replay::Trace>,
    stop: Arc<AtomicBool>,
    prepared: bool,
}

/// The state shared by all threads of a run.
struct Shared<'a> {
    runner: &'a Runner,
    observer: Mutex<&'a mut dyn Observer>,
    /// Number of completed operations, out of `operations`.
    done: AtomicU64,
    operations: u64,
    start_ns: u64,
    told_ns: AtomicU64,
    failed: AtomicBool,
    /// Whether a stopped run ends well, with what it did until then.
    ends_when_stopped: bool,
}

const PROGRESS_INTERVAL_NS: u64 = 100_000_000;

impl Runner {
    /// Checks options and names, and reads the replayed traces. Accesses no other files. Fails if an option
    /// is out of range, a place has no directory, an override has an unknown name, a needed server is
    /// missing, or a trace cannot be read.
    pub fn new(workload: &Workload, places: &Places, options: Options) -> Result<Self, WorkloadError> {
        let Options { scale, pace, .. } = options;
        for (option, value, is_valid, remedy) in [
            ("scale", scale, scale > 0.0 && scale <= 1000.0, "use a value above 0, at most 1000"),
            ("pace", pace, (0.0..=1000.0).contains(&pace), "use 0 to 1000"),
        ] {
            if !is_valid {
                return Err(WorkloadError::Option { option, value, remedy });
            }
        }
        options.overrides.check(workload)?;
        if workload.needs_http() && options.http.is_none() {
            return Err(WorkloadError::NeedsHttp { workload: workload.name.clone() });
        }
        let mut traces = BTreeMap::new();
        for step in workload.steps() {
            if let Step::Replay { trace, .. } = step {
                traces.insert(trace.clone(), replay::Trace::load(trace, options.scale)?);
            }
        }
        Ok(Runner {
            places: resolve(workload, places, &options.overrides)?,
            groups: workload.files.keys().map(|name| (name.clone(), Mutex::default())).collect(),
            counters: Mutex::default(),
            workload: workload.clone(),
            options,
            traces,
            stop: Arc::default(),
            prepared: false,
        })
    }

    /// Returns the workload that this runner runs.
    #[must_use]
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Returns the directory of each place, after applying the overrides.
    #[must_use]
    pub fn places(&self) -> &BTreeMap<String, PathBuf> {
        &self.places
    }

    /// Returns the path of a database's main file; `None` if the database's name is unknown.
    #[must_use]
    pub fn database_path(&self, name: &str) -> Option<PathBuf> {
        let database = self.workload.databases.get(name)?;
        let moved = self.options.overrides.database(name, |database| database.directory.clone());
        let directory = moved.as_deref().unwrap_or_else(|| self.place(&database.place));
        Some(directory.join(&database.file))
    }

    /// Returns a flag that stops a run early: if set, the run fails with [`WorkloadError::Stopped`].
    #[must_use]
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Creates the initial state and waits for its write-back. The time of this preparation is not measured.
    /// Fails if a place's directory is not empty, or if a file, SQLite or HTTP operation fails.
    pub fn prepare(&mut self, observer: &mut dyn Observer) -> Result<Amounts, WorkloadError> {
        self.prepared = false;
        for group in self.groups.values() {
            *lock(group) = Group::default();
        }
        lock(&self.counters).clear();
        for path in self.places.values() {
            make_empty(path)?;
        }
        for name in self.workload.databases.keys() {
            if let Some(parent) = self.database_path(name).as_deref().and_then(Path::parent) {
                make(parent)?;
            }
            sql::create(self, name)?;
        }
        for step in self.workload.steps() {
            if let Step::Replay { trace, place } = step {
                self.traces[trace].prepare(self.place(place), self.options.seed)?;
            }
        }
        let plan = scale::plan(&self.workload.prepare, self.options.scale);
        let amounts = {
            let shared = Shared::new(self, observer, scale::operations(&plan));
            let worker = Worker::new(&shared, "prepare", "prepare", scale::steps(&plan));
            worker.run(&plan)?.amounts
        };
        self.write_back()?;
        self.prepared = true;
        Ok(amounts)
    }

    /// Writes back the dirty pages of all places, and waits until they are on the device. Fails if the pages
    /// of a place cannot be written back.
    pub fn write_back(&self) -> Result<(), WorkloadError> {
        for path in self.places.values() {
            let directory = File::open(path).map_err(file_error("open", path))?;
            rustix::fs::syncfs(&directory).map_err(|source| file_error("write back", path)(source.into()))?;
        }
        Ok(())
    }

    /// Runs all phases and measures their run time. Fails if `prepare` was not called, the stop flag is set,
    /// or a file, SQLite or HTTP operation fails. The first failure of a thread ends the run.
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<Outcome, WorkloadError> {
        self.run_phases(observer, false)
    }

    /// Runs the phases until they end or the stop flag is set. The outcome has the amounts until then. Fails like
    /// [`Runner::run`], except for the stop flag.
    pub fn run_until_stopped(&mut self, observer: &mut dyn Observer) -> Result<Outcome, WorkloadError> {
        self.run_phases(observer, true)
    }

    fn run_phases(
        &mut self,
        observer: &mut dyn Observer,
        ends_when_stopped: bool,
    ) -> Result<Outcome, WorkloadError> {
        if !std::mem::take(&mut self.prepared) {
            return Err(WorkloadError::NotPrepared { workload: self.workload.name.clone() });
        }
        let plans: Vec<Vec<Vec<Planned<'_>>>> = self
            .workload
            .phases
            .iter()
            .map(|phase| {
                phase.threads.iter().map(|thread| scale::plan(&thread.steps, self.options.scale)).collect()
            })
            .collect();
        let operations = self.workload.phases.iter().zip(&plans).flat_map(|(phase, plans)| {
            phase.threads.iter().zip(plans).map(|(thread, plan)| thread.instances * scale::operations(plan))
        });
        let shared = Shared { ends_when_stopped, ..Shared::new(self, observer, operations.sum()) };
        let mut phases = Vec::new();
        let mut steps = Vec::new();
        let mut spans = BTreeMap::new();
        for (phase, plans) in self.workload.phases.iter().zip(&plans) {
            let ended = shared.run_phase(phase, plans, &mut steps, &mut spans);
            // A run that fails or is stopped reports its partial progress.
            phases.push(ended.inspect_err(|_| shared.tell_progress(shared.done_share()))?);
        }
        let wall_ns = monotonic_ns() - shared.start_ns;
        shared.tell_progress(if self.stop.load(Ordering::Acquire) { shared.done_share() } else { 1.0 });
        let mut amounts = Amounts::default();
        for phase in &phases {
            amounts += phase.amounts;
        }
        Ok(Outcome {
            workload: self.workload.name.clone(),
            scale: self.options.scale,
            seed: self.options.seed,
            sqlite_version: rusqlite::version().to_owned(),
            start_ns: shared.start_ns,
            wall_ns,
            amounts,
            phases,
            spans,
            steps,
            databases: self.database_outcomes()?,
            files: self
                .groups
                .iter()
                .map(|(name, group)| (name.clone(), files_outcome(&lock(group))))
                .collect(),
        })
    }

    /// Checks the integrity of every database with SQLite, after a run or a power cut. Returns
    /// [`WorkloadError::Damaged`] with SQLite's output, or an error if a database cannot be opened.
    pub fn verify(&self) -> Result<(), WorkloadError> {
        self.workload.databases.keys().try_for_each(|name| sql::verify(self, name))
    }

    fn database_outcomes(&self) -> Result<BTreeMap<String, DatabaseOutcome>, WorkloadError> {
        let outcome = |(name, database): (&String, &crate::definition::Database)| {
            let path = self.database_path(name).expect("the workload has this database");
            let journal = self.options.overrides.database(name, |database| database.journal);
            let bytes = fs::metadata(&path).map_err(file_error("look at", &path))?.len();
            let outcome = DatabaseOutcome {
                journal: journal.unwrap_or(database.journal).pragma().to_owned(),
                synchronous: self
                    .options
                    .overrides
                    .synchronous(name, database.synchronous)
                    .pragma()
                    .to_owned(),
                bytes,
            };
            Ok((name.clone(), outcome))
        };
        self.workload.databases.iter().map(outcome).collect()
    }

    fn place(&self, name: &str) -> &Path {
        &self.places[name]
    }
}

impl<'a> Shared<'a> {
    fn new(runner: &'a Runner, observer: &'a mut dyn Observer, operations: u64) -> Self {
        Shared {
            runner,
            observer: Mutex::new(observer),
            done: AtomicU64::new(0),
            operations,
            start_ns: monotonic_ns(),
            told_ns: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            ends_when_stopped: false,
        }
    }

    fn run_phase(
        &self,
        phase: &Phase,
        plans: &[Vec<Planned<'_>>],
        steps: &mut Vec<StepOutcome>,
        spans: &mut BTreeMap<String, ThreadTimes>,
    ) -> Result<PhaseOutcome, WorkloadError> {
        let start_ns = monotonic_ns();
        let results = thread::scope(|scope| {
            let mut handles = Vec::new();
            for (of_phase, (thread, plan)) in phase.threads.iter().zip(plans).enumerate() {
                for instance in 1..=thread.instances {
                    let name = if thread.instances == 1 {
                        thread.name.clone()
                    } else {
                        format!("{}-{instance}", thread.name)
                    };
                    let label = format!("{}/{name}", phase.name);
                    // The kernel keeps only 15 bytes of a thread's name.
                    let builder = thread::Builder::new().name(name.chars().take(15).collect());
                    let handle = builder.spawn_scoped(scope, move || {
                        let result = Worker::new(self, &name, &label, scale::steps(plan)).run(plan);
                        if result.is_err() {
                            self.failed.store(true, Ordering::Release);
                        }
                        result
                    });
                    handles.push((of_phase, handle));
                }
            }
            let mut results = Vec::new();
            for (of_phase, handle) in handles {
                let result = match handle {
                    Err(source) => {
                        self.failed.store(true, Ordering::Release);
                        Err(file_error(
                            "start a thread for",
                            self.runner.places.values().next().map_or(Path::new("."), |path| path),
                        )(source))
                    }
                    Ok(handle) => handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                };
                results.push((of_phase, result));
            }
            results
        });
        let end_ns = monotonic_ns();

        // If a thread stopped because another thread failed, it returns no error itself.
        let mut amounts = Amounts::default();
        let mut whole = Some(ThreadTimes::default());
        let mut failure = None;
        let mut by_thread: BTreeMap<usize, Vec<worker::StepTime>> = BTreeMap::new();
        for (of_phase, result) in results {
            match result {
                Err(WorkloadError::Stopped) if failure.is_some() => {}
                Err(error) if failure.is_none() || matches!(failure, Some(WorkloadError::Stopped)) => {
                    failure = Some(error)
                }
                Err(_) => {}
                Ok(done) => {
                    amounts += done.amounts;
                    whole = whole.zip(done.whole).map(|(mut sum, times)| {
                        sum += times;
                        sum
                    });
                    for (name, times) in done.spans {
                        *spans.entry(name).or_default() += times;
                    }
                    let sums = by_thread
                        .entry(of_phase)
                        .or_insert_with(|| vec![worker::StepTime::default(); done.times.len()]);
                    sums.iter_mut().zip(&done.times).for_each(|(sum, time)| sum.add(time));
                }
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        for (of_phase, times) in by_thread {
            let prefix = format!("{}/{}", phase.name, phase.threads[of_phase].name);
            collect_steps(&plans[of_phase], &prefix, &times, steps);
        }
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        self.mark(&Mark { name: phase.name.clone(), round: 0, thread: None, tid, start_ns, end_ns });
        Ok(PhaseOutcome {
            name: phase.name.clone(),
            start_ns,
            wall_ns: end_ns - start_ns,
            amounts,
            times: whole,
        })
    }

    fn mark(&self, mark: &Mark) {
        lock(&self.observer).mark(mark);
    }

    fn did(&self, operations: u64) {
        self.done.fetch_add(operations, Ordering::Relaxed);
        let now = monotonic_ns();
        let told = self.told_ns.load(Ordering::Relaxed);
        let due = now - self.start_ns >= told + PROGRESS_INTERVAL_NS;
        if due
            && self
                .told_ns
                .compare_exchange(told, now - self.start_ns, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.tell_progress(self.done_share());
        }
    }

    fn done_share(&self) -> f64 {
        self.done.load(Ordering::Relaxed) as f64 / self.operations.max(1) as f64
    }

    fn tell_progress(&self, done: f64) {
        let elapsed_s = (monotonic_ns() - self.start_ns) as f64 / 1e9;
        // Below 1 % of the operations, the estimate varies too much.
        let left_s = (done >= 0.01).then(|| (elapsed_s / done - elapsed_s).max(0.0));
        lock(&self.observer).progress(&Progress { done: done.min(1.0), elapsed_s, left_s });
    }

    fn must_stop(&self) -> bool {
        self.failed.load(Ordering::Acquire) || self.runner.stop.load(Ordering::Acquire)
    }
}

fn collect_steps(
    plan: &[Planned<'_>],
    prefix: &str,
    times: &[worker::StepTime],
    into: &mut Vec<StepOutcome>,
) {
    for planned in plan {
        let time = &times[planned.index];
        into.push(StepOutcome {
            key: format!("{prefix}/{}", planned.key),
            kind: planned.step.kind().to_owned(),
            count: time.count,
            total_ns: time.total_ns,
            longest_ns: time.longest_ns,
            responses: Vec::new(),
        });
        collect_steps(&planned.inner, prefix, times, into);
    }
}

fn files_outcome(group: &Group) -> FilesOutcome {
    FilesOutcome {
        count: group.entries.len() as u64,
        bytes: group.entries.iter().map(|entry| entry.bytes).sum(),
    }
}

fn make(path: &Path) -> Result<(), WorkloadError> {
    fs::create_dir_all(path).map_err(file_error("make", path))
}

/// Creates a directory, or accepts an existing empty directory. Ignores `lost+found`.
fn make_empty(path: &Path) -> Result<(), WorkloadError> {
    make(path)?;
    for entry in fs::read_dir(path).map_err(file_error("list", path))? {
        if entry.map_err(file_error("list", path))?.file_name() != "lost+found" {
            return Err(WorkloadError::NotEmpty { path: path.to_owned() });
        }
    }
    Ok(())
}

fn file_error(operation: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> WorkloadError {
    let path = path.to_owned();
    move |source| WorkloadError::File { operation, path, source }
}

/// Locks a mutex. Ignores poisoning: after a panic, the run has failed, so no incomplete value is reported.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
