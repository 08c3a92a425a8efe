//! Reads hostile recordings: files that are not regular, and files that ask for much memory.

#![allow(clippy::unwrap_used)]

use crate::generated;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
use expect_test::expect;
use fonio_core::{Content, Mark, Meta, RowSink, Thread, Timestamp};
use fonio_recording::{Key, Recording, Redactor, Table, Tables, Writer, WriterOptions};
use generated::{Checked, Generated};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Address space of the process that reads a recording, in KiB. The process needs some 100 MiB of it for its
/// program and stacks.
const ADDRESS_SPACE_KIB: u32 = 512 << 10;

/// The directory of the recording that [`in_little_memory`] reads.
const DIR: &str = "FONIO_TEST_RECORDING";

/// Runs an ignored test of this file in another process, with this address space. The process has its own peak
/// memory, which another test of this program limits.
fn in_another_process(test: &str, dir: &Path, address_space: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let Output { status, stdout, stderr } = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -v {address_space}; exec \"$0\" \"$@\""))
        .arg(program)
        .args(["--exact", &format!("bounded::{test}"), "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .unwrap();
    let text = String::from_utf8(stdout).unwrap();
    assert!(status.success(), "{status}: {text}{}", String::from_utf8_lossy(&stderr));
    text
}

/// Reads the recording in another process, which has 512 MiB of address space.
fn read_in_little_memory(dir: &Path) -> String {
    let text = in_another_process("in_little_memory", dir, &ADDRESS_SPACE_KIB.to_string());
    let result = text.lines().find_map(|line| line.split_once("RESULT ")).unwrap().1;
    result.replace(dir.to_str().unwrap(), "RUN")
}

#[test]
#[ignore = "the other tests of this file start it, with little memory"]
fn in_little_memory() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let replayed = Recording::open(Path::new(&dir))
        .and_then(|recording| recording.replay(&mut Checked::default(), Tables::ALL));
    let text = match replayed {
        Ok(()) => "fine".to_owned(),
        Err(error) => match std::error::Error::source(&error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    };
    println!("\nRESULT {text}");
}

fn recording() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(&place.path().join("run"), WriterOptions::default()).unwrap();
    Generated { requests: 100, ..Generated::default() }.feed(&mut writer).unwrap();
    writer.finish(Meta::default()).unwrap();
    place
}

/// Creates a recording, damages it, and reads it in little memory.
fn read_after(damage: impl FnOnce(&Path)) -> String {
    let place = recording();
    let dir = place.path().join("run");
    damage(&dir);
    read_in_little_memory(&dir)
}

#[test]
fn files_that_are_not_regular_are_refused() {
    for name in ["meta.json", "diagnostics.jsonl", "requests.parquet", "samples.parquet"] {
        let replace = |make: fn(&Path)| {
            read_after(|dir| {
                fs::remove_file(dir.join(name)).unwrap();
                make(&dir.join(name));
            })
        };
        let fifo = replace(|path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap());
        assert_eq!(fifo, format!("cannot read RUN/{name}: it is a FIFO, not a regular file"));
        let zero = replace(|path| symlink("/dev/zero", path).unwrap());
        assert_eq!(zero, format!("cannot read RUN/{name}: it is a device, not a regular file"));
        let folder = replace(|path| fs::create_dir(path).unwrap());
        assert!(
            folder.starts_with(&format!("RUN/{name} is a directory"))
                || folder == format!("cannot read RUN/{name}: it is a directory, not a regular file"),
            "{folder}"
        );
    }
}

#[test]
fn large_files_are_refused() {
    let enlarge = |name: &'static str| {
        read_after(move |dir| {
            File::options().write(true).open(dir.join(name)).unwrap().set_len(3 << 30).unwrap();
        })
    };
    expect!["cannot read RUN/meta.json: it has 3221225472 bytes, and fonio reads at most 4194304 bytes of such a file"]
        .assert_eq(&enlarge("meta.json"));
    expect!["cannot read RUN/diagnostics.jsonl: it has 3221225472 bytes, and fonio reads at most 67108864 bytes of such a file"]
        .assert_eq(&enlarge("diagnostics.jsonl"));
    expect!["RUN/requests.parquet cannot be read as Parquet, because it is truncated or damaged; copy it again or record anew: Parquet error: Invalid Parquet file. Corrupt footer"]
        .assert_eq(&enlarge("requests.parquet"));
    // The footer seems to have 1 GiB.
    let footer = read_after(|dir| {
        let file = File::create(dir.join("requests.parquet")).unwrap();
        file.set_len(2 << 30).unwrap();
        let tail = [&(1_u32 << 30).to_le_bytes()[..], b"PAR1"].concat();
        std::os::unix::fs::FileExt::write_all_at(&file, &tail, (2 << 30) - 8).unwrap();
    });
    expect!["RUN/requests.parquet would need too much memory or time: its footer has 1073741824 bytes, and the limit is 33554432"]
        .assert_eq(&footer);
}

