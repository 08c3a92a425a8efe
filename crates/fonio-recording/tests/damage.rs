//! For any damage to a recording, the error names the file and says what to do.

#![allow(clippy::unwrap_used)]

use crate::generated;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use expect_test::{Expect, expect};
use fonio_core::{Meta, RowSink, ignore_rows};
use fonio_recording::{Recording, Tables, Writer, WriterOptions};
use generated::{Checked, Generated};
use proptest::prelude::*;

/// Makes a recording, damages it, and compares the error of opening and replaying it, with its causes.
fn check(damage: impl Fn(&Path), expected: Expect) {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let mut writer = Writer::create(&dir, WriterOptions::default()).unwrap();
    Generated { requests: 20_000, bios: true, ..Generated::default() }.feed(&mut writer).unwrap();
    writer.finish(Meta { writer: "fonio test".to_owned(), ..Meta::default() }).unwrap();
    damage(&dir);
    let replayed =
        Recording::open(&dir).and_then(|recording| recording.replay(&mut Checked::default(), Tables::ALL));
    let mut text = String::new();
    let mut error: Option<&dyn std::error::Error> = None;
    let replayed = replayed.expect_err("it is damaged");
    let mut next = Some(&replayed as &dyn std::error::Error);
    while let Some(cause) = next {
        // The Parquet library repeats its cause in its own message.
        if error.is_none_or(|above| !above.to_string().contains(&cause.to_string())) {
            text += &format!("{}{cause}\n", if error.is_some() { "  because " } else { "" });
        }
        error = Some(cause);
        next = cause.source();
    }
    expected.assert_eq(&text.replace(place.path().to_str().unwrap(), "/place"));
}

