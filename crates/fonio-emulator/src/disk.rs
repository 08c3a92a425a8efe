//! The emulated device: the model determines completion times, and the image stores the data. Front ends
//! (FUSE, NBD, ublk) submit commands and get a callback when each command completes.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fonio_core::{ByteCount, Nanos, Op, SECTOR_BYTES, Sector, Timestamp};
use fonio_sim::device::{Command, Counters, Device, Limits};

use crate::buffers::{Buffers, Data};
use crate::clock::ModelClock;
use crate::error::EmulatorError;
use crate::faults::{Asked, Faults, Verdict};
use crate::floor::OverheadsByTime;
use crate::image::Image;
use crate::lateness::LatenessFigures;
use crate::log::{Kind, LogWriter};
use crate::pacer::Pacer;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Request<'a> {
    Read { offset: u64, bytes: u64 },
    Write { offset: u64, data: &'a [u8], fua: bool },
    Flush,
    Discard { offset: u64, bytes: u64 },
    WriteZeroes { offset: u64, bytes: u64, fua: bool },
}

impl Request<'_> {
    fn op(&self) -> Op {
        match self {
            Request::Read { .. } => Op::Read,
            Request::Write { .. } => Op::Write,
            Request::Flush => Op::Flush,
            Request::Discard { .. } => Op::Discard,
            Request::WriteZeroes { .. } => Op::WriteZeroes,
        }
    }

    fn place(&self) -> (u64, u64) {
        match *self {
            Request::Read { offset, bytes }
            | Request::Discard { offset, bytes }
            | Request::WriteZeroes { offset, bytes, .. } => (offset, bytes),
            Request::Write { offset, data, .. } => (offset, data.len() as u64),
            Request::Flush => (0, 0),
        }
    }

    fn fua(&self) -> bool {
        matches!(self, Request::Write { fua: true, .. } | Request::WriteZeroes { fua: true, .. })
    }

    fn log_kind(&self) -> Option<Kind> {
        match self {
            Request::Read { .. } => None,
            Request::Write { .. } => Some(Kind::Write),
            Request::Flush => Some(Kind::Flush),
            Request::Discard { .. } => Some(Kind::Discard),
            Request::WriteZeroes { .. } => Some(Kind::WriteZeroes),
        }
    }
}

/// Marks a failed command, for which the host gets an I/O error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure;

/// Result of a command: the data of a read, otherwise empty.
pub(crate) type Outcome = Result<Data, Failure>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Completes commands after a fixed time, without the model, while fonio measures the I/O path.
    Measuring(Duration),
    /// Completes commands immediately, while the device is being prepared. The model and the log record these
    /// commands.
    Unpaced,
    /// Completes commands at the model's times.
    Paced,
}

struct State {
    mode: Mode,
    device: Box<dyn Device>,
    clock: ModelClock,
    overheads: OverheadsByTime,
    /// Time at which the model has finished all its commands so far.
    idle_at: Timestamp,
    faults: Faults,
    log: Option<LogWriter>,
    log_error: Option<String>,
    image_error: Option<String>,
    serial: u64,
    failed: u64,
}

pub(crate) struct Disk {
    limits: Limits,
    image: Image,
    buffers: Arc<Buffers>,
    started: Instant,
    dilate: f64,
    state: Mutex<State>,
    pacer: Pacer,
}

#[derive(Clone, Debug)]
pub(crate) struct DiskReport {
    pub(crate) counters: Counters,
    pub(crate) lateness: LatenessFigures,
    pub(crate) failed: u64,
    pub(crate) log_error: Option<String>,
    pub(crate) image_error: Option<String>,
}

