//! Records blocked threads on a file system on a loop device.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::loop_ext4;

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use fonio_core::{BlockedCount, BlockedIn, Request, Timestamp, Wait, WaitReason};
use fonio_record::{BlockedBy, Progress, RecordOptions, Selector, record};
use fonio_testing::{Need, skip};
use loop_ext4::{FileSystem, Recorded, options_of};

/// Records a shell script that runs in the test's file system. Returns `None` if the test was skipped.
fn recorded(
    system: &FileSystem,
    script: &str,
    scratch: &Path,
    change: impl Fn(&mut RecordOptions),
) -> Option<Recorded> {
    let script = format!("cd {} && {script}", system.dir.path().display());
    let mut options = options_of(system, scratch, &["sh", "-c", &script]);
    change(&mut options);
    Recorded::record(&options, "no-blocked-waits")
}

/// Writes a file while the file system is frozen, then calls fsync 50 times.
const SCRIPT: &str = "exec 3>>data; echo 0 >&3; fsfreeze -f .; (sleep 0.3; fsfreeze -u .) & echo 1 >&3; \
    i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo $i >&3; sync data; done; wait";

#[test]
fn waits_have_their_operation_file_and_waker() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let Some(rows) = recorded(&system, SCRIPT, scratch.path(), |_| {}) else { return };

    // The lock of the frozen file system blocked the shell in write(2) until fsfreeze released it.
    let by_lock = |row: &&Wait| row.reason == WaitReason::Lock && row.blocked_in == Some(BlockedIn::Write);
    let of_shell: Vec<&Wait> =
        rows.waits.iter().filter(|row| row.tid == rows.command_pid).filter(by_lock).collect();
    let [frozen] = of_shell[..] else { panic!("{of_shell:?}") };
    assert_eq!(Path::new(rows.path(frozen.file_id)), system.dir.path().join("data"));
    let file = rows.files.iter().find(|file| Some(file.file_id) == frozen.file_id).unwrap();
    assert_eq!(file.device.unwrap().to_string(), rows.meta.devices[0].id.to_string());
    assert_eq!(frozen.waker_tid.map(|tid| rows.comm(tid)), Some("fsfreeze"), "{frozen:?}");
    assert!(frozen.ended.is_some() && frozen.began > rows.meta.began.unwrap());
    let shell = rows.threads.iter().rfind(|thread| thread.tid == rows.command_pid).unwrap();
    assert_eq!(shell.pid, Some(rows.command_pid));

    // Each `sync` process waited for the disk or the journal, usually for a short time.
    let is_sync = |tid: u32| rows.comm(tid) == "sync";
    let in_fsync = Some(BlockedIn::Fsync);
    let long: Vec<&Wait> =
        rows.waits.iter().filter(|row| row.blocked_in == in_fsync && is_sync(row.tid)).collect();
    let short: Vec<&BlockedCount> = rows
        .blocked_counts
        .iter()
        .filter(|row| row.blocked_in == BlockedIn::Fsync && is_sync(row.tid))
        .collect();
    let mut threads: Vec<u32> = long.iter().map(|row| row.tid).collect();
    threads.extend(short.iter().map(|row| row.tid));
    threads.sort_unstable();
    threads.dedup();
    // The recording contains every thread of the machine, so it may contain `sync` calls of other programs.
    assert!(threads.len() >= 50, "{}", threads.len());
    for row in &long {
        assert!(row.file_id.is_some(), "{row:?}");
    }
    for row in &short {
        assert!(row.total.0 < row.count * row.below.0 && row.from < row.until, "{row:?}");
    }
    // If a completion ended a wait, the wait names a request that completed before the end of the wait.
    let requests: HashMap<u64, &Request> = rows.requests.iter().map(|row| (row.request_id, row)).collect();
    for (row, request) in rows.waits.iter().filter_map(|row| Some((row, requests.get(&row.request_id?)?))) {
        assert!(request.completed.unwrap() <= row.ended.unwrap(), "{row:?} {request:?}");
    }
}

#[test]
fn without_the_option_there_are_no_waits() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let change = |options: &mut RecordOptions| options.blocked = BlockedBy::No;
    let Some(rows) = recorded(&system, "echo 1 > data; sync data", scratch.path(), change) else { return };
    assert_eq!((rows.waits.len(), rows.blocked_counts.len()), (0, 0));
}

