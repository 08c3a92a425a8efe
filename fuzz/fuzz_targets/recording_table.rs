//! Reads a recording with one arbitrary table file, and checks for panics, endless loops and much memory. The
//! first byte of the input selects the table; the other bytes are its file.
#![no_main]

use fonio_fuzz::{memory, parquet_file, recording, seeds};
use fonio_recording::Table;
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        memory::begin();
        seeds::write(|random| {
            let tables = recording::tables(random);
            let splices = seeds::spliced(tables, 600, random, |a, b, random| {
                (a.0, parquet_file::splice(&a.1, &b.1, random))
            });
            splices.into_iter().map(|(table, file)| [&[table as u8], &file[..]].concat()).collect()
        });
    },
    |input: &[u8]| {
        let Some((&table, file)) = input.split_first() else { return };
        let table = Table::ALL[usize::from(table) % Table::ALL.len()];
        match memory::bounded(|| recording::read_with(&recording::file_name(table), file)) {
            Ok(sink) => assert!(sink.rows <= parquet_file::rows_max(file.len()), "{} rows", sink.rows),
            Err(error) => assert!(error.to_string().contains(table.name()), "the error does not name the file: {error}"),
        }
    }
);
