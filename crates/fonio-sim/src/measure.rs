//! Runs the studies' benchmarks on a device in virtual time.
//!
//! A [`Job`] is one process that keeps a number of requests in flight; [`run`] runs several jobs concurrently
//! on a device. A [`Protocol`] is an experiment that prepares a new device and runs jobs. The result of an
//! experiment is one number. `crate::fit` and `crate::verify` run protocols.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fonio_core::random::seed_for;
use fonio_core::{Access, ByteCount, Nanos, Op, Random, SECTOR_BYTES, Sector, Timestamp};

use crate::device::{Command, Device};
use crate::profile::{Profile, ProfileError};

/// One process and its requests.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The operation of all requests: read or write.
    pub op: Op,
    /// Whether requests are sequential or random.
    pub order: Order,
    /// The first byte of the range that the job uses.
    pub start: ByteCount,
    /// The length of the range that the job uses. A sequential job that reaches the end continues at the
    /// beginning.
    pub range: ByteCount,
    /// The size of each request.
    pub request: ByteCount,
    /// The number of requests of the job.
    pub count: u64,
    /// The number of requests in flight.
    pub depth: u32,
}

/// The order of a job's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each request begins where the previous one ended.
    Sequential,
    /// Each request begins at a random address in the range, aligned to the request size.
    Random,
}

impl From<Access> for Order {
    fn from(access: Access) -> Order {
        if access.is_sequential() { Order::Sequential } else { Order::Random }
    }
}

/// The result of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Number of completed requests.
    pub requests: u64,
    /// Number of bytes in the completed requests.
    pub bytes: ByteCount,
    /// Time from the first submission to the last completion.
    pub span: Nanos,
    /// The sum of all response times.
    pub response_sum: Nanos,
    /// The longest response time.
    pub response_max: Nanos,
}

impl Measured {
    /// Returns the throughput in 10⁶ bytes per second.
    pub fn mb_s(&self) -> f64 {
        self.bytes.0 as f64 / 1e6 / self.span.as_secs_f64()
    }

    /// Returns the number of requests per second.
    pub fn iops(&self) -> f64 {
        self.requests as f64 / self.span.as_secs_f64()
    }

    /// Returns the total time divided by the number of requests, in microseconds: the response time of Nguyen
    /// et al., section 4.3.
    pub fn micros_each(&self) -> f64 {
        self.span.0 as f64 / 1e3 / self.requests as f64
    }
}

/// Runs all jobs concurrently on a device, starting at `from`. Returns the jobs' results and the end time.
/// `seed` determines the addresses of random requests. Panics if a job's range is smaller than a request, or
/// extends beyond the device.
pub fn run(device: &mut dyn Device, jobs: &[Job], from: Timestamp, seed: u64) -> (Vec<Measured>, Timestamp) {
    struct Running {
        random: Random,
        made: u64,
        measured: Measured,
    }
    let mut running: Vec<Running> = (0..jobs.len() as u64)
        .map(|index| Running {
            random: Random::new(seed_for(seed, index + 1)),
            made: 0,
            measured: Measured::default(),
        })
        .collect();
    // Each entry is a slot of a job and the time at which the slot is free. Slots with equal times are used
    // in the order of their last submission.
    let mut free = BinaryHeap::new();
    let mut order = 0u64;
    for (index, job) in jobs.iter().enumerate() {
        assert!(job.range.0 >= job.request.0 && job.request.0 > 0, "a job's range fits one request");
        for _ in 0..u64::from(job.depth).min(job.count) {
            free.push(Reverse((from.0, order, index)));
            order += 1;
        }
    }
    let mut last = from;
    while let Some(Reverse((now, _, index))) = free.pop() {
        let (job, state) = (&jobs[index], &mut running[index]);
        if state.made == job.count {
            continue;
        }
        let places = job.range.0 / job.request.0;
        let place = match job.order {
            Order::Sequential => state.made % places,
            Order::Random => state.random.below(places),
        };
        state.made += 1;
        let command = Command {
            op: job.op,
            sector: Sector((job.start.0 + place * job.request.0) / SECTOR_BYTES),
            bytes: job.request,
            fua: false,
        };
        let done = device.submit(&command, Timestamp(now));
        let response = Nanos(done.0 - now);
        let measured = &mut state.measured;
        measured.requests += 1;
        measured.bytes += job.request;
        measured.response_sum += response;
        measured.response_max = measured.response_max.max(response);
        measured.span = measured.span.max(Nanos(done.0 - from.0));
        last = last.max(done);
        free.push(Reverse((done.0, order, index)));
        order += 1;
    }
    (running.into_iter().map(|state| state.measured).collect(), last)
}

/// An experiment on a new device.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// The operation of all requests: read or write.
    pub op: Op,
    /// Whether requests are sequential or random.
    pub order: Order,
    /// The size of each request.
    pub request: ByteCount,
    /// The length of each process's range on the device.
    pub range: ByteCount,
    /// Number of requests of each process.
    pub count: u64,
    /// Number of requests in flight per process.
    pub depth: u32,
    /// Number of bytes that are written before the experiment, from the beginning of the device on, in
    /// requests of 512 KiB.
    pub prepare: ByteCount,
    /// The result of the experiment.
    pub gives: Gives,
}

/// The result of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Throughput in 10⁶ bytes per second.
    Throughput,
    /// The number of requests per second.
    Iops,
    /// Response time in microseconds: total time divided by the number of requests.
    Response,
    /// Response time in microseconds while another process runs the given op.
    ResponseDuring(Op),
    /// Speedup of this number of processes: the total time if they run one after the other, divided by the
    /// time if they run concurrently.
    Speedup(u32),
}

