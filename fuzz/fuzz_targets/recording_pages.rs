//! Reads a recording with a table that has a valid footer and arbitrary pages, and checks for panics, endless
//! loops and much memory. The input describes the pages.
#![no_main]

use fonio_fuzz::{memory, parquet_file, recording, seeds};
use libfuzzer_sys::fuzz_target;

/// A description of a table with two marks, in plain pages.
fn plain() -> Vec<u8> {
    let page = |encoding: u8, body: &[u8]| {
        // One page of version 1, with two values; the levels have no length.
        [&[0, 0, 0, 2, encoding, 0, 0, 0, body.len() as u8], body].concat()
    };
    let times = [7_u64.to_le_bytes(), 9_u64.to_le_bytes()].concat();
    // The level of both values is 0: each is null.
    let nulls = [2, 0, 0, 0, 4, 0];
    [vec![2], page(0, &times), page(0, &nulls), page(0, b"\x01\0\0\0a\x02\0\0\0bc"), page(0, &nulls)].concat()
}

/// The same marks; their names are in a dictionary.
fn with_dictionary() -> Vec<u8> {
    let mut description = plain();
    let names = description.len() - 15 - 11 - 9;
    let dictionary =
        [&[0, 1, 1, 2, 0, 0, 0, 0, 11][..], b"\x01\0\0\0a\x02\0\0\0bc", &[0, 2, 8, 0, 0, 0, 3, 1, 3, 2]];
    description.splice(names..names + 20, dictionary.concat());
    description
}

fuzz_target!(
    init: {
        memory::begin();
        seeds::write(|random| {
            seeds::spliced(vec![plain(), with_dictionary()], 60, random, |a: &Vec<u8>, b: &Vec<u8>, random| {
                let cut = random.below(a.len().min(b.len()) as u64) as usize;
                let (mut head, codec) = ([&a[..cut], &b[cut..]].concat(), random.below(8) as u8);
                head[1] = codec;
                head
            })
        });
        let rows = recording::read_with("marks.parquet", &parquet_file::of_pages(&plain())).map(|sink| sink.rows);
        assert_eq!(rows.expect("the description is valid"), 2);
        let rows = recording::read_with("marks.parquet", &parquet_file::of_pages(&with_dictionary()));
        assert_eq!(rows.expect("the description is valid").rows, 2);
    },
    |input: &[u8]| {
        let file = parquet_file::of_pages(input);
        if let Ok(sink) = memory::bounded(|| recording::read_with("marks.parquet", &file)) {
            assert!(sink.rows <= parquet_file::rows_max(file.len()), "{} rows", sink.rows);
        }
    }
);
