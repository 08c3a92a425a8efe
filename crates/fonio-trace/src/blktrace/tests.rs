use std::collections::BTreeMap;

use fonio_core::{BlockEvent, ByteCount, DeviceId, EventKind, Flags, Op, Sector, Timestamp};
use proptest::prelude::*;

use super::*;

const SAMPLE: &[u8] = include_bytes!("../../tests/data/takeoverjp-sample.blktrace.0");

/// A record in a test; omitted fields are 0.
#[derive(Clone, Debug, Default)]
struct Record {
    sequence: u32,
    time: u64,
    sector: u64,
    bytes: u32,
    action: u64,
    pid: u32,
    cpu: u32,
    error: u16,
    pdu: Vec<u8>,
}

const DEVICE: u32 = 8 << 20 | 1;

impl Record {
    fn encode(&self, layout: Layout, out: &mut Vec<u8>) {
        let big = layout.big_endian;
        let magic = record::MAGIC | if layout.wide { 8 } else { 7 };
        let u16b = |v: u16| if big { v.to_be_bytes() } else { v.to_le_bytes() };
        let u32b = |v: u32| if big { v.to_be_bytes() } else { v.to_le_bytes() };
        let u64b = |v: u64| if big { v.to_be_bytes() } else { v.to_le_bytes() };
        out.extend(u32b(magic));
        out.extend(u32b(self.sequence));
        out.extend(u64b(self.time));
        out.extend(u64b(self.sector));
        out.extend(u32b(self.bytes));
        if layout.wide {
            out.extend(u32b(self.pid));
            out.extend(u64b(self.action));
        } else {
            out.extend(u32b(self.action as u32));
            out.extend(u32b(self.pid));
        }
        out.extend(u32b(DEVICE));
        out.extend(u32b(self.cpu));
        out.extend(u16b(self.error));
        out.extend(u16b(self.pdu.len() as u16));
        if layout.wide {
            out.extend([0; 12]);
        }
        out.extend(&self.pdu);
    }
}

const NARROW: Layout = Layout { big_endian: false, wide: false };

fn layouts() -> impl Iterator<Item = Layout> {
    [false, true].into_iter().flat_map(|b| [false, true].map(|wide| Layout { big_endian: b, wide }))
}

fn encode(records: &[Record], layout: Layout) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        record.encode(layout, &mut out);
    }
    out
}

/// A reader's complete output.
struct Read {
    all: Batch,
    clock: Clock,
    source: Source,
}

impl std::ops::Deref for Read {
    type Target = Batch;
    fn deref(&self) -> &Batch {
        &self.all
    }
}

impl Read {
    fn codes(&self) -> Vec<(&str, Option<u64>, Option<u64>, u64)> {
        self.diagnostics.iter().map(|d| (d.code.as_str(), d.record, d.offset, d.count)).collect()
    }
    fn times(&self) -> Vec<u64> {
        self.events.iter().map(|event| event.time.0).collect()
    }
}

fn read(files: &[(&str, &[u8])]) -> Read {
    let inputs = files.iter().map(|(name, bytes)| Input::of(name, *bytes)).collect();
    let mut reader = BlktraceReader::new(inputs);
    let all = reader.read_all().expect("memory does not fail");
    Read { all, clock: reader.clock(), source: reader.source() }
}

const QUEUE: u64 = 1 | 1 << 20;
const ISSUE: u64 = 7 | 1 << 22;
const COMPLETE: u64 = 8 | 1 << 23;
const READ: u64 = 1 << 16;
const WRITE: u64 = 1 << 17;
const FLUSH: u64 = 1 << 18;
const SYNC: u64 = 1 << 19;
const FS: u64 = 1 << 24;
const PC: u64 = 1 << 25;
const NOTIFY: u64 = 1 << 26;
const CGROUP: u64 = 1 << 8;

/// Returns `n` reads queued at times 10, 20, … on one processor.
fn queued(n: u32) -> Vec<Record> {
    (1..=n)
        .map(|i| Record {
            sequence: i,
            time: u64::from(i) * 10,
            sector: u64::from(i) * 8,
            bytes: 4096,
            action: QUEUE | READ | FS,
            pid: 7,
            ..Record::default()
        })
        .collect()
}

/// Action, sectors, payload, and the expected kind, op and flags.
type Case = (u64, u32, Vec<u8>, EventKind, Op, Flags);

