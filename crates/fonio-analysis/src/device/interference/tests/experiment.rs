//! Measures how often a false slowdown is claimed, and how often a real slowdown is found.
//!
//! Generated reads run through a small device model. Some of the generated reads are then labelled as writes;
//! nothing else changes. `cargo test -p fonio-analysis equal_depth_experiment -- --nocapture` prints the
//! rates.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fonio_core::{ByteCount, Nanos, Random, Sector, Timestamp};

use super::{EqualDepth, InterferenceTally};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::seen::Seen;
use crate::requests::class::Class;

const REQUESTS: usize = 4000;

struct Dice(Random);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }
    fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }
    /// Draws an exponential number by von Neumann's method (1951), which needs no logarithm.
    fn exponential(&mut self, mean: f64) -> u64 {
        let mut whole = 0.0;
        loop {
            let first = self.uniform();
            let (mut last, mut falls) = (first, 0u32);
            loop {
                let next = self.uniform();
                if next >= last {
                    break;
                }
                (last, falls) = (next, falls + 1);
            }
            if falls % 2 == 0 {
                return ((whole + first) * mean) as u64 + 1;
            }
            whole += 1.0;
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Source {
    /// Independent requests at random times, whose total load is this percentage of the device's capacity.
    Poisson(u64),
    /// A closed loop that keeps this number of requests outstanding.
    Closed(u64),
    /// Bursts of the first number of requests, with pauses so that the load is the second number in percent.
    Bursts(u64, u64),
}

#[derive(Clone, Copy, Debug)]
enum Service {
    Fixed,
    Exponential,
    /// One request in ten takes ten times as long as the others.
    Stalls,
}

#[derive(Clone, Copy, Debug)]
struct Load {
    /// The processes that run at the same time, one or two.
    sources: [Option<Source>; 2],
    service: Service,
    /// Number of requests that the device serves in parallel.
    channels: usize,
    /// Device queue depth; further requests wait in the host's queue.
    depth: usize,
}

#[derive(Clone, Copy, Debug)]
enum Labels {
    Random,
    ByProcess,
    Alternately,
}

/// How a request labelled as a write affects other requests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Effect {
    None,
    /// A read takes twice as long if a write is outstanding when the read begins.
    ReadsSlow,
    /// A write takes four times as long as a read, so reads behind it wait.
    WritesSlow,
}

#[derive(Clone, Copy)]
struct Row {
    process: usize,
    write: bool,
    queued: u64,
    issued: u64,
    completed: u64,
}

const MEAN_NS: u64 = 200_000;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Complete(usize),
    Arrive(usize),
}

