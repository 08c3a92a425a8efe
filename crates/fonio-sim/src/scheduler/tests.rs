//! Tests properties that all policies have, and a few properties of individual policies.

use std::collections::BTreeMap;

use fonio_core::{ByteCount, Nanos, Op, Random, Sector, Timestamp};
use proptest::prelude::*;

use super::smartio::{self, SmartIo};
use super::*;

const IDLE: u64 = 8_000_000;
const SLICE: u64 = 100_000_000;
const TICK: u64 = 4_000_000;

/// Returns the maximum time for which a policy holds requests back from an idle device, in nanoseconds.
fn idle_max(policy: Policy) -> u64 {
    match policy {
        Policy::Cfq | Policy::Bfq => IDLE,
        _ => 0,
    }
}

/// A driver that checks the contract of [`Scheduler`].
struct Driver {
    scheduler: Box<dyn Scheduler>,
    idle_max: u64,
    waiting: BTreeMap<RequestId, (Request, Timestamp)>,
    in_flight: Vec<(Request, Timestamp)>,
    next_id: u64,
    now: Timestamp,
    gone: u64,
}

impl Driver {
    fn new(scheduler: Box<dyn Scheduler>, idle_max: u64) -> Driver {
        Driver {
            scheduler,
            idle_max,
            waiting: BTreeMap::new(),
            in_flight: Vec::new(),
            next_id: 0,
            now: Timestamp(0),
            gone: 0,
        }
    }

    fn insert(&mut self, mut request: Request) {
        request.id = RequestId(self.next_id);
        self.next_id += 1;
        self.waiting.insert(request.id, (request, self.now));
        self.scheduler.insert(request, self.now);
    }

    fn dispatch(&mut self) -> Option<(Request, Timestamp)> {
        let given = self.scheduler.dispatch(self.now, self.in_flight.len() as u32);
        let taken = given.map(|request| {
            let (inserted, at) = self.waiting.remove(&request.id).expect("dispatched requests were waiting");
            assert_eq!(request, inserted, "the request is unchanged");
            self.in_flight.push((request, self.now));
            self.gone += 1;
            (request, at)
        });
        assert_eq!(self.scheduler.waiting(), self.waiting.len());
        let timer = self.scheduler.next_timer(self.now);
        assert!(timer.is_none_or(|at| at > self.now), "the next timer is not in the future");
        if taken.is_none() && !self.waiting.is_empty() && self.in_flight.is_empty() {
            let at = timer.expect("if requests wait and none is in flight, a timer is set");
            assert!(
                at.0 <= self.now.0 + self.idle_max,
                "the device idles for too long, until {at:?}; the time is {:?}",
                self.now
            );
        }
        taken
    }

    fn complete(&mut self, at: usize) {
        let (request, issued) = self.in_flight.remove(at);
        self.scheduler.complete(&request, issued, self.now);
    }

    /// Completes all requests, one at a time.
    fn drain(&mut self) {
        while !self.waiting.is_empty() || !self.in_flight.is_empty() {
            while self.dispatch().is_some() {}
            match self.in_flight.is_empty() {
                false => {
                    self.now = self.now + Nanos(100_000);
                    self.complete(0);
                }
                true if self.waiting.is_empty() => {}
                true => self.now = self.scheduler.next_timer(self.now).expect("idling sets a timer"),
            }
        }
        assert_eq!(self.gone, self.next_id, "every request was dispatched");
    }
}

fn any_request(random: &mut Random, processes: u64, priorities: &[Priority]) -> Request {
    let ops = [Op::Read, Op::Read, Op::Read, Op::Write, Op::Write, Op::Write, Op::Discard];
    let sizes = [4096, 4096, 65_536, 512 << 10];
    Request {
        id: RequestId(0),
        op: ops[random.below(ops.len() as u64) as usize],
        is_sync: random.below(2) == 0,
        sector: Sector(random.below(64) * 8),
        bytes: ByteCount(sizes[random.below(sizes.len() as u64) as usize]),
        process: ProcessId(random.below(processes) as u32),
        priority: priorities[random.below(priorities.len() as u64) as usize],
    }
}

fn priorities() -> Vec<Priority> {
    let mut all = vec![Priority::DEFAULT; 4];
    for class in Class::ALL {
        all.extend([0, 4, 7].map(|level| Priority { class, level }));
    }
    all
}

