//! Reads exports to Perfetto back: with a naive decoder, with fonio's reader, and with Perfetto's own classes for Python.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use fonio_core::meta::{Clock, Device};
use fonio_core::{
    BlockedIn, ByteCount, CollectedRows, DeviceId, Mark, Metric, Op, Request, RowSink, Sample, Sector,
    Thread, Timestamp, TraceReader, Wait, WaitReason,
};
use fonio_export::csv::CsvExport;
use fonio_export::fio_iolog::{FioIolog, Version};
use fonio_export::perfetto::Perfetto;
use fonio_export::perfetto_json::PerfettoJson;
use fonio_testing::{Need, skip};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::csv::Mapping;
use fonio_trace::input::Input;
use fonio_trace::perfetto::PerfettoReader;
use fonio_trace::recognise::{Format, ReadOptions, open};
use proptest::prelude::*;

const DEVICE: DeviceId = DeviceId(179 << 20);

/// A field of a message: its number, and its value.
#[derive(Clone, Debug)]
enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

/// Decodes a message, which must be whole.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Value)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (byte, rest) = bytes.split_first().expect("the message is whole");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut bytes)),
            1 => {
                let (number, rest) = bytes.split_first_chunk::<8>().expect("the message is whole");
                bytes = rest;
                Value::Number(u64::from_le_bytes(*number))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(content.to_vec())
            }
            kind => panic!("no export has the wire type {kind}"),
        };
        all.push((tag >> 3, value));
    }
    all
}

fn number(message: &[(u64, Value)], field: u64) -> Option<u64> {
    message.iter().find_map(|(number, value)| match value {
        Value::Number(value) if *number == field => Some(*value),
        _ => None,
    })
}

fn bytes(message: &[(u64, Value)], field: u64) -> Option<&[u8]> {
    message.iter().find_map(|(number, value)| match value {
        Value::Bytes(value) if *number == field => Some(value.as_slice()),
        _ => None,
    })
}

fn text(message: &[(u64, Value)], field: u64) -> Option<String> {
    bytes(message, field).map(|bytes| String::from_utf8(bytes.to_vec()).expect("it is UTF-8"))
}

/// A slice: begin, end, name and flow.
type Slice = (u64, u64, String, Option<u64>);

/// What an export contains, by the path of each track: `mmcblk0 (179:0)/in flight 1`.
#[derive(Debug, Default)]
struct Decoded {
    slices: BTreeMap<String, Vec<Slice>>,
    instants: BTreeMap<String, usize>,
    counters: BTreeMap<String, Vec<(u64, f64)>>,
    /// The clock of the times, and the clocks at the beginning.
    clock: Option<u64>,
    clocks: BTreeMap<u64, u64>,
}

