use fonio_core::{EventKind, Op, Sector};
use proptest::prelude::*;

use super::*;
use crate::blktrace::BlktraceReader;

const TEXT: &[u8] = include_bytes!("../../tests/data/takeoverjp-sample.blkparse.txt");
const BINARY: &[u8] = include_bytes!("../../tests/data/takeoverjp-sample.blktrace.0");

/// Records of each kind that were made for this test (a request of several bios, a requeue, flushes,
/// commands, errors, …), and the output of blkparse 1.2.0 for these records.
const ACTIONS: [&[u8]; 2] = [
    include_bytes!("../../tests/data/blktrace-actions.bin"),
    include_bytes!("../../tests/data/blkparse-actions.txt"),
];

fn input(bytes: &[u8]) -> Input {
    Input::of("x", bytes)
}

/// Returns a reader's complete output, and the kinds of events that the source shows.
fn drain(mut reader: impl TraceReader) -> (Batch, Vec<String>) {
    (reader.read_all().expect("memory does not fail"), reader.source().shows)
}

fn read(text: &[u8]) -> Batch {
    drain(BlkparseReader::new(input(text))).0
}

fn codes(all: &Batch) -> Vec<(&str, Option<u64>, u64)> {
    all.diagnostics.iter().map(|d| (d.code.as_str(), d.record, d.count)).collect()
}

#[test]
fn the_same_events_as_from_the_binary() {
    let (text, shows) = drain(BlkparseReader::new(input(TEXT)));
    let (binary, shows_binary) = drain(BlktraceReader::new(vec![input(BINARY)]));
    assert_eq!(text.diagnostics, []);
    assert_eq!(text.lost, []);
    assert_eq!(shows, shows_binary);
    assert_eq!(text.events.len(), 6741);
    let origin = binary.events[0].time.0;
    for (t, b) in text.events.iter().zip(&binary.events) {
        let mut b = *b;
        b.time.0 -= origin;
        assert_eq!(*t, b);
    }
}

#[test]
fn every_action_says_the_same_as_its_record() {
    let (binary, shows_binary) = drain(BlktraceReader::new(vec![input(ACTIONS[0])]));
    let (text, shows) = drain(BlkparseReader::new(input(ACTIONS[1])));
    assert_eq!((binary.diagnostics.len(), text.diagnostics.len()), (0, 0));
    assert_eq!(shows, shows_binary);
    assert_eq!(text.events.len(), 35);
    let origin = binary.events[0].time.0;
    for (t, b) in text.events.iter().zip(&binary.events) {
        let mut b = *b;
        b.time.0 -= origin;
        if b.op == Op::Other && b.kind == EventKind::Complete {
            // The text does not show a completed command's size.
            b.bytes.0 = 0;
        }
        assert_eq!(*t, b);
    }
    assert_eq!(text.events.len(), binary.events.len());
    let named = |read: &Batch| {
        let mut names: Vec<_> = read.threads.iter().map(|t| (t.tid, t.comm.clone())).collect();
        names.sort();
        names
    };
    assert_eq!(named(&text), named(&binary));
    assert_eq!(text.marks[0].name, binary.marks[0].name);
}

const TWO_DEVICES: &str = include_str!("two_devices.txt");

#[test]
fn remaps_messages_names_gaps_and_the_summary() {
    let all = read(TWO_DEVICES.as_bytes());
    assert_eq!(codes(&all), []);
    assert_eq!(all.events.len(), 8 - 1);
    let names: Vec<_> = all.threads.iter().map(|t| (t.tid, t.comm.as_deref())).collect();
    assert_eq!(names, [(100, Some("a")), (101, Some("b (c)"))]);
    assert_eq!(all.marks[0].name, "cfq100S dispatched=1");
    assert_eq!(all.lost.len(), 1, "a remap onto another device leaves no gap");
    assert_eq!((all.lost[0].cpu, all.lost[0].count), (Some(1), Some(3)));
    let with_crlf = TWO_DEVICES.replace('\n', "\r\n");
    assert_eq!(read(with_crlf.as_bytes()).events, all.events);
}

