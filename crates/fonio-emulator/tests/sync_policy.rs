//! Tests that databases under a sync policy survive power cuts as their class promises, that plain files in the
//! same folder keep all synced changes, and that the cuts can do damage.
//!
//! `cargo studies cuts-sync-policy` runs many more power cuts.

use std::time::Duration;

use fonio_testing::Need;

use crate::bed;
use crate::power_cut_trials::{MODES, Promise, Recorded};

const CUTS: u32 = 5;

#[test]
fn every_class_keeps_its_promise() {
    if !bed::can_make_block_devices() || !fonio_testing::has(&[Need::Sqlite3, Need::Python]) {
        return;
    }
    if !std::path::Path::new("/usr/bin/python3").exists() {
        return fonio_testing::skip(Need::Python, "Debian's python3 is not installed");
    }
    // Cargo has built the library in the folder of this test program, because the library is a dependency.
    let test = std::env::current_exe().expect("path");
    let library = test.with_file_name("libfonio_sqlite_sync.so");
    assert!(library.exists(), "{} is missing", library.display());
    for mode in MODES {
        let options = |state: &std::path::Path| bed::options(state, 48);
        let recorded = Recorded::new(
            mode,
            &library,
            &options,
            bed::server(),
            (Duration::from_millis(700), 1),
            true,
            None,
        )
        .unwrap_or_else(|error| panic!("{}: {error}", mode.name));
        let plan = recorded.plan(CUTS, 1).expect("plan");
        let outcome = recorded.cut(&plan, &|| false).expect("cuts");
        let [transactions, changes] = [recorded.transactions(), recorded.plain_changes()];
        eprintln!(
            "{}: {transactions} transactions, {changes} changes of plain files, {outcome:?}",
            mode.name
        );
        assert!(changes > 0, "{}: the program changed no plain file", mode.name);
        assert_eq!(outcome.broken, 0, "{}: {outcome:?}", mode.name);
        if mode.promise == Promise::NeverStale {
            assert!(outcome.removed > 0, "{}: {outcome:?}", mode.name);
        }
        if mode.promise == Promise::Nothing {
            assert!(outcome.corrupt > 0, "no cut damaged a database that does not sync: {outcome:?}");
        }
    }
}
