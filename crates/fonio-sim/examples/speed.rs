//! Measures how fast devices are simulated: millions of 4 KiB requests a second on one core, and the memory
//! used.
//!
//! All cases run in the same process, one after the other; the memory is the process's maximum so far.

use std::time::Instant;

use fonio_core::{ByteCount, Op, Timestamp};
use fonio_sim::device::Device;
use fonio_sim::measure::{Job, Order, run, write_in_order};
use fonio_sim::profile::Profile;

const REQUESTS: u64 = 1_000_000;

struct Case {
    name: &'static str,
    profile: &'static str,
    op: Op,
    order: Order,
    range_bytes: u64,
    /// Random writes over the full range before the clock starts, as multiples of it.
    overwritten: u64,
    depth: u32,
}

const GIB: u64 = 1 << 30;

const fn case(name: &'static str, profile: &'static str, range_bytes: u64) -> Case {
    let (op, order) = (Op::Write, Order::Random);
    Case { name, profile, op, order, range_bytes, overwritten: 0, depth: 1 }
}

const CASES: [Case; 6] = [
    Case { overwritten: 1, ..case("page map, 16 GB, collecting, depth 1", "emmc51", 0) },
    Case { overwritten: 1, depth: 32, ..case("page map, 16 GB, collecting, depth 32", "emmc51", 0) },
    case("page map, 1 GiB, not collecting, depth 1", "emmc51", GIB),
    Case {
        op: Op::Read,
        order: Order::Sequential,
        ..case("page map, sequential reads, depth 1", "emmc51", GIB)
    },
    case("BAST, merging, depth 1", "kingston", GIB),
    case("FAST, merging, depth 1", "ridata", GIB),
];

fn main() {
    for case in CASES {
        let profile = Profile::shipped(case.profile).expect("the case names a shipped profile");
        let capacity = ByteCount(16_000_000_000);
        let mut device = profile.device(Some(capacity), 1).expect("a shipped profile gives a device");
        let range = if case.range_bytes == 0 { capacity.0 } else { case.range_bytes };
        let mut now = write_in_order(device.as_mut(), ByteCount(range), Timestamp(0));
        let job = Job {
            op: case.op,
            order: case.order,
            start: ByteCount(0),
            range: ByteCount(range),
            request: ByteCount(4096),
            count: REQUESTS,
            depth: case.depth,
        };
        let settle = Job { count: case.overwritten * range / 4096, ..job };
        (_, now) = run(device.as_mut(), &[settle], now, 2);
        device.reset_counters();
        let began = Instant::now();
        let (measured, _) = run(device.as_mut(), &[job], now, 3);
        let seconds = began.elapsed().as_secs_f64();
        report(case.name, seconds, device.as_ref(), measured[0].mb_s());
    }
}

fn report(name: &str, seconds: f64, device: &dyn Device, mb_s: f64) {
    let counters = device.counters();
    let written = counters.host_written.0;
    let amplification = if written == 0 { 0.0 } else { counters.programmed.0 as f64 / written as f64 };
    println!(
        "{name}: {:.2} M requests/s, write amplification {amplification:.2}, {mb_s:.2} MB/s in virtual time, peak {} MiB",
        REQUESTS as f64 / seconds / 1e6,
        peak_mib().map_or("unknown".to_owned(), |mib| mib.to_string()),
    );
}

/// The peak memory of this process, from the kernel's `VmHWM`.
fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? / 1024)
}
