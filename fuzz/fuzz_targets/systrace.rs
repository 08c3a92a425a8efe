//! Reads arbitrary HTML, atrace output and JSON. They may contain compressed data. Checks for panics and
//! endless loops. Also passes the bytes to the recogniser, and to the reader that the recogniser selects.
#![no_main]

use std::io::Cursor;

use fonio_core::{Batch, TraceReader};
use fonio_trace::input::Input;
use fonio_trace::recognise::{ReadOptions, open, recognise};
use fonio_trace::systrace::SystraceReader;
use libfuzzer_sys::fuzz_target;

fn input(bytes: &[u8]) -> Input {
    Input::new("fuzz", Box::new(Cursor::new(bytes.to_vec())))
}

fn drain(reader: &mut dyn TraceReader) {
    let mut batch = Batch::default();
    while reader.next_batch(&mut batch).expect("memory reads") {}
}

fuzz_target!(|bytes: &[u8]| {
    drain(&mut SystraceReader::new(input(bytes)));
    let found = recognise(bytes);
    match open(vec![input(bytes)], &ReadOptions::default()) {
        Ok(mut reader) => drain(&mut *reader),
        Err(error) => assert!(!error.to_string().is_empty(), "{found:?}"),
    }
});
