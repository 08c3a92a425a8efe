//! Measures the time that the assembler needs per event. The events are Q, G, I, D and C of random 4 KiB
//! reads and writes at several queue depths, in some cases with remaps from a partition or with merges.
//!
//! Run `cargo bench -p fonio-trace --bench assembler`; one item is one event.

use std::io;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use fonio_core::{
    Batch, Bio, BlockEvent, ByteCount, DeviceId, EventKind, Flags, Op, Random, Request, RowSink, Sector,
    Timestamp, ignore_rows,
};
use fonio_trace::assembler::{Assembler, AssemblerOptions};

/// Number of I/Os. It is so small that the events stay in the cache, as a reader's batch does.
const IOS: u64 = 5_000;
const BATCH: usize = 4096;

fn main() {
    divan::main();
}

/// Sums up a part of each row to prevent the compiler from optimising any row away.
#[derive(Default)]
struct Sum {
    sum: u64,
    bios: bool,
}

impl RowSink for Sum {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.sum = self.sum.wrapping_add(row.completed.unwrap_or_default().0);
        Ok(())
    }
    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        self.sum = self.sum.wrapping_add(row.queued.0);
        Ok(())
    }
    ignore_rows! {
        began, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic, settled
    }
    fn wants_bios(&self) -> bool {
        self.bios
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Plain,
    Partition,
    Merged,
}

fn batches(depth: usize, shape: Shape) -> Vec<Batch> {
    let mut random = Random::new(1);
    let mut time = 1_000_000;
    let mut events = Vec::new();
    let mut in_flight: Vec<(u64, u64, Op)> = Vec::new();
    let mut push = |kind, sector, sectors, op, events: &mut Vec<BlockEvent>| {
        time += 500;
        events.push(BlockEvent {
            sector: Sector(sector),
            bytes: ByteCount::from_sectors(sectors),
            op,
            flags: Flags::SYNC,
            flags_known: Flags::KNOWN_FROM_RWBS,
            cpu: Some(1),
            tid: Some(1000),
            ..BlockEvent::new(Timestamp(time), kind, DeviceId::new(8, 0))
        });
    };
    for _ in 0..IOS {
        let op = if random.next_u64().is_multiple_of(3) { Op::Write } else { Op::Read };
        let sector = random.next_u64() % (1 << 27) * 8;
        if shape == Shape::Partition {
            let remap =
                EventKind::Remap { from_device: DeviceId::new(8, 1), from_sector: Sector(sector + 2048) };
            push(remap, sector, 8, op, &mut events);
        }
        push(EventKind::BioQueue, sector, 8, op, &mut events);
        push(EventKind::GetRequest, sector, 8, op, &mut events);
        let mut sectors = 8;
        if shape == Shape::Merged {
            push(EventKind::BioQueue, sector + 8, 8, op, &mut events);
            push(EventKind::BackMerge, sector + 8, 8, op, &mut events);
            sectors = 16;
        }
        push(EventKind::Insert, sector, sectors, op, &mut events);
        push(EventKind::Issue, sector, sectors, op, &mut events);
        in_flight.push((sector, sectors, op));
        if in_flight.len() == depth {
            let (sector, sectors, op) = in_flight.swap_remove((random.next_u64() % depth as u64) as usize);
            push(EventKind::Complete, sector, sectors, op, &mut events);
        }
    }
    events.chunks(BATCH).map(|events| Batch { events: events.to_vec(), ..Batch::default() }).collect()
}

fn run(bencher: Bencher<'_, '_>, batches: &[Batch], bios: bool) {
    let events: usize = batches.iter().map(|batch| batch.events.len()).sum();
    bencher.counter(ItemsCount::new(events)).bench_local(|| {
        let mut sink = Sum { sum: 0, bios };
        let mut assembler = Assembler::new(AssemblerOptions::default());
        for batch in batches {
            assembler.batch(black_box(batch), &mut sink).expect("the sink does not fail");
        }
        assembler.finish(&mut sink).expect("the sink does not fail");
        sink.sum
    });
}

#[divan::bench(args = [1, 32, 128, 1024])]
fn requests(bencher: Bencher<'_, '_>, depth: usize) {
    run(bencher, &batches(depth, Shape::Plain), false);
}

#[divan::bench(args = [1, 32, 128])]
fn requests_and_bios(bencher: Bencher<'_, '_>, depth: usize) {
    run(bencher, &batches(depth, Shape::Plain), true);
}

#[divan::bench(args = [32])]
fn on_a_partition(bencher: Bencher<'_, '_>, depth: usize) {
    run(bencher, &batches(depth, Shape::Partition), true);
}

#[divan::bench(args = [32])]
fn two_bios_merged(bencher: Bencher<'_, '_>, depth: usize) {
    run(bencher, &batches(depth, Shape::Merged), true);
}
