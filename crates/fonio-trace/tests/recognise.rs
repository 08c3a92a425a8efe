//! Tests the choice of a reader for a file, and the messages about unsupported files.

use std::io::Write;

use expect_test::{expect, expect_file};
use flate2::Compression;
use flate2::write::GzEncoder;
use fonio_trace::input::Input;
use fonio_trace::recognise::{Format, OpenError, ReadOptions, open, recognise};

/// A clock snapshot, and a bundle of one processor with the issue of a write (`8,0 W 4096 () 8 + 8 [a]`) at 100 ns.
const PERFETTO: &[u8] = b"\x0a\x0a\x32\x06\x0a\x04\x08\x06\x10\x64\x50\x01\
    \x0a\x1f\x0a\x1b\x08\x00\x12\x17\x08\x64\x10\x07\xea\x02\x10\
    \x08\x80\x10\x10\x08\x18\x08\x20\x80\x20\x2a\x01W\x32\x01a\x50\x01";
const FTRACE: &[u8] = include_bytes!("data/ftrace-6.18.txt");
const BLKTRACE: &[u8] = include_bytes!("data/takeoverjp-sample.blktrace.0");
const BLKPARSE: &[u8] = include_bytes!("data/takeoverjp-sample.blkparse.txt");
const BIOSNOOP: &[u8] = include_bytes!("data/biosnoop.txt");
const PERF_SCRIPT: &[u8] = include_bytes!("data/perf-script.txt");
const VSCSI: &[u8] = include_bytes!("data/synthetic.vscsi");
const MQSIM: &[u8] = include_bytes!("data/mqsim-tpcc-200.trace");
const MSR: &[u8] = b"128166372003061629,hm,1,Read,383496192,32768,113736\n";
const TABLE: &[u8] = b"Timestamp,Type,LBA,Length\n1,r,8,4096\n";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory writes")
}

/// Returns the number of events and requests read, and the codes of the diagnostics.
fn read(inputs: Vec<Input>, options: &ReadOptions) -> Result<(String, usize, Vec<String>), OpenError> {
    let mut reader = open(inputs, options)?;
    let all = reader.read_all().expect("memory reads");
    let codes = all.diagnostics.into_iter().map(|one| one.code).collect();
    Ok((reader.source().format, all.events.len() + all.requests.len(), codes))
}

#[test]
fn formats_are_told_by_content_and_through_gzip() {
    let html = [b"<!DOCTYPE html>\n<script class=\"trace-data\">\n", FTRACE, b"</script>\n"].concat();
    let cases: &[(&[u8], Format)] = &[
        (FTRACE, Format::Ftrace),
        (BLKTRACE, Format::Blktrace),
        (BLKPARSE, Format::Blkparse),
        (PERF_SCRIPT, Format::PerfScript),
        (&html, Format::Systrace),
        (PERFETTO, Format::Perfetto),
        (MSR, Format::MsrCambridge),
        (MQSIM, Format::DiskSim),
        (VSCSI, Format::Vscsi),
        (BIOSNOOP, Format::Biosnoop),
    ];
    for (bytes, format) in cases {
        assert_eq!(recognise(&bytes[..bytes.len().min(64 * 1024)]), Some(*format));
        let options = ReadOptions::default();
        let (name, count, _) = read(vec![Input::of("x", *bytes)], &options).expect("it is recognised");
        assert_eq!(name, format.name());
        assert!(count > 0, "{format}");
        let (_, packed, codes) =
            read(vec![Input::of("x.gz", gzip(bytes))], &options).expect("it is recognised");
        assert_eq!(packed, count);
        assert!(!codes.contains(&"damaged-gzip".to_owned()));
        let zstd = zstd::bulk::compress(bytes, 3).expect("memory writes");
        let (_, packed, codes) = read(vec![Input::of("x.zst", zstd)], &options).expect("it is recognised");
        assert_eq!(packed, count);
        assert!(!codes.contains(&"damaged-zstd".to_owned()));
    }
    assert_eq!(recognise(TABLE), Some(Format::Csv));
}

#[test]
fn a_packed_file_that_is_cut_is_read_as_far_as_it_goes() {
    let zstd = zstd::bulk::compress(BLKPARSE, 3).expect("memory writes");
    let mut damaged = zstd.clone();
    let half = damaged.len() / 2;
    damaged[half..half + 8].fill(0xff);
    let gzip = gzip(BLKPARSE);
    for (packed, code) in [
        (&gzip[..gzip.len() / 2], "damaged-gzip"),
        (&zstd[..zstd.len() * 2 / 3], "damaged-zstd"),
        (&damaged, "damaged-zstd"),
    ] {
        let (format, count, codes) =
            read(vec![Input::of("x", packed)], &ReadOptions::default()).expect("it is recognised");
        assert_eq!(format, "blkparse");
        assert!(count > 100, "{count} {code}");
        assert!(codes.contains(&code.to_owned()), "{codes:?}");
    }
}

