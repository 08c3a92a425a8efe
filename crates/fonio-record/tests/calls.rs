//! Records the file-system calls of sqlite3 on a file system on a loop device.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::loop_ext4;

use std::process::Command;

use fonio_core::meta::{LOST_CALLS, SHOWS_CALLS};
use fonio_core::{Call, Content, File, SqliteWrite};
use fonio_record::{RecordError, RecordOptions, record};
use fonio_testing::{Need, skip, skip_without};
use loop_ext4::{FileSystem, Recorded, options_of};

/// Returns the file of a call: the last component of its first path, and its kind.
fn file_of(rows: &Recorded, call: &Call) -> Option<(String, Content)> {
    let rows: Vec<&File> = rows.files.iter().filter(|row| Some(row.file_id) == call.file_id).collect();
    let path = rows.iter().find_map(|row| row.path.clone())?;
    let content = rows.iter().map(|row| row.content).find(|content| *content != Content::Data);
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    Some((name, content.unwrap_or(Content::Data)))
}

/// Returns the number of successful calls with these names on this file.
fn count(rows: &Recorded, names: &[&str], file: &str) -> usize {
    let is_of = |call: &&Call| {
        names.contains(&call.name.as_str())
            && call.result.is_some_and(|result| result >= 0)
            && file_of(rows, call).is_some_and(|(name, _)| name == file)
    };
    rows.calls.iter().filter(is_of).count()
}

fn marked(rows: &Recorded, mark: SqliteWrite) -> usize {
    rows.calls.iter().filter(|call| call.sqlite_write == Some(mark)).count()
}

const TRANSACTIONS: usize = 20;

/// Returns a command with single-row inserts, in a shell that starts sqlite3 as a child.
fn sqlite(system: &FileSystem, mode: &str) -> [String; 3] {
    let inserts = "INSERT INTO t VALUES(1);".repeat(TRANSACTIONS);
    let script = format!(
        "cd {}; sqlite3 {mode}.db 'PRAGMA journal_mode={mode}; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(x); {inserts}'; true",
        system.dir.path().display()
    );
    ["sh".into(), "-c".into(), script]
}

#[test]
fn a_command_and_its_children_are_followed() {
    skip_without!(Sqlite3);
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let recorded = |mode| {
        let command = sqlite(&system, mode);
        let options = options_of(&system, scratch.path(), &command.each_ref().map(String::as_str));
        Recorded::record(&RecordOptions { calls: true, ..options }, "no-calls")
    };
    let Some(rows) = recorded("DELETE") else { return };
    assert!(rows.meta.source.shows.iter().any(|shown| shown == SHOWS_CALLS));
    assert!(!rows.diagnostics.iter().any(|found| found.code == LOST_CALLS), "{:?}", rows.diagnostics);
    // Each transaction creates and deletes a journal; the recording names each of these files.
    assert_eq!(count(&rows, &["unlink", "unlinkat"], "DELETE.db-journal"), TRANSACTIONS + 1);
    assert_eq!(count(&rows, &["fsync", "fdatasync"], "DELETE.db"), TRANSACTIONS + 1);
    let journal = rows.calls.iter().filter_map(|call| file_of(&rows, call));
    assert!(
        journal.clone().any(|(name, content)| (name.as_str(), content) == ("DELETE.db", Content::SqliteDb))
    );
    assert!(
        journal
            .filter(|(name, _)| name == "DELETE.db-journal")
            .all(|(_, content)| content == Content::SqliteJournal)
    );
    // fsync calls on the folder also have a path.
    let folder = system.dir.path().file_name().unwrap().to_str().unwrap();
    assert!(count(&rows, &["fsync", "fdatasync"], folder) > TRANSACTIONS);
    let writes: Vec<&Call> = rows.calls.iter().filter(|call| call.name == "pwrite64").collect();
    let Some(write) = writes.first() else { panic!("{:?}", rows.calls) };
    assert_eq!(rows.comm(write.tid), "sqlite3");
    for call in &writes {
        assert_eq!(call.bytes.map(|bytes| bytes.0 as i64), call.result, "{call:?}");
        assert!(call.offset.is_some() && call.exited.unwrap() > call.entered, "{call:?}");
    }
    let ordered = rows.calls.is_sorted_by_key(|call| (call.entered, call.tid));
    assert!(ordered && rows.calls.iter().enumerate().all(|(at, call)| call.call_id == at as u64));

    let Some(rows) = recorded("WAL") else { return };
    assert_eq!(marked(&rows, SqliteWrite::WalCommit), TRANSACTIONS + 1);
    let Some(rows) = recorded("PERSIST") else { return };
    assert_eq!(marked(&rows, SqliteWrite::JournalEnd), TRANSACTIONS + 1);
}