#[test]
fn long_lines_and_long_lists_are_refused() {
    let line = read_after(|dir| fs::write(dir.join("diagnostics.jsonl"), vec![b' '; 1 << 20]).unwrap());
    expect!["RUN/diagnostics.jsonl would need too much memory or time: line 1 has more than 65536 bytes"]
        .assert_eq(&line);
    let devices = read_after(|dir| {
        let text = fs::read_to_string(dir.join("meta.json")).unwrap();
        let devices = vec![r#"{"id":8}"#; 400_000].join(",");
        assert!(text.contains(r#""devices": []"#), "{text}");
        fs::write(
            dir.join("meta.json"),
            text.replace(r#""devices": []"#, &format!(r#""devices": [{devices}]"#)),
        )
        .unwrap();
    });
    expect![
        "RUN/meta.json would need too much memory or time: it has 400000 devices, and the limit is 16384"
    ]
    .assert_eq(&devices);
}

/// Writes a table of marks with these names, repeated so often.
fn write_marks(dir: &Path, names: &[&str], times: usize, options: WriterPropertiesBuilder) {
    let count = names.len();
    let columns: [(&str, ArrayRef, bool); 4] = [
        ("at_ns", Arc::new(Int64Array::from_value(0, count)), false),
        ("until_ns", Arc::new(Int64Array::new_null(count)), true),
        ("name", Arc::new(StringArray::from(names.to_vec())), false),
        ("tid", Arc::new(UInt32Array::new_null(count)), true),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let file = File::create(dir.join("marks.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(options.build())).unwrap();
    for _ in 0..times {
        writer.write(&batch).unwrap();
    }
    writer.close().unwrap();
    let count = count * times;
    // The number of marks in `meta.json` is now wrong.
    let meta = fs::read_to_string(dir.join("meta.json")).unwrap();
    let (before, after) = meta.split_once("\"marks\": ").unwrap();
    let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
    fs::write(dir.join("meta.json"), format!("{before}\"marks\": {count}{after}")).unwrap();
}

fn marks(names: &[&str], options: WriterPropertiesBuilder) -> String {
    read_after(|dir| write_marks(dir, names, 1, options))
}

#[test]
#[ignore = "the next test starts it, because writing such a table needs much memory"]
fn write_a_huge_name() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let zstd = WriterProperties::builder().set_compression(Compression::ZSTD(Default::default()));
    write_marks(Path::new(&dir), &["a".repeat(80 << 20).as_str()], 1, zstd.set_dictionary_enabled(false));
}

#[test]
fn long_texts_are_refused_before_they_are_decompressed() {
    let zstd = || WriterProperties::builder().set_compression(Compression::ZSTD(Default::default()));
    let huge = read_after(|dir| {
        in_another_process("write_a_huge_name", dir, "unlimited");
        assert!(fs::metadata(dir.join("marks.parquet")).unwrap().len() < 100_000);
    });
    expect!["RUN/marks.parquet would need too much memory or time: its pages need 83888720 bytes of memory at a time, and the limit is 67108864"]
        .assert_eq(&huge);
    let long = "a".repeat(1 << 20);
    // Each row would get a copy of the text.
    expect!["RUN/marks.parquet would need too much memory or time: column name has a text of 1048576 bytes, and the limit is 65536"]
        .assert_eq(&marks(&[long.as_str(); 10], zstd()));
    expect![[
        r#"RUN/marks.parquet: column name, row 1: "a text of 1048576 bytes" is not a value of this column"#
    ]]
    .assert_eq(&marks(&["short", &long], zstd().set_dictionary_enabled(false)));
    let delta = zstd()
        .set_dictionary_enabled(false)
        .set_column_encoding(ColumnPath::from("name"), Encoding::DELTA_BYTE_ARRAY);
    expect!["RUN/marks.parquet would need too much memory or time: column name has delta-encoded texts; write them as plain texts"]
        .assert_eq(&marks(&[&long[..1000]; 4096], delta));
}

/// Passes rows with the longest texts to `sink`. The texts of all rows have 750 MiB, and those of a table differ.
fn give_long_texts(sink: &mut dyn RowSink) {
    let mut rest = "a".repeat(64 << 10);
    for id in 0..3000_u32 {
        rest.replace_range(..10, &format!("{id:010}"));
        let (text, time) = (Some(rest.clone()), Timestamp(u64::from(id)));
        let (comm, cgroup) = (text.clone(), text.clone());
        sink.thread(&Thread { tid: id, from: time, comm, cgroup, ..Thread::default() }).unwrap();
        sink.mark(&Mark { at: time, until: None, name: rest.clone(), tid: None }).unwrap();
        let (device, inode, content) = (None, None, Content::Data);
        sink.file(&fonio_core::File { file_id: id, from: time, device, inode, path: text, content }).unwrap();
    }
}

#[test]
#[ignore = "the next test starts it, with little memory"]
fn write_long_texts() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let dir = Path::new(&dir);
    let mut writer = Writer::create(&dir.join("copy"), WriterOptions::default()).unwrap();
    give_long_texts(&mut writer);
    writer.finish(Meta::default()).unwrap();
    let mut writer = Writer::create(&dir.join("redacted"), WriterOptions::default()).unwrap();
    give_long_texts(&mut Redactor::new(&Key::random().unwrap(), &mut writer));
    writer.finish(Meta::default()).unwrap();
}

#[test]
fn long_texts_are_copied_and_redacted_in_little_memory() {
    let place = tempfile::tempdir().unwrap();
    in_another_process("write_long_texts", place.path(), &ADDRESS_SPACE_KIB.to_string());
    for name in ["copy", "redacted"] {
        let recording = Recording::open(&place.path().join(name)).unwrap();
        assert_eq!(recording.rows(Table::Files), 3000, "{name}");
    }
    assert_eq!(read_in_little_memory(&place.path().join("copy")), "fine");
}

#[test]
fn many_rows_in_few_bytes_are_refused() {
    let zstd = WriterProperties::builder().set_compression(Compression::ZSTD(Default::default()));
    let large_pages = zstd.set_data_page_row_count_limit(1 << 20);
    let rows = read_after(|dir| {
        write_marks(dir, &["a"; 4096], 200, large_pages);
        assert!(fs::metadata(dir.join("marks.parquet")).unwrap().len() < 8000);
    });
    let (rows, _) = rows.split_once(" bytes").unwrap();
    assert!(
        rows.starts_with("RUN/marks.parquet would need too much memory or time: it has 819200 rows in "),
        "{rows}"
    );
}

/// The library would allocate memory for all values that the header announces.
#[test]
fn a_dictionary_with_more_values_than_bytes_is_refused() {
    let said = read_after(|dir| {
        write_marks(dir, &["a", "b"], 1, WriterProperties::builder());
        let path = dir.join("marks.parquet");
        let mut bytes = fs::read(&path).unwrap();
        // The dictionary of `at_ns` has one value of 8 bytes: field 1 of the field 7 of its header, in Thrift's
        // compact protocol. It becomes 63 values.
        let one_value = [0x4c, 0x15, 0x02];
        let at = bytes.windows(one_value.len()).position(|found| found == one_value).unwrap();
        bytes[at + 2] = 126;
        fs::write(&path, bytes).unwrap();
    });
    expect!["RUN/marks.parquet cannot be read as Parquet, because it is truncated or damaged; copy it again or record anew: Parquet error: the page header at byte 4 is not valid"].assert_eq(&said);
}

#[test]
fn the_longest_texts_are_read_in_little_memory() {
    let zstd = WriterProperties::builder().set_compression(Compression::ZSTD(Default::default()));
    let texts: Vec<String> = (0..8).map(|at| format!("{at}").repeat(64 << 10)).collect();
    // The 12,000 rows of 64 KiB have 750 MiB, and a batch of 4096 rows would have 256 MiB, twice.
    let names: Vec<&str> = (0..120).map(|at| texts[at % texts.len()].as_str()).collect();
    let read = |options| read_after(|dir| write_marks(dir, &names, 100, options));
    assert_eq!(read(zstd.clone()), "fine");
    assert_eq!(read(zstd.set_dictionary_enabled(false)), "fine");
}
