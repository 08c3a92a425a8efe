//! Records the file-system calls of sqlite3 on a file system on a loop device.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::loop_ext4;

use std::collections::HashMap;
use std::io;
use std::process::Command;

use fonio_core::meta::{LOST_CALLS, Meta, SHOWS_CALLS};
use fonio_core::{Call, Content, Diagnostic, File, RowSink, SqliteWrite, Thread, ignore_rows};
use fonio_record::{RecordError, RecordOptions, Selector, record};
use fonio_recording::Tables;
use fonio_testing::{Need, has, skip};
use loop_ext4::{FileSystem, recording};

/// The rows that the tests look at.
#[derive(Default)]
struct Rows {
    meta: Meta,
    /// All names of each file, and its kind.
    files: HashMap<u32, Vec<File>>,
    threads: HashMap<u32, Thread>,
    calls: Vec<Call>,
    diagnostics: Vec<Diagnostic>,
}

impl RowSink for Rows {
    fn file(&mut self, row: &File) -> io::Result<()> {
        self.files.entry(row.file_id).or_default().push(row.clone());
        Ok(())
    }
    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        self.threads.insert(row.tid, row.clone());
        Ok(())
    }
    fn call(&mut self, row: &Call) -> io::Result<()> {
        self.calls.push(row.clone());
        Ok(())
    }
    fn diagnostic(&mut self, row: &Diagnostic) -> io::Result<()> {
        self.diagnostics.push(row.clone());
        Ok(())
    }
    ignore_rows!(began, request, bio, link, statement, wait, blocked_count, sample, mark, settled);
}

impl Rows {
    /// The file of a call: the last part of its path, and its kind.
    fn file(&self, call: &Call) -> Option<(String, Content)> {
        let rows = self.files.get(&call.file_id?)?;
        let path = rows.iter().find_map(|row| row.path.clone())?;
        let content = rows.iter().map(|row| row.content).find(|content| *content != Content::Data);
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        Some((name, content.unwrap_or(Content::Data)))
    }

    /// The number of successful calls with these names on this file.
    fn count(&self, names: &[&str], file: &str) -> usize {
        let is_of = |call: &&Call| {
            names.contains(&call.name.as_str())
                && call.result.is_some_and(|result| result >= 0)
                && self.file(call).is_some_and(|(name, _)| name == file)
        };
        self.calls.iter().filter(is_of).count()
    }

    fn marks(&self, mark: SqliteWrite) -> usize {
        self.calls.iter().filter(|call| call.sqlite_write == Some(mark)).count()
    }
}

/// Records what `options` say on the file system; `None` with a report if this machine cannot.
fn recorded(system: &FileSystem, options: RecordOptions) -> Option<Rows> {
    let options = RecordOptions { select: vec![Selector::Device(system.device.clone().into())], ..options };
    let recording = recording(&options, &mut |_| {})?;
    let mut rows = Rows { meta: recording.meta().clone(), ..Rows::default() };
    recording.replay(&mut rows, Tables::ALL).unwrap();
    if let Some(found) = rows.diagnostics.iter().find(|found| found.code == "no-calls") {
        skip(Need::Bpf, found.message.clone());
        return None;
    }
    Some(rows)
}

const TRANSACTIONS: usize = 20;

/// Inserts of one row each, in a shell that starts sqlite3 as a child.
fn sqlite(system: &FileSystem, mode: &str) -> Vec<std::ffi::OsString> {
    let inserts = "INSERT INTO t VALUES(1);".repeat(TRANSACTIONS);
    let script = format!(
        "cd {}; sqlite3 {mode}.db 'PRAGMA journal_mode={mode}; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(x); {inserts}'; true",
        system.dir.path().display()
    );
    ["sh", "-c", &script].map(Into::into).to_vec()
}

