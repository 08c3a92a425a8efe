//! Tests all shipped devices with random commands.

use proptest::prelude::*;

use super::*;
use crate::profile::{Profile, SHIPPED};

const CAPACITY: ByteCount = ByteCount(64 << 20);

#[derive(Clone, Copy, Debug)]
struct Timed {
    command: Command,
    after: u64,
}

fn commands() -> impl Strategy<Value = Vec<Timed>> {
    let op = prop_oneof![
        4 => Just(Op::Write), 4 => Just(Op::Read), 1 => Just(Op::Flush), 1 => Just(Op::Discard), 1 => Just(Op::Other),
    ];
    let sectors = CAPACITY.0 / 512;
    let length = prop_oneof![Just(8u64), 1..32u64, Just(1024u64)];
    let start = prop_oneof![0..sectors - 1024, (0..sectors / 8 - 128).prop_map(|page| page * 8), 0..512u64];
    let one = (op, start, length, any::<bool>(), prop_oneof![Just(0u64), 0..3_000_000u64]).prop_map(
        |(op, start, length, fua, after)| {
            let (start, length) = if op == Op::Flush { (0, 0) } else { (start, length) };
            let command = Command { op, sector: Sector(start), bytes: ByteCount::from_sectors(length), fua };
            Timed { command, after }
        },
    );
    prop::collection::vec(one, 1..120)
}

fn drive(name: &str, commands: &[Timed]) -> (Vec<Timestamp>, Counters) {
    let mut device = Profile::shipped(name).unwrap().device(Some(CAPACITY), 3).unwrap();
    let mut now = Timestamp(0);
    let completions = commands
        .iter()
        .map(|timed| {
            now = now + Nanos(timed.after);
            device.submit(&timed.command, now)
        })
        .collect();
    (completions, device.counters())
}

proptest! {
    #[test]
    fn devices_keep_their_promises(commands in commands(), which in 0..SHIPPED.len()) {
        let (name, _) = SHIPPED[which];
        let (completions, counters) = drive(name, &commands);
        let limits = Profile::shipped(name).unwrap().limits(Some(CAPACITY)).unwrap();
        let mut now = 0;
        for (timed, done) in commands.iter().zip(&completions) {
            now += timed.after;
            prop_assert!(done.0 >= now, "{name}: {timed:?} completes before it is submitted");
        }
        let writes = commands.iter().filter(|timed| timed.command.op == Op::Write);
        let written: u64 = writes.map(|timed| timed.command.bytes.0).sum();
        prop_assert_eq!(counters.host_written.0, written);
        let last = completions.iter().map(|done| done.0).max().unwrap_or(0);
        prop_assert!(counters.busy.0 <= last, "{}: the busy time exceeds the run time", name);
        if !limits.volatile_cache {
            prop_assert!(counters.programmed.0 >= written, "{}: not all written data were programmed", name);
        }
        // The same commands give the same completion times and counters.
        prop_assert_eq!(drive(name, &commands), (completions, counters));
    }
}

#[test]
fn a_flush_waits_for_what_the_buffer_holds() {
    let profile = Profile::shipped("emmc51").unwrap();
    let mut device = profile.device(Some(CAPACITY), 1).unwrap();
    let write =
        |page: u64| Command { op: Op::Write, sector: Sector(page * 8), bytes: ByteCount(4096), fua: false };
    let flush = Command { op: Op::Flush, sector: Sector(0), bytes: ByteCount(0), fua: false };
    let acknowledged = device.submit(&write(0), Timestamp(0));
    let flushed = device.submit(&flush, acknowledged);
    let t_program = profile.number("flash.t_program").unwrap();
    assert!(acknowledged.0 < t_program, "a buffered write waited for flash");
    assert!(flushed.0 - acknowledged.0 >= t_program, "a flush did not wait for flash");
    let again = device.submit(&flush, flushed);
    assert!(again.0 - flushed.0 < t_program, "a flush without data waited for flash");
    let durable = device.submit(&Command { fua: true, ..write(1) }, again);
    assert!(durable.0 - again.0 >= t_program, "a write with forced unit access did not wait for flash");
}

#[test]
fn a_flush_that_blocks_everything_holds_up_reads() {
    let read = Command { op: Op::Read, sector: Sector(1 << 16), bytes: ByteCount(4096), fua: false };
    let write = Command { op: Op::Write, sector: Sector(0), ..read };
    let flush = Command { op: Op::Flush, sector: Sector(0), bytes: ByteCount(0), fua: false };
    let wait = |blocks: &str| {
        let text = Profile::shipped("emmc51").unwrap().to_toml();
        let line = "flush_blocks_all = { value = \"yes\"";
        assert!(text.contains(line));
        let text = text.replace(line, &format!("flush_blocks_all = {{ value = \"{blocks}\""));
        let mut device = Profile::parse("changed", &text).unwrap().device(Some(CAPACITY), 1).unwrap();
        let at = device.submit(&write, Timestamp(0));
        let flushed = device.submit(&flush, at);
        (device.submit(&read, at), flushed)
    };
    let (blocked, flushed) = wait("yes");
    assert!(blocked > flushed);
    let (free, flushed) = wait("no");
    assert!(free < flushed);
}

