use expect_test::expect;
use fonio_core::{CollectedRows, EventKind};
use fonio_tracefs::ring_buffer::ByteOrder;
use proptest::prelude::*;

use super::encode::{Contents, Event as Recorded, SAMPLE_TYPE, Written};
use super::*;
use crate::assemble::assemble;
use crate::assembler::AssemblerOptions;
use crate::recognise::{Format, OpenError, ReadOptions, open};

/// Requests of a loop device, recorded by perf 6.1 on Linux 6.18, with only the records and parts that the reader needs.
const REAL: &[u8] = include_bytes!("../../tests/data/perf-6.1.data");
/// The same file as text of `perf script --ns`.
const REAL_TEXT: &[u8] = include_bytes!("../../tests/data/perf-6.1.script.txt");

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
const ISSUE: &str = "\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
    \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
    \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
    \tfield:char rwbs[8];\toffset:32;\tsize:8;\tsigned:0;\n";
const COMM: &str = "\tfield:char comm[16];\toffset:40;\tsize:16;\tsigned:0;\n";
const SWITCH: &str = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
    \tfield:pid_t next_pid;\toffset:40;\tsize:4;\tsigned:1;\n";
const ISSUED: u16 = 100;
const COMPLETED: u16 = 101;
const SWITCHED: u16 = 102;
const SYNC_BEGAN: u16 = 103;
const SYNC_ENDED: u16 = 104;

fn systems() -> Vec<(String, Vec<String>)> {
    let format =
        |name: &str, id: u16, fields: &[&str]| format!("name: {name}\nID: {id}\n{}", fields.concat());
    let number = |name: &str| format!("\tfield:int {name};\toffset:8;\tsize:4;\tsigned:1;\n");
    let block = vec![
        format("block_rq_issue", ISSUED, &[COMMON, ISSUE, COMM]),
        format("block_rq_complete", COMPLETED, &[COMMON, ISSUE]),
    ];
    let sync = vec![
        format("ext4_sync_file_enter", SYNC_BEGAN, &[COMMON, &number("datasync")]),
        format("ext4_sync_file_exit", SYNC_ENDED, &[COMMON, &number("ret")]),
    ];
    vec![
        ("block".into(), block),
        ("sched".into(), vec![format("sched_switch", SWITCHED, &[COMMON, SWITCH])]),
        ("ext4".into(), sync),
        ("irq".into(), vec![String::new()]),
    ]
}

/// Puts numbers and texts into the raw data of an event.
fn raw(
    order: ByteOrder,
    id: u16,
    tid: u32,
    numbers: &[(usize, u64, usize)],
    texts: &[(usize, &str)],
) -> Vec<u8> {
    let mut raw = vec![0; 60];
    let mut put = |at: usize, value: u64, size: usize| {
        let mut bytes = value.to_le_bytes()[..size].to_vec();
        if order == ByteOrder::Big {
            bytes.reverse();
        }
        raw[at..at + size].copy_from_slice(&bytes);
    };
    put(0, u64::from(id), 2);
    put(4, u64::from(tid), 4);
    numbers.iter().for_each(|(at, value, size)| put(*at, *value, *size));
    for (at, text) in texts {
        raw[*at..*at + text.len()].copy_from_slice(text.as_bytes());
    }
    raw
}

fn sample(time: u64, cpu: u32, tid: u32, raw: Vec<u8>) -> Written {
    Written::Sample { id: 1 + u64::from(cpu), time, pid: 30, tid, cpu, raw }
}

/// A request's issue or completion: 8 sectors of the device 8:0.
fn request(order: ByteOrder, id: u16, time: u64, cpu: u32, sector: u64) -> Written {
    let numbers = [(8, 8 << 20, 4), (16, sector, 8), (24, 8, 4)];
    sample(time, cpu, 31, raw(order, id, 31, &numbers, &[(32, "WS"), (40, "writer")]))
}

fn contents(order: ByteOrder) -> Contents {
    let switch = |time, from: u32, state: u64, to: u32| {
        let numbers = [(24, u64::from(from), 4), (32, state, 8), (40, u64::from(to), 4)];
        sample(time, 0, from, raw(order, SWITCHED, from, &numbers, &[(8, "writer")]))
    };
    let sync = |id, time, value| sample(time, 0, 31, raw(order, id, 31, &[(8, value, 4)], &[]));
    Contents {
        order,
        systems: systems(),
        events: vec![Recorded::tracepoint(vec![1, 2]), Recorded { kind: 1, ..Recorded::tracepoint(vec![9]) }],
        clocks: Some((1_000_000_000_000, 5_000)),
        records: vec![
            Written::Comm { id: 9, time: 0, pid: 30, tid: 30, name: b"program".to_vec() },
            Written::Comm { id: 9, time: 0, pid: 30, tid: 31, name: b"old".to_vec() },
            sync(SYNC_BEGAN, 9_000, 1),
            request(order, ISSUED, 10_000, 0, 64),
            switch(10_500, 31, 2, 0),
            switch(12_000, 0, 0, 31),
            request(order, ISSUED, 20_000, 0, 72),
            Written::Other { kind: 71, flags: 0, fields: vec![0; 40] },
            Written::Round,
            // The completions are on the other processor.
            request(order, COMPLETED, 11_000, 1, 64),
            request(order, COMPLETED, 21_000, 1, 72),
            Written::Round,
            sync(SYNC_ENDED, 22_000, 0),
            Written::Comm { id: 9, time: 23_000, pid: 30, tid: 31, name: b"new".to_vec() },
        ],
        packed_together: 0,
    }
}

