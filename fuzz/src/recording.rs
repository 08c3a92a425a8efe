//! A folder for the recording that a fuzz target reads, and recordings that are valid.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use fonio_core::meta::{Device, Mount};
use fonio_core::{ByteCount, DeviceId, Meta, Random};
use fonio_recording::{Recording, RecordingError, Table, Tables, Writer, WriterOptions};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use tempfile::TempDir;

use crate::rows::{Bytes, Rows};
use crate::sinks::Checked;

/// The process's folder. libFuzzer ends the process without removing it; `cargo xtask fuzz` removes it.
static PLACE: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a temporary folder"));

/// A recording without rows, in which a fuzz target replaces a file.
static EMPTY: LazyLock<PathBuf> = LazyLock::new(|| {
    let dir = PLACE.path().join("empty");
    let mut meta = write(&dir, &Rows::default());
    // Without these counts, a table may have any number of rows.
    meta.rows.clear();
    fs::write(dir.join("meta.json"), serde_json::to_vec(&meta).expect("it is JSON")).expect("written");
    dir
});

fn write(dir: &Path, rows: &Rows) -> Meta {
    let mut writer = Writer::create(dir, WriterOptions::default()).expect("a new folder");
    rows.pour(&mut writer).expect("the disk has space");
    writer.finish(meta()).expect("the disk has space")
}

/// Returns metadata with a value in each field that reports and exports use.
pub fn meta() -> Meta {
    let device = Device {
        id: DeviceId::new(8, 0),
        name: Some("sda".to_owned()),
        model: Some("SC32G".to_owned()),
        size_bytes: Some(ByteCount(31 << 30)),
        schedulers: vec!["none".to_owned(), "mq-deadline".to_owned()],
        mounts: vec![Mount {
            device: DeviceId::new(8, 1),
            at: "/data".to_owned(),
            fs: "f2fs".to_owned(),
            options: vec!["rw".to_owned()],
            ..Mount::default()
        }],
        ..Device::default()
    };
    let command = Some(vec!["sqlite3".to_owned(), "/data/a.db".to_owned()]);
    Meta { devices: vec![device], command, ..Meta::default() }
}

/// Replaces `name` in a recording without rows, reads the recording, and restores the file.
pub fn read_with(name: &str, bytes: &[u8]) -> Result<Checked, RecordingError> {
    let path = EMPTY.join(name);
    let before = fs::read(&path).ok();
    fs::write(&path, bytes).expect("the disk has space");
    let mut sink = Checked::default();
    let read = Recording::open(&EMPTY).and_then(|recording| recording.replay(&mut sink, Tables::ALL));
    match before {
        Some(before) => fs::write(&path, before).expect("the disk has space"),
        None => fs::remove_file(&path).expect("it was written"),
    }
    read.map(|()| sink)
}

/// Returns the name of a table's file.
pub fn file_name(table: Table) -> String {
    format!("{}.parquet", table.name())
}

/// Returns valid table files: tables of a random recording as fonio writes them, and as other tools rewrite
/// them.
pub fn tables(random: &mut Random) -> Vec<(Table, Vec<u8>)> {
    let place = tempfile::tempdir().expect("a temporary folder");
    let mut found = Vec::new();
    for size in [400, 4000] {
        let dir = place.path().join(size.to_string());
        let bytes: Vec<u8> = (0..size).map(|_| random.next_u64() as u8).collect();
        write(&dir, &Rows::read(&mut Bytes::new(&bytes)));
        for table in Table::ALL {
            let path = dir.join(file_name(table));
            let Ok(bytes) = fs::read(&path) else { continue };
            found.push((table, bytes));
            found.extend(rewritten(&path).into_iter().map(|bytes| (table, bytes)));
        }
    }
    found
}

fn rewritten(path: &Path) -> Vec<Vec<u8>> {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::LZ4_RAW,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
    ];
    let rewrite = |(at, codec): (usize, Compression)| {
        let options = WriterProperties::builder()
            .set_compression(codec)
            .set_dictionary_enabled(at % 2 == 0)
            .set_writer_version(if at % 3 == 0 {
                WriterVersion::PARQUET_2_0
            } else {
                WriterVersion::PARQUET_1_0
            })
            .set_data_page_row_count_limit(8)
            .set_max_row_group_row_count(Some(if at < 2 { 16 } else { 4096 }));
        let reader =
            ParquetRecordBatchReaderBuilder::try_new(File::open(path).expect("it exists")).expect("valid");
        let (schema, mut out) = (reader.schema().clone(), Vec::new());
        let mut writer = ArrowWriter::try_new(&mut out, schema, Some(options.build())).expect("valid");
        for batch in reader.build().expect("valid") {
            writer.write(&batch.expect("valid")).expect("memory writes");
        }
        writer.close().expect("memory writes");
        out
    };
    codecs.into_iter().enumerate().map(rewrite).collect()
}
