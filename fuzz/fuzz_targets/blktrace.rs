//! Reads arbitrary blktrace binaries, as one file or two files, and checks for panics, endless loops and
//! invented events.
#![no_main]

use std::io::Cursor;

use fonio_core::{Batch, TraceReader};
use fonio_trace::blktrace::{BlktraceReader, recognise};
use fonio_trace::input::Input;
use libfuzzer_sys::fuzz_target;

/// The size of the shorter of blktrace's two record headers.
const RECORD_BYTES: usize = 48;

// The first byte of the input selects where the input is split into two files; with 0, there is only one
// file.
fuzz_target!(|input: &[u8]| {
    let Some((&cut, bytes)) = input.split_first() else { return };
    recognise(bytes);
    let cut = bytes.len() * usize::from(cut) / 256;
    let inputs = [&bytes[..cut], &bytes[cut..]]
        .into_iter()
        .enumerate()
        .map(|(cpu, part)| Input::new(format!("x.blktrace.{cpu}"), Box::new(Cursor::new(part.to_vec()))))
        .collect();
    let mut reader = BlktraceReader::new(inputs);
    let mut batch = Batch::default();
    let (mut events, mut diagnostics) = (0, 0);
    loop {
        let more = reader.next_batch(&mut batch).expect("memory does not fail");
        events += batch.events.len();
        diagnostics += batch.diagnostics.len();
        assert!(batch.lost.iter().all(|gap| gap.after <= gap.before));
        if !more {
            break;
        }
    }
    // The last record of each file may be cut off after its header.
    assert!(events <= bytes.len() / RECORD_BYTES, "{events} events from {} bytes", bytes.len());
    assert!(events > 0 || diagnostics > 0 || bytes.len() >= RECORD_BYTES, "no output and no diagnostic");
    assert!(diagnostics < 100);
    reader.source();
    reader.clock();
});
