//! Measures how fast the engine simulates each scheduler: millions of 4 KiB requests a second on one core.

use std::time::Instant;

use fonio_core::{ByteCount, Timestamp};
use fonio_sim::engine::{ClosedLoop, Host, Source, Think, run};
use fonio_sim::measure::{Order, write_in_order};
use fonio_sim::profile::Profile;
use fonio_sim::scheduler::{Policy, Priority, ProcessId};

const REQUESTS: u64 = 1_000_000;
const PROCESSES: u64 = 8;
const FILE: u64 = 128 << 20;

fn main() {
    let profile = Profile::shipped("samsung_s5").expect("it is shipped");
    for depth in [1, 16] {
        for policy in Policy::ALL {
            let mut device = profile.device(None, 1).expect("a shipped profile gives a device");
            let from = write_in_order(device.as_mut(), ByteCount(PROCESSES * FILE), Timestamp(0));
            let process = |at: u64| {
                Source::Closed(ClosedLoop {
                    process: ProcessId(at as u32),
                    priority: Priority::DEFAULT,
                    is_sync: true,
                    reads_percent: if at.is_multiple_of(2) { 100 } else { 0 },
                    order: Order::Random,
                    start: ByteCount(at * FILE),
                    range: ByteCount(FILE),
                    request: ByteCount(4096),
                    count: REQUESTS / PROCESSES,
                    depth,
                    think: Think::NONE,
                })
            };
            let mut scheduler = policy.scheduler();
            let sources = (0..PROCESSES).map(process).collect();
            let began = Instant::now();
            let outcome = run(device.as_mut(), scheduler.as_mut(), sources, from, Host { depth: 2, seed: 1 });
            let seconds = began.elapsed().as_secs_f64();
            let count = outcome.expect("all requests lie on the device").count();
            println!(
                "{:12} {PROCESSES} processes with {depth:2} requests each: {:.2} M requests/s",
                policy.name(),
                count as f64 / seconds / 1e6
            );
        }
    }
}