#[test]
fn every_action_in_every_layout() {
    use fonio_core::EventKind::*;
    let be = |parts: &[u64]| parts.iter().flat_map(|p| p.to_be_bytes()).collect::<Vec<u8>>();
    let below = 5 << 20;
    let to_below = be(&[u64::from(DEVICE) << 32 | u64::from(below), 77]);
    let to_below_with_cgroup = [vec![9; 8], to_below.clone()].concat();
    let remap = Remap { from_device: DeviceId(DEVICE), from_sector: Sector(77) };
    let many = Flags::META | Flags::FUA | Flags::PREFLUSH;
    let (none, q) = (Flags::NONE, 1 << 20);
    let cases: [Case; 20] = [
        (QUEUE | READ | FS, 8, vec![], BioQueue, Op::Read, none),
        (QUEUE | WRITE | SYNC | FS | CGROUP, 8, vec![9; 8], BioQueue, Op::Write, Flags::SYNC),
        (2 | q | WRITE, 8, vec![], BackMerge, Op::Write, none),
        (3 | q | WRITE, 8, vec![], FrontMerge, Op::Write, none),
        (4 | q | READ | 1 << 27, 8, vec![], GetRequest, Op::Read, Flags::READAHEAD),
        (5 | q | READ, 8, vec![], SleepRequest, Op::Read, none),
        (6 | 1 << 21 | READ, 8, vec![], Requeue, Op::Read, none),
        (ISSUE | WRITE | 1 << 28 | 1 << 31 | FLUSH, 8, vec![], Issue, Op::Write, many),
        (ISSUE | READ | FLUSH, 0, vec![], Issue, Op::Flush, Flags::PREFLUSH),
        (ISSUE | WRITE | 1 << 29, 8, vec![], Issue, Op::Discard, none),
        (ISSUE | READ | PC, 8, vec![0x12, 0, 0], Issue, Op::Other, none),
        (COMPLETE | WRITE, 8, vec![], Complete, Op::Write, none),
        (9 | q | READ, 0, vec![], Plug, Op::Other, none),
        (10 | q | READ, 0, be(&[3]), Unplug { count: 3 }, Op::Other, none),
        (11 | q | READ, 0, be(&[1 << 40]), Unplug { count: u32::MAX }, Op::Other, none),
        (12 | q | READ, 8, vec![], Insert, Op::Read, none),
        (13 | READ, 8, be(&[1234]), Split { new_sector: Sector(1234) }, Op::Read, none),
        (14 | q | READ, 8, vec![], Bounce, Op::Read, none),
        (15 | q | READ, 8, to_below, remap, Op::Read, none),
        (15 | q | READ | CGROUP, 8, to_below_with_cgroup, remap, Op::Read, none),
    ];
    let records: Vec<Record> = (1u32..)
        .zip(&cases)
        .map(|(sequence, (action, sectors, pdu, ..))| Record {
            sequence,
            time: u64::from(sequence),
            sector: 64,
            bytes: sectors * 512,
            action: *action,
            pid: 42,
            cpu: 3,
            error: -5_i16 as u16,
            pdu: pdu.clone(),
        })
        .collect();
    for layout in layouts() {
        let all = read(&[("x.blktrace.3", &encode(&records, layout))]);
        assert_eq!(all.diagnostics, [], "{layout:?}");
        assert_eq!(all.lost, []);
        assert_eq!(all.events.len(), cases.len());
        for ((event, record), (_, _, _, kind, op, flags)) in all.events.iter().zip(&records).zip(&cases) {
            let device = if matches!(kind, Remap { .. }) { below } else { DEVICE };
            let expected = BlockEvent {
                sector: Sector(64),
                bytes: ByteCount(u64::from(record.bytes)),
                op: *op,
                flags: *flags,
                flags_known: Flags::KNOWN_FROM_RWBS,
                cpu: Some(3),
                tid: Some(42),
                error: matches!(kind, Requeue | Complete).then_some(-5),
                ..BlockEvent::new(Timestamp(record.time), *kind, DeviceId(device))
            };
            assert_eq!(*event, expected, "{layout:?}");
        }
    }
}

#[test]
fn categories_of_version_8() {
    let layout = Layout { big_endian: false, wide: true };
    let cases =
        [(32, Op::ZoneAppend), (33, Op::ZoneManagement), (37, Op::ZoneManagement), (38, Op::WriteZeroes)];
    for (bit, op) in cases {
        let record = Record { action: ISSUE | WRITE | 1 << bit, sequence: 1, ..Record::default() };
        let all = read(&[("x", &encode(&[record], layout))]);
        assert_eq!(all.events[0].op, op);
    }
}

fn note(action: u64, pid: u32, time: u64, pdu: &[u8]) -> Record {
    Record { action: action | NOTIFY, pid, time, pdu: pdu.to_vec(), ..Record::default() }
}