impl Decoded {
    /// Decodes a trace. A slice must end after its begin, and slices of a track must not overlap.
    fn of(trace: &[u8]) -> Decoded {
        let mut decoded = Decoded::default();
        let mut tracks: BTreeMap<u64, String> = BTreeMap::new();
        let mut names: BTreeMap<u64, String> = BTreeMap::new();
        let mut open: BTreeMap<u64, (u64, String, Option<u64>)> = BTreeMap::new();
        let mut free_from: BTreeMap<u64, u64> = BTreeMap::new();
        for (at, (field, packet)) in fields(trace).into_iter().enumerate() {
            let (1, Value::Bytes(packet)) = (field, packet) else { panic!("a trace has packets only") };
            let packet = fields(&packet);
            assert_eq!(number(&packet, 10), Some(1), "all packets are of one sequence");
            if let Some(snapshot) = bytes(&packet, 6) {
                assert_eq!(at, 0, "the clocks come first");
                for (_, clock) in fields(snapshot).into_iter().filter(|(field, _)| *field == 1) {
                    let Value::Bytes(clock) = clock else { panic!("a clock is a message") };
                    let clock = fields(&clock);
                    decoded.clocks.insert(number(&clock, 1).unwrap(), number(&clock, 2).unwrap());
                }
            }
            if let Some(defaults) = bytes(&packet, 59) {
                assert_eq!((at, number(&packet, 13)), (1, Some(1)));
                decoded.clock = number(&fields(defaults), 58);
            }
            if let Some(interned) = bytes(&packet, 12) {
                for (list, entry) in fields(interned) {
                    let Value::Bytes(entry) = entry else { panic!("a name is a message") };
                    let entry = fields(&entry);
                    if list == 2 {
                        names.insert(number(&entry, 1).unwrap(), text(&entry, 2).unwrap());
                    }
                }
            }
            if let Some(descriptor) = bytes(&packet, 60) {
                let descriptor = fields(descriptor);
                let id = |field, number_of: u64, name: u64| {
                    let inner = fields(bytes(&descriptor, field)?);
                    Some(format!(
                        "{} {}",
                        text(&inner, name).unwrap_or_default(),
                        number(&inner, number_of).unwrap()
                    ))
                };
                let name = text(&descriptor, 2).or_else(|| id(3, 1, 6)).or_else(|| id(4, 2, 5));
                let parent = number(&descriptor, 5).map(|parent| tracks[&parent].clone() + "/");
                let path = parent.unwrap_or_default() + &name.expect("a track has a name");
                assert!(tracks.insert(number(&descriptor, 1).unwrap(), path).is_none());
            }
            let Some(event) = bytes(&packet, 11) else { continue };
            assert_eq!(number(&packet, 13), Some(2), "events use names of earlier packets");
            let (time, event) = (number(&packet, 8).unwrap(), fields(event));
            let track = number(&event, 11).unwrap();
            let path = tracks[&track].clone();
            let name =
                || number(&event, 10).map(|number| names[&number].clone()).or_else(|| text(&event, 23));
            match number(&event, 9).unwrap() {
                1 => {
                    assert!(free_from.get(&track).is_none_or(|free| *free <= time), "{path} at {time}");
                    let slice = (time, name().unwrap(), number(&event, 47));
                    assert!(open.insert(track, slice).is_none(), "{path} at {time}");
                }
                2 => {
                    let (begin, name, flow) = open.remove(&track).expect("an end has a begin");
                    assert!(begin <= time);
                    free_from.insert(track, time);
                    decoded.slices.entry(path).or_default().push((begin, time, name, flow));
                }
                3 => *decoded.instants.entry(path).or_default() += 1,
                4 => {
                    let value = number(&event, 30).map(|value| value as i64 as f64);
                    let value = value.or_else(|| number(&event, 44).map(f64::from_bits)).unwrap();
                    decoded.counters.entry(path).or_default().push((time, value));
                }
                kind => panic!("no export has events of the type {kind}"),
            }
        }
        assert!(open.is_empty(), "each slice ends");
        decoded
    }

    fn slices_in<'a>(&'a self, part: &'a str) -> impl Iterator<Item = &'a Slice> {
        self.slices.iter().filter(move |(path, _)| path.contains(part)).flat_map(|(_, slices)| slices)
    }
}

/// Exports rows.
fn export(fill: impl FnOnce(&mut Perfetto<Vec<u8>>)) -> Vec<u8> {
    let devices = [Device { id: DEVICE, name: Some("mmcblk0".into()), ..Device::default() }];
    let clock = Clock { name: "mono".into(), unix_ns_at_zero: Some(1_000_000_000_000) };
    let mut export = Perfetto::new(Vec::new(), &devices, clock);
    fill(&mut export);
    assert_eq!(export.left_out(), 0);
    export.finish().expect("memory writes")
}

fn request(request_id: u64, op: Op, times_us: [Option<u64>; 3]) -> Request {
    let [queued, issued, completed] = times_us.map(|time| time.map(|micros| Timestamp(micros * 1000)));
    Request {
        request_id,
        sector: Some(Sector(request_id * 8)),
        queued,
        issued,
        completed,
        tid: Some(78),
        ..Request::new(DEVICE, op, ByteCount(4096))
    }
}

