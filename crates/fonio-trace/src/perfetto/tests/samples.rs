//! Compares real traces with the answers of Perfetto's `trace_processor`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fonio_core::{BlockEvent, CollectedRows, DeviceId, EventKind, IoWait, Sector, TraceReader};
use fonio_testing::{Need, skip};

use crate::assemble::assemble;
use crate::assembler::AssemblerOptions;
use crate::input::Input;
use crate::perfetto::PerfettoReader;
use crate::recognise::{Format, ReadOptions, open};

/// Returns the folder with the traces; `None`, after a sentence, if it is absent.
fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/phones");
    if folder.is_dir() {
        return Some(folder);
    }
    skip(Need::Shared, format!("{} does not exist", folder.display()));
    None
}

/// Returns the rows of a table of answers, as cells without quotes.
fn answers(folder: &std::path::Path, trace: &str, table: &str) -> Vec<Vec<String>> {
    let path = folder.join(format!("expected/{}.{table}.csv", trace.replace('/', "_")));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows = text.lines().skip(1).filter(|line| !line.is_empty());
    rows.map(|line| line.split(',').map(|cell| cell.trim_matches('"').to_owned()).collect()).collect()
}

/// For each device: the pairs of issue and completion, their longest time and their bytes, by the rule of
/// `pairs.sql`: the next event of the same device and sector is the completion.
fn pairs(events: &[BlockEvent]) -> BTreeMap<DeviceId, (u64, u64, u64)> {
    let mut last: BTreeMap<(DeviceId, Sector), &BlockEvent> = BTreeMap::new();
    let mut pairs: BTreeMap<DeviceId, (u64, u64, u64)> = BTreeMap::new();
    for event in events.iter().filter(|event| matches!(event.kind, EventKind::Issue | EventKind::Complete)) {
        if let Some(before) = last.insert((event.device, event.sector), event)
            && (before.kind, event.kind) == (EventKind::Issue, EventKind::Complete)
        {
            let (count, longest, bytes) = pairs.entry(event.device).or_default();
            *count += 1;
            *longest = (*longest).max(event.time.0 - before.time.0);
            *bytes += before.bytes.0;
        }
    }
    pairs
}

const TRACES: [&str; 3] =
    ["synthetic-android-startup.pftrace", "export-handmade.pftrace.gz", "guest-6.12/guest-f2fs.pftrace"];

#[test]
fn requests_are_those_of_trace_processor() {
    let Some(folder) = folder() else { return };
    let mut compared = 0;
    for trace in TRACES {
        let bytes = std::fs::read(folder.join(trace)).expect("the sample is there");
        let mut reader =
            open(vec![Input::of(trace, bytes)], &ReadOptions::default()).expect("it is recognised");
        let all = reader.read_all().expect("memory reads");
        assert_eq!(reader.source().format, Format::Perfetto.name());
        assert!(all.events.is_sorted_by_key(|event| event.time), "{trace}");
        let counts: BTreeMap<_, _> = answers(&folder, trace, "counts")
            .into_iter()
            .map(|row| (row[0].clone(), row[1].clone()))
            .collect();
        for (name, kind) in [
            ("block_bio_queue", EventKind::BioQueue),
            ("block_rq_complete", EventKind::Complete),
            ("block_rq_insert", EventKind::Insert),
            ("block_rq_issue", EventKind::Issue),
        ] {
            let count = all.events.iter().filter(|event| event.kind == kind).count();
            assert_eq!(count.to_string(), counts.get(name).map_or("0", String::as_str), "{trace} {name}");
            compared += count;
        }
        let ours: Vec<_> =
            pairs(&all.events).into_iter().map(|(device, found)| (device.to_string(), found)).collect();
        let mut theirs: Vec<_> = answers(&folder, trace, "pairs")
            .into_iter()
            .map(|row| {
                let micros: f64 = row[6].parse().expect("a number");
                let number = |at: usize| row[at].parse().expect("a number");
                (format!("{}:{}", row[0], row[1]), (number(2), (micros * 1e3).round() as u64, number(7)))
            })
            .collect();
        theirs.sort_by_key(|(device, _)| ours.iter().position(|(other, _)| other == device));
        assert_eq!(ours, theirs, "{trace}");
    }
    assert!(compared > 500, "{compared} events");
}

#[test]
fn waits_are_those_of_trace_processor() {
    let Some(folder) = folder() else { return };
    let mut compared = 0;
    for trace in [TRACES[0], TRACES[2]] {
        let bytes = std::fs::read(folder.join(trace)).expect("the sample is there");
        let mut reader = PerfettoReader::new(Input::of(trace, bytes));
        let all = reader.read_all().expect("memory reads");
        for row in answers(&folder, trace, "dstate") {
            let tid: u32 = row[1].parse().expect("a number");
            let known =
                |cell: &String| Some(cell.as_str()).filter(|cell| *cell != "[NULL]").map(str::to_owned);
            let account = match row[3].as_str() {
                "1" => IoWait::Yes,
                "0" => IoWait::No,
                _ => IoWait::Unknown,
            };
            let waits = all.waits.iter().map(|seen| &seen.row).filter(|wait| {
                wait.tid == tid && wait.io_wait == Some(account) && wait.function == known(&row[4])
            });
            let nanos: u64 = waits.clone().map(|wait| wait.ended.expect("it ended").0 - wait.began.0).sum();
            let found = (waits.clone().count().to_string(), (nanos / 1000).to_string());
            assert_eq!(found, (row[5].clone(), row[6].clone()), "{trace}: {row:?}");
            let comm = all.threads.iter().rfind(|thread| thread.tid == tid && thread.comm.is_some());
            let comm = comm.and_then(|thread| thread.comm.clone());
            assert_eq!(comm.as_deref(), Some(&row[0][..row[0].len().min(15)]), "{trace}");
            compared += waits.count();
        }
    }
    assert!(compared > 100, "{compared} waits");
    // Every sync call that ended is there.
    let bytes = std::fs::read(folder.join(TRACES[2])).expect("the sample is there");
    let calls = PerfettoReader::new(Input::of(TRACES[2], bytes)).read_all().expect("memory reads").calls;
    let exits =
        answers(&folder, TRACES[2], "counts").into_iter().filter(|row| row[0].ends_with("_sync_file_exit"));
    let exits: usize = exits.map(|row| row[1].parse::<usize>().expect("a number")).sum();
    assert_eq!(calls.len(), exits);
    assert!(calls.iter().all(|call| call.result == Some(0)), "{calls:?}");
}

