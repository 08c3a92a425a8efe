//! The simulator's cost of a 4 KiB request, by translation layer. The figure to read is items per second.

use divan::Bencher;
use divan::counter::ItemsCount;
use fonio_core::{ByteCount, Op, Timestamp};
use fonio_sim::measure::{Job, Order, run, write_in_order};
use fonio_sim::profile::Profile;

const REQUESTS: u64 = 200_000;

fn main() {
    divan::main();
}

/// Random writes at `depth` over the full range of a device that was written in order and overwritten once.
fn random_writes(bencher: Bencher, profile: &str, capacity: ByteCount, depth: u32) {
    let profile = Profile::shipped(profile).expect("it is shipped");
    let mut device = profile.device(Some(capacity), 1).expect("a shipped profile gives a device");
    let mut now = write_in_order(device.as_mut(), capacity, Timestamp(0));
    let job = |count| Job {
        op: Op::Write,
        order: Order::Random,
        start: ByteCount(0),
        range: capacity,
        request: ByteCount(4096),
        count,
        depth,
    };
    (_, now) = run(device.as_mut(), &[job(capacity.0 / 4096)], now, 1);
    let mut seed = 2;
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| {
        seed += 1;
        (_, now) = run(device.as_mut(), &[job(REQUESTS)], now, seed);
    });
}

#[divan::bench(args = [1, 32])]
fn page_map(bencher: Bencher, depth: u32) {
    random_writes(bencher, "emmc51", ByteCount(4_000_000_000), depth);
}

#[divan::bench(args = [1, 32])]
fn cached_page_map(bencher: Bencher, depth: u32) {
    random_writes(bencher, "sandisk", ByteCount(4_000_000_000), depth);
}

#[divan::bench]
fn bast(bencher: Bencher) {
    random_writes(bencher, "kingston", ByteCount(1 << 30), 1);
}

#[divan::bench]
fn fast(bencher: Bencher) {
    random_writes(bencher, "ridata", ByteCount(1 << 30), 1);
}
