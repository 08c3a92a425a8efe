//! Reads exports back with fonio's reader, a JSON parser, and fio.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::process::Command;

use expect_test::{expect, expect_file};
use fonio_core::meta::{Clock, Device};
use fonio_core::{
    Batch, ByteCount, Call, DeviceId, Flags, Mark, Metric, Op, Request, RowSink, Sample, Sector, Thread,
    Timestamp, TraceReader, Wait, WaitReason, ignore_rows,
};
use fonio_export::csv::CsvExport;
use fonio_export::fio_iolog::{FioIolog, Version, Written};
use fonio_export::perfetto::Perfetto;
use fonio_export::perfetto_json::PerfettoJson;
use fonio_testing::in_little_memory;
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::csv::{CsvReader, Mapping};
use fonio_trace::input::Input;
use fonio_trace::recognise::{ReadOptions, open};
use proptest::prelude::*;
use serde_json::Value;

const DEVICE: DeviceId = DeviceId(179 << 20);

fn devices() -> Vec<Device> {
    vec![Device { id: DEVICE, name: Some("mmcblk0".into()), ..Device::default() }]
}

/// Creates a request with the given times in microseconds.
fn request(request_id: u64, op: Op, sector: u64, bytes: u64, times: [Option<u64>; 3]) -> Request {
    let [queued, issued, completed] = times.map(|time| time.map(|micros| Timestamp(micros * 1000)));
    Request {
        request_id,
        sector: (op != Op::Flush).then_some(Sector(sector)),
        queued,
        issued,
        completed,
        tid: Some(7),
        cpu: Some(1),
        error: completed.map(|_| 0),
        ..Request::new(DEVICE, op, ByteCount(bytes))
    }
}

fn requests() -> Vec<Request> {
    let mut rows = vec![
        request(0, Op::Write, 8, 4096, [Some(100), Some(110), Some(400)]),
        request(1, Op::Read, 64, 8192, [Some(105), Some(120), Some(200)]),
        request(2, Op::Write, 128, 4096, [Some(150), Some(210), Some(300)]),
        request(3, Op::Flush, 0, 0, [None, Some(500), Some(2500)]),
        request(4, Op::Discard, 1 << 20, 150 << 20, [None, Some(2600), None]),
        request(5, Op::WriteZeroes, 0, 4096, [Some(2700), None, None]),
    ];
    rows[0].flags = Flags::SYNC | Flags::FUA | Flags::PREFLUSH;
    rows[0].flags_known = Flags::KNOWN_FROM_RWBS;
    rows
}

fn thread(tid: u32, from: u64, comm: &str) -> Thread {
    Thread { tid, from: Timestamp(from), pid: Some(5), comm: Some(comm.into()), ..Thread::default() }
}