fn wait(tid: u32, began_us: u64, ended_us: u64, request_id: Option<u64>) -> Wait {
    Wait {
        tid,
        began: Timestamp(began_us * 1000),
        ended: Some(Timestamp(ended_us * 1000)),
        reason: WaitReason::Storage,
        request_id,
        waker_tid: None,
        blocked_in: Some(BlockedIn::Fsync),
        file_id: None,
        io_wait: None,
        function: None,
    }
}

/// Two threads of a process, of which one waits for a request, with a mark and samples.
fn example() -> Vec<u8> {
    export(|sink| {
        sink.began(Timestamp(50_000)).unwrap();
        for (tid, comm) in [(77, "fio"), (78, "worker")] {
            let row = Thread { tid, pid: Some(77), comm: Some(comm.into()), ..Thread::default() };
            sink.thread(&row).unwrap();
        }
        sink.wait(&wait(78, 120, 400, Some(0))).unwrap();
        sink.wait(&wait(77, 130, 180, None)).unwrap();
        for row in [
            request(0, Op::Write, [Some(100), Some(110), Some(400)]),
            request(1, Op::Read, [Some(105), Some(120), Some(200)]),
            request(2, Op::Write, [Some(150), Some(210), Some(300)]),
            request(3, Op::Discard, [None, Some(2600), None]),
        ] {
            sink.request(&row).unwrap();
        }
        let mark = |at, until: Option<u64>| Mark {
            at: Timestamp(at),
            until: until.map(Timestamp),
            name: "phase".into(),
            tid: None,
        };
        sink.mark(&mark(100_000, Some(300_000))).unwrap();
        sink.mark(&mark(200_000, None)).unwrap();
        for (time, metric, value) in [
            (0, Metric::DiskReadBytes, 1000),
            (0, Metric::MemoryDirtyBytes, 5),
            (2_000_000_000, Metric::DiskReadBytes, 9000),
        ] {
            let row = Sample { time: Timestamp(time), metric, subject: Some("mmcblk0".into()), value };
            sink.sample(&row).unwrap();
        }
    })
}

#[test]
fn requests_waits_and_counters_have_their_tracks() {
    let decoded = Decoded::of(&example());
    assert_eq!(decoded.clock, Some(3), "the times are monotonic");
    let clocks = [(1, 1_000_000_050_000), (3, 50_000), (6, 50_000)];
    assert_eq!(decoded.clocks, clocks.into_iter().collect());
    let slice = |begin: u64, end: u64, name: &str, flow| (begin * 1000, end * 1000, name.to_owned(), flow);
    let expected = [
        ("fio 77/fio 77/waits", vec![slice(130, 180, "blocked: fsync", None)]),
        ("fio 77/worker 78/waits", vec![slice(120, 400, "blocked: fsync", Some(1))]),
        ("marks", vec![slice(100, 300, "phase", None)]),
        ("mmcblk0 (179:0)/in flight 1", vec![slice(110, 400, "write", Some(1))]),
        ("mmcblk0 (179:0)/in flight 2", vec![slice(120, 200, "read", None), slice(210, 300, "write", None)]),
        ("mmcblk0 (179:0)/queued 1", vec![slice(100, 110, "write", None), slice(150, 210, "write", None)]),
        ("mmcblk0 (179:0)/queued 2", vec![slice(105, 120, "read", None)]),
    ];
    let expected: BTreeMap<String, Vec<Slice>> =
        expected.into_iter().map(|(path, slices)| (path.to_owned(), slices)).collect();
    assert_eq!(decoded.slices, expected);
    let instants = [("mmcblk0 (179:0)/without a known end", 1), ("marks 2", 1)];
    assert_eq!(
        decoded.instants,
        instants.into_iter().map(|(path, count)| (path.to_owned(), count)).collect()
    );
    let counter = |path: &str| decoded.counters[path].clone();
    assert_eq!(
        counter("mmcblk0 (179:0)/requests in flight"),
        [(110_000, 1.0), (120_000, 2.0), (200_000, 1.0), (210_000, 2.0), (300_000, 1.0), (400_000, 0.0)]
    );
    // Three requests completed within the first 10 ms.
    assert_eq!(counter("mmcblk0 (179:0)/requests/s"), [(0, 300.0), (10_000_000, 0.0)]);
    assert_eq!(counter("mmcblk0 (179:0)/bytes written/s"), [(0, 819_200.0), (10_000_000, 0.0)]);
    assert_eq!(counter("disk_read_bytes mmcblk0/s"), [(0, 4000.0)]);
    assert_eq!(counter("memory_dirty_bytes mmcblk0"), [(0, 5.0)]);
}

