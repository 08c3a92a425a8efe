//! Checks that, for any damage to a recording, the error names the file and a remedy.

#![allow(clippy::unwrap_used)]

use crate::generated;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use expect_test::expect_file;
use fonio_core::{CollectedRows, Meta, RowSink, ignore_rows};
use fonio_recording::{Recording, Tables, Writer, WriterOptions};
use generated::{Checked, Generated};
use proptest::prelude::*;

/// Creates a recording and damages it. Opens and replays the recording, and returns the error with its
/// causes.
fn error_after(damage: &dyn Fn(&Path)) -> String {
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
        // The message of an error of the Parquet library already contains its cause.
        if error.is_none_or(|above| !above.to_string().contains(&cause.to_string())) {
            text += &format!("{}{cause}\n", if error.is_some() { "  because " } else { "" });
        }
        error = Some(cause);
        next = cause.source();
    }
    text.replace(place.path().to_str().unwrap(), "/place")
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
fn every_damage_is_named_with_its_file_and_what_to_do() {
    let truncate = |dir: &Path, name: &str, keep: fn(usize) -> usize| {
        edit(&dir.join(name), |bytes| bytes.truncate(keep(bytes.len())));
    };
    let later_meta = "\"schema_version\": 7, \"new\": {}";
    type Damage<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, Damage<'_>); 16] = [
        ("a table in parts", &|dir| {
            let table = dir.join("requests.parquet");
            let part = fs::read(&table).unwrap();
            fs::remove_file(&table).unwrap();
            fs::create_dir(&table).unwrap();
            fs::write(table.join("part-00000.parquet"), part).unwrap();
        }),
        ("no directory", &|dir| fs::remove_dir_all(dir).unwrap()),
        ("no meta.json", &|dir| fs::remove_file(dir.join("meta.json")).unwrap()),
        ("a file instead of the directory", &|dir| {
            fs::remove_dir_all(dir).unwrap();
            fs::write(dir, "").unwrap();
        }),
        ("meta.json of a later version", &|dir| {
            replace(&dir.join("meta.json"), "\"schema_version\": 1", later_meta);
        }),
        ("a table of a later version", &|dir| {
            edit(&dir.join("requests.parquet"), |bytes| {
                // In the footer, the schema version is a string of one byte after its key. The last
                // occurrence of the key in the file belongs to this key-value pair.
                let key = b"fonio.schema_version";
                let at = bytes.windows(key.len()).rposition(|window| window == key).unwrap() + key.len();
                let digit = (at..).find(|at| bytes[*at] == b'1').unwrap();
                bytes[digit] = b'7';
            });
        }),
        ("no requests", &|dir| fs::remove_file(dir.join("requests.parquet")).unwrap()),
        ("no links", &|dir| fs::remove_file(dir.join("links.parquet")).unwrap()),
        ("an empty table", &|dir| truncate(dir, "requests.parquet", |_| 0)),
        ("half a table", &|dir| truncate(dir, "requests.parquet", |length| length / 2)),
        ("a table without its last byte", &|dir| truncate(dir, "bios.parquet", |length| length - 1)),
        ("half of meta.json", &|dir| truncate(dir, "meta.json", |length| length / 2)),
        ("wrong bytes in the middle", &|dir| {
            edit(&dir.join("requests.parquet"), |bytes| bytes[20..2000].fill(0xff));
        }),
        ("another table", &|dir| {
            fs::copy(dir.join("bios.parquet"), dir.join("requests.parquet")).unwrap();
        }),
        ("a wrong count in meta.json, as when files of two recordings are mixed", &|dir| {
            replace(&dir.join("meta.json"), "\"requests\": 20000", "\"requests\": 19999");
        }),
        ("a bad diagnostic", &|dir| fs::write(dir.join("diagnostics.jsonl"), "{}\n").unwrap()),
    ];
    let shown = cases.map(|(name, damage)| format!("# {name}\n{}", error_after(damage)));
    expect_file!["data/damage.expected"].assert_eq(&shown.concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Some damage cannot be detected, because Parquet's pages have no checksum here, but no damage may cause
    /// a panic.
    #[test]
    fn flipped_bits_are_no_panic(table in 0..2_usize, flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 1..4)) {
        static WHOLE: OnceLock<tempfile::TempDir> = OnceLock::new();
        let whole = WHOLE.get_or_init(|| {
            // Statics are never dropped, so the files stay until the target directory is removed.
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
        let mut rows = CollectedRows::default();
        let _ = Recording::open(place.path()).and_then(|recording| recording.replay(&mut rows, Tables::ALL));
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
