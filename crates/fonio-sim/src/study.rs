//! The experiments of Nguyen et al. (2015) with schedulers, in virtual time: slowdowns (section 7.2),
//! speedups (section 4.5) and mixed workloads (section 7.3).
//!
//! The parameters of the schedulers (`scheduler::cfq`, `scheduler::smartio`) and of the workloads below
//! come from the study's text. The device's profile was fitted to response times that were measured with
//! one kind of I/O at a time. No number in this module was fitted, and none was changed after the first
//! comparison with a published result.

use fonio_core::{ByteCount, Nanos, Op, Timestamp};

use crate::device::Device;
use crate::engine::{self, ClosedLoop, Host, Outcome, Source, Think};
use crate::measure::{Order, write_in_order};
use crate::profile::{Profile, ProfileError};
use crate::scheduler::{Priority, ProcessId, Scheduler};

/// The driver's queue depth. Linux's eMMC driver prepares a command while another command is in progress
/// (since Linux 3.1; `Documentation/mmc/mmc-async-req`). We assume a depth of 2 for all phones: the Razr has
/// Linux 3.0, but the study found that the Razr gains from two processes.
pub const DRIVER_DEPTH: u32 = 2;

/// The size of all requests (section 4.3).
pub const REQUEST: ByteCount = ByteCount(4096);

/// The file of a process in the slowdown experiments (section 7.2): 32,768 requests (section 4.3).
pub const FILE: ByteCount = ByteCount(128 << 20);

/// The file of a process in the speedup experiments (section 4.5).
pub const SMALL_FILE: ByteCount = ByteCount(32 << 20);

/// Number of requests in flight in the mixed workload (section 7.3).
pub const MIXED_DEPTH: u32 = 128;

/// The assumed think time of a process. The fitted response times already include the host's time, so this
/// time only prevents runs with different seeds from staying in phase.
pub const THINK: Think = Think { min: Nanos(0), max: Nanos(2_000) };

/// A device with a scheduler.
pub struct Setup<'a> {
    /// The profile of the device.
    pub profile: &'a Profile,
    /// A function that makes the scheduler.
    pub scheduler: &'a dyn Fn() -> Box<dyn Scheduler>,
    /// The seed of addresses and think times.
    pub seed: u64,
}

/// Response times of concurrent processes, relative to one process alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowdown {
    /// The factor by which readers are slowed down.
    pub read: f64,
    /// The factor by which writers are slowed down.
    pub write: f64,
}

impl Setup<'_> {
    /// Returns the response time of one process alone in microseconds: total time divided by the number of
    /// requests. Fails if no device can be made from the profile.
    pub fn alone(&self, op: Op, order: Order) -> Result<f64, ProfileError> {
        let outcome = self.run(vec![process(0, op, order, FILE)], FILE)?;
        Ok(outcome.of(ProcessId(0), op).micros_each())
    }

    /// Returns the factors by which equal numbers of readers and writers slow each other down. Each process
    /// has its own file; all files have the same size. Fails if no device can be made from the profile.
    pub fn slowdown(&self, order: Order, processes: u32) -> Result<Slowdown, ProfileError> {
        let of = |op, first: u32| (first..first + processes).map(move |at| process(at, op, order, FILE));
        let all = of(Op::Read, 0).chain(of(Op::Write, processes)).collect();
        let outcome = self.run(all, ByteCount(2 * u64::from(processes) * FILE.0))?;
        let mean = |op, first: u32| {
            let each = (first..first + processes).map(|at| outcome.of(ProcessId(at), op).micros_each());
            each.sum::<f64>() / f64::from(processes)
        };
        Ok(Slowdown {
            read: mean(Op::Read, 0) / self.alone(Op::Read, order)?,
            write: mean(Op::Write, processes) / self.alone(Op::Write, order)?,
        })
    }

    /// Returns the speedup of concurrent processes: the total time if they run one after the other, divided
    /// by the time if they run concurrently. Fails if no device can be made from the profile.
    pub fn speedup(&self, op: Op, order: Order, processes: u32) -> Result<f64, ProfileError> {
        let all = (0..processes).map(|at| process(at, op, order, SMALL_FILE));
        let size = ByteCount(u64::from(processes) * SMALL_FILE.0);
        let (mut device, mut now) = self.prepared(size)?;
        let mut serial = 0;
        for process in all.clone() {
            let outcome = self.run_on(device.as_mut(), vec![process], now);
            serial += outcome.end.0 - now.0;
            now = outcome.end;
        }
        let outcome = self.run(all.collect(), size)?;
        Ok(serial as f64 / (outcome.end.0 - outcome.from.0) as f64)
    }

    /// Returns the seconds that one process needs to transfer 128 MB. The process reads `reads_percent` of
    /// the data and writes the rest. Fails if no device can be made from the profile.
    pub fn mixed(&self, reads_percent: u8, order: Order) -> Result<f64, ProfileError> {
        let mixed = ClosedLoop { reads_percent, depth: MIXED_DEPTH, ..process(0, Op::Read, order, FILE) };
        let outcome = self.run(vec![mixed], FILE)?;
        Ok((outcome.end.0 - outcome.from.0) as f64 / 1e9)
    }

    fn run(&self, processes: Vec<ClosedLoop>, size: ByteCount) -> Result<Outcome, ProfileError> {
        let (mut device, now) = self.prepared(size)?;
        Ok(self.run_on(device.as_mut(), processes, now))
    }

    fn run_on(&self, device: &mut dyn Device, processes: Vec<ClosedLoop>, from: Timestamp) -> Outcome {
        let sources = processes.into_iter().map(Source::Closed).collect();
        let host = Host { depth: DRIVER_DEPTH, seed: self.seed };
        let mut scheduler = (self.scheduler)();
        engine::run(device, scheduler.as_mut(), sources, from, host)
            .expect("the files of all processes lie on the device")
    }

    /// Returns a new device whose first part, at least 1 GiB as in `measure::Protocol::smartio`, was written
    /// sequentially.
    fn prepared(&self, size: ByteCount) -> Result<(Box<dyn Device>, Timestamp), ProfileError> {
        let mut device = self.profile.device(None, self.seed)?;
        let bytes = ByteCount(size.0.max(1 << 30));
        let now = write_in_order(device.as_mut(), bytes, Timestamp(0));
        Ok((device, now))
    }
}

/// Returns a process that uses direct I/O on its own file, so it also waits for its writes.
fn process(at: u32, op: Op, order: Order, file: ByteCount) -> ClosedLoop {
    ClosedLoop {
        process: ProcessId(at),
        priority: Priority::DEFAULT,
        is_sync: true,
        reads_percent: if op == Op::Read { 100 } else { 0 },
        order,
        start: ByteCount(u64::from(at) * file.0),
        range: file,
        request: REQUEST,
        count: file.0 / REQUEST.0,
        depth: 1,
        think: THINK,
    }
}