fn read(bytes: &[u8]) -> Result<(Batch, Clock), String> {
    let mut reader = open(vec![Input::of("t", bytes)], &ReadOptions::default()).map_err(|error| {
        assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
        error.to_string()
    })?;
    assert_eq!(reader.source().format, Format::PerfData.name());
    Ok((reader.read_all().expect("memory reads"), reader.clock()))
}

fn codes(all: &Batch) -> Vec<&str> {
    all.diagnostics.iter().map(|one| one.code.as_str()).collect()
}

#[test]
fn a_real_file_has_the_events_that_perf_prints() {
    let (all, clock) = read(REAL).expect("it is read");
    let input = Input::of("t", REAL_TEXT);
    let mut reader = open(vec![input], &ReadOptions::default()).expect("it is read");
    assert_eq!(reader.source().format, Format::PerfScript.name());
    let text = reader.read_all().expect("memory reads");
    assert_eq!(codes(&all), [""; 0]);
    assert!(text.events.len() > 100, "{}", text.events.len());
    assert_eq!(all.events, text.events);
    assert_eq!((clock.name.as_str(), clock.unix_ns_at_zero.is_some()), ("mono", true));
    // perf prints the number of a thread whose name it does not know.
    let is_named = |comm: &Option<String>| comm.as_ref().is_some_and(|comm| !comm.starts_with(':'));
    for row in text.threads.into_iter().filter(|row| is_named(&row.comm)) {
        assert!(all.threads.iter().any(|other| (other.tid, &other.comm) == (row.tid, &row.comm)), "{row:?}");
    }
    let mut rows = CollectedRows::default();
    let mut reader = open(vec![Input::of("t", REAL)], &ReadOptions::default()).expect("it is read");
    let meta = assemble(&mut *reader, AssemblerOptions::default(), &mut rows).expect("memory reads");
    let issues = all.events.iter().filter(|event| event.kind == EventKind::Issue).count();
    let complete = rows.requests.iter().filter(|request| request.service().is_some()).count();
    assert_eq!((complete, meta.lost.gaps.len()), (issues, 0));
}

#[test]
fn files_pipes_and_packed_records_of_both_byte_orders_are_equal() {
    let (plain, clock) = read(&contents(ByteOrder::Little).file()).expect("it is read");
    let times: Vec<u64> = plain.events.iter().map(|event| event.time.0).collect();
    assert_eq!(times, [10_000, 11_000, 20_000, 21_000]);
    assert_eq!(codes(&plain), [""; 0]);
    assert_eq!((clock.name.as_str(), clock.unix_ns_at_zero), ("mono", Some(999_999_995_000)));
    let waits: Vec<_> =
        plain.waits.iter().map(|seen| (seen.row.tid, seen.row.began.0, seen.row.ended.unwrap().0)).collect();
    assert_eq!(waits, [(31, 10_500, 12_000)]);
    let calls: Vec<_> =
        plain.calls.iter().map(|call| (call.name.as_str(), call.entered.0, call.exited.unwrap().0)).collect();
    assert_eq!(calls, [("fdatasync", 9_000, 22_000)]);
    let threads: Vec<_> =
        plain.threads.iter().map(|row| (row.tid, row.pid, row.comm.as_deref().unwrap_or_default())).collect();
    let expected = [
        (31, Some(30), "old"),
        (30, Some(30), "program"),
        (31, Some(30), "writer"),
        (0, None, "<idle>"),
        (31, Some(30), "new"),
    ];
    assert_eq!(threads, expected);
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for packed_together in [0, 1, 3, 100] {
            let contents = Contents { packed_together, ..contents(order) };
            for bytes in [contents.file(), contents.pipe()] {
                let (other, other_clock) = read(&bytes).expect("it is read");
                assert_eq!(other.events, plain.events, "{order:?} {packed_together}");
                assert_eq!((&other.threads, &other.waits), (&plain.threads, &plain.waits));
                assert_eq!((&other.calls, other_clock), (&plain.calls, clock.clone()));
                assert_eq!(codes(&other), [""; 0]);
            }
        }
    }
}