/// The seed of every experiment that does not state its own seed.
pub const SEED: u64 = 1;

impl Protocol {
    /// Returns the random test of Kim et al., section 5.3: 2048 requests of 4 KiB. Before the test, the first
    /// 1 GB or the complete range is written, whichever is larger, because a card in use has been written
    /// completely. The range of Table III is not published; 128 MiB is the range of its sequential test.
    pub fn kim_random(op: Op, range: ByteCount) -> Protocol {
        Protocol {
            op,
            order: Order::Random,
            request: ByteCount(4096),
            range,
            count: 2048,
            depth: 1,
            prepare: ByteCount(range.0.max(1_000_000_000)),
            gives: Gives::Throughput,
        }
    }

    /// Returns the sequential test of 128 MiB on the phone (Kim et al., Table III). The request sizes are not
    /// published; we assume 512 KiB for writes and 128 KiB for reads (the kernel's read-ahead).
    pub fn kim_sequential(op: Op) -> Protocol {
        let request = if op == Op::Read { 128 << 10 } else { 512 << 10 };
        let range = ByteCount(128 << 20);
        Protocol {
            order: Order::Sequential,
            request: ByteCount(request),
            count: range.0 / request,
            ..Protocol::kim_random(op, range)
        }
    }

    /// Returns the experiment with 4 KiB direct I/O to a file of 128 MB, as in Nguyen et al., section 4.3.
    pub fn smartio(op: Op, order: Order, gives: Gives) -> Protocol {
        let range = ByteCount(128 << 20);
        Protocol {
            op,
            order,
            request: ByteCount(4096),
            range,
            count: range.0 / 4096,
            depth: 1,
            prepare: ByteCount(1 << 30),
            gives,
        }
    }

    /// Returns the experiment with several processes that use 32 MB each, as in Nguyen et al., section 4.5.
    pub fn concurrency(op: Op, order: Order, processes: u32) -> Protocol {
        let range = ByteCount(32 << 20);
        Protocol {
            range,
            count: range.0 / 4096,
            prepare: ByteCount(u64::from(processes.max(32)) * range.0),
            ..Protocol::smartio(op, order, Gives::Speedup(processes))
        }
    }

    /// Runs the experiment on a device of this profile. Fails if no device can be made from the profile.
    pub fn run(&self, profile: &Profile) -> Result<f64, ProfileError> {
        self.run_on(|| profile.device(None, SEED))
    }

    /// Runs the experiment on devices from `make`. Fails if `make` fails.
    pub fn run_on<E>(&self, make: impl Fn() -> Result<Box<dyn Device>, E>) -> Result<f64, E> {
        let alone = |jobs: u32| -> Result<Measured, E> {
            let mut device = make()?;
            let (results, _) = self.run_jobs(device.as_mut(), &self.processes(jobs));
            Ok(results.into_iter().max_by_key(|result| result.span).expect("there is a process"))
        };
        Ok(match self.gives {
            Gives::Throughput => alone(1)?.mb_s(),
            Gives::Iops => alone(1)?.iops(),
            Gives::Response => alone(1)?.micros_each(),
            Gives::Speedup(processes) => {
                // The processes run one after the other on one device, so each process starts with the state
                // that the previous process left.
                let mut device = make()?;
                let mut now = self.prepare(device.as_mut());
                let mut serial = 0;
                for job in self.processes(processes) {
                    let (results, after) = run(device.as_mut(), &[job], now, SEED + serial);
                    serial += results[0].span.0;
                    now = after;
                }
                serial as f64 / alone(processes)?.span.0 as f64
            }
            Gives::ResponseDuring(other) => {
                // For writes, twice the count is enough to keep the other process busy, as in the study.
                let factor = if other == Op::Write { 2 } else { 16 };
                let jobs = [self.job(self.op, 0, self.count), self.job(other, 1, self.count * factor)];
                self.run_jobs(make()?.as_mut(), &jobs).0[0].micros_each()
            }
        })
    }

    fn processes(&self, processes: u32) -> Vec<Job> {
        (0..u64::from(processes)).map(|index| self.job(self.op, index, self.count)).collect()
    }

    fn job(&self, op: Op, index: u64, count: u64) -> Job {
        Job {
            op,
            order: self.order,
            start: ByteCount(index * self.range.0),
            range: self.range,
            request: self.request,
            count,
            depth: self.depth,
        }
    }

    fn run_jobs(&self, device: &mut dyn Device, jobs: &[Job]) -> (Vec<Measured>, Timestamp) {
        let now = self.prepare(device);
        run(device, jobs, now, SEED)
    }

    fn prepare(&self, device: &mut dyn Device) -> Timestamp {
        let bytes = self.prepare.0.min(device.limits().capacity.0);
        write_in_order(device, ByteCount(bytes), Timestamp(0))
    }
}

/// Writes the first `bytes` of a device sequentially, in requests of 512 KiB or the device's maximum, and
/// flushes. Returns the time one second after the flush.
pub fn write_in_order(device: &mut dyn Device, bytes: ByteCount, from: Timestamp) -> Timestamp {
    let request = device.limits().command_max.0.min(512 << 10);
    let count = bytes.0 / request;
    if count == 0 {
        return from;
    }
    let job = Job {
        op: Op::Write,
        order: Order::Sequential,
        start: ByteCount(0),
        range: bytes,
        request: ByteCount(request),
        count,
        depth: 1,
    };
    let (_, end) = run(device, &[job], from, SEED);
    let flush = Command { op: Op::Flush, sector: Sector(0), bytes: ByteCount(0), fua: false };
    device.submit(&flush, end) + Nanos(1_000_000_000)
}
