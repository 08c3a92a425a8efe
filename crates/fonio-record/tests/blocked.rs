//! Records which threads are blocked on a file system on a loop device.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::loop_ext4;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use fonio_core::meta::Meta;
use fonio_core::{
    BlockedCount, BlockedIn, Diagnostic, File, Request, RowSink, Thread, Timestamp, Wait, WaitReason,
    ignore_rows,
};
use fonio_record::{BlockedBy, Progress, RecordOptions, Selector, record};
use fonio_recording::{Recording, Tables};
use fonio_testing::{Need, skip};
use loop_ext4::{FileSystem, recording};

/// The rows that the tests look at.
#[derive(Default)]
struct Rows {
    meta: Meta,
    command_pid: u32,
    requests: HashMap<u64, Request>,
    files: HashMap<u32, File>,
    threads: HashMap<u32, Thread>,
    waits: Vec<Wait>,
    counts: Vec<BlockedCount>,
    diagnostics: Vec<Diagnostic>,
}

impl RowSink for Rows {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.requests.insert(row.request_id, row.clone());
        Ok(())
    }
    fn file(&mut self, row: &File) -> io::Result<()> {
        self.files.insert(row.file_id, row.clone());
        Ok(())
    }
    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        self.threads.insert(row.tid, row.clone());
        Ok(())
    }
    fn wait(&mut self, row: &Wait) -> io::Result<()> {
        self.waits.push(row.clone());
        Ok(())
    }
    fn blocked_count(&mut self, row: &BlockedCount) -> io::Result<()> {
        self.counts.push(*row);
        Ok(())
    }
    fn diagnostic(&mut self, row: &Diagnostic) -> io::Result<()> {
        self.diagnostics.push(row.clone());
        Ok(())
    }
    ignore_rows!(began, bio, link, call, statement, sample, mark, settled);
}

impl Rows {
    fn comm(&self, tid: u32) -> &str {
        self.threads.get(&tid).and_then(|thread| thread.comm.as_deref()).unwrap_or("")
    }

    fn path(&self, row: &Wait) -> &str {
        row.file_id.and_then(|id| self.files.get(&id)?.path.as_deref()).unwrap_or("")
    }
}

/// Records a shell script that runs in the file system; `None` with a report if this machine cannot.
fn recorded(system: &FileSystem, script: &str, options: RecordOptions) -> Option<Rows> {
    let script = format!("cd {} && {script}", system.dir.path().display());
    let options = RecordOptions {
        select: vec![Selector::Device(system.device.clone().into())],
        command: Some(["sh", "-c", &script].map(Into::into).to_vec()),
        ..options
    };
    let mut rows = Rows::default();
    let recording = recording(&options, &mut |progress| {
        if let Progress::CommandStarted { pid } = progress {
            rows.command_pid = pid;
        }
    })?;
    rows.meta = recording.meta().clone();
    recording.replay(&mut rows, Tables::ALL).unwrap();
    if let Some(found) = rows.diagnostics.iter().find(|found| found.code == "no-blocked-waits") {
        skip(Need::Bpf, found.message.clone());
        return None;
    }
    Some(rows)
}

/// Writes a file while the file system is frozen, then calls fsync 50 times.
const SCRIPT: &str = "exec 3>>data; echo 0 >&3; fsfreeze -f .; (sleep 0.3; fsfreeze -u .) & echo 1 >&3; \
    i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo $i >&3; sync data; done; wait";

#[test]
fn waits_have_their_operation_file_and_waker() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let options = RecordOptions::new(scratch.path().join("recording"));
    let Some(rows) = recorded(&system, SCRIPT, options) else { return };

    // The shell was blocked in write(2) by the lock of the frozen file system, until fsfreeze released it.
    let by_lock = |row: &&Wait| row.reason == WaitReason::Lock && row.blocked_in == Some(BlockedIn::Write);
    let of_shell: Vec<&Wait> =
        rows.waits.iter().filter(|row| row.tid == rows.command_pid).filter(by_lock).collect();
    let [frozen] = of_shell[..] else { panic!("{of_shell:?}") };
    assert_eq!(Path::new(rows.path(frozen)), system.dir.path().join("data"));
    let file = &rows.files[&frozen.file_id.unwrap()];
    assert_eq!(file.device.unwrap().to_string(), rows.meta.devices[0].id.to_string());
    assert_eq!(frozen.waker_tid.map(|tid| rows.comm(tid)), Some("fsfreeze"), "{frozen:?}");
    assert!(frozen.ended.is_some() && frozen.began > rows.meta.began.unwrap());
    assert_eq!(rows.threads[&rows.command_pid].pid, Some(rows.command_pid));

    // Each process `sync` waited for the disk or the journal; most of these waits are short.
    let is_sync = |tid: u32| rows.comm(tid) == "sync";
    let in_fsync = Some(BlockedIn::Fsync);
    let long: Vec<&Wait> =
        rows.waits.iter().filter(|row| row.blocked_in == in_fsync && is_sync(row.tid)).collect();
    let short: Vec<&BlockedCount> =
        rows.counts.iter().filter(|row| row.blocked_in == BlockedIn::Fsync && is_sync(row.tid)).collect();
    let mut threads: Vec<u32> = long.iter().map(|row| row.tid).collect();
    threads.extend(short.iter().map(|row| row.tid));
    threads.sort_unstable();
    threads.dedup();
    // The recording has every thread of the machine, so other programs can call `sync` meanwhile.
    assert!(threads.len() >= 50, "{}", threads.len());
    for row in &long {
        assert!(row.file_id.is_some(), "{row:?}");
    }
    for row in &short {
        assert!(row.total.0 < row.count * row.below.0 && row.from < row.until, "{row:?}");
    }
    // A wait that a completion ended names a request that completed before the end of the wait.
    for (row, request) in
        rows.waits.iter().filter_map(|row| Some((row, rows.requests.get(&row.request_id?)?)))
    {
        assert!(request.completed.unwrap() <= row.ended.unwrap(), "{row:?} {request:?}");
    }
}

