//! Reads a recording in which a table has valid pages and an arbitrary footer, and checks for panics, endless
//! loops and much memory. The first two bytes of the input select the pages; the other bytes are the footer.
#![no_main]

use std::sync::LazyLock;

use fonio_core::Random;
use fonio_fuzz::{memory, parquet_file, recording, seeds};
use fonio_recording::Table;
use libfuzzer_sys::fuzz_target;

static VALID: LazyLock<Vec<(Table, Vec<u8>)>> = LazyLock::new(|| recording::tables(&mut Random::new(1)));

fuzz_target!(
    init: {
        memory::begin();
        LazyLock::force(&VALID);
        seeds::write(|random| {
            let footers = VALID.iter().enumerate().map(|(at, (_, file))| {
                [&(at as u16).to_le_bytes(), &file[parquet_file::footer(file)]].concat()
            });
            seeds::spliced(footers.collect(), 400, random, |a: &Vec<u8>, b: &Vec<u8>, random| {
                let cut = random.below(a.len().min(b.len()) as u64) as usize;
                [&a[..cut], &b[cut..]].concat()
            })
        });
    },
    |input: &[u8]| {
        let Some((at, footer)) = input.split_first_chunk() else { return };
        let (table, file) = &VALID[usize::from(u16::from_le_bytes(*at)) % VALID.len()];
        let pages = &file[..parquet_file::footer(file).start];
        let file = parquet_file::with_footer(pages, footer);
        if let Ok(sink) = memory::bounded(|| recording::read_with(&recording::file_name(*table), &file)) {
            assert!(sink.rows <= parquet_file::rows_max(file.len()), "{} rows", sink.rows);
        }
    }
);