#[test]
fn reads_wait_as_the_profile_says() {
    let read = Command { op: Op::Read, sector: Sector(0), bytes: ByteCount(4096), fua: false };
    let wait = |how: &str| {
        let text = Profile::shipped("emmc51").unwrap().to_toml();
        let line = "reads_wait_for = { value = \"operation\", source = \"assumed\" }";
        assert!(text.contains(line));
        let suspend = "t_suspend = { value = \"30 us\", source = \"assumed\" }";
        let text = text.replace(line, &format!("{suspend}\n{}", line.replace("operation", how)));
        let mut device = Profile::parse("changed", &text).unwrap().device(Some(CAPACITY), 1).unwrap();
        let mut now = Timestamp(0);
        // The host writes more than the dies can program in this time, so the buffer is full of waiting
        // pages.
        for request in 0..32 {
            let sector = Sector(request * 1024);
            now = device
                .submit(&Command { op: Op::Write, sector, bytes: ByteCount(512 << 10), fua: false }, now);
        }
        device.submit(&read, now).0 - now.0
    };
    let (queue, operation, suspension) = (wait("queue"), wait("operation"), wait("suspension"));
    assert!(suspension < operation && operation < queue, "{suspension} < {operation} < {queue}");
}

#[test]
fn an_slc_cache_is_fast_until_it_is_full() {
    let profile = Profile::shipped("ufs31").unwrap();
    let mut device = profile.device(Some(ByteCount(64 << 30)), 1).unwrap();
    let mut now = Timestamp(0);
    let mut rate = |from: u64, bytes: u64, now: &mut Timestamp| {
        let began = now.0;
        for request in 0..bytes >> 20 {
            let sector = Sector((from + (request << 20)) / 512);
            *now = device
                .submit(&Command { op: Op::Write, sector, bytes: ByteCount(1 << 20), fua: false }, *now);
        }
        bytes as f64 * 1e3 / (now.0 - began) as f64
    };
    let fresh = rate(0, 8 << 30, &mut now);
    rate(8 << 30, 9 << 30, &mut now);
    let full = rate(17 << 30, 4 << 30, &mut now);
    now = now + Nanos(60_000_000_000);
    let rested = rate(21 << 30, 4 << 30, &mut now);
    assert!(full < fresh / 2.0 && rested > 0.9 * fresh, "{fresh:.0}, {full:.0}, {rested:.0} MB/s");
}

/// The costs of a random write on `kingston`, in nanoseconds.
struct Costs {
    write: u64,
    full_merge: u64,
}

fn kingston() -> (Box<dyn Device>, Costs) {
    let profile = Profile::shipped("kingston").unwrap();
    let number = |key| profile.number(key).unwrap();
    let (t_read, t_program) = (number("flash.t_read"), number("flash.t_program"));
    let transfer = 4096 * 1_000_000_000 / number("interface.write_rate");
    let pages = number("flash.pages_per_block");
    let costs = Costs {
        // The remainder of the 16 KiB page is read and programmed together with the new data.
        write: number("interface.write_command") + transfer + t_read + t_program,
        full_merge: pages * (t_read + t_program) + 2 * number("flash.t_erase"),
    };
    (profile.device(Some(CAPACITY), 1).unwrap(), costs)
}

#[test]
fn a_random_write_to_a_log_block_costs_what_the_algorithm_says() {
    let (mut device, costs) = kingston();
    let mut now = crate::measure::write_in_order(device.as_mut(), CAPACITY, Timestamp(0));
    // The device has erase blocks of 2 MiB and two log blocks. The fourth write evicts the log block of the
    // first two writes. The units in this log block are out of order.
    for (block, offset, merges) in [(0, 5, 0), (0, 3, 0), (1, 7, 0), (2, 9, 1), (2, 1, 0), (0, 9, 1)] {
        let sector = Sector((block * (2 << 20) + offset * (16 << 10)) / 512);
        let write = Command { op: Op::Write, sector, bytes: ByteCount(4096), fua: false };
        let done = device.submit(&write, now);
        assert_eq!(done.0 - now.0, costs.write + merges * costs.full_merge, "block {block}, page {offset}");
        now = done;
    }
}

#[test]
fn random_writes_take_the_time_of_the_formula() {
    use crate::measure::{Job, Order, run, write_in_order};
    let (mut device, costs) = kingston();
    let now = write_in_order(device.as_mut(), CAPACITY, Timestamp(0));
    let range = ByteCount(32 << 20);
    let (op, order, request) = (Op::Write, Order::Random, ByteCount(4096));
    let job = Job { op, order, start: ByteCount(0), range, request, count: 20_000, depth: 1 };
    let (measured, _) = run(device.as_mut(), &[job], now, 1);
    // Two log blocks of 2 MiB serve a range of 32 MiB, so 7 of 8 writes miss.
    let wanted = costs.write as f64 + 7.0 / 8.0 * costs.full_merge as f64;
    let given = measured[0].micros_each() * 1e3;
    // One merge in 128 is partial and saves an erase.
    assert!((given / wanted - 1.0).abs() < 0.01, "{given:.0} ns, the formula gives {wanted:.0} ns");
}
