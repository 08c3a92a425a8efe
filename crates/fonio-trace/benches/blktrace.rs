//! Measures the time to read a record of blktrace's binary format. The input consists of two files, one per
//! processor, with the five records of ordinary requests; the reader merges the files by time.

use std::io::Cursor;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use fonio_core::{Batch, TraceReader};
use fonio_trace::blktrace::BlktraceReader;
use fonio_trace::input::Input;

fn main() {
    divan::main();
}

const REQUESTS: u64 = 200_000;

/// Traces with queue, get, insert and issue on one processor, and the completion on the other processor.
fn files() -> [Vec<u8>; 2] {
    const ACTIONS: [u32; 5] = [1 | 1 << 20, 4 | 1 << 20, 12 | 1 << 20, 7 | 1 << 22, 8 | 1 << 23];
    let mut files = [Vec::new(), Vec::new()];
    let mut sequences = [0u32; 2];
    for request in 0..REQUESTS {
        for (at, action) in ACTIONS.into_iter().enumerate() {
            let cpu = (request as usize / 3 + at / 4) % 2;
            sequences[cpu] += 1;
            let direction = 1 << (16 + request.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 2);
            let file = &mut files[cpu];
            file.extend(0x6561_7407u32.to_le_bytes());
            file.extend(sequences[cpu].to_le_bytes());
            file.extend((request * 1000 + at as u64 * 150).to_le_bytes());
            file.extend((request * 8).to_le_bytes());
            file.extend(4096u32.to_le_bytes());
            file.extend((action | direction | 1 << 24).to_le_bytes());
            file.extend(77u32.to_le_bytes());
            file.extend((8u32 << 20).to_le_bytes());
            file.extend((cpu as u32).to_le_bytes());
            file.extend([0; 4]);
        }
    }
    files
}

#[divan::bench]
fn two_processors(bencher: Bencher) {
    let files = files();
    let bytes: usize = files.iter().map(Vec::len).sum();
    bencher
        .counter(ItemsCount::new(REQUESTS * 5))
        .counter(BytesCount::new(bytes))
        .with_inputs(|| {
            files
                .iter()
                .enumerate()
                .map(|(cpu, bytes)| {
                    Input::new(format!("x.blktrace.{cpu}"), Box::new(Cursor::new(bytes.clone())))
                })
                .collect::<Vec<_>>()
        })
        .bench_values(|inputs| {
            let mut reader = BlktraceReader::new(inputs);
            let mut batch = Batch::default();
            let mut events = 0;
            while reader.next_batch(&mut batch).expect("memory does not fail") {
                events += batch.events.len();
            }
            events + batch.events.len()
        });
}