impl Disk {
    /// Creates a device. `idle_at` is the time at which the model has finished its earlier commands. `pacer`
    /// completes commands.
    pub(crate) fn new(
        device: Box<dyn Device>,
        image: Image,
        faults: Faults,
        log: Option<&Path>,
        dilate: f64,
        idle_at: Timestamp,
        pacer: Pacer,
    ) -> Result<Disk, EmulatorError> {
        let limits = device.limits().clone();
        let log = log.map(|path| {
            LogWriter::create(path, limits.capacity, limits.volatile_cache)
                .map_err(EmulatorError::system("write", path))
        });
        let state = State {
            mode: Mode::Measuring(Duration::ZERO),
            device,
            clock: ModelClock::start(dilate),
            overheads: OverheadsByTime::default(),
            idle_at,
            faults,
            log: log.transpose()?,
            log_error: None,
            image_error: None,
            serial: 0,
            failed: 0,
        };
        let buffers = Buffers::of(&limits);
        Ok(Disk { limits, image, buffers, started: Instant::now(), dilate, state: Mutex::new(state), pacer })
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Makes the device complete every command after `delay`, without the model.
    pub(crate) fn measure(&self, delay: Duration) {
        self.lock().mode = Mode::Measuring(delay);
    }

    /// Makes the device complete commands at once. The model and the log record every command.
    pub(crate) fn unpace(&self) {
        self.lock().mode = Mode::Unpaced;
    }

    /// Makes the device complete commands at the model's times. All earlier commands count as complete, and
    /// the model's counters restart.
    pub(crate) fn pace(&self, overheads: OverheadsByTime) {
        let mut state = self.lock();
        let idle_at = state.idle_at;
        state.clock.skip_to(idle_at);
        state.device.reset_counters();
        state.overheads = overheads;
        state.mode = Mode::Paced;
    }

    pub(crate) fn mark(&self, name: &str) {
        let time = self.elapsed(Instant::now());
        self.lock().append(Kind::Mark, false, 0, (0, name.len() as u64), time, name.as_bytes());
    }

    /// Writes out the log and returns the device's statistics.
    pub(crate) fn report(&self) -> DiskReport {
        // Commands are served while the log is written.
        let flush = self.lock().log.as_ref().map(LogWriter::flush);
        let flushed = flush.map_or(Ok(()), |flush| flush());
        let mut state = self.lock();
        if let Err(error) = flushed {
            state.lose_log(&error);
        }
        DiskReport {
            counters: state.device.counters(),
            lateness: self.pacer.lateness().figures(),
            failed: state.failed,
            log_error: state.log_error.clone(),
            image_error: state.image_error.clone(),
        }
    }

    /// Completes the due commands on this thread, and returns the time at which the next command is due. Only
    /// front ends without a pacing thread call this method.
    pub(crate) fn complete_due(&self) -> Option<Instant> {
        self.pacer.run_due()
    }

    /// Accepts a command. `done` is called exactly once, when the command is complete, on this or another
    /// thread.
    pub(crate) fn submit(
        self: &Arc<Disk>,
        request: Request<'_>,
        done: impl FnOnce(Outcome) + Send + 'static,
    ) {
        let arrival = Instant::now();
        let (offset, bytes) = request.place();
        let whole_sectors = offset % SECTOR_BYTES == 0 && bytes % SECTOR_BYTES == 0;
        if !whole_sectors || offset.checked_add(bytes).is_none_or(|end| end > self.limits.capacity.0) {
            return done(Err(Failure));
        }
        let mut state = self.lock();
        if let Mode::Measuring(delay) = state.mode {
            drop(state);
            let outcome = self.perform(&request, &Verdict::default());
            if delay.is_zero() {
                return done(outcome);
            }
            return self.pacer.schedule(arrival + delay, move || done(outcome));
        }
        let elapsed = self.elapsed(arrival);
        let verdict = match state.mode {
            Mode::Paced => state.faults.judge(&Asked { op: request.op(), offset, bytes, elapsed }),
            _ => Verdict::default(),
        };
        let failing = verdict.fails || verdict.vanished;
        state.failed += u64::from(failing);
        if verdict.vanished {
            drop(state);
            return done(Err(Failure));
        }
        let deadline = state.completion(&request, arrival, self.dilate, verdict.delay);
        let serial = state.serial;
        state.serial += 1;
        let logged = request.log_kind().filter(|_| !failing);
        if let Some(kind) = logged {
            let data = match request {
                Request::Write { data, .. } => data,
                _ => &[],
            };
            state.append(kind, request.fua(), serial, (offset, bytes), elapsed, data);
        }
        let paced = state.mode == Mode::Paced;
        drop(state);

        let mut outcome = if failing { Err(Failure) } else { self.perform(&request, &verdict) };
        let disk = Arc::clone(self);
        let finish = move || {
            if logged.is_some() {
                let time = disk.elapsed(Instant::now());
                let mut state = disk.lock();
                state.append(Kind::Completed, false, serial, (0, 0), time, &[]);
                // If the completion cannot be logged, the command must fail.
                if state.log_error.is_some() {
                    outcome = Err(Failure);
                }
            }
            done(outcome);
        };
        if paced {
            self.pacer.schedule(deadline, finish);
        } else {
            finish();
        }
    }

    fn perform(&self, request: &Request<'_>, verdict: &Verdict) -> Outcome {
        let moved = match *request {
            Request::Read { offset, bytes } => {
                let mut data = self.buffers.take(usize::try_from(bytes).map_err(|_| Failure)?);
                let read = self.image.read(offset, &mut data);
                for bit in &verdict.flips {
                    data[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
                read.map(|()| data)
            }
            Request::Write { offset, data, .. } => self.image.write(offset, data).map(|()| Data::default()),
            Request::Flush => Ok(Data::default()),
            Request::Discard { offset, bytes } | Request::WriteZeroes { offset, bytes, .. } => {
                self.image.zero(offset, bytes).map(|()| Data::default())
            }
        };
        moved.map_err(|error| {
            self.lock().image_error.get_or_insert_with(|| error.to_string());
            Failure
        })
    }

    /// Returns a buffer for the data of a request.
    pub(crate) fn buffer(&self, bytes: usize) -> Data {
        self.buffers.take(bytes)
    }

    fn elapsed(&self, now: Instant) -> Nanos {
        Nanos(u64::try_from(now.saturating_duration_since(self.started).as_nanos()).unwrap_or(u64::MAX))
    }

    /// Locks the state, ignoring poison: the state is consistent even after a failed assertion in a model.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the wall-clock time at which the command completes. To compensate for the latency of the I/O
    /// path, the model gets an arrival time that is earlier by half of this latency, and the host gets the
    /// completion earlier by the other half.
    fn completion(&mut self, request: &Request<'_>, arrival: Instant, dilate: f64, delay: Nanos) -> Instant {
        let (offset, bytes) = request.place();
        let way_in = Duration::from_nanos(self.overheads.short.of(request.op(), bytes).0 / 2);
        let began = arrival.checked_sub(way_in).unwrap_or(arrival);
        let now = match self.mode {
            Mode::Paced => self.clock.model_at(began),
            _ => self.clock.model_at(arrival).max(self.idle_at),
        };
        let command = Command {
            op: request.op(),
            sector: Sector(offset / SECTOR_BYTES),
            bytes: ByteCount(bytes),
            fua: request.fua(),
        };
        let completed = self.device.submit(&command, now);
        assert!(
            completed >= now,
            "the model completes {command:?} at {completed:?}, before it arrives at {now:?}"
        );
        self.idle_at = self.idle_at.max(completed);
        if self.mode != Mode::Paced {
            self.clock.skip_to(now);
            return arrival;
        }
        let delay = Duration::from_nanos((delay.0 as f64 * dilate) as u64);
        let at = self.clock.wall_at(completed) + delay;
        let time = Nanos((completed.0.saturating_sub(now.0) as f64 * dilate) as u64);
        let overhead = Duration::from_nanos(self.overheads.of(request.op(), bytes, time).0);
        at.checked_sub(overhead - way_in).unwrap_or(at)
    }

    fn append(&mut self, kind: Kind, fua: bool, serial: u64, place: (u64, u64), time: Nanos, data: &[u8]) {
        if let Some(Err(error)) =
            self.log.as_mut().map(|log| log.append(kind, fua, serial, place, time, data))
        {
            self.lose_log(&error);
        }
    }

    fn lose_log(&mut self, error: &std::io::Error) {
        self.log = None;
        self.log_error = Some(error.to_string());
    }
}