#[test]
fn completions_alone_are_requests_without_latency() {
    let line =
        |at: usize| format!("  8,0    1 {at:8}     0.{:09}  1914  C  WS {} + 8 [0]\n", 1000 * at, 8 * at);
    let text: String = (1..=200).map(line).collect();
    let read = |text: &str| {
        let mut reader = open(vec![Input::of("x", text)], &ReadOptions::default()).expect("it is blkparse");
        let all = reader.read_all().expect("memory reads");
        let codes: Vec<String> = all.diagnostics.iter().map(|one| one.code.clone()).collect();
        (all, codes)
    };
    let (all, codes) = read(&format!("# device cpu sequence time pid action rwbs\n{text}"));
    assert_eq!((all.events.len(), all.requests.len(), codes), (0, 200, vec!["only-completions".to_owned()]));
    assert!(all.requests.iter().all(|row| row.issued.is_none() && row.completed.is_some()));
    assert_eq!(all.requests.iter().map(|row| row.bytes.0).sum::<u64>(), 200 * 4096);
    // With a single issue, the completions before it have no issue in the trace.
    let issue = "  8,0    1      201     0.000900000  1914  D  WS 8 + 8 [a]\n";
    let (all, codes) = read(&format!("{text}{issue}"));
    assert_eq!((all.events.len(), all.requests.len(), codes), (201, 0, vec![]));
}

#[test]
fn each_line_of_perf_script_is_an_event() {
    let mut reader = open(vec![Input::of("x", PERF_SCRIPT)], &ReadOptions::default()).expect("it is read");
    let all = reader.read_all().expect("memory reads");
    let lines = PERF_SCRIPT.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!((all.events.len(), all.diagnostics), (lines, vec![]));
    assert_eq!(reader.source().shows, ["insert", "issue", "complete"]);
    assert!(all.events.iter().all(|event| event.ioprio.is_some() && event.tid.is_some()));
}

#[test]
fn names_of_formats_come_back() {
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
    expect!["there is no format `btt`; use one of: blktrace, blkparse, ftrace, perf-script, systrace, perfetto, trace-dat, biosnoop, msr-cambridge, vscsi, disksim, csv"]
        .assert_eq(&"btt".parse::<Format>().expect_err("there is none").to_string());
}

#[test]
fn a_mapping_makes_any_table_readable() {
    let mapping =
        "time=timestamp:s,op=type,offset=lba:sectors,size=length:bytes".parse().expect("it is right");
    let options = ReadOptions { csv: Some(mapping), format: None };
    assert_eq!(read(vec![Input::of("t.csv", TABLE)], &options).expect("it fits"), ("csv".into(), 1, vec![]));
}

#[test]
fn errors_say_what_was_found_and_what_to_do() {
    // All messages contain the same list of formats.
    let formats = "fonio reads blktrace (binary), blkparse (its default text), ftrace (text of trace or trace_pipe), \
        perf-script (text of perf script), systrace (HTML, or atrace's output), perfetto (protocol buffers), trace-dat (trace-cmd), \
        biosnoop (text of biosnoop or iosnoop), msr-cambridge (CSV), vscsi (CloudPhysics), disksim (ASCII, \
        MQSim's too), csv (any, with a column mapping), each also compressed with gzip or zstd.";
    let one = |bytes: &[u8]| vec![Input::of("f", bytes)];
    let mut text = String::new();
    for inputs in [
        vec![],
        one(b""),
        one(b"\x17\x08\x44tracing6\0"),
        one(b"PAR1"),
        one(b"\x7fELF\x02"),
        one(b"\xff\xfe#\0 \0t\0"),
        one(b"Dear diary,\nnothing happened.\n"),
        one(&[0, 1, 2, 3, 250]),
        one(&gzip(&gzip(FTRACE))),
        one(b"\xfd7zXZ\0"),
        one(TABLE),
        vec![Input::of("a", FTRACE), Input::of("b", FTRACE)],
    ] {
        let error = read(inputs, &ReadOptions::default()).expect_err("it is no trace");
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        text += &format!("{error}{}\n", source.unwrap_or_default());
    }
    expect_file!["data/errors.expected"].assert_eq(&text.replace(formats, "[formats]"));
}
