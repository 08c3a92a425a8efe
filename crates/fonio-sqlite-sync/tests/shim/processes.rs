//! Tests the library across signals, forks, other programs, threads and dlclose(3).

use std::fs;

use crate::bed::{Bed, library};

const ORDERED: &str = "class = 'ordered'\nwindow-ms = 200";

/// Commits in the parent and then, with the function `work`, in a child. Nobody calls the functions that
/// programs call at their end, so only the library's thread syncs.
const CHILD: &str = "
import ctypes, os, sqlite3, subprocess, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute('PRAGMA synchronous=FULL')
db.execute('INSERT INTO t VALUES (1)')
time.sleep(1)
def work(commits):
    if commits:
        db.execute('INSERT INTO t VALUES (2)')
    time.sleep(2)
    os._exit(0)
def waits(child):
    if os.waitpid(child, 0)[1] != 0:
        os._exit(1)
    os._exit(0)
";

#[test]
fn a_child_syncs_within_its_window() {
    let Some(bed) = Bed::new() else { return };
    for end in [
        "child = os.fork()\nif child == 0: work(COMMITS)\nwaits(child)",
        // A program that puts itself into the background: the parent ends at once. strace waits for the child.
        "if os.fork() == 0: work(COMMITS)\nos._exit(0)",
        // A grandchild.
        "if os.fork() == 0:\n    child = os.fork()\n    if child == 0: work(COMMITS)\n    waits(child)\nos.wait()\nos._exit(0)",
        // The C library does not tell its other users about this fork.
        "child = ctypes.CDLL(None)._Fork()\nif child == 0: work(COMMITS)\nwaits(child)",
        // Python starts programs with vfork.
        "subprocess.run(['true'])\nwork(COMMITS)",
    ] {
        let syncs = |commits: &str| {
            let database = bed.database("wal");
            bed.policy(Some(ORDERED), &database);
            let script = format!("{CHILD}{}", end.replace("COMMITS", commits));
            bed.python(&script, &database).map(|(syncs, _)| syncs)
        };
        let (Some(without), Some(with)) = (syncs("False"), syncs("True")) else { return };
        assert!(with > without, "{with} syncs with a commit in the child, {without} without: {end}");
    }
}

#[test]
fn a_fork_during_commits_of_another_thread_blocks_no_child() {
    let Some(bed) = Bed::new() else { return };
    let database = bed.database("wal");
    let other = bed.database("wal");
    let rules = [&database, &other]
        .map(|path| format!("[[database]]\npath = '{}'\nclass = 'ordered'\nwindow-ms = 5\n", path.display()));
    fs::write(bed.policy_file(), rules.concat()).expect("write");
    // SQLite has locks of its own, which a thread can hold at the time of a fork: its child then waits for
    // ever in sqlite3_malloc (2 of 2,000 forks of Debian's Python, without this library). Option 1,
    // SQLITE_CONFIG_SINGLETHREAD, switches these locks off; only one thread of each process calls SQLite here.
    let script = format!(
        "
import ctypes, os, sys, threading
if ctypes.CDLL('libsqlite3.so.0').sqlite3_config(1) != 0:
    os._exit(2)
import sqlite3
stop = threading.Event()
def commit():
    db = sqlite3.connect(sys.argv[1], isolation_level=None)
    while not stop.is_set():
        db.execute('INSERT INTO t VALUES (1)')
    db.close()
thread = threading.Thread(target=commit)
thread.start()
for i in range(60):
    child = os.fork()
    if child == 0:
        db = sqlite3.connect('{}', isolation_level=None)
        db.execute('INSERT INTO t VALUES (2)')
        db.close()
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        os._exit(1)
stop.set()
thread.join()
print(sqlite3.connect('{}').execute('SELECT count(*) FROM t').fetchone()[0])
",
        other.display(),
        other.display()
    );
    let Some((_, said)) = bed.python(&script, &database) else { return };
    assert_eq!(said, ["60"]);
}

#[test]
fn the_next_program_of_a_process_syncs_too() {
    let Some(bed) = Bed::new() else { return };
    let database = bed.database("wal");
    bed.policy(Some(ORDERED), &database);
    let next = "import sqlite3, sys, time, os; db = sqlite3.connect(sys.argv[1], isolation_level=None); \
                db.execute('INSERT INTO t VALUES (2)'); time.sleep(2); os._exit(0)";
    let script = format!(
        "import os, sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
         db.execute('INSERT INTO t VALUES (1)')\n\
         os.execv('/usr/bin/python3', ['python3', '-c', \"{next}\", sys.argv[1]])"
    );
    let Some((syncs, _)) = bed.python(&script, &database) else { return };
    assert!(syncs > 0, "no sync after exec");
}

#[test]
fn a_sync_in_a_signal_handler_allocates_no_memory() {
    let Some(bed) = Bed::new() else { return };
    let source = include_str!("signals.c");
    let Some(program) = bed.compile("signals", source, &["-rdynamic", "-fno-builtin"]) else { return };
    let folder = bed.new_folder("cache", 0o755);
    let shared = bed.new_folder("shared", 0o1777);
    let rule = |path: &str| format!("[[database]]\npath = '{path}/'\nclass = 'cache'\ndrop-fsync = true\n");
    let rules = [&folder, &shared].map(|folder| rule(&folder.display().to_string())).concat();
    fs::write(bed.policy_file(), rules).expect("write");
    for (name, is_database, is_dropped) in
        [("cache/a.db", true, true), ("cache/key", false, false), ("shared/b.db", true, false)]
    {
        let path = bed.folder().join(name);
        if is_database {
            fs::copy(bed.database("delete"), &path).expect("copy");
        } else {
            fs::write(&path, "key = 1").expect("write");
        }
        let text = path.display().to_string();
        let (syncs, out) = bed.preloaded(&[&program.display().to_string(), "20", &text]);
        assert!(out.status.success(), "{name}: {out:?}");
        let of_file = syncs.iter().filter(|line| line.contains(&format!("{text}>"))).count();
        assert_eq!(of_file == 1, is_dropped, "{name}: {of_file} syncs");
        assert!(is_dropped || of_file >= 220, "{name}: {of_file} syncs");
        assert_eq!(bed.beside(&path, "-fonio-boot").exists(), is_dropped, "{name}");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        let expected = if name.starts_with("shared") { 1 } else { 0 };
        assert_eq!(said.matches("stays durable").count(), expected, "{said}");
    }
}

#[test]
fn the_library_stays_when_a_program_unloads_it() {
    let Some(bed) = Bed::new() else { return };
    let Some(program) = bed.compile("unload", include_str!("unload.c"), &["-ldl"]) else { return };
    for class in [ORDERED, "class = 'cache'", "class = 'learn'"] {
        let database = bed.database("wal");
        bed.policy(Some(class), &database);
        let out = std::process::Command::new(&program)
            .arg(library())
            .arg(&database)
            .env("FONIO_SYNC_POLICY", bed.policy_file())
            .output()
            .expect("it runs");
        assert!(out.status.success() && out.stdout == b"done\n", "{class}: {out:?}");
        assert_eq!(bed.said(crate::Loaded::ByPreload, &database, "SELECT count(*) FROM t"), ["15"]);
    }
}
