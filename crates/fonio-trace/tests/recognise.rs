//! Tests the choice of a reader for a file, and the messages about unsupported files.

use std::io::Write;

use bzip2::write::BzEncoder;
use expect_test::{expect, expect_file};
use flate2::Compression;
use flate2::write::GzEncoder;
use fonio_core::Random;
use fonio_trace::input::Input;
use fonio_trace::recognise::{Format, OpenError, ReadOptions, open, recognise};
use lzma_rust2::{XzOptions, XzWriter};

/// A clock snapshot, and a bundle of one processor with the issue of a write (`8,0 W 4096 () 8 + 8 [a]`) at 100 ns.
const PERFETTO: &[u8] = b"\x0a\x0a\x32\x06\x0a\x04\x08\x06\x10\x64\x50\x01\
    \x0a\x1f\x0a\x1b\x08\x00\x12\x17\x08\x64\x10\x07\xea\x02\x10\
    \x08\x80\x10\x10\x08\x18\x08\x20\x80\x20\x2a\x01W\x32\x01a\x50\x01";
const FTRACE: &[u8] = include_bytes!("data/ftrace-6.18.txt");
const BLKTRACE: &[u8] = include_bytes!("data/takeoverjp-sample.blktrace.0");
const BLKPARSE: &[u8] = include_bytes!("data/takeoverjp-sample.blkparse.txt");
const BIOSNOOP: &[u8] = include_bytes!("data/biosnoop.txt");
const PERF_SCRIPT: &[u8] = include_bytes!("data/perf-script.txt");
const PERF_DATA: &[u8] = include_bytes!("data/perf-6.1.data");
const VSCSI: &[u8] = include_bytes!("data/synthetic.vscsi");
const MQSIM: &[u8] = include_bytes!("data/mqsim-tpcc-200.trace");
const MSR: &[u8] = b"128166372003061629,hm,1,Read,383496192,32768,113736\n";
const TABLE: &[u8] = b"Timestamp,Type,LBA,Length\n1,r,8,4096\n";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory writes")
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).expect("the options are right");
    writer.write_all(bytes).expect("memory writes");
    writer.finish().expect("memory writes")
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory writes")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 3).expect("memory writes")
}

type Pack = fn(&[u8]) -> Vec<u8>;

/// Every packing, with the code of its damage.
const PACKINGS: [(Pack, &str); 4] =
    [(gzip, "damaged-gzip"), (zstd, "damaged-zstd"), (xz, "damaged-xz"), (bzip2, "damaged-bzip2")];

/// Returns the number of events and requests read, and the codes of the diagnostics.
fn read(inputs: Vec<Input>, options: &ReadOptions) -> Result<(String, usize, Vec<String>), OpenError> {
    let mut reader = open(inputs, options)?;
    let all = reader.read_all().expect("memory reads");
    let codes = all.diagnostics.into_iter().map(|one| one.code).collect();
    Ok((reader.source().format, all.events.len() + all.requests.len(), codes))
}

/// The waits of a trace are kept back until its end, also if the trace is compressed.
#[test]
fn waits_are_expected_through_all_layers() {
    let shows = |bytes: &[u8]| {
        let reader = open(vec![Input::of("a", bytes)], &ReadOptions::default()).expect("it is recognised");
        reader.may_show_waits()
    };
    assert!(shows(FTRACE) && shows(&gzip(FTRACE)));
    assert!(!shows(MSR) && !shows(&gzip(MSR)));
}

#[test]
fn formats_are_told_by_content_and_in_every_packing() {
    let html = [b"<!DOCTYPE html>\n<script class=\"trace-data\">\n", FTRACE, b"</script>\n"].concat();
    let cases: &[(&[u8], Format)] = &[
        (FTRACE, Format::Ftrace),
        (BLKTRACE, Format::Blktrace),
        (BLKPARSE, Format::Blkparse),
        (PERF_SCRIPT, Format::PerfScript),
        (PERF_DATA, Format::PerfData),
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
        // Programs that pack on several processors write several streams behind each other.
        let half = bytes.len() / 2;
        for (pack, damaged) in PACKINGS {
            for packed in [pack(bytes), [pack(&bytes[..half]), pack(&bytes[half..])].concat()] {
                let (_, unpacked, codes) =
                    read(vec![Input::of("x", packed)], &options).expect("it is recognised");
                assert_eq!(unpacked, count, "{format} {damaged}");
                assert!(!codes.contains(&damaged.to_owned()), "{format} {damaged}");
            }
        }
    }
    assert_eq!(recognise(TABLE), Some(Format::Csv));
}

#[test]
fn a_packed_file_that_is_cut_is_read_as_far_as_it_goes() {
    // bzip2 and xz give nothing of a block that is cut, so the text must have several blocks.
    let mut random = Random::new(1);
    let mut line = |at: usize| {
        let sector = random.below(1 << 40);
        format!("  8,0    1 {at:8}     0.{:09}  1914  Q  WS {sector} + 8 [writer]\n", 1000 * at)
    };
    let text: String = (1..=40_000).map(&mut line).collect();
    for (pack, code) in PACKINGS {
        let packed = pack(text.as_bytes());
        let mut damaged = packed.clone();
        let most = packed.len() * 3 / 4;
        damaged[most..most + 8].fill(0xff);
        for bytes in [&packed[..most], &damaged] {
            let (format, count, codes) =
                read(vec![Input::of("x", bytes)], &ReadOptions::default()).expect("it is recognised");
            assert_eq!(format, "blkparse");
            assert!(count > 100, "{count} {code}");
            assert!(codes.contains(&code.to_owned()), "{codes:?}");
        }
    }
}

/// A crafted header of xz asks for a window of 4 GiB.
#[test]
fn a_window_that_does_not_fit_is_refused() {
    let mut huge = xz(BLKPARSE);
    // After the header of the stream: size, flags, the filter LZMA2, the size of its properties, the window, padding, CRC.
    assert_eq!(huge[14..16], [0x21, 1]);
    huge[16] = 40;
    let crc = crc32(&huge[12..20]);
    huge[20..24].copy_from_slice(&crc.to_le_bytes());
    let error = read(vec![Input::of("x", huge)], &ReadOptions::default()).expect_err("it has no text");
    expect!["x: nothing of it can be unpacked. The xz data is damaged or cut short (needed memory too big for mem_limit_kb); the rest is not read. Get the file again, or unpack it yourself."].assert_eq(&error.to_string());
}

/// The checksum of xz's headers, by its definition.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| sum >> 1 ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    })
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
    expect!["there is no format `btt`; use one of: blktrace, blkparse, ftrace, perf-script, perf-data, systrace, perfetto, trace-dat, ctf, biosnoop, fs-slower, msr-cambridge, vscsi, totals, fio-iolog, fio-log, disksim, csv"]
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
        one(&xz(&bzip2(FTRACE))),
        one(b"\xfd7zXZ\0"),
        one(TABLE),
        vec![Input::of("a", FTRACE), Input::of("b", FTRACE)],
    ] {
        let error = read(inputs, &ReadOptions::default()).expect_err("it is no trace");
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        text += &format!("{error}{}\n", source.unwrap_or_default());
    }
    // All messages contain the same list of formats; the table of README.md shows it.
    let (begin, end) = ("fonio reads blktrace", "xz or bzip2.");
    while let Some(from) = text.find(begin) {
        let length = text[from..].find(end).expect("the list has an end") + end.len();
        text.replace_range(from..from + length, "[formats]");
    }
    expect_file!["data/errors.expected"].assert_eq(&text);
}