/// The file is a trace of Perfetto for fonio's reader, too, which finds no damage and no events of the kernel in it.
#[test]
fn fonio_recognises_its_own_export() {
    let trace = example();
    let reader = open(vec![Input::of("t", trace.clone())], &ReadOptions::default());
    assert_eq!(reader.expect("it is recognised").source().format, Format::Perfetto.name());
    let all = PerfettoReader::new(Input::of("t", trace)).read_all().expect("memory reads");
    let codes: Vec<&str> = all.diagnostics.iter().map(|one| one.code.as_str()).collect();
    assert_eq!(codes, ["no-ftrace"]);
    // An export without rows is a trace.
    let empty = PerfettoReader::new(Input::of("t", export(|_| {}))).read_all().expect("memory reads");
    assert_eq!(empty.diagnostics.len(), 1);
}

proptest! {
    /// For any requests and waits, the slices, flows and depths are those of the rows.
    #[test]
    fn slices_flows_and_depths_are_those_of_the_rows(
        times in prop::collection::vec((0_u64..2000, 1_u64..300), 1..80),
        waits in prop::collection::vec((0_u32..5, 0_u64..2000, 1_u64..200, prop::option::of(0_u64..80)), 0..60),
    ) {
        let mut requests: Vec<Request> = times.iter().enumerate()
            .map(|(id, (issued, length))| {
                request(id as u64, Op::Read, [None, Some(*issued), Some(issued + length)])
            })
            .collect();
        requests.sort_by(|a, b| a.order(b));
        let mut waits: Vec<Wait> =
            waits.iter().map(|(tid, began, length, id)| wait(*tid, *began, began + length, *id)).collect();
        waits.sort_by_key(|row| row.began);
        let decoded = Decoded::of(&export(|sink| {
            waits.iter().for_each(|row| sink.wait(row).unwrap());
            requests.iter().for_each(|row| sink.request(row).unwrap());
        }));
        let spans = |part: &'static str| {
            let mut spans: Vec<(u64, u64)> = decoded.slices_in(part).map(|slice| (slice.0, slice.1)).collect();
            spans.sort_unstable();
            spans
        };
        let mut expected: Vec<_> =
            requests.iter().map(|row| (row.issued.unwrap().0, row.completed.unwrap().0)).collect();
        expected.sort_unstable();
        prop_assert_eq!(spans("in flight"), expected.clone());
        let mut blocked: Vec<_> = waits.iter().map(|row| (row.began.0, row.ended.unwrap().0)).collect();
        blocked.sort_unstable();
        prop_assert_eq!(spans("waits"), blocked);
        // A flow has the request and its waits.
        let flows = |part: &'static str| {
            let mut flows: Vec<u64> = decoded.slices_in(part).filter_map(|slice| slice.3).collect();
            flows.sort_unstable();
            flows
        };
        let mut of_waits: Vec<u64> = waits.iter().filter_map(|row| Some(row.request_id? + 1)).collect();
        of_waits.sort_unstable();
        prop_assert_eq!(flows("waits"), of_waits.clone());
        of_waits.dedup();
        of_waits.retain(|flow| *flow <= requests.len() as u64);
        prop_assert_eq!(flows("in flight"), of_waits);
        // The last value at each time is the number of requests in flight.
        let values: BTreeMap<u64, f64> = decoded.counters["mmcblk0 (179:0)/requests in flight"].iter().copied().collect();
        for (time, value) in values {
            let depth = expected.iter().filter(|(issued, completed)| *issued <= time && time < *completed).count();
            prop_assert_eq!(value, depth as f64, "at {}", time);
        }
        let width_s = 0.01;
        let completed: f64 =
            decoded.counters["mmcblk0 (179:0)/requests/s"].iter().map(|(_, value)| value * width_s).sum();
        prop_assert!((completed - requests.len() as f64).abs() < 1e-6);
    }
}