#[test]
fn losses_are_reported_with_their_place() {
    let order = ByteOrder::Little;
    let mut contents = contents(order);
    contents.records = vec![
        request(order, ISSUED, 10_000, 0, 64),
        request(order, ISSUED, 10_000, 1, 80),
        Written::Lost { id: 1, time: 30_000, cpu: 0, count: 5 },
        request(order, COMPLETED, 40_000, 0, 64),
        request(order, COMPLETED, 41_000, 0, 80),
        Written::LostSamples { count: 5, flags: 0 },
        Written::LostSamples { count: 2, flags: 0 },
        Written::LostSamples { count: 100, flags: LOST_BY_FILTER },
    ];
    let (all, _) = read(&contents.file()).expect("it is read");
    let gap = |cpu, count, after, before| LostEvents {
        cpu,
        count: Some(count),
        after: Timestamp(after),
        before: Timestamp(before),
    };
    assert_eq!(all.lost, [gap(Some(0), 5, 10_000, 30_000), gap(None, 2, 10_000, 41_000)]);
    assert_eq!(codes(&all), ["lost-events", "lost-events-anywhere"]);
}

#[test]
fn shortfalls_of_the_recording_are_reported() {
    let order = ByteOrder::Little;
    let mut sampled = contents(order);
    sampled.events[0].period = 100;
    let mut empty = contents(order);
    empty.records.clear();
    let mut sched = contents(order);
    sched.systems.retain(|(system, _)| system == "sched");
    let whole = contents(order).file();
    let mut damaged = Contents { packed_together: 4, ..contents(order) }.file();
    // The second half of the records.
    let at = 104 + 8 * 3 + 2 * 144 + 140;
    damaged[at..at + 8].fill(0xff);
    let cases: [(Vec<u8>, &[&str]); 5] = [
        (sampled.file(), &["sampled-events"]),
        (empty.file(), &["no-block-events"]),
        (sched.file(), &["no-block-events"]),
        (damaged, &["damaged-zstd", "no-block-events"]),
        (contents(order).pipe()[..whole.len() - 600].to_vec(), &["cut-record"]),
    ];
    for (number, (bytes, expected)) in cases.into_iter().enumerate() {
        assert_eq!(codes(&read(&bytes).expect("it is read").0), expected, "{number}");
    }
    let late = Contents {
        records: vec![
            request(order, ISSUED, 50_000, 0, 64),
            Written::Round,
            Written::Round,
            request(order, ISSUED, 10_000, 1, 80),
        ],
        ..contents(order)
    };
    assert_eq!(codes(&read(&late.file()).expect("it is read").0), ["out-of-order"]);
}

#[test]
fn files_without_requests_are_refused_by_name() {
    let mut shown = String::new();
    let mut say = |bytes: &[u8]| shown += &format!("{}\n", read(bytes).expect_err("it has no requests"));
    let order = ByteOrder::Little;
    let samples =
        Contents { events: vec![Recorded { kind: 0, ..Recorded::tracepoint(vec![]) }], ..contents(order) };
    say(&samples.file());
    say(&samples.pipe());
    let mut irq = contents(order);
    irq.systems.retain(|(system, _)| system == "irq");
    say(&irq.file());
    let mut untimed = contents(order);
    untimed.events[0].sample_type = SAMPLE_TYPE & !4;
    say(&untimed.file());
    let whole = contents(order).file();
    let mut killed = whole.clone();
    killed[48..56].fill(0);
    killed[72..104].fill(0);
    say(&killed);
    say(&whole[..whole.len() - 500]);
    say(&whole[..50]);
    say(b"PERFILE2");
    expect![[r#"
        t: it is a perf.data without tracepoints, such as samples of processors. To see requests, record with `perf record -a -k CLOCK_MONOTONIC -e block:block_rq_issue,block:block_rq_complete,block:block_rq_insert`.
        t: it is a perf.data without tracepoints, such as samples of processors. To see requests, record with `perf record -a -k CLOCK_MONOTONIC -e block:block_rq_issue,block:block_rq_complete,block:block_rq_insert`.
        t: it is a perf.data without events of the block layer and the scheduler (its tracepoints: irq). To see requests, record with `perf record -a -k CLOCK_MONOTONIC -e block:block_rq_issue,block:block_rq_complete,block:block_rq_insert`.
        t: it is a perf.data without the times or the contents of its events. Add the options `--timestamp --raw-samples`, or record with `perf record -a -k CLOCK_MONOTONIC -e block:block_rq_issue,block:block_rq_complete,block:block_rq_insert`.
        t: it is a perf.data whose recording did not end, so the formats of its events are missing. Record again, and let perf end by itself or with Ctrl-C.
        t: it is a perf.data, but a part behind its records is damaged or missing at byte 1640. Record again, and let perf end by itself or with Ctrl-C.
        t: it is a perf.data, but the place of its records is damaged or missing at byte 48. Record again, and let perf end by itself or with Ctrl-C.
        t: it is not a perf.data. Choose another format.
    "#]]
    .assert_eq(&shown);
}

proptest! {
    #[test]
    fn any_change_is_read_without_a_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        kind in 0_usize..4,
    ) {
        let contents = Contents { packed_together: 3 * (kind % 2), ..contents(ByteOrder::Little) };
        let mut bytes = if kind < 2 { contents.file() } else { contents.pipe() };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(mut reader) = PerfDataReader::open(Input::of("t", bytes)) {
            let all = reader.read_all().expect("memory reads");
            prop_assert!(all.lost.iter().all(|gap| gap.before >= gap.after));
        }
    }
}