#[test]
fn a_command_and_its_children_are_followed() {
    if !has(&[Need::Sqlite3]) {
        return;
    }
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let options = |mode| RecordOptions {
        calls: true,
        overwrite: true,
        command: Some(sqlite(&system, mode)),
        ..RecordOptions::new(scratch.path().join("recording"))
    };
    let Some(rows) = recorded(&system, options("DELETE")) else { return };
    assert!(rows.meta.source.shows.iter().any(|shown| shown == SHOWS_CALLS));
    assert!(!rows.diagnostics.iter().any(|found| found.code == LOST_CALLS), "{:?}", rows.diagnostics);
    // Each transaction makes a journal and deletes it; every one of these files has its name.
    assert_eq!(rows.count(&["unlink", "unlinkat"], "DELETE.db-journal"), TRANSACTIONS + 1);
    assert_eq!(rows.count(&["fsync", "fdatasync"], "DELETE.db"), TRANSACTIONS + 1);
    let journal = rows.calls.iter().filter_map(|call| rows.file(call));
    assert!(
        journal.clone().any(|(name, content)| (name.as_str(), content) == ("DELETE.db", Content::SqliteDb))
    );
    assert!(
        journal
            .filter(|(name, _)| name == "DELETE.db-journal")
            .all(|(_, content)| content == Content::SqliteJournal)
    );
    // The syncs of the folder have a name, too.
    let folder = system.dir.path().file_name().unwrap().to_str().unwrap();
    assert!(rows.count(&["fsync", "fdatasync"], folder) > TRANSACTIONS);
    let writes: Vec<&Call> = rows.calls.iter().filter(|call| call.name == "pwrite64").collect();
    let Some(write) = writes.first() else { panic!("{:?}", rows.calls) };
    assert_eq!(rows.threads[&write.tid].comm.as_deref(), Some("sqlite3"));
    for call in &writes {
        assert_eq!(call.bytes.map(|bytes| bytes.0 as i64), call.result, "{call:?}");
        assert!(call.offset.is_some() && call.exited.unwrap() > call.entered, "{call:?}");
    }
    let ordered = rows.calls.is_sorted_by_key(|call| (call.entered, call.tid));
    assert!(ordered && rows.calls.iter().enumerate().all(|(at, call)| call.call_id == at as u64));

    let Some(rows) = recorded(&system, options("WAL")) else { return };
    assert_eq!(rows.marks(SqliteWrite::WalCommit), TRANSACTIONS + 1);
    let Some(rows) = recorded(&system, options("PERSIST")) else { return };
    assert_eq!(rows.marks(SqliteWrite::JournalEnd), TRANSACTIONS + 1);
}

#[test]
fn a_running_process_is_followed_by_its_number() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    // The shell waits for the recording, and writes with a child.
    let script = "while [ ! -e go ]; do sleep 0.05; done; dd if=/dev/zero of=data bs=4096 count=3 conv=fsync";
    let mut shell = Command::new("sh");
    let mut shell = shell.args(["-c", script]).current_dir(system.dir.path()).spawn().unwrap();
    let go = format!("touch {0}/go; sleep 1; touch {0}/other", system.dir.path().display());
    let options = RecordOptions {
        calls_of: vec![shell.id()],
        command: Some(["sh", "-c", &go].map(Into::into).to_vec()),
        ..RecordOptions::new(scratch.path().join("recording"))
    };
    let rows = recorded(&system, options);
    let ended = shell.wait().unwrap();
    let Some(rows) = rows else { return };
    assert!(ended.success());
    assert_eq!((rows.count(&["write"], "data"), rows.count(&["fsync"], "data")), (3, 1));
    // The recorded command is another process.
    assert_eq!(rows.count(&["openat"], "other"), 0);
    // dd also writes to standard error, which can be a file.
    let is_data = |call: &&Call| rows.file(call).is_some_and(|(name, _)| name == "data");
    let writes = rows.calls.iter().filter(|call| call.name == "write").filter(is_data);
    let offsets: Vec<Option<u64>> = writes.map(|call| call.offset).collect();
    assert_eq!(offsets, [Some(0), Some(4096), Some(8192)]);
}

#[test]
fn a_process_that_does_not_exist_is_an_error() {
    if !has(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = RecordOptions {
        calls_of: vec![u32::MAX >> 1],
        ..RecordOptions::new(scratch.path().join("recording"))
    };
    match record(&options, &mut |_| {}) {
        Err(RecordError::NoProcess { pid }) => assert_eq!(pid, u32::MAX >> 1),
        Err(RecordError::NoTracefs | RecordError::NoBlockEvents | RecordError::Lockdown { .. }) => {
            skip(Need::Tracefs, "this kernel does not trace");
        }
        other => panic!("{other:?}"),
    }
}
