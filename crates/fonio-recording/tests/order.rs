//! Checks that a sequencer's output is in order for any input.

#![allow(clippy::unwrap_used)]

use crate::generated;

use std::cell::Cell;
use std::io;

use fonio_core::{
    Bio, ByteCount, CollectedRows, DeviceId, Flags, Op, Request, RowSink, Timestamp, ignore_rows,
};
use fonio_recording::{Sequencer, SequencerOptions};
use generated::{Checked, Generated, Random};
use proptest::prelude::*;

/// Collects the output, and records the order of requests and bios.
#[derive(Default)]
struct Collected {
    rows: CollectedRows,
    order: Vec<(u64, bool, u64)>,
}

impl RowSink for Collected {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.order.push((row.order_time().0, true, row.request_id));
        self.rows.request(row)
    }
    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        self.order.push((row.queued.0, false, row.bio_id));
        self.rows.bio(row)
    }
    ignore_rows! {
        began, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic, settled
    }
}

fn request(id: u64, time: u64) -> Request {
    let mut row = Request::new(DeviceId::new(8, 0), Op::Write, ByteCount(4096));
    row.request_id = id;
    row.issued = Some(Timestamp(time));
    row
}

fn bio(id: u64, time: u64) -> Bio {
    Bio {
        bio_id: id,
        device: DeviceId::new(8, 0),
        op: Op::Read,
        flags: Flags::SYNC,
        flags_known: Flags::KNOWN_FROM_RWBS,
        sector: None,
        bytes: ByteCount(512),
        queued: Timestamp(time),
        completed: None,
        tid: Some(7),
        cause_tid: None,
        file_id: None,
        request_id: Some(id),
    }
}

/// The order in which the rows' times arrive.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Rising,
    Falling,
    Random,
    /// Times rise, but rows within a window of the given size are out of order.
    Nearly(u64),
    /// Many rows have the same time.
    Equal,
    /// The times rise in sawtooth form.
    Teeth(u64),
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        Just(Shape::Rising),
        Just(Shape::Falling),
        Just(Shape::Random),
        (1..5000_u64).prop_map(Shape::Nearly),
        Just(Shape::Equal),
        (1..8000_u64).prop_map(Shape::Teeth),
    ]
}

