//! Tests inputs that are larger than every buffer: parts of real traces with other bytes between them.
//!
//! The readers assert progress at each step; the inputs of these tests contain gaps of all lengths around the
//! buffer sizes.

use std::io::{self, Cursor, Read, Write};

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use fonio_core::Batch;
use fonio_trace::input::Input;
use fonio_trace::recognise::{Format, ReadOptions, open};

const BLKTRACE: &[u8] = include_bytes!("data/takeoverjp-sample.blktrace.0");
const BLKPARSE: &[u8] = include_bytes!("data/takeoverjp-sample.blkparse.txt");
const FTRACE: &[u8] = include_bytes!("data/ftrace-6.18.txt");
const BIOSNOOP: &[u8] = include_bytes!("data/biosnoop.txt");
const PERF_SCRIPT: &[u8] = include_bytes!("data/perf-script.txt");
const MQSIM: &[u8] = include_bytes!("data/mqsim-tpcc-200.trace");

/// The size of a reader's buffer, and the bytes that one record needs.
const BUFFER: usize = 256 * 1024;
const WHOLE: usize = 64 + 65_535 + 64;

/// Returns the number of events and requests, the codes of the diagnostics, and the number of batches.
fn read_stream(bytes: impl Read + Send + 'static, format: Format) -> (usize, Vec<String>, u64) {
    let input = Input::new("x", Box::new(bytes));
    let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
    let mut reader = open(vec![input], &options).expect("the format is given");
    let (mut count, mut codes, mut batches, mut batch) = (0, Vec::new(), 0, Batch::default());
    loop {
        let more = reader.next_batch(&mut batch).expect("memory reads");
        batches += 1;
        count += batch.events.len() + batch.requests.len();
        codes.extend(batch.diagnostics.iter().map(|one| one.code.clone()));
        if !more {
            return (count, codes, batches);
        }
    }
}

fn read(bytes: Vec<u8>, format: Format) -> (usize, Vec<String>) {
    let (count, codes, _) = read_stream(Cursor::new(bytes), format);
    (count, codes)
}

/// Returns the offsets of the sample's records.
fn records() -> Vec<usize> {
    let mut begins = Vec::new();
    let mut at = 0;
    while at < BLKTRACE.len() {
        begins.push(at);
        at += 48 + usize::from(u16::from_le_bytes([BLKTRACE[at + 46], BLKTRACE[at + 47]]));
    }
    begins
}

#[test]
fn a_gap_of_any_length_between_two_halves() {
    let begins = records();
    let half = begins[begins.len() / 2];
    let (whole, codes) = read(BLKTRACE.to_vec(), Format::Blktrace);
    assert_eq!((whole > 6000, codes.as_slice()), (true, [].as_slice()));
    let around = |length: usize| [length - 1, length, length + 1];
    let lengths = [1, 3, 4, 47, 48, 49, 64, 1000]
        .into_iter()
        .chain([WHOLE, BUFFER - WHOLE, BUFFER, 2 * BUFFER - WHOLE].into_iter().flat_map(around))
        // The end of the gap takes positions throughout the kept window, in steps of a prime number.
        .chain((0..BUFFER).step_by(20_011).map(|more| BUFFER + more))
        .chain([200 * 1024, 1 << 20]);
    for length in lengths {
        for byte in [0, 0xff, b'a'] {
            let file = [&BLKTRACE[..half], &vec![byte; length], &BLKTRACE[half..]].concat();
            let (count, codes) = read(file, Format::Blktrace);
            assert_eq!((count, codes), (whole, vec!["damaged-bytes".to_owned()]), "{length} times {byte}");
        }
    }
}

#[test]
fn what_looks_like_records_and_is_none() {
    let begins = records();
    let half = begins[begins.len() / 2];
    let (whole, _) = read(BLKTRACE.to_vec(), Format::Blktrace);
    // Magics in either byte order, with long payloads, and half magics.
    let patterns: [&[u8]; 5] = [b"\x07tae", b"eat\x07", b"\x07taexxxx", b"ta", b"eat\x09"];
    for pattern in patterns {
        let gap = pattern.repeat((1 << 20) / pattern.len());
        let file = [&BLKTRACE[..half], &gap, &BLKTRACE[half..]].concat();
        let (count, codes) = read(file, Format::Blktrace);
        assert!(count + 2 >= whole && !codes.is_empty(), "{count} of {whole} {}", pattern.escape_ascii());
    }
    // A file that ends within a gap, and a file that consists only of a gap.
    for length in [1, WHOLE, WHOLE + 1, BUFFER, 3 * BUFFER] {
        let file = [BLKTRACE, &vec![0; length]].concat();
        assert_eq!(read(file, Format::Blktrace), (whole, vec!["damaged-bytes".to_owned()]), "{length}");
        let (count, codes) = read(vec![0; length], Format::Blktrace);
        assert_eq!((count, codes.last().map(String::as_str)), (0, Some("no-records")), "{length}");
    }
}

