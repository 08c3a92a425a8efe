//! Tables that Polars, pandas and Spark have read and written again: other compression, row groups, string types and
//! widths of integers; no key-value metadata.
//!
//! `tests/data/rewritten` holds tables of `tests/data/original` as `tests/data/rewrite.py` made them.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fonio_core::{Request, RowSink, Sample, Thread};
use fonio_recording::{Recording, Tables, is_recording};

#[derive(Debug, Default, PartialEq)]
struct Rows {
    requests: Vec<Request>,
    threads: Vec<Thread>,
    samples: Vec<Sample>,
}

impl RowSink for Rows {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.requests.push(row.clone());
        Ok(())
    }
    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        self.threads.push(row.clone());
        Ok(())
    }
    fn sample(&mut self, row: &Sample) -> io::Result<()> {
        self.samples.push(row.clone());
        Ok(())
    }
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn read(dir: &Path) -> Rows {
    let mut rows = Rows::default();
    Recording::open(dir).unwrap().replay(&mut rows, Tables::ALL).unwrap();
    rows
}

#[test]
fn the_rows_are_the_same() {
    let original = read(&data("original"));
    assert!(!original.requests.is_empty() && !original.samples.is_empty() && !original.threads.is_empty());
    let mut tools = Vec::new();
    for entry in fs::read_dir(data("rewritten")).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let Some((tool, table)) = name.split_once('.') else { continue };
        let place = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(data("original")).unwrap() {
            let from = entry.unwrap().path();
            fs::copy(&from, place.path().join(from.file_name().unwrap())).unwrap();
        }
        fs::copy(&file, place.path().join(table)).unwrap();
        assert!(is_recording(place.path()));
        let again = read(place.path());
        assert!(again == original, "{name}");
        tools.push(tool.to_owned());
    }
    tools.sort();
    tools.dedup();
    let expected = [
        "pandas",
        "polars-brotli",
        "polars-gzip",
        "polars-lz4",
        "polars-snappy",
        "polars-strings",
        "polars-uncompressed",
        "polars-zstd",
        "spark-gzip",
        "spark-snappy",
        "spark-zstd",
    ];
    assert_eq!(tools, expected);
}
