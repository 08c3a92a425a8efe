use fonio_core::rows;
use fonio_core::{DeviceId, Flags, Nanos, Random};
use proptest::prelude::*;

use super::replay::Replay;
use super::*;
use crate::device::memory::{Memory, MemoryDevice};
use crate::measure::{self, Job, Order};
use crate::profile::Profile;
use crate::scheduler::{Class, Policy, Priority, ProcessId};

/// Returns a device that takes 1 µs per sector.
fn memory() -> MemoryDevice {
    let memory =
        Memory { line_bytes: 512, read_line: Nanos(1_000), write_line: Nanos(1_000), command: Nanos(0) };
    let limits = crate::device::Limits {
        capacity: ByteCount(1 << 30),
        depth: 64,
        command_max: ByteCount(1 << 20),
        discard_granularity: None,
        fua: false,
        volatile_cache: false,
        flush_blocks_all: false,
    };
    MemoryDevice::new(memory, limits)
}

fn reader(process: u32, count: u64) -> ClosedLoop {
    ClosedLoop {
        process: ProcessId(process),
        priority: Priority::DEFAULT,
        is_sync: true,
        reads_percent: 100,
        order: Order::Sequential,
        start: ByteCount(u64::from(process) << 24),
        range: ByteCount(1 << 24),
        request: ByteCount(4096),
        count,
        depth: 1,
        think: Think::NONE,
    }
}

fn arrival(at: u64, op: Op, sectors: u64) -> Arrival {
    Arrival {
        at: Timestamp(at),
        op,
        is_sync: true,
        fua: false,
        sector: Sector(0),
        bytes: ByteCount(sectors * 512),
        process: ProcessId(1),
        priority: Priority::DEFAULT,
    }
}

/// Runs sources on the memory device, with this driver depth.
fn run_on_memory(policy: Policy, sources: Vec<Source<'_>>, depth: u32) -> Result<Outcome, EngineError> {
    run(&mut memory(), policy.scheduler().as_mut(), sources, Timestamp(0), Host { depth, seed: 1 })
}

fn open(arrivals: Vec<Arrival>) -> Source<'static> {
    Source::Open(Box::new(arrivals.into_iter().map(Ok)))
}

proptest! {
    /// In a FIFO server, each request begins when it has arrived and the previous one has completed.
    #[test]
    fn noop_on_one_server_is_lindleys_recursion(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let mut at = 0;
        let arrivals: Vec<Arrival> = (0..200)
            .map(|_| {
                at += random.below(20_000);
                arrival(at, Op::Read, 1 + random.below(20))
            })
            .collect();
        let (mut free, mut response, mut queue_max) = (0, 0, 0);
        for arrival in &arrivals {
            let begin = free.max(arrival.at.0);
            queue_max = queue_max.max(begin - arrival.at.0);
            free = begin + arrival.bytes.0 / 512 * 1_000;
            response += free - arrival.at.0;
        }
        let outcome = run_on_memory(Policy::Noop, vec![open(arrivals)], 1).unwrap();
        let tally = outcome.of(ProcessId(1), Op::Read);
        prop_assert_eq!(tally.count, 200);
        prop_assert_eq!(tally.response.sum, Nanos(response));
        prop_assert_eq!(tally.queue.max, Nanos(queue_max));
        prop_assert_eq!(outcome.end, Timestamp(free));
    }

    /// With `noop` and no depth limit, the engine gives the same result as the benchmark runner of `measure`.
    #[test]
    fn noop_without_a_limit_changes_nothing(seed in any::<u64>(), random_order in any::<bool>(), depth in 1u32..5) {
        let order = if random_order { Order::Random } else { Order::Sequential };
        let profile = Profile::shipped("samsung_s5").unwrap();
        let job = |op, at: u64| Job {
            op,
            order,
            start: ByteCount(at << 24),
            range: ByteCount(1 << 24),
            request: ByteCount(4096),
            count: 300,
            depth,
        };
        let jobs = [job(Op::Read, 0), job(Op::Write, 1)];
        let size = Some(ByteCount(1 << 28));
        let from = Timestamp(1_000);
        let (expected, _) = measure::run(profile.device(size, 1).unwrap().as_mut(), &jobs, from, seed);
        let loops = [(100, 0), (0, 1)].map(|(reads_percent, at)| {
            Source::Closed(ClosedLoop { reads_percent, order, depth, ..reader(at, 300) })
        });
        let mut noop = Policy::Noop.scheduler();
        let host = Host { depth: 1_000, seed };
        let mut device = profile.device(size, 1).unwrap();
        let outcome = run(device.as_mut(), noop.as_mut(), loops.into(), from, host).unwrap();
        for (at, op) in [(0, Op::Read), (1, Op::Write)] {
            let tally = outcome.of(ProcessId(at), op);
            let expected = &expected[at as usize];
            prop_assert_eq!(tally.span(), expected.span);
            prop_assert_eq!(tally.response.sum, expected.response_sum);
            prop_assert_eq!(tally.response.max, expected.response_max);
        }
    }

    /// For every policy, with both closed and open sources, every request completes once, and two runs give
    /// the same result.
    #[test]
    fn every_request_completes_and_a_seed_repeats(seed in any::<u64>(), depth in 1u32..9) {
        let think = Think { min: Nanos(0), max: Nanos(20_000_000) };
        for policy in Policy::ALL {
            let once = || {
                let idle = Priority { class: Class::Idle, level: 7 };
                let writer = ClosedLoop { reads_percent: 0, is_sync: false, depth: 8, ..reader(2, 100) };
                let mixed = ClosedLoop { reads_percent: 30, order: Order::Random, think, depth: 2, ..reader(3, 100) };
                let open = (0..100).map(|at| Ok(Arrival { priority: idle, process: ProcessId(4), ..arrival(at * 50_000, Op::Read, 8) }));
                let sources = vec![
                    Source::Closed(reader(1, 100)),
                    Source::Closed(writer),
                    Source::Closed(mixed),
                    Source::Open(Box::new(open)),
                ];
                let mut scheduler = policy.scheduler();
                run(&mut memory(), scheduler.as_mut(), sources, Timestamp(0), Host { depth, seed }).unwrap()
            };
            let outcome = once();
            prop_assert_eq!(outcome.count(), 400);
            prop_assert_eq!(&outcome, &once());
            for tally in outcome.tallies.values() {
                prop_assert_eq!(tally.response.sum, tally.queue.sum + tally.service.sum);
            }
        }
    }
}