/// Returns whether a file had a path that ends in one of these names.
fn is_named(rows: &Recorded, file_id: Option<u32>, names: &[&str]) -> bool {
    let mut paths = rows.files.iter().filter(|row| Some(row.file_id) == file_id);
    paths.any(|row| row.path.as_ref().is_some_and(|path| names.iter().any(|name| path.ends_with(name))))
}

const INSERTS: usize = 100;
const JOURNAL: [&str; 1] = ["/app.db-journal"];
const CLIP: [&str; 2] = ["/clip.part", "/clip.mp4"];

/// Records SQLite transactions during which another process replaces a file by renaming. The journal and that
/// file get each other's inode number again and again. The file that exists before the recording and its last
/// successor have the same number, so the number has as many ends as files that the kernel has named.
fn recorded_in_turns(system: &FileSystem, scratch: &std::path::Path, calls: bool) -> Option<Recorded> {
    let clip = system.dir.path().join("clip.mp4");
    let number = std::os::unix::fs::MetadataExt::ino(&clip.metadata().unwrap());
    let inserts = "INSERT INTO t VALUES(1);".repeat(INSERTS);
    let script = format!(
        "cd {}; sqlite3 app.db 'PRAGMA journal_mode=DELETE; {inserts}' & left=1000
         while kill -0 $! 2> /dev/null || [ $(stat -c %i clip.mp4) != {number} ]; do
            head -c 4096 /dev/zero > clip.part; mv clip.part clip.mp4
            kill -0 $! 2> /dev/null || left=$((left - 1)); [ $left -gt 0 ] || break
         done; wait",
        system.dir.path().display()
    );
    let options = options_of(system, scratch, &["sh", "-c", &script]);
    let rows = Recorded::record(&RecordOptions { calls, ..options }, "no-calls")?;
    assert_eq!(std::os::unix::fs::MetadataExt::ino(&clip.metadata().unwrap()), number);
    let files = |inode| rows.files.iter().filter(move |row| row.inode == inode).map(|row| Some(row.file_id));
    let has_both = |inode| {
        files(inode).any(|file_id| is_named(&rows, file_id, &JOURNAL))
            && files(inode).any(|file_id| is_named(&rows, file_id, &CLIP))
    };
    assert!(rows.files.iter().any(|row| has_both(row.inode)), "the files had no common inode number");
    for file_id in rows.files.iter().map(|row| Some(row.file_id)) {
        assert!(!(is_named(&rows, file_id, &JOURNAL) && is_named(&rows, file_id, &CLIP)), "{file_id:?}");
    }
    // Only sqlite3 writes to the journal, and it writes to no other file.
    let mut named = 0;
    for row in rows.requests.iter().filter(|row| row.file_id.is_some() && row.cause_tid.is_some()) {
        let by_sqlite = row.cause_tid.is_some_and(|tid| rows.comm(tid) == "sqlite3");
        assert!(by_sqlite || !is_named(&rows, row.file_id, &JOURNAL), "{row:?}");
        assert!(!by_sqlite || !is_named(&rows, row.file_id, &CLIP), "{row:?}");
        named += usize::from(is_named(&rows, row.file_id, &JOURNAL));
    }
    assert!(named > 0, "no request of a journal has its name");
    Some(rows)
}