/// Simulates a load and returns its requests in the order of issue.
fn run(load: &Load, labels: Labels, effect: Effect, seed: u64) -> Vec<Row> {
    let mut dice = Dice(Random::new(seed));
    let mut rows: Vec<Row> = Vec::new();
    let mut issued = Vec::new();
    let mut events = BinaryHeap::new();
    let mut order = 0u64;
    let mut at = |events: &mut BinaryHeap<_>, time: u64, event: Event| {
        order += 1;
        events.push(Reverse((time, order, event)));
    };
    let capacity = MEAN_NS / load.channels as u64;
    for (process, source) in load.sources.iter().enumerate() {
        let first = match source {
            Some(Source::Closed(depth)) => *depth,
            Some(_) => 1,
            None => 0,
        };
        (0..first).for_each(|_| at(&mut events, 1, Event::Arrive(process)));
    }
    let (mut queue, mut device, mut working) = (VecDeque::new(), VecDeque::new(), 0usize);
    let (mut in_device, mut writes) = (0usize, 0usize);
    while let Some(Reverse((now, _, event))) = events.pop() {
        match event {
            Event::Arrive(process) => {
                if rows.len() >= REQUESTS {
                    continue;
                }
                let burst = match load.sources[process] {
                    Some(Source::Poisson(percent)) => {
                        let gap = dice.exponential(capacity as f64 * 100.0 / percent as f64);
                        at(&mut events, now + gap, Event::Arrive(process));
                        1
                    }
                    Some(Source::Bursts(many, percent)) => {
                        let gap = dice.exponential((many * capacity) as f64 * 100.0 / percent as f64);
                        at(&mut events, now + gap, Event::Arrive(process));
                        many
                    }
                    _ => 1,
                };
                for _ in 0..burst {
                    let write = match labels {
                        Labels::Random => dice.below(2) == 0,
                        Labels::ByProcess => process == 1,
                        Labels::Alternately => rows.len() % 2 == 1,
                    };
                    writes += usize::from(write);
                    queue.push_back(rows.len());
                    rows.push(Row { process, write, queued: now, issued: 0, completed: 0 });
                }
            }
            Event::Complete(row) => {
                rows[row].completed = now;
                working -= 1;
                in_device -= 1;
                writes -= usize::from(rows[row].write);
                if let Some(Source::Closed(_)) = load.sources[rows[row].process] {
                    at(&mut events, now, Event::Arrive(rows[row].process));
                }
            }
        }
        while in_device < load.depth
            && let Some(row) = queue.pop_front()
        {
            rows[row].issued = now;
            issued.push(row);
            in_device += 1;
            device.push_back(row);
        }
        while working < load.channels
            && let Some(row) = device.pop_front()
        {
            working += 1;
            let service = match load.service {
                Service::Fixed => MEAN_NS,
                Service::Exponential => dice.exponential(MEAN_NS as f64),
                Service::Stalls => MEAN_NS * 10 / 19 * if dice.below(10) == 0 { 10 } else { 1 },
            };
            let write: bool = rows[row].write;
            let factor = match effect {
                Effect::ReadsSlow if !write && writes > 0 => 2,
                Effect::WritesSlow if write => 4,
                _ => 1,
            };
            at(&mut events, now + service * factor, Event::Complete(row));
        }
    }
    issued.into_iter().map(|row| rows[row]).filter(|row| row.completed > 0).collect()
}

/// Returns the results for reads and for writes, and whether the plain means of the reads differ by 50
/// percent or more.
fn compare(rows: &[Row]) -> ([Option<EqualDepth>; 2], bool) {
    let mut tally = InterferenceTally::default();
    for (id, row) in rows.iter().enumerate() {
        let seen = Seen {
            id: id as u64,
            device: 0,
            op: if row.write { fonio_core::Op::Write } else { fonio_core::Op::Read },
            class: if row.write { Class::WriteSync } else { Class::Read },
            flags: fonio_core::Flags::NONE,
            sector: Some(Sector(0)),
            bytes: ByteCount(4096),
            queued: Some(Timestamp(row.queued)),
            at: Timestamp(row.issued),
            flight: Some((Timestamp(row.issued), Timestamp(row.completed))),
            busy: None,
            service: Some(Nanos(row.completed - row.issued)),
            response: Some(Nanos(row.completed - row.queued)),
            queue: Some(Nanos(row.issued - row.queued)),
            process: row.process as u32,
            unit: None,
            flush: None,
        };
        tally.request(
            &fonio_core::Request::new(fonio_core::DeviceId(0), seen.op, fonio_core::ByteCount(4096)),
            &seen,
        );
    }
    let found = tally.finish(&mut Ending::without_requests(&fonio_core::Meta::default()));
    let plain = found.read.with.mean_response_ns.zip(found.read.without.mean_response_ns);
    let differ = plain.is_some_and(|(with, without)| with >= 1.5 * without);
    ([found.read.equal_depth, found.write.equal_depth], differ)
}

fn loads() -> Vec<Load> {
    use Source::{Bursts, Closed, Poisson};
    let pairs = [
        [Some(Poisson(30)), None],
        [Some(Poisson(60)), None],
        [Some(Poisson(90)), None],
        [Some(Closed(1)), None],
        [Some(Closed(4)), None],
        [Some(Closed(32)), None],
        [Some(Bursts(8, 50)), None],
        [Some(Poisson(30)), Some(Poisson(30))],
        [Some(Poisson(60)), Some(Poisson(20))],
        [Some(Poisson(50)), Some(Bursts(16, 30))],
        [Some(Bursts(4, 30)), Some(Bursts(8, 30))],
        [Some(Poisson(40)), Some(Closed(1))],
        [Some(Closed(2)), Some(Poisson(20))],
        [Some(Closed(2)), Some(Bursts(8, 20))],
        [Some(Closed(4)), Some(Closed(4))],
    ];
    let mut loads = Vec::new();
    for sources in pairs {
        for (service, channels, depth) in [
            (Service::Fixed, 1, 32),
            (Service::Exponential, 1, 1),
            (Service::Exponential, 4, 32),
            (Service::Stalls, 2, 64),
        ] {
            loads.push(Load { sources, service, channels, depth });
        }
    }
    loads
}

