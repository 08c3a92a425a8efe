use std::path::Path;

use fonio_core::meta::SHOWS_SCHEDULER;
use fonio_core::{CollectedRows, Nanos};

use super::*;
use crate::assemble::assemble;
use crate::assembler::AssemblerOptions;
use crate::recognise::{Format, OpenError, ReadOptions, open};

/// Returns the files of a trace in the test data.
fn files(trace: &str, names: &[&str]) -> Vec<Input> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ctf").join(trace);
    let read =
        |name: &&str| Input::of(name, std::fs::read(folder.join(name)).expect("it is part of the sources"));
    names.iter().map(read).collect()
}

fn reader(inputs: Vec<Input>) -> Box<dyn TraceReader> {
    let reader = open(inputs, &ReadOptions::default()).expect("it is read");
    assert_eq!(reader.source().format, Format::Ctf.name());
    reader
}

/// What a line of babeltrace2 says of a block event: the time, the event, and the values of some fields.
fn printed(line: &str) -> Option<(u64, String, [Option<u64>; 4])> {
    let (time, rest) = line.strip_prefix('[')?.split_once(']')?;
    let name = rest
        .split_whitespace()
        .map(|word| word.trim_end_matches(':'))
        .find(|word| word.contains("block_"))?;
    let name = name.rsplit(':').next()?.to_owned();
    let value = |field: &str| {
        let (_, rest) = rest.rsplit_once(&format!(" {field} = "))?;
        rest.split([',', ' ']).next()?.parse().ok()
    };
    Some((time.parse().ok()?, name, ["cpu_id", "dev", "sector", "nr_sector"].map(value)))
}

/// The block events are those that babeltrace2 prints, in the same order.
#[test]
fn the_events_are_those_of_babeltrace2() {
    for (trace, names, count) in [
        ("babeltrace2", ["metadata", "stream", "stream-0"], 48),
        ("lttng-ust", ["metadata", "c_0", "c_1"], 80),
    ] {
        let text = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/ctf/{trace}.txt"));
        let text = std::fs::read_to_string(text).expect("it is part of the sources");
        let expected: Vec<_> = text.lines().filter_map(printed).collect();
        let mut reader = reader(files(trace, &names));
        let all = reader.read_all().expect("memory reads");
        let found: Vec<_> = (all.events.iter())
            .map(|event| {
                let name = match event.kind {
                    EventKind::BioQueue => "block_bio_queue",
                    EventKind::Insert => "block_rq_insert",
                    EventKind::Issue => "block_rq_issue",
                    EventKind::Complete => "block_rq_complete",
                    other => panic!("{other:?}"),
                };
                let (device, sectors) = (u64::from(event.device.0), event.bytes.0 / 512);
                let cpu = event.cpu.map(u64::from);
                (event.time.0, name.to_owned(), [cpu, Some(device), Some(event.sector.0), Some(sectors)])
            })
            .collect();
        assert_eq!(found.len(), count);
        assert_eq!(found, expected, "{trace}");
        assert!(all.diagnostics.iter().all(|one| one.severity == Severity::Note), "{:?}", all.diagnostics);
    }
}

#[test]
fn requests_waits_and_losses() {
    let mut reader = reader(files("babeltrace2", &["stream", "metadata", "stream-0"]));
    let mut rows = CollectedRows::default();
    let meta = assemble(&mut *reader, AssemblerOptions::default(), &mut rows).expect("memory reads");
    assert_eq!(meta.clock, Clock { name: "mono".into(), unix_ns_at_zero: Some(1_700_000_000_000_000_005) });
    assert!(meta.source.shows.iter().any(|shown| shown == SHOWS_SCHEDULER), "{:?}", meta.source.shows);
    // Each request takes 1 µs longer than the one before.
    let mut times: Vec<(u64, Nanos)> =
        rows.requests.iter().filter_map(|row| Some((row.sector?.0, row.service()?))).collect();
    times.sort_unstable();
    let expected: Vec<(u64, Nanos)> = (0..12).map(|n| (2048 + 8 * n, Nanos(100_000 + 1000 * n))).collect();
    assert_eq!(times, expected);
    let first = rows.requests.iter().find(|row| row.sector == Some(Sector(2048))).expect("it is there");
    assert_eq!((first.op, first.flags, first.tid, first.error), (Op::Write, Flags::SYNC, Some(100), Some(0)));
    assert_eq!(first.queued, Some(Timestamp(1_000_000)));
    assert_eq!(rows.requests.iter().filter(|row| row.op == Op::Read).count(), 8);
    // The thread waits from the switch until the wake-up, just after the completion.
    let wait = &rows.waits[0];
    assert_eq!((wait.tid, wait.began, wait.ended), (100, Timestamp(1_003_000), Some(Timestamp(1_103_000))));
    assert_eq!(wait.request_id, Some(first.request_id));
    // Seven events of the second processor were lost between its packets.
    assert_eq!(meta.lost.events, 7);
    assert_eq!(meta.lost.gaps[0].cpu, Some(1));
    let name = rows.threads.iter().find(|row| row.tid == 101).and_then(|row| row.comm.clone());
    assert_eq!(name.as_deref(), Some("fio1"));
}