/// The number, the total time and the number without an end of the slices by name.
const SLICES: &str = "select name, count(*) n, sum(dur)/1000 us, sum(dur<0) open from slice group by name order by n desc limit 12;";

/// The answer to [`SLICES`] for the example: its rows in the order of their numbers and names.
const ANSWER: [(&str, u64, u64, u64); 4] =
    [("write", 4, 450, 0), ("blocked: fsync", 2, 330, 0), ("read", 2, 95, 0), ("phase", 1, 200, 0)];

/// Perfetto's own classes read the export; the sums are those of the rows.
const CHECK: &str = r#"
import sys
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as p
trace = p.Trace()
trace.ParseFromString(sys.stdin.buffer.read())
tracks, names, open_, sums, flows, most = {}, {}, {}, {}, {}, 0
for packet in trace.packet:
    assert len(UnknownFieldSet(packet)) == 0
    for name in packet.interned_data.event_names:
        names[name.iid] = name.name
    if packet.HasField("track_descriptor"):
        d = packet.track_descriptor
        assert len(UnknownFieldSet(d)) == 0
        name = d.name or d.thread.thread_name or d.process.process_name
        if d.HasField("counter"):
            name += " [" + d.counter.unit_name + "]"
        tracks[d.uuid] = (tracks[d.parent_uuid] + "/" if d.parent_uuid else "") + name
    if packet.HasField("track_event"):
        e = packet.track_event
        assert len(UnknownFieldSet(e)) == 0
        if e.type == p.TrackEvent.TYPE_SLICE_BEGIN:
            open_[e.track_uuid] = (packet.timestamp, e)
        elif e.type == p.TrackEvent.TYPE_SLICE_END:
            began, begin = open_.pop(e.track_uuid)
            key = tracks[e.track_uuid].split(" 1")[0].split(" 2")[0] + ": " + names[begin.name_iid]
            count, time = sums.get(key, (0, 0))
            sums[key] = (count + 1, time + packet.timestamp - began)
            for flow in begin.flow_ids:
                flows[flow] = flows.get(flow, 0) + 1
        elif e.type == p.TrackEvent.TYPE_COUNTER and "in flight [" in tracks[e.track_uuid]:
            most = max(most, e.counter_value)
slices = {}
for key, (count, time) in sums.items():
    name = key.split(": ", 1)[1]
    n, us = slices.get(name, (0, 0))
    slices[name] = (n + count, us + time)
