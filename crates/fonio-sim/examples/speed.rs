//! Measures for `cargo xtask bench devices` (arguments: `devices ROUNDS`) how fast devices and schedulers are simulated, on one core. Each
//! round prints a line per case: the case's name and its values, separated by tabs; `-` is a missing value.
//!
//! All cases run one after the other in the same process, so the printed memory is the process's peak so
//! far.

use std::time::Instant;

use fonio_core::{ByteCount, Op, Timestamp};
use fonio_sim::engine::{self, ClosedLoop, Host, Source, Think};
use fonio_sim::measure::{Job, Order, run, write_in_order};
use fonio_sim::profile::Profile;
use fonio_sim::scheduler::{Policy, Priority, ProcessId};

const REQUESTS: u64 = 1_000_000;
const CAPACITY: ByteCount = ByteCount(16_000_000_000);
const GIB: ByteCount = ByteCount(1 << 30);

/// A case: its name, its profile, and the operation, order, range and queue depth of its jobs.
type Case = (&'static str, &'static str, Op, Order, ByteCount, u32);

/// If a case uses the complete device, the device is overwritten once before the clock starts. During the
/// measurement, the device then collects garbage.
const CASES: [Case; 7] = [
    ("page map, 16 GB, collecting, depth 1", "emmc51", Op::Write, Order::Random, CAPACITY, 1),
    ("page map, 16 GB, collecting, depth 32", "emmc51", Op::Write, Order::Random, CAPACITY, 32),
    ("page map, 1 GiB, not collecting", "emmc51", Op::Write, Order::Random, GIB, 1),
    ("page map, sequential reads", "emmc51", Op::Read, Order::Sequential, GIB, 1),
    ("cached page map, 16 GB, collecting", "sandisk", Op::Write, Order::Random, CAPACITY, 1),
    ("BAST, merging", "kingston", Op::Write, Order::Random, GIB, 1),
    ("FAST, merging", "ridata", Op::Write, Order::Random, GIB, 1),
];

fn main() {
    let rounds = std::env::args().nth(2).and_then(|word| word.parse().ok()).unwrap_or(1);
    for _ in 0..rounds {
        CASES.into_iter().for_each(measure);
        Policy::ALL.into_iter().for_each(schedule);
    }
}

fn measure((name, profile, op, order, range, depth): Case) {
    let profile = Profile::shipped(profile).expect("the case names a shipped profile");
    let mut device = profile.device(Some(CAPACITY), 1).expect("a shipped profile describes a device");
    let mut now = write_in_order(device.as_mut(), range, Timestamp(0));
    let job = Job { op, order, start: ByteCount(0), range, request: ByteCount(4096), count: REQUESTS, depth };
    if range == CAPACITY {
        (_, now) = run(device.as_mut(), &[Job { count: range.0 / 4096, ..job }], now, 2);
    }
    device.reset_counters();
    let began = Instant::now();
    let (measured, _) = run(device.as_mut(), &[job], now, 3);
    let rate = REQUESTS as f64 / began.elapsed().as_secs_f64() / 1e6;
    let counters = device.counters();
    let written = counters.host_written.0;
    let amplification = (written > 0).then(|| counters.programmed.0 as f64 / written as f64);
    print(name, [Some(rate), amplification, Some(measured[0].mb_s()), peak_mib()]);
}

/// Runs eight processes with 16 requests each on a device with queue depth 2. Four of the processes read.
fn schedule(policy: Policy) {
    const PROCESSES: u64 = 8;
    const FILE: ByteCount = ByteCount(128 << 20);
    let profile = Profile::shipped("samsung_s5").expect("it is shipped");
    let mut device = profile.device(None, 1).expect("a shipped profile describes a device");
    let from = write_in_order(device.as_mut(), ByteCount(PROCESSES * FILE.0), Timestamp(0));
    let process = |at: u64| {
        Source::Closed(ClosedLoop {
            process: ProcessId(at as u32),
            priority: Priority::DEFAULT,
            is_sync: true,
            reads_percent: if at.is_multiple_of(2) { 100 } else { 0 },
            order: Order::Random,
            start: ByteCount(at * FILE.0),
            range: FILE,
            request: ByteCount(4096),
            count: REQUESTS / PROCESSES,
            depth: 16,
            think: Think::NONE,
        })
    };
    let sources = (0..PROCESSES).map(process).collect();
    let began = Instant::now();
    engine::run(device.as_mut(), policy.scheduler().as_mut(), sources, from, Host { depth: 2, seed: 1 })
        .expect("all requests lie on the device");
    let rate = REQUESTS as f64 / began.elapsed().as_secs_f64() / 1e6;
    print(&format!("scheduler `{}`, 8 processes", policy.name()), [Some(rate), None, None, peak_mib()]);
}

fn print(name: &str, values: [Option<f64>; 4]) {
    let values = values.map(|value| value.map_or("-".to_owned(), |value| value.to_string()));
    println!("{name}\t{}", values.join("\t"));
}

/// Returns the peak memory of this process (`VmHWM`).
fn peak_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<f64>().ok()? / 1024.0)
}
