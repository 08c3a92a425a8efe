//! The engine's cost of a request, by scheduler: eight processes on a device of the S5's kind. The figure to
//! read is items per second.

use divan::Bencher;
use divan::counter::ItemsCount;
use fonio_core::{ByteCount, Timestamp};
use fonio_sim::engine::{ClosedLoop, Host, Source, Think, run};
use fonio_sim::measure::{Order, write_in_order};
use fonio_sim::profile::Profile;
use fonio_sim::scheduler::{Policy, Priority, ProcessId};

const REQUESTS: u64 = 200_000;
const PROCESSES: u64 = 8;
const FILE: u64 = 32 << 20;

fn main() {
    divan::main();
}

#[divan::bench(args = Policy::ALL.map(Policy::name))]
fn eight_processes(bencher: Bencher, policy: &str) {
    let policy = Policy::named(policy).expect("it has a model");
    let profile = Profile::shipped("samsung_s5").expect("it is shipped");
    let mut device = profile.device(None, 1).expect("a shipped profile gives a device");
    let mut now = write_in_order(device.as_mut(), ByteCount(PROCESSES * FILE), Timestamp(0));
    let process = |at: u64| {
        Source::Closed(ClosedLoop {
            process: ProcessId(at as u32),
            priority: Priority::DEFAULT,
            is_sync: true,
            reads_percent: 50,
            order: Order::Random,
            start: ByteCount(at * FILE),
            range: ByteCount(FILE),
            request: ByteCount(4096),
            count: REQUESTS / PROCESSES,
            depth: 4,
            think: Think::NONE,
        })
    };
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| {
        let mut scheduler = policy.scheduler();
        let sources = (0..PROCESSES).map(process).collect();
        let host = Host { depth: 2, seed: 1 };
        let outcome = run(device.as_mut(), scheduler.as_mut(), sources, now, host);
        now = outcome.expect("all requests lie on the device").end;
    });
}