#[test]
fn notes_name_threads_and_give_the_clock() {
    for layout in layouts() {
        let n = |v: u32| if layout.big_endian { v.to_be_bytes() } else { v.to_le_bytes() };
        let clock = [n(1_600_000_000), n(500)].concat();
        let mut records = vec![note(1, 0, 4, &clock), note(0, 7, 9, b"cp\0\0\0\0\0\0\0\0\0\0\0\0\0\0")];
        records.extend(queued(2));
        records.push(note(0, 7, 21, b"cp\0junk"));
        records.push(note(2, 7, 22, b"cfq7 arm_idle\0"));
        records.push(note(2 | CGROUP, 0, 23, b"12345678mark"));
        records.push(note(0, 7, 24, b"dd"));
        let all = read(&[("x.blktrace.0", &encode(&records, layout))]);
        assert_eq!(
            all.clock,
            Clock { name: "mono".into(), unix_ns_at_zero: Some(1_600_000_000_000_000_496) }
        );
        let threads: Vec<_> = all.threads.iter().map(|t| (t.tid, t.from.0, t.comm.as_deref())).collect();
        assert_eq!(threads, [(7, 9, Some("cp")), (7, 24, Some("dd"))]);
        let marks: Vec<_> = all.marks.iter().map(|m| (m.at.0, m.name.as_str(), m.tid)).collect();
        assert_eq!(marks, [(22, "cfq7 arm_idle", Some(7)), (23, "mark", None)]);
        assert_eq!(all.diagnostics, []);
    }
}

#[test]
fn notes_of_a_merged_file_have_times_of_another_origin() {
    let mut records = vec![note(1, 0, 1 << 50, &[0; 8]), note(0, 7, 1 << 50, b"cp")];
    records.extend(queued(2));
    let all = read(&[("merged.bin", &encode(&records, NARROW))]);
    assert_eq!(all.clock, Clock { name: "unknown".into(), unix_ns_at_zero: None });
    assert_eq!(all.threads[0].from, Timestamp(10));
}

#[test]
fn inputs_are_merged_by_time() {
    let split = |keep: u32| -> Vec<u8> {
        let records: Vec<Record> = queued(60_000)
            .into_iter()
            .filter(|r| r.sequence / 7 % 3 == keep)
            .enumerate()
            .map(|(at, r)| Record { sequence: at as u32 + 1, cpu: keep, ..r })
            .collect();
        encode(&records, NARROW)
    };
    let files = [split(0), split(1), split(2)];
    let all = read(&[("x.blktrace.2", &files[2]), ("x.blktrace.0", &files[0]), ("x.blktrace.1", &files[1])]);
    assert!(all.times().is_sorted());
    assert_eq!(all.events.len(), 60_000);
    assert_eq!(all.diagnostics, []);
    assert_eq!(all.lost, []);
}

#[test]
fn a_time_far_ahead_does_not_hold_back_its_file() {
    let mut first = queued(20_000);
    first[5000].time = 1 << 60;
    let second: Vec<Record> =
        queued(20_000).into_iter().map(|r| Record { time: r.time + 5, cpu: 1, ..r }).collect();
    let all = read(&[("x.blktrace.0", &encode(&first, NARROW)), ("x.blktrace.1", &encode(&second, NARROW))]);
    assert_eq!(all.events.len(), 40_000);
    assert!(all.times().is_sorted());
}

#[test]
fn empty_and_foreign_inputs() {
    let empty = read(&[("x.blktrace.0", b"")]);
    assert_eq!(empty.codes(), [("empty-input", None, None, 1)]);
    assert_eq!(empty.diagnostics[0].severity, Severity::Error);
    // An idle processor's file is empty.
    let idle = read(&[("x.blktrace.0", &encode(&queued(3), NARROW)), ("x.blktrace.1", b"")]);
    assert_eq!(idle.codes(), []);
    let foreign = read(&[("x", &[b'z'; 3000])]);
    assert_eq!(foreign.codes(), [("damaged-bytes", Some(1), Some(0), 1), ("no-records", None, Some(0), 1)]);
    assert_eq!(foreign.diagnostics[1].severity, Severity::Error);
    assert_eq!(read(&[]).codes(), [("empty-input", None, None, 1)]);
}

#[test]
fn damage_costs_only_what_it_hit() {
    let records = queued(1000);
    let clean = encode(&records, NARROW);
    let damaged = |at: usize, with: &[u8]| {
        let mut bytes = clean.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        read(&[("x", &bytes)])
    };
    let all = damaged(48 * 10, b"????");
    assert_eq!(all.codes(), [("damaged-bytes", Some(11), Some(480), 1)]);
    assert_eq!(all.events.len(), 999);
    let lost = all.lost[0];
    assert_eq!((lost.count, lost.after.0, lost.before.0), (Some(1), 100, 120));

    // A record with a damaged payload length is kept.
    let all = damaged(48 * 10 + 46, &[0xff, 0xff]);
    assert_eq!(all.codes(), [("damaged-length", Some(11), Some(480), 1)]);
    assert_eq!((all.events.len(), all.lost.len()), (1000, 0));

    let all = damaged(48 * 10 + 28, &[0xff; 4]);
    assert_eq!(all.codes().len(), 0, "an action with all bits set is a note of an unknown kind");

    let all = damaged(48 * 10, &[0; 48 * 900]);
    assert_eq!(all.codes(), [("damaged-bytes", Some(11), Some(480), 1)]);
    assert_eq!((all.events.len(), all.lost[0].count), (100, Some(900)));

    for (cut, left, whole) in [(20, 99, false), (47, 99, false), (0, 100, true)] {
        let all = read(&[("x", &clean[..4800 - if whole { 0 } else { 48 - cut }])]);
        assert_eq!(all.events.len(), left);
        assert_eq!(all.codes().len(), usize::from(!whole));
    }
    let shifted = [b"junk".as_slice(), &clean].concat();
    let all = read(&[("x", &shifted)]);
    assert_eq!(all.codes(), [("damaged-bytes", Some(1), Some(0), 1)]);
    assert_eq!(all.events.len(), 1000);
}