#[test]
fn a_flush_bypasses_the_scheduler() {
    let arrivals = vec![arrival(0, Op::Write, 8), arrival(0, Op::Write, 8), arrival(0, Op::Flush, 0)];
    let outcome = run_on_memory(Policy::Noop, vec![open(arrivals)], 1).unwrap();
    let flush = outcome.of(ProcessId(1), Op::Flush);
    let write = outcome.of(ProcessId(1), Op::Write);
    assert_eq!((flush.queue.max, write.queue.max), (Nanos(8_000), Nanos(8_000)));
}

fn row(id: u64, queued: Option<u64>, sector: u64) -> rows::Request {
    rows::Request {
        request_id: id,
        sector: Some(Sector(sector)),
        queued: queued.map(Timestamp),
        tid: Some(id as u32 % 2),
        flags: if id.is_multiple_of(2) { Flags::SYNC } else { Flags::NONE },
        ioprio: Some(0x2003),
        ..rows::Request::new(DeviceId::new(8, 0), Op::Write, ByteCount(4096))
    }
}

#[test]
fn a_recording_is_replayed_in_the_order_of_queueing() {
    let rows = vec![row(0, Some(50), 0), row(1, Some(10), 8), row(2, Some(10), 16)];
    let arrivals: Vec<Arrival> = Replay::new(rows.into_iter()).collect::<Result<_, _>>().unwrap();
    let shown: Vec<_> = arrivals.iter().map(|of| (of.at.0, of.sector.0, of.process.0, of.is_sync)).collect();
    assert_eq!(shown, [(10, 8, 1, false), (10, 16, 0, true), (50, 0, 0, true)]);
    assert_eq!(arrivals[0].priority, Priority { class: Class::RealTime, level: 3 });
}