/// Returns loads of reads and writes that the device can sustain and in which the effect is visible.
fn mixed_loads(effect: Effect) -> Vec<(Load, Labels)> {
    use Source::{Bursts, Closed, Poisson};
    let sources = [
        ([Some(Poisson(10)), None], Labels::Random),
        ([Some(Poisson(20)), None], Labels::Random),
        ([Some(Closed(2)), None], Labels::Random),
        ([Some(Closed(4)), None], Labels::Random),
        ([Some(Bursts(4, 10)), None], Labels::Random),
        ([Some(Poisson(10)), Some(Poisson(5))], Labels::ByProcess),
        ([Some(Poisson(10)), Some(Poisson(10))], Labels::ByProcess),
        ([Some(Poisson(15)), Some(Bursts(4, 5))], Labels::ByProcess),
        ([Some(Bursts(8, 10)), Some(Poisson(5))], Labels::ByProcess),
    ];
    // With many channels, the service time of a read is longer; with one channel, reads wait for writes.
    let channels = if effect == Effect::ReadsSlow { 32 } else { 1 };
    let mut loads = Vec::new();
    for (sources, labels) in sources {
        for service in [Service::Fixed, Service::Exponential, Service::Stalls] {
            loads.push((Load { sources, service, channels, depth: 64 }, labels));
        }
    }
    loads
}

#[test]
fn equal_depth_experiment() {
    let (mut plain, mut compared, mut claims, mut count) = (0u32, 0u32, 0u32, 0u32);
    for (at, load) in loads().iter().enumerate() {
        for labels in [Labels::Random, Labels::ByProcess, Labels::Alternately] {
            if matches!(labels, Labels::ByProcess) && load.sources[1].is_none() {
                continue;
            }
            for repeat in 0..3 {
                let (found, differ) =
                    compare(&run(load, labels, Effect::None, 1 + at as u64 * 1000 + repeat));
                plain += u32::from(differ);
                let claimed: Vec<_> =
                    found.iter().flatten().filter(|one| one.low > 1.0 || one.high < 1.0).collect();
                count += 1;
                compared += u32::from(found.iter().any(Option::is_some));
                claims += u32::from(!claimed.is_empty());
                if !claimed.is_empty() {
                    println!("false: {load:?} {labels:?} {claimed:?}");
                }
            }
        }
    }
    println!("reads alone: {claims} false claims in {count} loads, {compared} of them compared");
    println!("in {plain} loads, the plain means of reads with and without writes differ by half or more");
    assert!(count >= 400 && compared * 2 >= count, "only {compared} of {count} loads allow a comparison");
    assert!(claims * 20 <= count, "{claims} of {count} loads claim an effect that does not exist");

    for effect in [Effect::ReadsSlow, Effect::WritesSlow] {
        let (mut found, mut count) = (0u32, 0u32);
        for (at, (load, labels)) in mixed_loads(effect).iter().enumerate() {
            for repeat in 0..3 {
                let ([read, _], _) = compare(&run(load, *labels, effect, 7 + at as u64 * 1000 + repeat));
                let slower = read.as_ref().is_some_and(|read| read.low > 1.0);
                count += 1;
                found += u32::from(slower);
                if !slower {
                    println!("missed: {effect:?} {load:?} {labels:?} {read:?}");
                }
            }
        }
        println!("{effect:?}: effect found in {found} of {count} loads");
        assert!(found * 10 >= count * 8, "{effect:?}: effect found in only {found} of {count} loads");
    }
}