#[test]
fn repeated_damage_is_merged() {
    let mut bytes = encode(&queued(1000), NARROW);
    for at in (0..1000).step_by(10) {
        bytes[at * 48] = 0;
    }
    let all = read(&[("x", &bytes)]);
    assert_eq!(all.events.len(), 900);
    let counts: Vec<u64> = all.diagnostics.iter().map(|d| d.count).collect();
    assert_eq!(counts, [1, 1, 1, 97]);
}

#[test]
fn a_record_that_the_input_cuts_off_within_its_payload_still_counts() {
    let mut record = queued(1);
    record[0].pdu = vec![1; 100];
    let bytes = encode(&record, NARROW);
    let all = read(&[("x", &bytes[..100])]);
    assert_eq!(all.codes(), [("truncated-record", Some(1), Some(0), 1)]);
    assert_eq!(all.events.len(), 1);
}

#[test]
fn a_real_trace_whose_name_and_processor_disagree() {
    let all = read(&[("sample.blktrace.0", SAMPLE)]);
    assert_eq!(all.codes(), [("cpu-differs-from-file-name", None, None, 1)]);
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    for event in &all.events {
        let kind = format!("{:?}", event.kind);
        let kind = kind.split(' ').next().unwrap_or_default();
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    expect_test::expect![[r#"
        {"BioQueue": 963, "Complete": 963, "GetRequest": 963, "Issue": 963, "Plug": 963, "Remap": 963, "Unplug": 963}"#]]
    .assert_eq(&format!("{kinds:?}"));
    assert!(all.times().is_sorted());
    assert_eq!(all.lost, []);
    assert!(all.clock.unix_ns_at_zero.is_none());
}

#[test]
fn filtered_categories_are_not_shown() {
    let queue_only = read(&[("x", &encode(&queued(3), NARROW))]);
    assert!(queue_only.source.shows.contains(&"insert".to_owned()));
    assert!(!queue_only.source.shows.contains(&"complete".to_owned()));
    let sample = read(&[("x", SAMPLE)]);
    assert!(sample.source.shows.contains(&"requeue".to_owned()));
}

#[test]
fn recognition() {
    for layout in layouts() {
        assert!(recognise(&encode(&queued(1), layout)));
    }
    assert!(recognise(&[b"junk".as_slice(), &encode(&queued(2), NARROW)].concat()));
    assert!(!recognise(b"\x06tae\0\0"));
    assert!(!recognise(b"\x07ta"));
}

proptest! {
    /// Changed bytes anywhere in the sample cause no panic, and the size of the input limits the size of the
    /// output.
    #[test]
    fn any_damage_is_survived(
        from in 0..SAMPLE.len() - 20_000,
        hits in prop::collection::vec((0..20_000usize, any::<u8>()), 0..60),
        cut in 0..20_000usize,
    ) {
        let mut bytes = SAMPLE[from..from + 20_000].to_vec();
        for (at, value) in hits {
            bytes[at] = value;
        }
        bytes.truncate(20_000 - cut);
        let all = read(&[("x", &bytes)]);
        prop_assert!(all.events.len() <= bytes.len() / 48 + 1);
        prop_assert!(all.diagnostics.len() < 40);
    }

    /// No values of the fields cause a panic, in any layout.
    #[test]
    fn any_fields_are_survived(
        fields in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u32>(), 0..40usize), 1..20),
        big_endian: bool,
        wide: bool,
    ) {
        let layout = Layout { big_endian, wide };
        let records: Vec<Record> = fields.iter().map(|(a, b, c, pdu)| Record {
            sequence: *c,
            time: *b,
            sector: *a,
            bytes: *c,
            action: a ^ b,
            pid: *c,
            cpu: *c % 3,
            error: *b as u16,
            pdu: vec![*c as u8; *pdu],
        }).collect();
        let all = read(&[("x", &encode(&records, layout))]);
        prop_assert!(all.events.len() <= records.len());
    }
}
