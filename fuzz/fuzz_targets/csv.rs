//! Reads a mapping from the first line of the input and a table from the other lines. Checks that there is no
//! panic, no endless loop and at most one request per line, and that an exported CSV file gives the same
//! requests when it is read again.
#![no_main]

use std::io::Cursor;

use fonio_core::{Batch, Request, RowSink, TraceReader};
use fonio_export::csv::CsvExport;
use fonio_trace::csv::{CsvReader, Mapping, TimeUnit};
use fonio_trace::input::Input;
use libfuzzer_sys::fuzz_target;

fn read(table: &[u8], mapping: &Mapping) -> Option<Vec<Request>> {
    let input = Input::new("fuzz", Box::new(Cursor::new(table.to_vec())));
    let mut reader = CsvReader::new(input, mapping, "csv").ok()?;
    let (mut all, mut batch) = (Vec::new(), Batch::default());
    loop {
        let more = reader.next_batch(&mut batch).expect("memory reads");
        all.append(&mut batch.requests);
        if !more {
            return Some(all);
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (mapping, table) = (&input[..end], &input[(end + 1).min(input.len())..]);
    let mapping = match std::str::from_utf8(mapping).unwrap_or_default() {
        "msr" => Mapping::msr_cambridge(),
        "disksim" => Mapping::disksim(TimeUnit::Milliseconds),
        "fonio" => Mapping::fonio(),
        text => match text.parse() {
            Ok(mapping) => mapping,
            Err(_) => return,
        },
    };
    let Some(requests) = read(table, &mapping) else { return };
    assert!(requests.len() <= table.iter().filter(|byte| **byte == b'\n').count() + 1);

    let mut export = CsvExport::new(Vec::new()).expect("memory writes");
    for request in &requests {
        export.request(request).expect("memory writes");
    }
    let text = export.finish().expect("memory writes");
    let again = read(&text, &Mapping::fonio()).expect("the export matches its mapping");
    assert_eq!(again.len(), requests.len());
    for (before, after) in requests.iter().zip(&again) {
        assert_eq!((before.op, before.device, before.bytes), (after.op, after.device, after.bytes));
        assert_eq!(
            (before.queued, before.issued, before.completed),
            (after.queued, after.issued, after.completed)
        );
    }
});
