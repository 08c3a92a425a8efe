//! Reads arbitrary blkparse text, and checks for panics, endless loops and invented events.
#![no_main]

use std::io::Cursor;

use fonio_core::{Batch, TraceReader};
use fonio_trace::blkparse::{BlkparseReader, recognise};
use fonio_trace::input::Input;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    recognise(input);
    let bytes = Box::new(Cursor::new(input.to_vec()));
    let mut reader = BlkparseReader::new(Input::new("x", bytes));
    let mut batch = Batch::default();
    let (mut rows, mut diagnostics) = (0, 0);
    loop {
        let more = reader.next_batch(&mut batch).expect("memory does not fail");
        rows += batch.events.len() + batch.marks.len();
        diagnostics += batch.diagnostics.len();
        assert!(batch.lost.iter().all(|gap| gap.after <= gap.before));
        if !more {
            break;
        }
    }
    let lines = input.split(|byte| *byte == b'\n').count();
    assert!(rows <= lines, "{rows} events and marks from {lines} lines");
    assert!(diagnostics < 40);
    reader.source();
});
