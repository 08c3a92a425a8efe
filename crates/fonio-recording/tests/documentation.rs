//! Runs the queries in `docs/recording-reference.md` with DuckDB, on a recording with every table.
//!
//! `FONIO_DUCKDB` names a Python interpreter that can `import duckdb`. If `FONIO_DUCKDB` is not set, the
//! tests try the Python environment that `cargo xtask test` creates below the target directory, and then
//! `python3`.

#![allow(clippy::unwrap_used)]

use crate::generated;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use expect_test::expect_file;
use fonio_core::meta::Device;
use fonio_core::{
    BlockedCount, BlockedIn, Call, DeviceId, Link, LinkEnd, LinkKind, Meta, Nanos, RowSink, Timestamp, Wait,
    WaitReason,
};
use fonio_recording::{Writer, WriterOptions};
use generated::Generated;

/// Runs the statements in `blocks.json` and prints the resulting rows, with rounded floats.
const RUN: &str = include_str!("documentation.py");

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recording-reference.md");
    fs::read_to_string(path).unwrap()
}

fn sql_blocks(document: &str) -> Vec<&str> {
    let blocks = document.split("```sql\n").skip(1);
    blocks.map(|block| block.split_once("```").expect("a block ends").0).collect()
}

fn duckdb() -> Option<PathBuf> {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../xtask/python/bin/python3");
    let named = std::env::var_os("FONIO_DUCKDB").map(PathBuf::from);
    named.map_or_else(|| vec![made, "python3".into()], |named| vec![named]).into_iter().find(|python| {
        let found = Command::new(python).args(["-c", "import duckdb"]).output();
        found.is_ok_and(|output| output.status.success())
    })
}

fn write_recording(dir: &Path) {
    let mut writer = Writer::create(dir, WriterOptions::default()).unwrap();
    Generated { requests: 5000, bios: true, ..Generated::default() }.feed(&mut writer).unwrap();
    let (parent_table, child_table) = (LinkEnd::Bio, LinkEnd::Bio);
    // A chain of three bios: a bio on a stacked device, the bio on the lower device to which it was remapped,
    // and the remainder of a split.
    for (kind, parent, child) in [(LinkKind::Remap, 0, 1), (LinkKind::Split, 1, 2)] {
        writer.link(&Link { kind, parent_table, parent, child_table, child }).unwrap();
    }
    for call_id in 0..10 {
        let entered = Timestamp(1_000_000_000 + call_id * 1_000_000);
        let (began, ended) =
            (Timestamp(entered.0 + 1000), Some(Timestamp(entered.0 + 1000 + call_id * 50_000)));
        let (name, exited) = ("fsync".to_owned(), Some(Timestamp(entered.0 + 700_000 + call_id * 10_000)));
        let (file_id, result) = (Some(call_id as u32), Some(0));
        writer
            .call(&Call {
                call_id,
                name,
                tid: 103,
                file_id,
                offset: None,
                bytes: None,
                entered,
                exited,
                result,
                sqlite_write: None,
                file_flags: None,
            })
            .unwrap();
        let reason = WaitReason::Storage;
        writer
            .wait(&Wait {
                tid: 103,
                began,
                ended,
                reason,
                request_id: Some(call_id),
                waker_tid: None,
                blocked_in: Some(BlockedIn::Fsync),
                file_id,
                io_wait: None,
                function: None,
            })
            .unwrap();
    }
    writer
        .blocked_count(&BlockedCount {
            tid: 103,
            blocked_in: BlockedIn::Read,
            reason: WaitReason::Storage,
            from: Timestamp(1_000_000_000),
            until: Timestamp(2_000_000_000),
            below: Nanos(128_000),
            count: 40,
            total: Nanos(4_000_000),
        })
        .unwrap();
    let device = |minor, name: &str| Device {
        id: DeviceId::new(179, minor),
        name: Some(name.to_owned()),
        scheduler: Some("mq-deadline".to_owned()),
        depth: Some(32),
        ..Device::default()
    };
    let devices = vec![device(0, "mmcblk0"), device(1, "mmcblk0p1")];
    writer.finish(Meta { devices, ..Meta::default() }).unwrap();
}

#[test]
fn the_queries_run() {
    let document = document();
    let blocks = sql_blocks(&document);
    assert!(blocks.len() >= 10, "{}", blocks.len());
    let Some(python) = duckdb() else {
        return fonio_testing::skip(
            fonio_testing::Need::Duckdb,
            "no Python has the package duckdb; run `pip install duckdb` and set FONIO_DUCKDB to that Python",
        );
    };
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    write_recording(&dir);
    let blocks_path = place.path().join("blocks.json");
    fs::write(&blocks_path, serde_json::to_string(&blocks).unwrap()).unwrap();
    let output =
        Command::new(&python).arg("-c").arg(RUN).arg(&blocks_path).current_dir(&dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    expect_file!["documentation.expected"].assert_eq(&String::from_utf8_lossy(&output.stdout));
}