#[test]
fn errors_name_the_request() {
    let replay = Replay::new(std::iter::once(row(7, None, 0)));
    for (source, expected) in [
        (
            open(vec![arrival(0, Op::Read, 1 << 22)]),
            "the request at sector 0 with 2147483648 bytes ends beyond the device's 1073741824 bytes; simulate a larger device",
        ),
        (
            open(vec![arrival(5, Op::Read, 8), arrival(4, Op::Read, 8)]),
            "a request at 4 ns came after a request at 5 ns; sort requests by queueing time",
        ),
        (
            Source::Open(Box::new(replay)),
            "request 7 of the recording has no time of queueing, so it cannot be replayed",
        ),
    ] {
        let error = run_on_memory(Policy::Noop, vec![source], 2).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

fn step(process: u32, sectors: u64, begins: Begins, signal: Option<u32>) -> Step {
    let request = Arrival { process: ProcessId(process), ..arrival(0, Op::Write, sectors) };
    Step { begins, request, signal }
}

#[test]
fn threads_wait_for_their_own_requests_and_for_those_of_others() {
    let us = |time: u64| Nanos(time * 1_000);
    let after_other = |signal, pause| Begins::AfterOther { signal, pause: us(pause) };
    let threads = vec![
        // The requests are in flight from 0 to 8 µs and from 10 to 14 µs.
        vec![step(1, 8, Begins::At(us(0)), Some(0)), step(1, 4, Begins::AfterEnd(us(2)), Some(1))],
        // The request is in flight from 9 to 10 µs.
        vec![step(2, 1, after_other(0, 1), None)],
        // The second request does not wait for the first request. The third request waits for the second
        // request and for the first thread.
        vec![
            step(3, 1, Begins::At(us(11)), None),
            step(3, 1, Begins::AfterBegin(us(2)), None),
            step(3, 1, after_other(1, 0), None),
        ],
    ];
    let run = |threads: Vec<Vec<Step>>| {
        run_on_memory(Policy::Noop, threads.into_iter().map(Source::Linked).collect(), 1)
    };
    let outcome = run(threads).unwrap();
    let of = |process| {
        let tally = outcome.of(ProcessId(process), Op::Write);
        (tally.count, tally.response.sum.0, tally.last_completed.0)
    };
    assert_eq!(of(1), (2, 12_000, 14_000));
    assert_eq!(of(2), (1, 1_000, 10_000));
    // The requests take from 11 to 15, from 13 to 16, and from 16 to 17 µs.
    assert_eq!(of(3), (3, 8_000, 17_000));

    let locked =
        vec![vec![step(1, 1, after_other(1, 0), Some(0))], vec![step(2, 1, after_other(0, 0), Some(1))]];
    assert_eq!(run(locked).unwrap_err(), EngineError::NeverBegin { requests: 2 });
}

proptest! {
    /// A thread that waits for each of its requests is a closed loop.
    #[test]
    fn a_chain_of_steps_is_a_closed_loop(counts in prop::collection::vec(1u64..40, 1..4), think in 0u64..20_000, depth in 1u32..4) {
        let think = Nanos(think);
        let loops: Vec<ClosedLoop> = (0..).zip(&counts)
            .map(|(at, count)| ClosedLoop { think: Think { min: think, max: think }, ..reader(at, *count) })
            .collect();
        let chain = |process: &ClosedLoop| {
            let step = |at: u64| Step {
                begins: if at == 0 { Begins::At(Nanos(0)) } else { Begins::AfterEnd(think) },
                request: Arrival {
                    sector: Sector((process.start.0 + at * process.request.0) / 512),
                    process: process.process,
                    ..arrival(0, Op::Read, 8)
                },
                signal: None,
            };
            Source::Linked((0..process.count).map(step).collect())
        };
        for policy in [Policy::Noop, Policy::Cfq, Policy::SmartIo] {
            let closed = run_on_memory(policy, loops.iter().copied().map(Source::Closed).collect(), depth);
            prop_assert_eq!(run_on_memory(policy, loops.iter().map(chain).collect(), depth), closed);
        }
    }
}

/// Keeps every completed request, up to a number of requests.
struct Keeper {
    kept: Vec<Done>,
    most: usize,
}

impl Observer for Keeper {
    fn completed(&mut self, done: &Done, device: &dyn Device) -> std::ops::ControlFlow<()> {
        self.kept.push(*done);
        assert!(device.counters().host_read.0 >= self.kept.len() as u64 * 4096);
        if self.kept.len() == self.most {
            std::ops::ControlFlow::Break(())
        } else {
            std::ops::ControlFlow::Continue(())
        }
    }
}

#[test]
fn an_observer_gets_every_request_once_and_can_end_the_run() {
    let run = |most: usize| {
        let mut keeper = Keeper { kept: Vec::new(), most };
        let sources = vec![Source::Closed(reader(1, 20)), Source::Closed(reader(2, 20))];
        let host = Host { depth: 2, seed: 1 };
        let mut scheduler = Policy::Noop.scheduler();
        let ended = run_observed(&mut memory(), scheduler.as_mut(), sources, Timestamp(0), host, &mut keeper);
        (ended, keeper.kept)
    };
    let (outcome, kept) = run(usize::MAX);
    let outcome = outcome.expect("all requests fit the device");
    let mut ids: Vec<u64> = kept.iter().map(|done| done.request.id.0).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..40).collect::<Vec<_>>());
    assert!(kept.iter().all(|done| done.queued <= done.issued && done.issued < done.completed));
    let response: u64 = kept.iter().map(|done| done.completed.0 - done.queued.0).sum();
    let tallied: u64 =
        [1, 2].map(|process| outcome.of(ProcessId(process), Op::Read).response.sum.0).iter().sum();
    assert_eq!(response, tallied);
    let (ended, first) = run(7);
    assert_eq!(ended, Err(EngineError::Stopped));
    assert_eq!(first, kept[..7]);
}
