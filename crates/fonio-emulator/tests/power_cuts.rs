//! Tests that power cuts harm a database that does not sync, but not a database that syncs: SQLite on ext4 on
//! an emulated device.

use crate::bed;

use std::process::Command;

use fonio_emulator::{Emulated, Log, PowerCutOptions, PowerCuts, Tear, WorkloadEnd, scratch};
use fonio_host::{Filesystem, Ledger};

const CUTS: u32 = 30;

/// There are 1500 rows of about half a page each, so a transaction changes many pages of the file.
const PREPARE: &str = "
    PRAGMA journal_mode=TRUNCATE;
    CREATE TABLE left_side(id INTEGER PRIMARY KEY, turn INTEGER, filling BLOB);
    CREATE TABLE right_side(id INTEGER PRIMARY KEY, turn INTEGER, filling BLOB);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 750)
    INSERT INTO left_side SELECT i, 0, randomblob(1800) FROM n;
    INSERT INTO right_side SELECT * FROM left_side;
";

/// Each transaction changes the same rows in both tables, while another process calls sync repeatedly.
const WORKLOAD: &str = include_str!("power_cuts_workload.sh");

const CHECK: &str = include_str!("power_cuts_check.sh");

fn survivors(sync: &str, turns: u32, tear: Tear) -> PowerCuts {
    let state = tempfile::tempdir().expect("dir");
    let log = state.path().join("log");
    let mut options = bed::options(&state.path().join("state"), 48);
    options.serve.log = Some(log.clone());
    let mut emulated = Emulated::start(&options, bed::server()).expect("start");
    let dir = emulated.mount_dir().expect("mounted").to_owned();
    let prepared = Command::new("sqlite3").arg(dir.join("database")).arg(PREPARE).output().expect("sqlite3");
    assert!(prepared.status.success(), "{prepared:?}");
    rustix::fs::syncfs(std::fs::File::open(&dir).expect("open")).expect("sync");
    let script = format!("SYNC={sync}; TURNS={turns}; {WORKLOAD}");
    let end =
        emulated.run_workload(&["sh".to_owned(), "-c".to_owned(), script], false, &|| false).expect("run");
    assert!(matches!(end, WorkloadEnd::Exited(status) if status.success()), "{end:?}");
    let report = emulated.stop().expect("stop");
    assert_eq!(report.log_error, None);
    let log = Log::open(&log).expect("log");
    let options = PowerCutOptions {
        count: CUTS,
        seed: 1,
        tear,
        filesystem: Filesystem::Ext4,
        check: CHECK.to_owned(),
        scratch: scratch(log.capacity.0),
        recovery: None,
    };
    let mut ledger = Ledger::open(&state.path().join("state")).expect("ledger");
    let cuts = PowerCuts::run(&mut ledger, &log, &options, &|| false).expect("cuts");
    ledger.close().expect("undone");
    assert_eq!(cuts.cuts, CUTS);
    eprintln!("synchronous={sync}: {} of {CUTS} cuts survived; {} records", cuts.survived, log.records.len());
    cuts
}

#[test]
fn a_database_that_syncs_survives_every_cut_and_one_that_does_not_does_not() {
    if !bed::can_make_block_devices() || !fonio_testing::has(&[fonio_testing::Need::Sqlite3]) {
        return;
    }
    let synced = survivors("FULL", 300, Tear::Page);
    assert_eq!(synced.survived, CUTS, "{:#?}", synced.failures);
    let dropped = survivors("OFF", 6000, Tear::Page);
    assert!(dropped.survived < CUTS, "no cut damaged a database that does not sync");
    assert!(dropped.failures.iter().all(|failure| failure.mounted), "{:#?}", dropped.failures);
}