for name in sorted(slices, key=lambda name: (-slices[name][0], name)):
    print("slices", name, slices[name][0], slices[name][1] // 1000, sum(names[e.name_iid] == name for _, e in open_.values()))
for key in sorted(sums):
    print(key, *sums[key])
print("flows", flows, "most", most)
print("clock", trace.packet[1].trace_packet_defaults.timestamp_clock_id, [c.clock_id for c in trace.packet[0].clock_snapshot.clocks])
"#;

#[test]
fn perfettos_own_classes_read_the_export() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let python = folder.path().join("venv/bin/python");
    let run = |program: &std::path::Path, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
        output.is_ok_and(|output| output.status.success())
    };
    let venv = folder.path().join("venv");
    let venv = venv.to_str().expect("a temporary folder has a plain name");
    if !run("python3".as_ref(), &["-m", "venv", venv]) {
        return skip(Need::PerfettoPython, "python3 cannot make a virtual environment");
    }
    // A known version, because these classes are the reference.
    let packages = ["perfetto==0.59.1", "protobuf"];
    let install =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", packages[0], packages[1]];
    if !run(&python, &install) {
        return skip(Need::PerfettoPython, "pip cannot install the packages perfetto and protobuf");
    }
    let mut child = Command::new(&python)
        .args(["-c", CHECK])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python runs");
    child.stdin.take().expect("a pipe").write_all(&example()).expect("Python reads");
    let output = child.wait_with_output().expect("Python ends");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("Python writes UTF-8");
    let (slices, text): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("slices "));
    let expected = ANSWER.map(|(name, n, us, open)| format!("slices {name} {n} {us} {open}"));
    assert_eq!(slices, expected);
    expect_test::expect![[r#"
        fio/fio/waits: blocked: fsync 1 50000
        fio/worker/waits: blocked: fsync 1 280000
        marks: phase 1 200000
        mmcblk0 (179:0)/in flight: read 1 80000
        mmcblk0 (179:0)/in flight: write 2 380000
        mmcblk0 (179:0)/queued: read 1 15000
        mmcblk0 (179:0)/queued: write 2 70000
        flows {1: 2} most 2
        clock 3 [6, 3, 1]
    "#]]
    .assert_eq(&format!("{}\n", text.join("\n")));
}

/// Perfetto's `trace_processor` reads the export, on a machine that has it: in `PATH`, or named by `FONIO_TRACE_PROCESSOR`.
#[test]
fn trace_processor_reads_the_export() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (trace, query) = (folder.path().join("trace"), folder.path().join("query.sql"));
    std::fs::write(&trace, example()).expect("a file");
    std::fs::write(&query, SLICES).expect("a file");
    let named = std::env::var_os("FONIO_TRACE_PROCESSOR");
    let names = ["trace_processor_shell", "trace_processor"].map(std::ffi::OsString::from);
    let programs = named.clone().map_or(names.to_vec(), |named| vec![named]);
    let run = |program: &std::ffi::OsString| {
        Command::new(program).arg("-q").arg(&query).arg(&trace).stdin(Stdio::null()).output().ok()
    };
    let Some(output) = programs.iter().find_map(run) else {
        assert!(named.is_none(), "FONIO_TRACE_PROCESSOR does not name a program");
        return skip(Need::TraceProcessor, "trace_processor_shell is not installed");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // `"write",4,450,0`, after the names of the columns.
    let text = String::from_utf8(output.stdout).expect("it writes UTF-8");
    let row = |line: &str| {
        let (name, numbers) = line.strip_prefix('"')?.split_once("\",")?;
        let numbers: Vec<u64> =
            numbers.split(',').map(|number| number.trim().parse().ok()).collect::<Option<_>>()?;
        Some((name.to_owned(), numbers))
    };
    let mut rows: Vec<_> = text.lines().filter_map(row).collect();
    rows.sort_by_key(|(name, numbers)| (std::cmp::Reverse(numbers[0]), name.clone()));
    assert_eq!(rows, ANSWER.map(|(name, n, us, open)| (name.to_owned(), vec![n, us, open])));
}

/// Returns the rows of a trace in the order of their tables: all other rows before requests.
fn rows(bytes: Vec<u8>, options: &ReadOptions) -> CollectedRows {
    let mut reader = open(vec![Input::of("sample", bytes)], options).expect("the sample is read");
    let mut rows = CollectedRows::default();
    assemble(&mut *reader, AssemblerOptions::default(), &mut rows).expect("memory reads");
    rows.requests.sort_by(|a, b| a.order(b));
    rows
}

fn feed(rows: &CollectedRows, sink: &mut dyn RowSink) {
    rows.threads.iter().for_each(|row| sink.thread(row).unwrap());
    rows.calls.iter().for_each(|row| sink.call(row).unwrap());
    rows.waits.iter().for_each(|row| sink.wait(row).unwrap());
    rows.marks.iter().for_each(|row| sink.mark(row).unwrap());
    rows.requests.iter().for_each(|row| sink.request(row).unwrap());
    rows.samples.iter().for_each(|row| sink.sample(row).unwrap());
}

/// Each sample of the repository is exported to each format.
#[test]
fn each_format_is_exported_to_each() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fonio-trace/tests/data");
    let file = |name: &str| std::fs::read(format!("{folder}/{name}")).expect("it is part of the sources");
    let msr =
        "128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,hm,1,Write,2822144,4096,230\n";
    let table = "issued,completed,op,off,len\n0.1,0.2,r,0,4096\n0.15,0.3,w,8192,512\n";
    let mapping = "issued=issued:s,completed=completed:s,op=op,offset=off:bytes,size=len:bytes";
    let plain = || ReadOptions::default();
    let csv = || ReadOptions {
        csv: Some(mapping.parse::<Mapping>().expect("a mapping")),
        ..ReadOptions::default()
    };
    let systrace = [b"TRACE:\n".as_slice(), &file("ftrace-6.18.txt")].concat();
    for (format, bytes, options) in [
        (Format::Blktrace, file("takeoverjp-sample.blktrace.0"), plain()),
        (Format::Blkparse, file("takeoverjp-sample.blkparse.txt"), plain()),
        (Format::Ftrace, file("ftrace-6.18.txt"), plain()),
        (Format::Ftrace, file("launch-chain.txt"), plain()),
        (Format::Ftrace, file("ftrace-3.4-tgid.txt"), plain()),
        (Format::PerfScript, file("perf-script.txt"), plain()),
        (Format::PerfData, file("perf-6.1.data"), plain()),
        (Format::Systrace, systrace, plain()),
        (Format::Biosnoop, file("biosnoop.txt"), plain()),
        (Format::MsrCambridge, msr.into(), plain()),
        (Format::Vscsi, file("synthetic.vscsi"), plain()),
        (Format::DiskSim, file("mqsim-tpcc-200.trace"), plain()),
        (Format::Csv, table.into(), csv()),
    ] {
        let rows = rows(bytes, &options);
        assert!(!rows.requests.is_empty(), "{format}");
        let timed =
            rows.requests.iter().filter(|row| row.issued.is_some() && row.completed.is_some()).count();
        // Perfetto, as protocol buffers and as JSON.
        let mut sink = Perfetto::new(Vec::new(), &[], Clock::default());
        feed(&rows, &mut sink);
        assert_eq!(sink.left_out(), 0, "{format}");
        let decoded = Decoded::of(&sink.finish().expect("memory writes"));
        assert_eq!(decoded.slices_in("/in flight").count(), timed, "{format}");
        let ended = rows.waits.iter().filter(|row| row.ended.is_some()).count();
        assert_eq!(decoded.slices_in("/waits").count(), ended, "{format}");
        let mut sink = PerfettoJson::new(Vec::new(), &[]);
        feed(&rows, &mut sink);
        let json: serde_json::Value =
            serde_json::from_slice(&sink.finish().expect("memory writes")).expect("it is JSON");
        let events = json["traceEvents"].as_array().expect("a list");
        let in_flight = events.iter().filter(|event| {
            event["ph"] == "X" && event["cat"] == "block" && event["tid"].as_u64() < Some(100_000)
        });
        assert_eq!(in_flight.count(), timed, "{format}");
        // CSV comes back.
        let mut sink = CsvExport::new(Vec::new()).expect("memory writes");
        feed(&rows, &mut sink);
        let table = sink.finish().expect("memory writes");
        let back = self::rows(table, &ReadOptions::default());
        // A line without a time is no request.
        let has_time = |row: &&Request| row.queued.or(row.issued).or(row.completed).is_some();
        let key = |row: &Request| (row.device, row.op, row.sector, row.bytes, row.issued, row.completed);
        assert_eq!(
            back.requests.iter().map(key).collect::<Vec<_>>(),
            rows.requests.iter().filter(has_time).map(key).collect::<Vec<_>>(),
            "{format}"
        );
        // Logs of fio.
        for version in [Version::V2, Version::V3] {
            let mut sink = FioIolog::new(Vec::new(), version, &[]).expect("memory writes");
            feed(&rows, &mut sink);
            let written = sink.finish().expect("memory writes");
            let left_out: u64 = written.left_out.values().sum();
            assert_eq!(
                written.requests + left_out + written.impossible,
                rows.requests.len() as u64,
                "{format}"
            );
        }
    }
}