#[test]
fn damaged_and_foreign_lines() {
    let text = "\
  8,0    0        1     0.000000000   100  Q  WS 8 + 8 [a]
  8,0    0        2     0.0000
hello
  8,0    0        3     0.000000200   100  G  WS 8 + 8 [a]
  8,0    0        4     0.000000300   100  D  WS 8 + ";
    let all = read(text.as_bytes());
    assert_eq!(
        codes(&all),
        [("damaged-line", Some(2), 1), ("foreign-line", Some(3), 1), ("damaged-line", Some(5), 1)]
    );
    assert_eq!(all.events.len(), 2);
    let none = read(b"hello\nworld\n");
    assert_eq!(
        none.diagnostics.last().map(|d| (d.code.as_str(), d.severity)),
        Some(("no-records", Severity::Error))
    );
    assert_eq!(codes(&read(b"")), [("no-records", None, 1)]);
}

#[test]
fn lines_out_of_order_are_sorted() {
    let mut lines: Vec<String> = (0..50_000u64)
        .map(|i| {
            let (s, ns) = (i / 1000, i % 1000 * 1_000_000);
            format!("  8,0    0 {:8} {s:5}.{ns:09}   100  Q  WS {} + 8 [a]\n", i + 1, i * 8)
        })
        .collect();
    lines.swap(100, 200);
    lines.swap(40_000, 40_050);
    let all = read(lines.concat().as_bytes());
    assert!(all.events.is_sorted_by_key(|event| event.time));
    assert_eq!(all.events.len(), 50_000);
    assert_eq!(all.events[100].sector, Sector(800));
}

#[test]
fn recognition() {
    assert!(recognise(TEXT));
    assert!(recognise(TWO_DEVICES.as_bytes()));
    assert!(!recognise(BINARY));
    assert!(!recognise(b"8,0,1,2\n"));
    assert!(!recognise(b"CPU0 (sda):\n"));
}

proptest! {
    #[test]
    fn any_damage_is_survived(
        from in 0..TEXT.len() - 4000,
        hits in prop::collection::vec((0..4000usize, any::<u8>()), 0..60),
    ) {
        let mut bytes = TEXT[from..from + 4000].to_vec();
        for (at, value) in hits {
            bytes[at] = value;
        }
        let all = read(&bytes);
        prop_assert!(all.diagnostics.len() < 20);
    }

    /// The reader returns all numbers as they were printed.
    #[test]
    fn any_numbers_come_back(
        major in 0..4096u32, minor in 0..1u32 << 20, cpu in 0..4096u32, sequence: u32,
        time in 0..1u64 << 60, tid: u32, sector: u64, sectors in 1..1u64 << 23,
        comm in "[ -~]{1,15}",
    ) {
        prop_assume!(comm != "(null)");
        let line = format!(
            "{major:3},{minor:<3} {cpu:2} {:8} {:5}.{:09} {tid:5} {:>2} {:>3} {sector} + {sectors} [{comm}]\n",
            sequence as i32, time / 1_000_000_000, time % 1_000_000_000, "Q", "R",
        );
        let all = read(line.as_bytes());
        prop_assert_eq!(all.events.len(), 1, "{}", line);
        let event = all.events[0];
        prop_assert_eq!((event.kind, event.op), (EventKind::BioQueue, Op::Read));
        prop_assert_eq!((event.device.major(), event.device.minor()), (major, minor));
        prop_assert_eq!((event.time.0, event.sector.0, event.bytes.0), (time, sector, sectors * 512));
        prop_assert_eq!((event.cpu, event.tid), (Some(cpu), Some(tid)));
        prop_assert_eq!(all.threads[0].comm.as_deref(), Some(comm.as_str()));
    }
}