fn edit(path: &Path, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn a_table_in_parts() {
    check(
        |dir| {
            let table = dir.join("requests.parquet");
            let part = fs::read(&table).unwrap();
            fs::remove_file(&table).unwrap();
            fs::create_dir(&table).unwrap();
            fs::write(table.join("part-00000.parquet"), part).unwrap();
        },
        expect![[r#"
            /place/run/requests.parquet is a directory, as Spark writes a table; write it in one part, with coalesce(1), and put the part in its place
        "#]],
    );
}

#[test]
fn not_a_recording() {
    check(
        |dir| fs::remove_dir_all(dir).unwrap(),
        expect![[r#"
        /place/run is not a recording: it does not exist; give a directory that `fonio record` or an import wrote
    "#]],
    );
    check(
        |dir| fs::remove_file(dir.join("meta.json")).unwrap(),
        expect![[r#"
        /place/run is not a recording: it has no meta.json; give a directory that `fonio record` or an import wrote
    "#]],
    );
    check(
        |dir| {
            fs::remove_dir_all(dir).unwrap();
            fs::write(dir, "").unwrap();
        },
        expect![[r#"
            /place/run is not a recording: it is a file; give a directory that `fonio record` or an import wrote
        "#]],
    );
}

#[test]
fn a_later_version() {
    check(
        |dir| replace(&dir.join("meta.json"), "\"schema_version\": 1", "\"schema_version\": 7, \"new\": {}"),
        expect![[r#"
            /place/run has schema version 7, and this fonio knows versions up to 1; read it with the fonio that wrote it (fonio test) or a later one
        "#]],
    );
    check(
        |dir| {
            edit(&dir.join("requests.parquet"), |bytes| {
                // In the footer, the version is a string of one byte after its key; the last occurrence is the
                // key-value pair.
                let key = b"fonio.schema_version";
                let at = bytes.windows(key.len()).rposition(|window| window == key).unwrap() + key.len();
                let digit = (at..).find(|at| bytes[*at] == b'1').unwrap();
                bytes[digit] = b'7';
            });
        },
        expect![[r#"
            /place/run/requests.parquet has schema version 7, and this fonio knows versions up to 1; read it with the fonio that wrote it (fonio 0.1.0) or a later one
        "#]],
    );
}

#[test]
fn a_missing_table() {
    check(
        |dir| fs::remove_file(dir.join("requests.parquet")).unwrap(),
        expect![[r#"
        /place/run/requests.parquet is missing, the recording is incomplete; copy the whole directory again
    "#]],
    );
    check(
        |dir| fs::remove_file(dir.join("links.parquet")).unwrap(),
        expect![[r#"
        /place/run/links.parquet is missing, the recording is incomplete; copy the whole directory again
    "#]],
    );
}

#[test]
fn truncated() {
    let truncate = |name: &'static str, keep: fn(usize) -> usize| {
        move |dir: &Path| edit(&dir.join(name), |bytes| bytes.truncate(keep(bytes.len())))
    };
    check(
        truncate("requests.parquet", |_| 0),
        expect![[r#"
        /place/run/requests.parquet cannot be read as Parquet, it is truncated or damaged; copy it again or record anew
          because EOF: Parquet file too small. Size is 0 but need 8
    "#]],
    );
    check(
        truncate("requests.parquet", |length| length / 2),
        expect![[r#"
        /place/run/requests.parquet cannot be read as Parquet, it is truncated or damaged; copy it again or record anew
          because Parquet error: Invalid Parquet file. Corrupt footer
    "#]],
    );
    check(
        truncate("bios.parquet", |length| length - 1),
        expect![[r#"
        /place/run/bios.parquet cannot be read as Parquet, it is truncated or damaged; copy it again or record anew
          because Parquet error: Invalid Parquet file. Corrupt footer
    "#]],
    );
    check(
        truncate("meta.json", |length| length / 2),
        expect![[r#"
        /place/run/meta.json, line 19: not valid; copy it again or record anew
          because EOF while parsing an object at line 19 column 1
    "#]],
    );
}

#[test]
fn bytes_in_the_middle() {
    check(
        |dir| edit(&dir.join("requests.parquet"), |bytes| bytes[20..2000].fill(0xff)),
        expect![[r#"
        /place/run/requests.parquet cannot be read as Parquet, it is truncated or damaged; copy it again or record anew
          because Parquet error: Parquet error: Unexpected struct field type 15
    "#]],
    );
}

#[test]
fn the_wrong_table() {
    let copy = |from: &'static str, to: &'static str| {
        move |dir: &Path| {
            fs::copy(dir.join(from), dir.join(to)).unwrap();
        }
    };
    check(
        copy("bios.parquet", "requests.parquet"),
        expect![[r#"
        /place/run/requests.parquet does not have the columns of this table: it is the table "bios"; see docs/recording-reference.md
    "#]],
    );
    // A wrong count in meta.json, as when files of two recordings are mixed.
    check(
        |dir| replace(&dir.join("meta.json"), "\"requests\": 20000", "\"requests\": 19999"),
        expect![[r#"
        /place/run/requests.parquet has 20000 rows and should have 19999; copy the whole directory again
    "#]],
    );
}

#[test]
fn a_bad_diagnostic() {
    check(
        |dir| fs::write(dir.join("diagnostics.jsonl"), "{}\n").unwrap(),
        expect![[r#"
        /place/run/diagnostics.jsonl, line 1: not valid; copy it again or record anew
          because missing field `severity` at line 1 column 2
    "#]],
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Some damage cannot be noticed, because Parquet's pages have no checksum, but none may cause a panic.
    #[test]
    fn flipped_bits_are_no_panic(table in 0..2_usize, flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 1..4)) {
        static WHOLE: OnceLock<tempfile::TempDir> = OnceLock::new();
        let whole = WHOLE.get_or_init(|| {
            // A static is never dropped; its files are removed with the target directory.
            let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let mut writer = Writer::create(&place.path().join("run"), WriterOptions::default()).unwrap();
            Generated { requests: 300, bios: true, ..Generated::default() }.feed(&mut writer).unwrap();
            writer.finish(Meta::default()).unwrap();
            place
        });
        let place = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(whole.path().join("run")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), place.path().join(entry.file_name())).unwrap();
        }
        edit(&place.path().join(["requests.parquet", "threads.parquet"][table]), |bytes| {
            for (at, bit) in &flips {
                let at = at.index(bytes.len());
                bytes[at] ^= 1_u8 << *bit;
            }
        });
        struct Nothing;
        impl RowSink for Nothing {
            ignore_rows!(began, request, bio, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic, settled);
        }
        let _ = Recording::open(place.path()).and_then(|recording| recording.replay(&mut Nothing, Tables::ALL));
    }
}

#[test]
fn a_sink_that_fails_is_not_the_recordings_fault() {
    struct Full;
    impl RowSink for Full {
        fn request(&mut self, _: &fonio_core::Request) -> std::io::Result<()> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        ignore_rows! {
            began, bio, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic,
            settled
        }
    }
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let mut writer = Writer::create(&dir, WriterOptions::default()).unwrap();
    Generated { requests: 20, ..Generated::default() }.feed(&mut writer).unwrap();
    writer.finish(Meta::default()).unwrap();
    let error = Recording::open(&dir).unwrap().replay(&mut Full, Tables::ALL).expect_err("it fails");
    assert!(matches!(error, fonio_recording::RecordingError::Sink(_)), "{error:?}");
}