impl Shape {
    fn time(self, place: u64, random: &mut Random) -> u64 {
        match self {
            Shape::Rising => place * 10,
            Shape::Falling => 10_000_000 - place * 10,
            Shape::Random => random.next() >> 20,
            Shape::Nearly(window) => place * 10 + random.below(window * 10),
            Shape::Equal => random.below(4),
            Shape::Teeth(length) => (place / length) * 10 + (place % length) * 1000,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Compares the sequencer with a sort of all rows at the end. The mark advances as far as possible, but
    /// only at some rows.
    #[test]
    fn as_if_sorted_at_the_end(
        seed: u64,
        count in 0..40_000_u64,
        shape in shape(),
        bio_shape in shape(),
        bios in 0..3_u64,
        marks in 1..20_000_u64,
    ) {
        let mut random = Random::new(seed);
        let requests: Vec<Request> = (0..count).map(|id| request(id, shape.time(id, &mut random))).collect();
        let bios: Vec<Bio> = (0..count * bios / 2).map(|id| bio(id, bio_shape.time(id, &mut random))).collect();
        let steps = requests.len().max(bios.len());
        // The earliest time among the remaining rows at each step.
        let mut earliest = vec![u64::MAX; steps + 1];
        for step in (0..steps).rev() {
            let request = requests.get(step).map_or(u64::MAX, |row| row.order_time().0);
            let bio = bios.get(step).map_or(u64::MAX, |row| row.queued.0);
            earliest[step] = earliest[step + 1].min(request).min(bio);
        }

        let mut collected = Collected::default();
        let options = SequencerOptions { rows_in_memory: 2048, spill_dir: None };
        let mut sequencer = Sequencer::new(&mut collected, options);
        for step in 0..steps {
            if let Some(row) = requests.get(step) {
                sequencer.request(row).unwrap();
            }
            if let Some(row) = bios.get(step) {
                sequencer.bio(row).unwrap();
            }
            if random.below(marks) == 0 {
                sequencer.settled(Timestamp(earliest[step + 1])).unwrap();
            }
        }
        sequencer.finish().unwrap();

        let mut oracle_requests = requests;
        oracle_requests.sort_by(Request::order);
        let mut oracle_bios = bios;
        oracle_bios.sort_by_key(|row| (row.queued, row.bio_id));
        let mut oracle: Vec<(u64, bool, u64)> = Vec::new();
        oracle.extend(oracle_requests.iter().map(|row| (row.order_time().0, true, row.request_id)));
        oracle.extend(oracle_bios.iter().map(|row| (row.queued.0, false, row.bio_id)));
        oracle.sort();
        prop_assert!(collected.rows.requests == oracle_requests);
        prop_assert!(collected.rows.bios == oracle_bios);
        prop_assert!(collected.order == oracle);
    }
}

/// Input in reverse order is the worst case: it creates the largest number of runs, which are merged level by
/// level.
#[test]
fn reverse_order() {
    const ROWS: u64 = 400_000;
    let mut checked = Checked::default();
    let options = SequencerOptions { rows_in_memory: 2048, spill_dir: None };
    let mut sequencer = Sequencer::new(&mut checked, options);
    for id in 0..ROWS {
        sequencer.request(&request(id, ROWS - id)).unwrap();
    }
    sequencer.finish().unwrap();
    assert_eq!(checked.requests, ROWS);
}

/// Rows and marks are emitted before the input is complete.
#[test]
fn rows_come_out_on_the_way() {
    struct Watch<'a>(&'a Cell<u64>, &'a Cell<u64>);
    impl RowSink for Watch<'_> {
        fn request(&mut self, _: &Request) -> io::Result<()> {
            self.0.set(self.0.get() + 1);
            Ok(())
        }
        fn settled(&mut self, before: Timestamp) -> io::Result<()> {
            self.1.set(before.0);
            Ok(())
        }
        ignore_rows! {
            began, bio, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic
        }
    }
    let (given, settled) = (Cell::new(0), Cell::new(0));
    let mut watch = Watch(&given, &settled);
    let mut sequencer = Sequencer::new(&mut watch, SequencerOptions::default());
    for id in 0..100_000 {
        sequencer.request(&request(id, 1000 + id)).unwrap();
        sequencer.settled(Timestamp(1000 + id - id % 50)).unwrap();
        assert!(given.get() + 5000 > id, "{} of {id}", given.get());
    }
    assert!(settled.get() > 90_000);
    sequencer.finish().unwrap();
    assert_eq!(given.get(), 100_000);
}

#[test]
fn rows_behind_the_mark_are_left_out_and_told() {
    let mut told = CollectedRows::default();
    let mut sequencer = Sequencer::new(&mut told, SequencerOptions::default());
    sequencer.settled(Timestamp(5000)).unwrap();
    for (id, time) in [(1, 5000), (2, 4999), (3, 6000), (4, 10)] {
        sequencer.request(&request(id, time)).unwrap();
    }
    sequencer.finish().unwrap();
    assert!(told.requests.iter().map(|row| row.request_id).eq([1, 3]));
    let [late] = &told.diagnostics[..] else { panic!("{:?}", told.diagnostics) };
    assert_eq!((late.code.as_str(), late.count), ("row-too-late", 2));
    assert!(late.message.contains("request 2 at 4999 ns"), "{}", late.message);
}

#[test]
fn a_request_that_never_completes() {
    let feed = |stuck| {
        let mut checked = Checked::default();
        let options = SequencerOptions { rows_in_memory: 4096, spill_dir: None };
        let mut sequencer = Sequencer::new(&mut checked, options);
        let trace = Generated { requests: 300_000, bios: true, stuck, ..Generated::default() };
        trace.feed(&mut sequencer).unwrap();
        sequencer.finish().unwrap();
        (checked.requests, checked.bios, checked.digest)
    };
    let stuck = feed(true);
    assert_eq!(stuck.0, 300_000);
    assert_eq!(stuck, feed(false));
}

#[test]
fn a_spill_directory_that_is_not_there_is_named() {
    let mut collected = Collected::default();
    let options = SequencerOptions { rows_in_memory: 2048, spill_dir: Some("/nonexistent/spill".into()) };
    let mut sequencer = Sequencer::new(&mut collected, options);
    let error = (0..10_000).find_map(|id| sequencer.request(&request(id, id)).err()).expect("it spills");
    assert!(error.to_string().contains("/nonexistent/spill"), "{error}");
}