#[test]
fn without_the_option_there_are_no_waits() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let options =
        RecordOptions { blocked: BlockedBy::No, ..RecordOptions::new(scratch.path().join("recording")) };
    let Some(rows) = recorded(&system, "echo 1 > data; sync data", options) else { return };
    assert_eq!((rows.waits.len(), rows.counts.len()), (0, 0));
}

#[test]
fn a_launch_has_only_the_waits_of_its_threads() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let options = RecordOptions { waits: true, ..RecordOptions::new(scratch.path().join("recording")) };
    let Some(rows) = recorded(&system, "echo 1 > data; sync data", options) else { return };
    assert!(!rows.waits.is_empty() && rows.waits.iter().all(|row| row.blocked_in.is_none()));
    assert_eq!(rows.counts.len(), 0);
}

/// How long each thread of the program `sync` was blocked in fsync, in all its waits.
fn in_fsync_ns(rows: &Rows) -> HashMap<u32, u64> {
    let mut sums = HashMap::new();
    for row in rows.waits.iter().filter(|row| row.blocked_in == Some(BlockedIn::Fsync)) {
        *sums.entry(row.tid).or_default() += row.ended.map_or(0, |ended| ended.0 - row.began.0);
    }
    for row in rows.counts.iter().filter(|row| row.blocked_in == BlockedIn::Fsync) {
        *sums.entry(row.tid).or_default() += row.total.0;
    }
    sums.retain(|tid, _| rows.comm(*tid) == "sync");
    sums
}

#[test]
fn without_bpf_threads_are_seen_to_be_blocked_for_as_long() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    // Both at once: the load is the same. `fsfreeze` blocks the shell in write(2) for 0.3 s.
    let other = scratch.path().join("bpf");
    let (began, at_once) = std::sync::mpsc::channel();
    let device = system.device.clone();
    let by_bpf = std::thread::spawn(move || {
        let options = RecordOptions {
            select: vec![Selector::Device(device.into())],
            duration: Some(Duration::from_secs(3)),
            ..RecordOptions::new(&other)
        };
        record(&options, &mut |progress| {
            if matches!(progress, Progress::Started { .. }) {
                began.send(()).unwrap();
            }
        })
        .map(|_| other)
    });
    let _ = at_once.recv();
    std::thread::sleep(Duration::from_millis(300));
    let options =
        RecordOptions { blocked: BlockedBy::Tracefs, ..RecordOptions::new(scratch.path().join("recording")) };
    let Some(rows) = recorded(&system, SCRIPT, options) else { return };
    let by_bpf = by_bpf.join().unwrap().unwrap();

    assert_eq!(rows.meta.source.shows.iter().filter(|shows| shows.starts_with("blocked")).count(), 2);
    assert!(rows.diagnostics.iter().any(|found| found.code == "waits-without-bpf"), "{:?}", rows.diagnostics);
    let has_stacks = !rows.diagnostics.iter().any(|found| found.code.starts_with("no-s"));
    if !has_stacks {
        skip(Need::Tracefs, "this kernel takes no stacks, or hides its symbols");
        return;
    }
    let by_lock = |row: &&Wait| row.reason == WaitReason::Lock && row.blocked_in == Some(BlockedIn::Write);
    let of_shell: Vec<&Wait> =
        rows.waits.iter().filter(|row| row.tid == rows.command_pid).filter(by_lock).collect();
    let [frozen] = of_shell[..] else { panic!("{of_shell:?}") };
    assert_eq!(frozen.waker_tid.map(|tid| rows.comm(tid)), Some("fsfreeze"), "{frozen:?}");
    for row in &rows.counts {
        assert!(row.total.0 < row.count * row.below.0 && row.from < row.until, "{row:?}");
    }

    let recording = Recording::open(&by_bpf).unwrap();
    let mut bpf = Rows { meta: recording.meta().clone(), ..Rows::default() };
    recording.replay(&mut bpf, Tables::ALL).unwrap();
    if let Some(found) = bpf.diagnostics.iter().find(|found| found.code.starts_with("no-")) {
        skip(Need::Bpf, found.message.clone());
        return;
    }
    // The clock and the tracepoints are the same. A virtual machine can stop between the two, but not for long.
    let other = bpf.waits.iter().filter(|row| row.tid == rows.command_pid).find(by_lock).unwrap();
    let differs = |a: Timestamp, b: Timestamp| a.0.abs_diff(b.0) > 50_000_000;
    assert!(!differs(frozen.began, other.began), "{frozen:?} {other:?}");
    assert!(!differs(frozen.ended.unwrap(), other.ended.unwrap()), "{frozen:?} {other:?}");
    // Other tests call `sync` too, before or after one of the recordings. The shell does it 50 times.
    let (traced, by_bpf) = (in_fsync_ns(&rows), in_fsync_ns(&bpf));
    let both: Vec<(u64, u64)> =
        traced.iter().filter_map(|(tid, ns)| Some((*ns, *by_bpf.get(tid)?))).collect();
    assert!(both.len() >= 50, "{}", both.len());
    let sum = |of: fn(&(u64, u64)) -> u64| both.iter().map(of).sum::<u64>();
    let (traced_ns, bpf_ns) = (sum(|both| both.0), sum(|both| both.1));
    assert!(traced_ns > 0 && traced_ns.abs_diff(bpf_ns) < bpf_ns / 2, "{traced_ns} {bpf_ns}");
}
