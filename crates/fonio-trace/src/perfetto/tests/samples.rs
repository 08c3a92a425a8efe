//! Compares real traces with the answers of Perfetto's `trace_processor`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fonio_core::{BlockEvent, CollectedRows, DeviceId, EventKind, Sector, TraceReader};
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
        reader.read_all().expect("memory reads");
        let mut by_thread: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for row in answers(&folder, trace, "dstate") {
            let tid: u32 = row[1].parse().expect("a number");
            let blocked = &reader.state.waits.blocked[&tid];
            let (count, micros): (u64, u64) = (row[5].parse().expect("n"), row[6].parse().expect("µs"));
            let sum = match row[3].as_str() {
                "1" => blocked.io,
                "0" => blocked.not_io,
                _ => blocked.unknown,
            };
            assert_eq!(sum / 1000, micros, "{trace}: {row:?}, {blocked:?}");
            assert_eq!(
                reader.state.names.of(tid).as_deref(),
                Some(&row[0][..row[0].len().min(15)]),
                "{trace}"
            );
            if row[4] != "[NULL]" {
                let names = |symbol: &u32| reader.state.symbol_names[*symbol as usize].clone();
                assert!(
                    blocked.functions.iter().any(|(symbol, _)| names(symbol) == row[4]),
                    "{trace}: {row:?}"
                );
            }
            by_thread.entry(tid).or_default().0 += count;
            by_thread.entry(tid).or_default().1 = blocked.count;
        }
        for (tid, (theirs, ours)) in by_thread {
            assert_eq!(theirs, ours, "{trace}: waits of thread {tid}");
            compared += ours;
        }
    }
    assert!(compared > 100, "{compared} waits");
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
