//! Reads inputs larger than every buffer, generated from a short description: splices of real traces, long
//! runs of one byte, repeated short patterns. Checks that there is no panic and no endless loop, and that
//! every batch consumes input.
#![no_main]

use std::io::{Cursor, Read, Write};

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use fonio_core::Batch;
use fonio_trace::input::Input;
use fonio_trace::recognise::{Format, ReadOptions, open};
use libfuzzer_sys::fuzz_target;

const FORMATS: [(Format, &[u8]); 8] = [
    (Format::Blktrace, include_bytes!("../../crates/fonio-trace/tests/data/takeoverjp-sample.blktrace.0")),
    (Format::Blkparse, include_bytes!("../../crates/fonio-trace/tests/data/takeoverjp-sample.blkparse.txt")),
    (Format::Ftrace, include_bytes!("../../crates/fonio-trace/tests/data/ftrace-6.18.txt")),
    (Format::Systrace, include_bytes!("../../crates/fonio-trace/tests/data/ftrace-6.18.txt")),
    (Format::PerfScript, include_bytes!("../../crates/fonio-trace/tests/data/perf-script.txt")),
    (Format::Vscsi, include_bytes!("../../crates/fonio-trace/tests/data/synthetic.vscsi")),
    (Format::Biosnoop, include_bytes!("../../crates/fonio-trace/tests/data/biosnoop.txt")),
    (Format::DiskSim, include_bytes!("../../crates/fonio-trace/tests/data/mqsim-tpcc-200.trace")),
];

/// Lengths near the limits of the readers: the size of a record header, of a line, of a record, of the bytes
/// that a reader keeps, and of a reader's buffer.
const LENGTHS: [usize; 8] =
    [48, 4096, 64 * 1024, 64 + 65_535 + 64, 200 * 1024, 256 * 1024, 512 * 1024, 1 << 20];
const BYTES_MAX: usize = 4 << 20;

/// Composes an input. Every group of four bytes in `description` describes one segment of the input.
fn compose(real: &[u8], mut description: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((&[kind, a, b, c], rest)) = description.split_first_chunk::<4>() {
        description = rest;
        match kind % 4 {
            0 => {
                let begin = real.len() * usize::from(a) / 256;
                let end = (begin + real.len() * usize::from(b) / 255).min(real.len());
                out.extend(real[begin..end].repeat(usize::from(c % 4) + 1));
            }
            1 => {
                let length = LENGTHS[usize::from(b) % LENGTHS.len()] + usize::from(c);
                out.resize(out.len() + length - 128.min(length), a);
            }
            2 => out.extend([a, b].repeat((usize::from(c) + 1) * 512)),
            _ => {
                let (literal, rest) = description.split_at(description.len().min(usize::from(a % 64)));
                out.extend_from_slice(literal);
                description = rest;
            }
        }
        if out.len() > BYTES_MAX {
            out.truncate(BYTES_MAX);
            break;
        }
    }
    out
}

/// A reader that panics if it is read again after the end of the input.
struct Once(Cursor<Vec<u8>>, u32);

impl Read for Once {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.read(to)?;
        self.1 += u32::from(count == 0);
        assert!(self.1 < 16, "the reader does not stop at the end of the input");
        Ok(count)
    }
}

// The first byte chooses the format and whether the input is compressed.
fuzz_target!(|input: &[u8]| {
    let Some((&choice, description)) = input.split_first() else { return };
    let (format, real) = FORMATS[usize::from(choice) % FORMATS.len()];
    let mut bytes = compose(real, description);
    let length = bytes.len();
    if choice & 0xc0 == 0xc0 {
        bytes = zstd::bulk::compress(&bytes, 1).expect("memory writes");
    } else if choice & 0x80 != 0 {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&bytes).and_then(|()| encoder.try_finish()).expect("memory writes");
        bytes = encoder.finish().expect("memory writes");
    } else if choice & 0x40 != 0 && format == Format::Systrace {
        let mut encoder = ZlibEncoder::new(b"TRACE:\n".to_vec(), Compression::fast());
        encoder.write_all(&bytes).expect("memory writes");
        bytes = encoder.finish().expect("memory writes");
    }
    let input = Input::new("fuzz.blktrace.0", Box::new(Once(Cursor::new(bytes), 0)));
    let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
    let Ok(mut reader) = open(vec![input], &options) else { return };
    let (mut batch, mut batches, mut rows, mut diagnostics) = (Batch::default(), 0, 0, 0);
    loop {
        let more = reader.next_batch(&mut batch).expect("memory reads");
        batches += 1;
        rows += batch.events.len() + batch.requests.len() + batch.marks.len();
        diagnostics += batch.diagnostics.len();
        if !more {
            break;
        }
        // The smallest input that fills a batch has several thousand lines of two bytes each.
        assert!(batches <= 8 + length / 4096, "{batches} batches from {length} bytes");
    }
    assert!(rows <= 1 + length / 2 && diagnostics < 200, "{rows} rows, {diagnostics} diagnostics");
});
