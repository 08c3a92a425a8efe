//! Tests the library in Debian's programs, by counting sync system calls.

mod bed;
mod hostile;
mod processes;

use bed::{Bed, Loaded};

/// Five commits to an existing table, with the settings that many programs choose after they open a database.
const COMMITS: &str = "
    PRAGMA synchronous=FULL;
    INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); INSERT INTO t VALUES (3);
    INSERT INTO t VALUES (4); INSERT INTO t VALUES (5);
";

#[test]
fn each_class_syncs_as_it_says() {
    let Some(bed) = Bed::new() else { return };
    for loaded in [Loaded::ByPreload, Loaded::AsExtension] {
        // The window is longer than the test, so only SQLite's own syncs and the final sync remain.
        for (class, mode, most) in [
            ("class = 'ordered'\nwindow-ms = 30000", "wal", 0),
            ("class = 'cache'", "wal", 0),
            ("class = 'cache'", "delete", 0),
        ] {
            let with = |class: Option<&str>| {
                let database = bed.database(mode);
                bed.policy(class, &database);
                let empty = bed.syncs(loaded, &database, "SELECT 1");
                bed.syncs(loaded, &database, COMMITS).saturating_sub(empty)
            };
            let (without, there) = (with(None), with(Some(class)));
            assert!(without >= 5, "only {without} syncs for five durable commits, {mode}");
            assert!(there <= most + 4, "{there} syncs are too many for {class}, {mode}, {loaded:?}");
        }
        for (class, mode) in
            [("class = 'durable'", "wal"), ("class = 'learn'", "wal"), ("class = 'ordered'", "delete")]
        {
            let database = bed.database(mode);
            bed.policy(None, &database);
            let without = bed.syncs(loaded, &database, COMMITS);
            let database = bed.database(mode);
            bed.policy(Some(class), &database);
            assert_eq!(bed.syncs(loaded, &database, COMMITS), without, "{class}, {mode}");
        }
    }
}

#[test]
fn an_ordered_database_stays_in_its_mode_and_answers_as_usual() {
    let Some(bed) = Bed::new() else { return };
    let asked = "PRAGMA synchronous=OFF; PRAGMA synchronous; PRAGMA synchronous=3; PRAGMA synchronous; \
                 PRAGMA journal_mode=DELETE; PRAGMA journal_mode=off; PRAGMA journal_mode";
    for loaded in [Loaded::ByPreload, Loaded::AsExtension] {
        let database = bed.database("wal");
        bed.policy(Some("class = 'ordered'"), &database);
        assert_eq!(bed.said(loaded, &database, asked), ["1", "1", "wal", "wal", "wal"], "{loaded:?}");
        let rollback = bed.database("delete");
        bed.policy(Some("class = 'ordered'"), &rollback);
        assert_eq!(bed.said(loaded, &rollback, "PRAGMA journal_mode; PRAGMA synchronous"), ["delete", "2"]);
        bed.policy(Some("class = 'ordered'\nto-wal = true"), &rollback);
        assert_eq!(bed.said(loaded, &rollback, "PRAGMA journal_mode; PRAGMA synchronous"), ["wal", "1"]);
    }
}

#[test]
fn a_new_database_is_the_programs_until_it_is_opened_again() {
    let Some(bed) = Bed::new() else { return };
    let database = bed.new_path();
    bed.policy(Some("class = 'ordered'\nto-wal = true"), &database);
    let make = "PRAGMA page_size=8192; CREATE TABLE t (x); PRAGMA page_size; PRAGMA journal_mode";
    assert_eq!(bed.said(Loaded::ByPreload, &database, make), ["8192", "delete"]);
    assert_eq!(
        bed.said(Loaded::ByPreload, &database, "PRAGMA page_size; PRAGMA journal_mode"),
        ["8192", "wal"]
    );
}

#[test]
fn python_whose_sqlite_is_loaded_locally_is_found() {
    let Some(bed) = Bed::new() else { return };
    let database = bed.database("wal");
    bed.policy(Some("class = 'ordered'\nwindow-ms = 30000"), &database);
    let script = "
import sqlite3, sys
for uri in ('file:%s', 'file:%s?vfs=unix-excl'):
    db = sqlite3.connect(uri % sys.argv[1], isolation_level=None, uri=True)
    db.execute('PRAGMA synchronous=FULL')
    for i in range(20):
        db.execute('INSERT INTO t VALUES (?)', (i,))
    print(db.execute('PRAGMA synchronous').fetchone()[0])
    db.close()
";
    let Some((syncs, said)) = bed.python(script, &database) else { return };
    assert_eq!(said, ["1", "1"]);
    assert!(syncs < 20, "{syncs} syncs of 40 commits");
}

#[test]
fn a_stale_cache_is_removed_and_one_of_this_boot_is_not() {
    let Some(bed) = Bed::new() else { return };
    let database = bed.database("wal");
    bed.policy(Some("class = 'cache'"), &database);
    let marker = bed.beside(&database, "-fonio-boot");
    let count = "SELECT count(*) FROM sqlite_schema";
    assert_eq!(bed.said(Loaded::ByPreload, &database, count), ["1"]);
    let this_boot = std::fs::read_to_string(&marker).expect("it is marked");
    assert_eq!(bed.said(Loaded::ByPreload, &database, count), ["1"], "in the same boot");
    bed.mark_as_stale(&database);
    std::fs::write(bed.beside(&database, "-journal"), "stale").expect("write");
    assert_eq!(bed.said(Loaded::ByPreload, &database, count), ["0"], "after another boot");
    assert!(!marker.exists(), "the new file is empty");
    assert_eq!(bed.said(Loaded::ByPreload, &database, "CREATE TABLE t (x)"), [""; 0]);
    assert_eq!(std::fs::read_to_string(&marker).expect("it is marked"), this_boot);
    assert!(!bed.beside(&database, "-journal").exists());
}

#[test]
fn what_cannot_be_done_is_said_and_the_database_stays_durable() {
    let Some(bed) = Bed::new() else { return };
    let commits = |database: &std::path::Path| bed.complete(Loaded::ByPreload, database, COMMITS);
    let database = bed.database("wal");
    bed.policy(None, &database);
    let (durable, said) = commits(&database);
    assert_eq!(said, "");
    for (class, expected) in [
        (
            "class = 'fast'",
            "unknown class `fast`; use durable, ordered, cache or learn. Every database stays durable.",
        ),
        (
            "class = 'ordered'\nwindow-ms = 99999",
            "window-ms is 99999; write a number from 1 to 30000. Every database stays durable.",
        ),
    ] {
        let database = bed.database("wal");
        bed.policy(Some(class), &database);
        let (syncs, said) = commits(&database);
        assert!(said.contains(expected), "{said}");
        assert_eq!(said.lines().count(), 1, "said once: {said}");
        assert_eq!(syncs, durable, "{class}");
    }
    std::fs::remove_file(bed.policy_file()).expect("remove");
    let (_, said) = commits(&bed.database("wal"));
    assert!(said.contains("cannot read "), "{said}");
    let database = bed.database("wal");
    bed.policy(Some("class = 'learn'"), &database);
    let (_, said) = commits(&database);
    assert!(said.contains("class \"ordered\" would sync commits together"), "{said}");
}