#[test]
fn a_launch_has_only_the_waits_of_its_threads() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let change = |options: &mut RecordOptions| options.waits = true;
    let Some(rows) = recorded(&system, "echo 1 > data; sync data", scratch.path(), change) else { return };
    assert!(!rows.waits.is_empty() && rows.waits.iter().all(|row| row.blocked_in.is_none()));
    assert_eq!(rows.blocked_counts.len(), 0);
}

/// Returns the total time that each thread of the program `sync` was blocked in fsync.
fn in_fsync_ns(rows: &Recorded) -> HashMap<u32, u64> {
    let mut sums = HashMap::new();
    for row in rows.waits.iter().filter(|row| row.blocked_in == Some(BlockedIn::Fsync)) {
        *sums.entry(row.tid).or_default() += row.ended.map_or(0, |ended| ended.0 - row.began.0);
    }
    for row in rows.blocked_counts.iter().filter(|row| row.blocked_in == BlockedIn::Fsync) {
        *sums.entry(row.tid).or_default() += row.total.0;
    }
    sums.retain(|tid, _| rows.comm(*tid) == "sync");
    sums
}

#[test]
fn without_bpf_threads_are_seen_to_be_blocked_for_as_long() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    // The recorders with and without BPF record the same load. `fsfreeze` blocks the shell in write(2) for
    // 0.3 s.
    let other = scratch.path().join("bpf");
    let (began, at_once) = std::sync::mpsc::channel();
    let device = system.device.0.clone();
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
    let change = |options: &mut RecordOptions| options.blocked = BlockedBy::Tracefs;
    let Some(rows) = recorded(&system, SCRIPT, scratch.path(), change) else { return };
    let by_bpf = by_bpf.join().unwrap().unwrap();

    assert_eq!(rows.meta.source.shows.iter().filter(|shows| shows.starts_with("blocked")).count(), 2);
    assert!(rows.diagnostics.iter().any(|found| found.code == "waits-without-bpf"), "{:?}", rows.diagnostics);
    let has_stacks = !rows.diagnostics.iter().any(|found| found.code.starts_with("no-s"));
    if !has_stacks {
        skip(Need::Tracefs, "this kernel cannot record stacks, or hides its symbols");
        return;
    }
    let by_lock = |row: &&Wait| row.reason == WaitReason::Lock && row.blocked_in == Some(BlockedIn::Write);
    let of_shell: Vec<&Wait> =
        rows.waits.iter().filter(|row| row.tid == rows.command_pid).filter(by_lock).collect();
    let [frozen] = of_shell[..] else { panic!("{of_shell:?}") };
    assert_eq!(frozen.waker_tid.map(|tid| rows.comm(tid)), Some("fsfreeze"), "{frozen:?}");
    for row in &rows.blocked_counts {
        assert!(row.total.0 < row.count * row.below.0 && row.from < row.until, "{row:?}");
    }

    let bpf = Recorded::read(&by_bpf);
    if let Some(found) = bpf.diagnostics.iter().find(|found| found.code.starts_with("no-")) {
        skip(Need::Bpf, found.message.clone());
        return;
    }
    // Both recorders use the same clock and tracepoints. A pause of the virtual machine can make their
    // timestamps differ, but only slightly.
    let other = bpf.waits.iter().filter(|row| row.tid == rows.command_pid).find(by_lock).unwrap();
    let differs = |a: Timestamp, b: Timestamp| a.0.abs_diff(b.0) > 50_000_000;
    assert!(!differs(frozen.began, other.began), "{frozen:?} {other:?}");
    assert!(!differs(frozen.ended.unwrap(), other.ended.unwrap()), "{frozen:?} {other:?}");
    // Other tests also call `sync`, before or after one of the recordings. The shell calls `sync` 50 times.
    let (traced, by_bpf) = (in_fsync_ns(&rows), in_fsync_ns(&bpf));
    let both: Vec<(u64, u64)> =
        traced.iter().filter_map(|(tid, ns)| Some((*ns, *by_bpf.get(tid)?))).collect();
    assert!(both.len() >= 50, "{}", both.len());
    let sum = |of: fn(&(u64, u64)) -> u64| both.iter().map(of).sum::<u64>();
    let (traced_ns, bpf_ns) = (sum(|both| both.0), sum(|both| both.1));
    assert!(traced_ns > 0 && traced_ns.abs_diff(bpf_ns) < bpf_ns / 2, "{traced_ns} {bpf_ns}");
}