#[test]
fn files_with_one_inode_number_keep_their_own_names() {
    skip_without!(Sqlite3);
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4_with(&scratch.path().join("image"), &["-N", "64"]) else { return };
    let database = system.dir.path().join("app.db");
    assert!(Command::new("sqlite3").arg(&database).arg("CREATE TABLE t(x)").status().unwrap().success());
    std::fs::write(system.dir.path().join("clip.mp4"), [1; 4096]).unwrap();
    let Some(_) = recorded_in_turns(&system, scratch.path(), false) else { return };
    let Some(rows) = recorded_in_turns(&system, scratch.path(), true) else { return };
    // Calls show each file with its generation, so no name is missing.
    let is_journal = |file_id| is_named(&rows, file_id, &JOURNAL);
    let writes: Vec<&Call> = rows.calls.iter().filter(|call| call.sqlite_write.is_some()).collect();
    assert!(writes.len() >= INSERTS, "{}", writes.len());
    for call in writes {
        assert!(is_journal(call.file_id), "{call:?}");
    }
    let is_unlink = |call: &&Call| call.name.starts_with("unlink") && call.result == Some(0);
    let unlinked = rows.calls.iter().filter(is_unlink).map(|call| call.file_id);
    let mut unlinked: Vec<Option<u32>> = unlinked.filter(|file_id| is_journal(*file_id)).collect();
    assert_eq!(unlinked.len(), INSERTS);
    unlinked.sort_unstable();
    unlinked.dedup();
    assert_eq!(unlinked.len(), INSERTS, "each journal is a file of its own");
}

#[test]
fn a_running_process_is_followed_by_its_number() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    // The shell waits until the recording runs; then its child process writes the file.
    let script = "while [ ! -e go ]; do sleep 0.05; done; dd if=/dev/zero of=data bs=4096 count=3 conv=fsync";
    let mut shell = Command::new("sh");
    let mut shell = shell.args(["-c", script]).current_dir(system.dir.path()).spawn().unwrap();
    let go = format!("touch {0}/go; sleep 1; touch {0}/other", system.dir.path().display());
    let options = options_of(&system, scratch.path(), &["sh", "-c", &go]);
    let rows = Recorded::record(&RecordOptions { calls_of: vec![shell.id()], ..options }, "no-calls");
    let ended = shell.wait().unwrap();
    let Some(rows) = rows else { return };
    assert!(ended.success());
    assert_eq!((count(&rows, &["write"], "data"), count(&rows, &["fsync"], "data")), (3, 1));
    // The recorded command is a different process, which is not followed.
    assert_eq!(count(&rows, &["openat"], "other"), 0);
    // dd also writes to standard error, which may be a file.
    let is_data = |call: &&Call| file_of(&rows, call).is_some_and(|(name, _)| name == "data");
    let writes = rows.calls.iter().filter(|call| call.name == "write").filter(is_data);
    let offsets: Vec<Option<u64>> = writes.map(|call| call.offset).collect();
    assert_eq!(offsets, [Some(0), Some(4096), Some(8192)]);
}

#[test]
fn a_process_that_does_not_exist_is_an_error() {
    skip_without!(Root);
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = RecordOptions {
        calls_of: vec![u32::MAX >> 1],
        ..RecordOptions::new(scratch.path().join("recording"))
    };
    match record(&options, &mut |_| {}) {
        Err(RecordError::NoProcess { pid }) => assert_eq!(pid, u32::MAX >> 1),
        Err(RecordError::NoTracefs | RecordError::NoBlockEvents | RecordError::Lockdown { .. }) => {
            skip(Need::Tracefs, "this kernel cannot trace");
        }
        other => panic!("{other:?}"),
    }
}