#[test]
fn csv() {
    let mut export = CsvExport::new(Vec::new()).expect("memory writes");
    export.thread(&thread(7, 0, "my, \"app\"")).expect("memory writes");
    export.thread(&thread(7, 300_000, "later")).expect("memory writes");
    for row in requests() {
        export.request(&row).expect("memory writes");
    }
    let text = String::from_utf8(export.finish().expect("memory writes")).expect("it is UTF-8");
    expect![[r#"
        request_id,device,op,flags,flags_known,sector,bytes,queued_ns,inserted_ns,issued_ns,reissued_ns,completed_ns,requeues,cpu,tid,process,cause_tid,file_id,content,ioprio,error
        0,179:0,write,sync|fua|preflush,sync|meta|fua|preflush|readahead,8,4096,100000,,110000,,400000,,1,7,"my, ""app""",,,unknown,,0
        1,179:0,read,,,64,8192,105000,,120000,,200000,,1,7,"my, ""app""",,,unknown,,0
        2,179:0,write,,,128,4096,150000,,210000,,300000,,1,7,"my, ""app""",,,unknown,,0
        3,179:0,flush,,,,0,,,500000,,2500000,,1,7,later,,,unknown,,0
        4,179:0,discard,,,1048576,157286400,,,2600000,,,,1,7,later,,,unknown,,
        5,179:0,write_zeroes,,,0,4096,2700000,,,,,,1,7,later,,,unknown,,
    "#]].assert_eq(&text);

    // fonio recognises the format by the content, and reads back the same requests, except for values without
    // a column.
    let input = Input::new("fonio.csv", Box::new(io::Cursor::new(text.into_bytes())));
    let mut reader = open(vec![input], &ReadOptions::default()).expect("it is recognised");
    let mut batch = Batch::default();
    reader.next_batch(&mut batch).expect("memory reads");
    let expected: Vec<Request> = requests()
        .into_iter()
        .map(|row| Request {
            request_id: 0,
            flags: Flags::NONE,
            flags_known: Flags::NONE,
            error: None,
            ..row
        })
        .collect();
    assert_eq!(batch.requests, expected);
    assert_eq!(batch.threads[0].comm.as_deref(), Some("my, \"app\""));
    assert_eq!(batch.diagnostics, []);
}

fn iolog(version: Version, rows: &[Request]) -> (String, Written) {
    let mut text = Vec::new();
    let mut export = FioIolog::new(&mut text, version, &devices()).expect("memory writes");
    for row in rows {
        export.request(row).expect("memory writes");
    }
    let written = export.finish().expect("memory writes");
    (String::from_utf8(text).expect("it is UTF-8"), written)
}

#[test]
fn fio_iolog() {
    let (text, written) = iolog(Version::V3, &requests());
    expect_file!["export_a.txt"].assert_eq(&text);
    let left_out = BTreeMap::from([(Op::WriteZeroes, 1)]);
    assert_eq!(written, Written { requests: 5, left_out, impossible: 0 });
    let without_times: String = text
        .replace("version 3", "version 2")
        .lines()
        .map(|line| match line.split_once(' ') {
            Some((time, rest)) if time.parse::<u64>().is_ok() => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    assert_eq!(iolog(Version::V2, &requests()).0, without_times);
}

#[test]
fn an_iolog_names_only_devices() {
    let path = |name: &str| {
        let device = Device { id: DeviceId::new(8, 1), name: Some(name.to_owned()), ..Device::default() };
        let mut text = Vec::new();
        let mut export = FioIolog::new(&mut text, Version::V2, &[device]).expect("memory writes");
        export.request(&of_bytes(0, 4096)).expect("memory writes");
        export.finish().expect("memory writes");
        let text = String::from_utf8(text).expect("it is UTF-8");
        text.lines().nth(1).expect("the device is added").strip_suffix(" add").expect("an action").to_owned()
    };
    for name in ["sda", "mmcblk0p1", "dm-0", "nvme0n1", "cciss!c0d0"] {
        assert_eq!(path(name), format!("/dev/{name}"));
    }
    let long = "a".repeat(32);
    for name in ["../etc/passwd", "..", ".", "a/b", "", "a b", "a\nb", "a\u{202e}b", "-a", &long] {
        assert_eq!(path(name), "/dev/block/8:1", "{name:?}");
    }
}

#[test]
fn impossible_requests_are_left_out_of_an_iolog() {
    let rows = [
        of_bytes(0, 1 << 63),
        of_bytes(0, (1 << 32) + 512),
        of_bytes(u64::MAX, 4096),
        of_bytes(i64::MAX as u64 / 512, 4096),
        // The longest possible request has 64 lines.
        of_bytes(0, 1 << 32),
    ];
    let (text, written) = iolog(Version::V2, &rows);
    assert_eq!((written.requests, written.impossible), (1, 4));
    // The other lines are the heading, and those that add, open and close the device.
    assert_eq!(text.lines().count(), 64 + 4);
}

fn of_bytes(sector: u64, bytes: u64) -> Request {
    let row = Request::new(DeviceId::new(8, 1), Op::Read, ByteCount(bytes));
    Request { sector: Some(Sector(sector)), issued: Some(Timestamp(1)), ..row }
}

#[test]
fn fio_replays_the_iolog() {
    fonio_testing::skip_without!(Fio);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let image = dir.path().join("image");
    fs::write(&image, vec![0; 1 << 20]).expect("the image is written");
    let rows: Vec<Request> = requests()
        .into_iter()
        .filter(|row| row.op != Op::Discard)
        .map(|mut row| {
            // Leave a gap of one second, which the replay must reproduce.
            if row.request_id == 3 {
                row.issued = Some(Timestamp(1_000_110_000));
            }
            row
        })
        .collect();
    for version in [Version::V2, Version::V3] {
        let log = dir.path().join("log");
        fs::write(&log, iolog(version, &rows).0).expect("the log is written");
        let run = Command::new("fio")
            .current_dir(dir.path())
            .args(["--name=replay", "--ioengine=psync", "--output-format=json"])
            .arg(format!("--read_iolog={}", log.display()))
            .arg(format!("--replay_redirect={}", image.display()))
            .output()
            .expect("fio starts");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(String::from_utf8_lossy(&run.stderr), "");
        let begin = run.stdout.iter().position(|byte| *byte == b'{').expect("fio prints JSON");
        let result: Value = serde_json::from_slice(&run.stdout[begin..]).expect("fio prints JSON");
        let job = &result["jobs"][0];
        assert_eq!(job["error"], 0);
        assert_eq!((&job["read"]["total_ios"], &job["read"]["io_bytes"]), (&1.into(), &8192.into()));
        assert_eq!((&job["write"]["total_ios"], &job["write"]["io_bytes"]), (&2.into(), &8192.into()));
        // fio executes three syncs: the flush, and the replacements of PREFLUSH and FUA.
        assert_eq!(job["sync"]["lat_ns"]["N"], 3);
        if version == Version::V3 {
            let run_ms = job["job_runtime"].as_u64().expect("a number");
            assert!(run_ms >= 900, "the pause of a second between two requests lasted {run_ms} ms");
        }
    }
}

fn perfetto(fill: impl FnOnce(&mut PerfettoJson<Vec<u8>>) -> io::Result<()>) -> (String, Value) {
    let mut export = PerfettoJson::new(Vec::new(), &devices());
    fill(&mut export).expect("memory writes");
    let text = String::from_utf8(export.finish().expect("memory writes")).expect("it is UTF-8");
    let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    (text, value)
}

#[test]
fn perfetto_json() {
    let (text, _) = perfetto(|export| {
        export.began(Timestamp(0))?;
        export.thread(&thread(7, 0, "app \"x\"\n"))?;
        for row in requests() {
            export.request(&row)?;
        }
        export.call(&Call {
            call_id: 1,
            name: "fsync".into(),
            tid: 7,
            file_id: Some(3),
            offset: None,
            bytes: None,
            entered: Timestamp(90_000),
            exited: Some(Timestamp(2_600_000)),
            result: Some(0),
            sqlite_write: None,
            file_flags: None,
        })?;
        export.wait(&Wait {
            tid: 7,
            began: Timestamp(95_000),
            ended: Some(Timestamp(2_500_500)),
            reason: WaitReason::Storage,
            request_id: Some(3),
            waker_tid: None,
            blocked_in: None,
            file_id: None,
            io_wait: None,
            function: None,
        })?;
        let mark = |at, until: Option<u64>, name: &str| Mark {
            at: Timestamp(at),
            until: until.map(Timestamp),
            name: name.into(),
            tid: Some(7),
        };
        export.mark(&mark(1000, Some(5000), "outer"))?;
        export.mark(&mark(2000, Some(9000), "overlapping"))?;
        export.mark(&mark(6000, None, "instant"))?;
        export.sample(&Sample {
            time: Timestamp(1),
            metric: Metric::TemperatureMillicelsius,
            subject: Some("cpu".into()),
            value: -5,
        })
    });
    expect_file!["golden/perfetto.json"].assert_eq(&text);
}

/// Assembles a real trace and checks that each completed request becomes one slice in flight.
#[test]
fn a_real_trace_becomes_slices() {
    let trace = include_bytes!("../../fonio-trace/tests/data/ftrace-6.18.txt");
    let input = Input::new("trace", Box::new(&trace[..]));
    let mut reader = open(vec![input], &ReadOptions::default()).expect("it is recognised");
    let mut rows = Collect::default();
    assemble(&mut *reader, AssemblerOptions::default(), &mut rows).expect("memory writes");
    rows.0.sort_by(Request::order);
    let (_, trace) = perfetto(|export| rows.0.iter().try_for_each(|row| export.request(row)));
    let in_flight: Vec<u64> = slices(&trace)
        .iter()
        .filter(|((_, tid), ..)| *tid < 100_000)
        .map(|(_, begin, end)| end - begin)
        .collect();
    let served: Vec<u64> = rows.0.iter().filter_map(|row| Some(row.service()?.0)).collect();
    assert!(served.len() > 70, "{} requests", served.len());
    assert_eq!(in_flight, served);
}

#[derive(Default)]
struct Collect(Vec<Request>);

impl RowSink for Collect {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.0.push(row.clone());
        Ok(())
    }
    ignore_rows! {
        began, bio, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic,
        settled
    }
}

#[test]
fn an_empty_export_is_json() {
    let (_, value) = perfetto(|_| Ok(()));
    assert_eq!(value["traceEvents"].as_array().map(Vec::len), Some(1));
}

#[test]
fn wall_clock_times_keep_their_nanoseconds() {
    let at = 1_700_000_000_123_456_789;
    let (_, value) = perfetto(|export| {
        let mut row = request(0, Op::Read, 0, 4096, [None, None, None]);
        (row.issued, row.completed) = (Some(Timestamp(at)), Some(Timestamp(at + 1001)));
        export.request(&row)
    });
    let origin: u64 = value["otherData"]["origin_ns"].as_str().expect("text").parse().expect("a number");
    let slices = slices(&value);
    let [(_, begin, end)] = slices.as_slice() else { panic!("{slices:?}") };
    assert_eq!((begin + origin, end + origin), (at, at + 1001));
}

fn slices(trace: &Value) -> Vec<((u64, u64), u64, u64)> {
    let nanos = |value: &Value| (value.as_f64().expect("a number") * 1000.0).round() as u64;
    let events = trace["traceEvents"].as_array().expect("an array");
    events
        .iter()
        .filter(|event| event["ph"] == "X")
        .map(|event| {
            let track = (event["pid"].as_u64().expect("a pid"), event["tid"].as_u64().expect("a tid"));
            let begin = nanos(&event["ts"]);
            (track, begin, begin + nanos(&event["dur"]))
        })
        .collect()
}

proptest! {
    /// Slices on a track meet Perfetto's requirements at any queue depth, also if they are not in order of
    /// issue.
    #[test]
    fn slices_of_a_track_never_overlap(
        times in proptest::collection::vec((0_u64..2000, 0_u64..100, 0_u64..500), 1..80),
        sorted in any::<bool>(),
    ) {
        let mut rows: Vec<Request> = times
            .iter()
            .enumerate()
            .map(|(at, (queued, waits, serves))| {
                let issued = queued + waits;
                request(at as u64, Op::Read, 0, 4096, [Some(*queued), Some(issued), Some(issued + serves)])
            })
            .collect();
        if sorted {
            rows.sort_by(Request::order);
        }
        let (_, trace) = perfetto(|export| rows.iter().try_for_each(|row| export.request(row)));
        let slices = slices(&trace);
        prop_assert_eq!(slices.len(), 2 * rows.len());
        let mut ends: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for (track, begin, end) in &slices {
            let free = ends.insert(*track, *end).unwrap_or(0);
            prop_assert!(free <= *begin, "a slice of {track:?} begins at {begin}, the previous one ends at {free}");
        }
        // If requests come in order of issue, there are at most as many tracks as requests in flight.
        if sorted {
            // A request counts as in flight at its time of issue, even if it completes at the same time.
            let depth_at = |row: &Request| {
                let in_flight = |other: &&Request| {
                    other.issued <= row.issued && (other.completed > row.issued || std::ptr::eq(*other, row))
                };
                rows.iter().filter(in_flight).count()
            };
            let depth = rows.iter().map(depth_at).max().expect("there is a request");
            let tracks = ends.keys().filter(|(_, tid)| *tid < 100_000).count();
            prop_assert!(tracks <= depth, "{tracks} tracks for a maximum depth of {depth}");
        }
    }

    #[test]
    fn csv_comes_back(
        (sector, bytes) in (0_u64..1 << 50, 1_u64..1 << 30),
        times in proptest::array::uniform5(proptest::option::of(any::<u64>())),
        op in proptest::sample::select(Op::ALL.to_vec()),
        (cpu, tid) in (proptest::option::of(any::<u32>()), proptest::option::of(any::<u32>())),
        comm in "[ -~]{0,15}",
    ) {
        let [queued, inserted, issued, completed, _] = times.map(|time| time.map(Timestamp));
        prop_assume!(queued.or(issued).or(completed).is_some());
        let row = Request {
            sector: Some(Sector(sector)),
            queued,
            inserted,
            issued,
            completed,
            cpu,
            tid,
            ..Request::new(DeviceId::new(259, 3), op, ByteCount(bytes))
        };
        let mut export = CsvExport::new(Vec::new()).expect("memory writes");
        if let Some(tid) = tid {
            export.thread(&Thread { tid, comm: Some(comm), ..Thread::default() }).expect("memory writes");
        }
        export.request(&row).expect("memory writes");
        let text = export.finish().expect("memory writes");
        let input = Input::new("x", Box::new(io::Cursor::new(text)));
        let mut reader = CsvReader::new(input, &Mapping::fonio(), "csv").expect("it has the columns");
        let mut batch = Batch::default();
        reader.next_batch(&mut batch).expect("memory reads");
        prop_assert_eq!(&batch.diagnostics, &[]);
        prop_assert_eq!(&batch.requests, &[row]);
    }
}

#[test]
fn hostile_rows_need_little_memory() {
    in_little_memory("export_hostile_rows_as_perfetto");
    in_little_memory("export_hostile_rows_as_perfetto_json");
    in_little_memory("export_hostile_rows_as_csv");
    in_little_memory("export_hostile_rows_as_iolog");
}

/// Passes long names of many threads, many devices, and many requests, calls and marks at once.
fn pour_hostile_rows(sink: &mut dyn RowSink) {
    const COUNT: u32 = 600_000;
    let works = "there is no output";
    let long = "n".repeat(64 << 10);
    for tid in 0..COUNT {
        let comm = Some(if tid % 300 == 0 { long.clone() } else { format!("{tid}{}", &long[..300]) });
        let row = Thread { tid, pid: Some(tid), comm, ..Thread::default() };
        sink.thread(&row).expect(works);
    }
    let far = Some(Timestamp(u64::MAX));
    for at in 0..COUNT {
        let from = Timestamp(at.into());
        if at % 100 == 0 {
            sink.mark(&Mark { at: from, until: far, name: long.clone(), tid: None }).expect(works);
        }
        let call = Call {
            call_id: at.into(),
            name: if at % 100 == 0 { long.clone() } else { "fsync".to_owned() },
            tid: at,
            file_id: None,
            offset: None,
            bytes: None,
            entered: from,
            exited: far,
            result: None,
            sqlite_write: None,
            file_flags: None,
        };
        sink.call(&call).expect(works);
        // Half of the requests are to one device, which never completes them.
        let device = if at % 2 == 0 { DEVICE } else { DeviceId(at) };
        let row = Request {
            device,
            queued: Some(from),
            issued: Some(from),
            completed: far,
            tid: Some(at),
            ..request(at.into(), Op::Write, u64::from(at) * 8, 4096, [None; 3])
        };
        sink.request(&row).expect(works);
    }
}

#[test]
#[ignore = "hostile_rows_need_little_memory starts it, with little memory"]
fn export_hostile_rows_as_perfetto() {
    let mut sink = Perfetto::new(io::sink(), &devices(), Clock::default());
    pour_hostile_rows(&mut sink);
    assert!(sink.left_out() > 600_000, "{}", sink.left_out());
    sink.finish().expect("there is no output");
}

#[test]
#[ignore = "hostile_rows_need_little_memory starts it, with little memory"]
fn export_hostile_rows_as_perfetto_json() {
    let mut sink = PerfettoJson::new(io::sink(), &devices());
    pour_hostile_rows(&mut sink);
    assert!(sink.left_out() > 600_000, "{}", sink.left_out());
    sink.finish().expect("there is no output");
}

#[test]
#[ignore = "hostile_rows_need_little_memory starts it, with little memory"]
fn export_hostile_rows_as_csv() {
    let mut sink = CsvExport::new(io::sink()).expect("there is no output");
    pour_hostile_rows(&mut sink);
    assert_eq!(sink.left_out(), 600_000 - (1 << 18));
    sink.finish().expect("there is no output");
}

#[test]
#[ignore = "hostile_rows_need_little_memory starts it, with little memory"]
fn export_hostile_rows_as_iolog() {
    let mut sink = FioIolog::new(io::sink(), Version::V3, &devices()).expect("there is no output");
    pour_hostile_rows(&mut sink);
    let written = sink.finish().expect("there is no output");
    assert_eq!((written.requests, written.impossible), (304_095, 295_905));
}