/// Executes random insertions, dispatches, completions and waits. `check` gets the driver, each dispatched
/// request, and the request's insertion time.
fn drive(driver: &mut Driver, seed: u64, depth: usize, mut check: impl FnMut(&Driver, Request, Timestamp)) {
    let mut random = Random::new(seed);
    let priorities = if seed.is_multiple_of(3) { vec![Priority::DEFAULT] } else { priorities() };
    for _ in 0..500 {
        match random.below(10) {
            0..=3 => {
                let request = any_request(&mut random, 5, &priorities);
                driver.insert(request);
            }
            4..=6 if driver.in_flight.len() < depth => {
                if let Some((request, inserted)) = driver.dispatch() {
                    check(driver, request, inserted);
                }
            }
            4..=7 if !driver.in_flight.is_empty() => {
                let at = random.below(driver.in_flight.len() as u64) as usize;
                driver.complete(at);
            }
            8 => driver.now = driver.now + Nanos(random.below(10_000_000)),
            _ => {
                if let Some(at) = driver.scheduler.next_timer(driver.now) {
                    driver.now = at;
                }
            }
        }
    }
}

proptest! {
    /// No request is lost, changed or dispatched twice, and no policy idles the device longer than allowed.
    #[test]
    fn every_request_goes_once_and_in_time(seed in any::<u64>(), depth in 1usize..40) {
        for policy in Policy::ALL {
            let mut driver = Driver::new(policy.scheduler(), idle_max(policy));
            drive(&mut driver, seed, depth, |_, _, _| {});
            driver.drain();
        }
        let holding = smartio::Tunables { hold: Nanos(IDLE), ..smartio::Tunables::SAMSUNG_S5 };
        let mut driver = Driver::new(Box::new(SmartIo::new(holding)), IDLE);
        drive(&mut driver, seed, depth, |_, _, _| {});
        driver.drain();
    }

    #[test]
    fn the_same_inputs_give_the_same_decisions(seed in any::<u64>()) {
        for policy in Policy::ALL {
            let decisions = || {
                let mut driver = Driver::new(policy.scheduler(), idle_max(policy));
                let mut order = Vec::new();
                drive(&mut driver, seed, 4, |driver, request, _| order.push((driver.now, request.id)));
                order
            };
            prop_assert_eq!(decisions(), decisions());
        }
    }

    #[test]
    fn noop_keeps_the_order(seed in any::<u64>()) {
        let mut driver = Driver::new(Policy::Noop.scheduler(), 0);
        let mut next = 0;
        drive(&mut driver, seed, 8, |_, request, _| {
            assert_eq!(request.id.0, next);
            next += 1;
        });
    }

    /// In each class, SmartIO dispatches a write only after a slice, or if no read waits or is in flight. No
    /// kind exceeds its limit.
    #[test]
    fn smartio_puts_reads_first_and_keeps_its_limits(seed in any::<u64>()) {
        let settings = smartio::Tunables::SAMSUNG_S5;
        let mut driver = Driver::new(Box::new(SmartIo::new(settings)), 0);
        let mut random = Random::new(seed);
        let mut ends = BTreeMap::new();
        let mut kinds = BTreeMap::new();
        for _ in 0..600 {
            match random.below(8) {
                0..=2 => {
                    let request = any_request(&mut random, 3, &[Priority::DEFAULT]);
                    let is_read = request.op == Op::Read;
                    let is_sequential = ends.insert((request.process, is_read), request.end()) == Some(request.sector);
                    kinds.insert(driver.next_id, 2 * usize::from(!is_read) + usize::from(!is_sequential));
                    driver.insert(request);
                }
                3..=5 => {
                    let reads = |request: &Request| request.op == Op::Read;
                    let is_read_known = driver.waiting.values().any(|(request, _)| reads(request))
                        || driver.in_flight.iter().any(|(request, _)| reads(request));
                    let Some((gone, inserted)) = driver.dispatch() else { continue };
                    if gone.op != Op::Read && is_read_known {
                        prop_assert!(inserted.0 + SLICE <= driver.now.0, "a write overtook a read too early");
                    }
                    let mut count = [0; 4];
                    for (request, _) in &driver.in_flight {
                        count[kinds[&request.id.0]] += 1;
                    }
                    for (count, limit) in count.into_iter().zip(settings.limits) {
                        prop_assert!(count <= limit);
                    }
                }
                6 if !driver.in_flight.is_empty() => driver.complete(0),
                _ => driver.now = driver.now + Nanos(random.below(30_000_000)),
            }
        }
    }

    /// mq-deadline dispatches a request only if no request of a higher class is unfinished or if the
    /// request has aged. Ages are measured in kernel ticks.
    #[test]
    fn mq_deadline_serves_classes_in_order(seed in any::<u64>()) {
        let mut driver = Driver::new(Policy::MqDeadline.scheduler(), 0);
        drive(&mut driver, seed, 4, |driver, gone, inserted| {
            let waiting = driver.waiting.values().map(|(request, _)| request);
            let in_flight = driver.in_flight.iter().map(|(request, _)| request);
            let is_held = waiting.chain(in_flight).any(|other| other.priority.class < gone.priority.class);
            // A batch begun by an aged request may continue with younger requests.
            let oldest = driver.waiting.values().filter(|(other, _)| other.priority.class == gone.priority.class);
            let oldest = oldest.map(|(_, at)| *at).min().unwrap_or(inserted).min(inserted);
            assert!(!is_held || oldest.0 + 10_000_000_000 <= driver.now.0 + TICK);
        });
    }
}