/// The launch and its time of I/O, and the late frame, by `trace_processor` (`startup.sql`).
#[test]
fn a_launch_and_a_late_frame_are_those_of_trace_processor() {
    let Some(folder) = folder() else { return };
    let bytes = std::fs::read(folder.join(TRACES[0])).expect("the sample is there");
    let all = PerfettoReader::new(Input::of(TRACES[0], bytes)).read_all().expect("memory reads");
    let span = |name: &str| {
        let mark =
            all.marks.iter().find(|mark| mark.name == name).unwrap_or_else(|| panic!("{:?}", all.marks));
        (mark.at.0, mark.until.expect("it ended").0 - mark.at.0)
    };
    let rows = answers(&folder, TRACES[0], "startup");
    let number = |row: &[String], at: usize| row[at].parse::<u64>().expect("a number");
    let launch = &rows[0];
    let completed = format!("launchingActivity#{}:completed-{}:{}", launch[0], launch[2], launch[1]);
    assert!(all.marks.iter().any(|mark| mark.name == completed), "{:?}", all.marks);
    let (at, duration) = span(&format!("launchingActivity#{}", launch[0]));
    assert_eq!((at, duration), (number(launch, 3), number(launch, 4)));
    let io: u64 = (all.waits.iter().map(|seen| &seen.row))
        .filter(|wait| wait.tid == 3000 && wait.io_wait == Some(IoWait::Yes))
        .map(|wait| {
            let ended = wait.ended.expect("it ended").0.min(at + duration);
            ended.saturating_sub(wait.began.0.max(at))
        })
        .sum();
    let reason = |name: &str| rows.iter().find(|row| row[0] == name).expect("it is answered");
    assert_eq!(io, number(reason("io"), 1));
    let frame = rows.iter().find(|row| row.last().is_some_and(|name| name == "com.example.app"));
    let frame = frame.expect("the app has a frame");
    let found = span(&format!("{}{}", fonio_core::meta::LATE_FRAME, frame[2]));
    assert_eq!(found, (number(frame, 0), number(frame, 1)));
}

/// Waits are joined with requests that completed within them.
#[test]
fn waits_of_a_guest_are_joined_with_requests() {
    let Some(folder) = folder() else { return };
    let bytes = std::fs::read(folder.join(TRACES[2])).expect("the sample is there");
    let mut reader = PerfettoReader::new(Input::of(TRACES[2], bytes));
    let mut rows = CollectedRows::default();
    assemble(&mut reader, AssemblerOptions::default(), &mut rows).expect("memory reads");
    let (mut joined, mut own) = (0, 0);
    for wait in rows.waits.iter() {
        let Some(id) = wait.request_id else { continue };
        let request = rows.requests.iter().find(|row| row.request_id == id).expect("the request is there");
        let (completed, ended) = (request.completed.expect("it completed"), wait.ended.expect("it ended"));
        assert!(wait.began <= completed && completed <= ended, "{wait:?} {request:?}");
        assert!(ended.0 - completed.0 <= 2_000_000, "{wait:?} {request:?}");
        assert_eq!(wait.reason, fonio_core::WaitReason::Storage);
        joined += 1;
        own += u64::from(request.tid == Some(wait.tid));
    }
    // Each of these threads waited for a request of its own.
    assert_eq!((joined, own), (36, 36));
    let for_threads = rows.waits.iter().filter(|wait| wait.waker_tid.is_some()).count();
    assert_eq!(for_threads, 55);
}

/// The trace was recorded while fonio recorded the same device in the same guest.
#[test]
fn a_trace_of_a_guest_becomes_requests() {
    let Some(folder) = folder() else { return };
    let bytes = std::fs::read(folder.join(TRACES[2])).expect("the sample is there");
    let mut reader = PerfettoReader::new(Input::of(TRACES[2], bytes));
    let mut rows = CollectedRows::default();
    let meta = assemble(&mut reader, AssemblerOptions::default(), &mut rows).expect("memory reads");
    assert_eq!(meta.clock.name, "boot");
    assert!(meta.clock.unix_ns_at_zero.is_some());
    assert_eq!(meta.lost, fonio_core::meta::Lost::default());
    let issued = rows.requests.iter().filter(|row| row.issued.is_some() && row.completed.is_some()).count();
    assert_eq!(issued, rows.requests.iter().filter(|row| row.issued.is_some()).count());
    assert_eq!(rows.diagnostics.iter().filter(|row| row.severity > fonio_core::Severity::Note).count(), 0);
}