#[test]
fn a_real_trace_of_lttng_has_names_and_latencies() {
    let mut reader = reader(files("lttng-ust", &["metadata", "c_0", "c_1"]));
    let mut rows = CollectedRows::default();
    let meta = assemble(&mut *reader, AssemblerOptions::default(), &mut rows).expect("memory reads");
    assert_eq!(meta.lost.events, 0);
    assert_eq!(rows.requests.len(), 40);
    assert!(rows.requests.iter().all(|row| row.service().is_some_and(|time| time >= Nanos(200_000))));
    // Between two events are 300 ms, in which the 27 bits of a short time overflow.
    assert!(rows.requests.iter().any(|row| row.service().is_some_and(|time| time >= Nanos(300_000_000))));
    assert_eq!(rows.threads[0].comm.as_deref(), Some("fio-worker"));
}

/// Events as LTTng's kernel module writes them for Linux 3.
#[test]
fn commands_of_programs_are_no_reads() {
    let issue = |sectors, bytes, bits, command| {
        let mut values = Values::default();
        let fields = [Known::Sectors, Known::Bytes, Known::Rwbs, Known::CommandBytes];
        for (field, value) in fields.into_iter().zip([sectors, bytes, bits, command]) {
            values.set(field, value);
        }
        let event = block(EventKind::Issue, &values);
        (event.op, event.bytes.0)
    };
    // `GET EVENT STATUS NOTIFICATION` of a CD drive, a read, a write, the end of a write, and a flush.
    assert_eq!(issue(0, 8, 1 << 2, 10), (Op::Other, 8));
    assert_eq!(issue(8, 0, 1 << 2, 0), (Op::Read, 4096));
    assert_eq!(issue(8, 0, 17, 0), (Op::Write, 4096));
    assert_eq!(issue(0, 0, 17, 0), (Op::Write, 0));
    assert_eq!(issue(0, 0, 1 << 8, 0), (Op::Flush, 0));
    // The flushes and the synchronous writes of LTTng 2.1.
    let mut flush = Values::default();
    let fields = [(Known::Sector, u64::MAX), (Known::Sectors, 0), (Known::Rwbs, 1)];
    fields.into_iter().for_each(|(field, value)| flush.set(field, value));
    assert_eq!(block(EventKind::Issue, &flush).op, Op::Flush);
    assert!(of_bits(17).1.contains(Flags::SYNC) && !of_bits(1).1.contains(Flags::SYNC));
}

#[test]
fn parts_of_a_trace_are_refused() {
    let refused = |inputs| match open(inputs, &ReadOptions::default()) {
        Err(OpenError::Foreign { found, way_out, .. }) => format!("{found}. {way_out}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is read"),
    };
    for (names, expected) in [
        (&["metadata"][..], "without streams"),
        (&["c_0"], "without its description"),
        (&["metadata", "metadata", "c_0"], "several descriptions"),
    ] {
        let found = refused(files("lttng-ust", names));
        assert!(found.contains(expected) && found.contains("folder"), "{found}");
    }
    let mut inputs = files("babeltrace2", &["stream"]);
    inputs.push(Input::of("metadata", "/* CTF 1.8 */\ntrace {\n  x"));
    assert!(refused(inputs).contains("line 3"), "the line is named");
}

/// A stream that is cut anywhere, or has a changed byte, gives the events before the damage, and ends.
#[test]
fn damage_is_named() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ctf/lttng-ust");
    let stream = std::fs::read(folder.join("c_1")).expect("it is part of the sources");
    let read = |bytes: Vec<u8>| {
        let mut inputs = files("lttng-ust", &["metadata"]);
        inputs.push(Input::of("c_1", bytes));
        let all =
            open(inputs, &ReadOptions::default()).expect("it is read").read_all().expect("memory reads");
        (all.events.len(), all.diagnostics.iter().filter(|one| one.code == "damaged-packet").count())
    };
    let (all, _) = read(stream.clone());
    let mut before = 0;
    for length in (1..stream.len()).step_by(97) {
        let (events, _) = read(stream[..length].to_vec());
        assert!(before <= events && events <= all, "{events} events of {length} bytes");
        before = events;
    }
    for at in (0..stream.len()).step_by(61) {
        let mut bytes = stream.clone();
        bytes[at] ^= 0x55;
        read(bytes);
    }
    assert_eq!(read([b"\xc1\x1f\xfc\xc1".as_slice(), &[0xff; 60]].concat()), (0, 1));
}