/// Runs closed loops, each with one request in flight, on a device that takes 1 ms per request. Returns how
/// many requests of each loop completed within `seconds`.
fn contend(policy: Policy, loops: &[Request], seconds: u64) -> Vec<u64> {
    let mut driver = Driver::new(policy.scheduler(), idle_max(policy));
    let mut completed = vec![0; loops.len()];
    let mut next: Vec<Request> = loops.to_vec();
    for request in &next {
        driver.insert(*request);
        // In BFQ, processes that start together share a queue.
        driver.now = driver.now + Nanos(1_000_000_000);
    }
    let ends = driver.now + Nanos(seconds * 1_000_000_000);
    while driver.now < ends {
        match driver.dispatch() {
            Some((request, _)) => {
                driver.now = driver.now + Nanos(1_000_000);
                driver.complete(0);
                let at = request.process.0 as usize;
                completed[at] += 1;
                next[at].sector = request.end();
                driver.insert(next[at]);
            }
            None => driver.now = driver.scheduler.next_timer(driver.now).expect("the scheduler only idles"),
        }
    }
    completed
}

pub(super) fn request(id: u64, op: Op, sector: u64) -> Request {
    Request {
        id: RequestId(id),
        op,
        is_sync: true,
        sector: Sector(sector),
        bytes: ByteCount(4096),
        process: ProcessId(0),
        priority: Priority::DEFAULT,
    }
}

fn reader(process: u32, bytes: u64, level: u8) -> Request {
    let (process, bytes) = (ProcessId(process), ByteCount(bytes));
    let priority = Priority { class: Class::BestEffort, level };
    Request { bytes, process, priority, ..request(0, Op::Read, u64::from(process.0) << 20) }
}

#[test]
fn equal_processes_get_equal_shares() {
    // The deadline schedulers are fair to sectors, not to processes.
    for policy in [Policy::Noop, Policy::Cfq, Policy::SmartIo, Policy::Kyber, Policy::Bfq] {
        for bytes in [4096, 128 << 10] {
            let shares = contend(policy, &[reader(0, bytes, 4), reader(1, bytes, 4)], 20);
            let apart = shares[0].abs_diff(shares[1]);
            // A slice or a budget is used up after 100 to 124 requests.
            assert!(apart <= 124, "{}: {shares:?}", policy.name());
        }
    }
}

#[test]
fn processes_that_start_together_share_a_queue_of_bfq() {
    // The second process starts 1 ms or 1 s after the first process.
    for (pause, expected) in [(1_000_000, [0, 2, 1]), (1_000_000_000, [0, 1, 2])] {
        let settings = bfq::Tunables { slice_idle: Nanos(0), ..bfq::Tunables::DEFAULT };
        let mut driver = Driver::new(Box::new(bfq::Bfq::new(settings)), 0);
        for (process, sector, wait) in [(0, 0, 0), (0, 40_000, 0), (1, 20_000, pause)] {
            driver.now = driver.now + Nanos(wait);
            driver.insert(Request { sector: Sector(sector), ..reader(process, 4096, 4) });
        }
        let mut order = Vec::new();
        while let Some((gone, _)) = driver.dispatch() {
            order.push(gone.id.0);
            driver.complete(0);
        }
        assert_eq!(order, expected, "{pause}");
    }
}

#[test]
fn levels_share_the_time_as_documented() {
    let loops = [reader(0, 128 << 10, 0), reader(1, 128 << 10, 7)];
    // The time slices are 180 and 40 ms.
    let shares = contend(Policy::Cfq, &loops, 22);
    assert!((17_800..=18_200).contains(&shares[0]) && (3_800..=4_200).contains(&shares[1]), "{shares:?}");
    // The weights are 80 and 10.
    let shares = contend(Policy::Bfq, &loops, 90);
    let ratio = shares[0] as f64 / shares[1] as f64;
    assert!((7.2..=8.8).contains(&ratio), "{shares:?}");
}

#[test]
fn an_ioprio_is_read_as_the_kernel_writes_it() {
    let shown: Vec<String> = [0, 0x2000, 0x4004, 0x6007, 0x4007]
        .map(Priority::from_ioprio)
        .iter()
        .map(|priority| format!("{}{}", priority.class.name(), priority.level))
        .collect();
    assert_eq!(shown, ["be4", "rt0", "be4", "idle7", "be7"]);
}

#[test]
fn algorithm_6_2_limits_a_queue_that_is_not_alone() {
    for (in_flight, busy, may) in
        [(0, 1, true), (7, 2, true), (8, 2, false), (8, 1, true), (100, 1, true), (9, 3, false), (3, 0, true)]
    {
        assert_eq!(cfq::may_dispatch(in_flight, busy, 8), may, "{in_flight} in flight, {busy} busy queues");
    }
}
