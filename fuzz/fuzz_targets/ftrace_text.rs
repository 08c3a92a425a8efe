//! Reads arbitrary text of ftrace or `perf script`, at once and in small reads. Checks that there is no panic and no endless
//! loop, and that large and small reads give the same events.
#![no_main]

use fonio_core::{Batch, TraceReader};
use fonio_fuzz::steps::Steps;
use fonio_trace::ftrace_text::{FtraceReader, recognise, recognise_perf};
use fonio_trace::input::Input;
use libfuzzer_sys::fuzz_target;

fn read(bytes: &[u8], step: usize, is_perf: bool) -> Batch {
    let input = Input::new("fuzz", Box::new(Steps::of(bytes, step)));
    let mut reader = if is_perf { FtraceReader::of_perf(input) } else { FtraceReader::new(input) };
    let (mut all, mut batch) = (Batch::default(), Batch::default());
    loop {
        let more = reader.next_batch(&mut batch).expect("memory reads");
        all.events.append(&mut batch.events);
        all.threads.append(&mut batch.threads);
        all.marks.append(&mut batch.marks);
        all.waits.append(&mut batch.waits);
        all.calls.append(&mut batch.calls);
        all.lost.append(&mut batch.lost);
        all.diagnostics.append(&mut batch.diagnostics);
        if !more {
            return all;
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    recognise(bytes);
    let is_perf = recognise_perf(bytes);
    let (whole, steps) = (read(bytes, usize::MAX, is_perf), read(bytes, 7, is_perf));
    assert_eq!(whole.events, steps.events);
    assert_eq!(whole.threads, steps.threads);
    assert_eq!(whole.marks, steps.marks);
    assert_eq!(whole.waits, steps.waits);
    assert_eq!(whole.calls, steps.calls);
    assert_eq!(whole.diagnostics, steps.diagnostics);
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    assert!(whole.events.len() <= lines);
    assert!(whole.lost.iter().all(|gap| gap.before >= gap.after || gap.before.0 == 0 || gap.cpu.is_some()));
});