#[test]
fn text_with_something_else_in_between() {
    for (text, format) in [
        (BLKPARSE, Format::Blkparse),
        (FTRACE, Format::Ftrace),
        (FTRACE, Format::Systrace),
        (PERF_SCRIPT, Format::PerfScript),
        (MQSIM, Format::DiskSim),
        (BIOSNOOP, Format::Biosnoop),
    ] {
        let half = text.len() / 2;
        let half = half + text[half..].iter().position(|byte| *byte == b'\n').expect("it has lines") + 1;
        let (whole, _) = read(text.to_vec(), format);
        assert!(whole > 100, "{format}");
        for byte in [0, b'\n', b' ', 0xff] {
            for length in [1, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, BUFFER, BUFFER + 1, 1 << 20] {
                let file = [&text[..half], &vec![byte; length], b"\n", &text[half..]].concat();
                let (count, _) = read(file, format);
                assert_eq!(count, whole, "{format}: {length} times {byte}");
            }
        }
        // A text of biosnoop ends at the header of the next one.
        let times = if format == Format::Biosnoop { 1 } else { 20 };
        let (count, _) = read(text.repeat(20), format);
        assert_eq!(count, times * whole, "{format}");
    }
}

/// An endless series of line ends, like a decompressor's output.
struct LineEnds(u64);

impl Read for LineEnds {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = usize::try_from(self.0).unwrap_or(usize::MAX).min(to.len());
        to[..count].fill(b'\n');
        self.0 -= count as u64;
        Ok(count)
    }
}

#[test]
fn hundreds_of_millions_of_empty_lines() {
    for format in [Format::Blkparse, Format::Ftrace, Format::Systrace, Format::DiskSim] {
        let begin: &[u8] = if format == Format::Blkparse { BLKPARSE } else { FTRACE };
        let (_, _, before) = read_stream(Cursor::new(begin.to_vec()), format);
        let (_, codes, batches) =
            read_stream(Cursor::new(begin.to_vec()).chain(LineEnds(200_000_000)), format);
        assert!(batches <= before + 2, "{format}: {batches} batches");
        assert!(codes.len() < 20, "{codes:?}");
    }
}

/// Compresses `size` bytes of line ends.
fn pack<W: Write>(mut encoder: W, mut size: usize) -> W {
    encoder.write_all(FTRACE).expect("memory writes");
    let ends = vec![b'\n'; 1 << 20];
    while size > 0 {
        let count = size.min(ends.len());
        encoder.write_all(&ends[..count]).expect("memory writes");
        size -= count;
    }
    encoder
}

#[test]
fn a_file_that_expands_without_bounds_is_left() {
    let size = (1 << 30) + (64 << 20);
    let bomb = pack(GzEncoder::new(Vec::new(), Compression::fast()), size).finish().expect("memory writes");
    assert!(bomb.len() < size / 100);
    let (events, _) = read(FTRACE.to_vec(), Format::Ftrace);
    let (count, codes) = read(bomb, Format::Ftrace);
    assert_eq!((count, codes), (events, vec!["expands-too-far".to_owned()]));

    let bomb = pack(ZlibEncoder::new(b"TRACE:\n".to_vec(), Compression::fast()), size);
    let (count, codes) = read(bomb.finish().expect("memory writes"), Format::Systrace);
    assert_eq!((count, codes), (events, vec!["damaged-compression".to_owned()]));

    // Nested compression is not unpacked.
    let inner =
        pack(GzEncoder::new(Vec::new(), Compression::fast()), 1 << 20).finish().expect("memory writes");
    let mut outer = ZlibEncoder::new(b"TRACE:\n".to_vec(), Compression::fast());
    outer.write_all(&inner).expect("memory writes");
    assert_eq!(read(outer.finish().expect("memory writes"), Format::Systrace).0, 0);
}
