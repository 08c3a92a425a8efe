//! Reads tables in encodings that fonio no longer writes. Polars, pandas and Spark rewrote some of the
//! tables, with other compression, row groups, string types and integer widths, and without key-value
//! metadata. An older version of fonio wrote the other tables.
//!
//! `tests/data/rewrite.py` converted tables of `tests/data/original` to the tables in `tests/data/rewritten`.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow_schema::DataType;
use expect_test::expect;
use fonio_core::{CollectedRows, Meta, RowSink, Timestamp, WaitReason};
use fonio_recording::{Recording, RecordingError, Tables, Writer, WriterOptions, is_recording};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn try_read(dir: &Path) -> Result<CollectedRows, RecordingError> {
    let mut rows = CollectedRows::default();
    Recording::open(dir)?.replay(&mut rows, Tables::ALL)?;
    Ok(rows)
}

fn read(dir: &Path) -> CollectedRows {
    try_read(dir).unwrap()
}

fn copy_of_original() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(data("original")).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, place.path().join(from.file_name().unwrap())).unwrap();
    }
    place
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
        let place = copy_of_original();
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

/// Writes a table of waits with reasons as plain text, as older versions of fonio did.
fn write_waits_as_text(path: &Path, reasons: &[&str]) {
    let count = reasons.len();
    let columns: [(&str, ArrayRef, bool); 6] = [
        ("tid", Arc::new(UInt32Array::from(vec![7; count])), false),
        ("began_ns", Arc::new(Int64Array::from_iter_values(0..count as i64)), false),
        ("ended_ns", Arc::new(Int64Array::new_null(count)), true),
        ("reason", Arc::new(StringArray::from(reasons.to_vec())), false),
        ("request_id", Arc::new(Int64Array::new_null(count)), true),
        ("waker_tid", Arc::new(UInt32Array::new_null(count)), true),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn reasons_of_waits_as_plain_text_are_read() {
    let place = copy_of_original();
    let names: Vec<&str> = WaitReason::ALL.iter().map(|reason| reason.name()).collect();
    write_waits_as_text(&place.path().join("waits.parquet"), &names);
    let old = read(place.path());
    let reasons: Vec<WaitReason> = old.waits.iter().map(|wait| wait.reason).collect();
    assert_eq!(reasons, WaitReason::ALL);
    assert!(old.waits.iter().all(|wait| (wait.blocked_in, wait.file_id) == (None, None)), "added later");

    // After rewriting, the reasons are a dictionary, and the rows are unchanged.
    let dir = place.path().join("again");
    let mut writer = Writer::create(&dir, WriterOptions::default()).unwrap();
    old.waits.iter().try_for_each(|wait| writer.wait(wait)).unwrap();
    writer.finish(Meta { began: Some(Timestamp(0)), ..Meta::default() }).unwrap();
    assert_eq!(read(&dir).waits, old.waits);
    let file = File::open(dir.join("waits.parquet")).unwrap();
    let schema = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().schema().clone();
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    assert_eq!(schema.field_with_name("reason").unwrap().data_type(), &dictionary);
}

#[test]
fn an_unknown_reason_is_an_error_with_its_place() {
    let place = copy_of_original();
    write_waits_as_text(&place.path().join("waits.parquet"), &["storage", "disk"]);
    let error = try_read(place.path()).unwrap_err().to_string();
    expect![[r#"/waits.parquet: column reason, row 1: "disk" is not a value of this column"#]]
        .assert_eq(&error.replace(&place.path().display().to_string(), ""));
}
