//! Captures real I/O on this machine.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::loop_ext4;

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fonio_core::meta::Meta;
use fonio_core::{ByteCount, CollectedRows, Mark, Metric, Op, Request, Timestamp, Wait, WaitReason};
use fonio_record::{
    BlockedBy, CommandSetting, Quiet, RecordError, RecordOptions, RecordSummary, Selector, StopReason,
    record, record_with,
};
use fonio_testing::{Need, skip, skip_without};
use loop_ext4::{FileSystem, LoopDevice, Recorded};
use rustix::process::{Pid, Signal, kill_process};

fn read(dir: &Path) -> (Meta, CollectedRows) {
    let read = Recorded::read(dir);
    (read.meta, read.rows)
}

/// Creates a directory on a real disk, if the build directory is on a real disk.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn words(words: &[&str]) -> Option<Vec<OsString>> {
    Some(words.iter().map(OsString::from).collect())
}

/// Creates a recording, or skips the test with a reason.
#[track_caller]
fn try_record(options: &RecordOptions) -> Option<RecordSummary> {
    checked(record(options, &mut |_| {}))
}

#[track_caller]
fn checked(outcome: Result<RecordSummary, RecordError>) -> Option<RecordSummary> {
    match outcome {
        Ok(summary) => Some(summary),
        Err(error) => match lacking(&error) {
            Some(need) => {
                skip(need, error);
                None
            }
            None => panic!("{error}"),
        },
    }
}

/// Returns the requirement that is missing according to the error. Any other error is a failure of the
/// recorder.
fn lacking(error: &RecordError) -> Option<Need> {
    match error {
        RecordError::NotRoot => Some(Need::Root),
        RecordError::NoDeviceBelow { .. } => Some(Need::Disk),
        RecordError::NoTracefs
        | RecordError::Mount { .. }
        | RecordError::Lockdown { .. }
        | RecordError::ReadOnly { .. }
        | RecordError::NoBlockEvents
        | RecordError::NoInstances
        | RecordError::NoMonotonicClock => Some(Need::Tracefs),
        _ => None,
    }
}

/// Returns the names of the tracefs instances. The private mount of a recorder is not visible in this
/// process, so this function mounts tracefs itself.
fn instances() -> Vec<String> {
    let mount = tempfile::tempdir().unwrap();
    let flags = rustix::mount::MountFlags::empty();
    if rustix::mount::mount("nodev", mount.path(), "tracefs", flags, None).is_err() {
        return Vec::new();
    }
    let names = fs::read_dir(mount.path().join("instances"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    rustix::mount::unmount(mount.path(), rustix::mount::UnmountFlags::empty()).unwrap();
    names
}

/// If the command only wakes a prepared process that does the work, the processes of the command itself are
/// not recorded.
#[test]
fn a_command_that_stands_for_another() {
    let dir = scratch();
    for (told_command, is_own) in [(None, true), (Some(vec!["the whole run".to_owned()]), false)] {
        let out = dir.path().join(format!("own-{is_own}"));
        let options = RecordOptions {
            select: vec![Selector::Path(dir.path().to_owned())],
            command: words(&["true"]),
            told_command: told_command.clone(),
            ..RecordOptions::new(&out)
        };
        if try_record(&options).is_none() {
            return;
        }
        let (meta, _) = read(&out);
        assert_eq!(meta.command_pid.is_some(), is_own);
        assert_eq!(meta.command, Some(told_command.unwrap_or_else(|| vec!["true".to_owned()])));
    }
}

#[test]
fn a_command_and_its_writes() {
    let dir = scratch();
    let file = dir.path().join("written");
    let out = dir.path().join("recording");
    // After its last write, dd waits for the end of its input, so that the recorder can look dd up in /proc.
    let script = format!(
        "(head -c 4194304 /dev/zero; sleep 0.5) | dd of={} bs=64k iflag=fullblock oflag=sync 2>/dev/null; exit 7",
        file.display()
    );
    let options = RecordOptions {
        select: vec![Selector::Path(dir.path().to_owned())],
        command: words(&["sh", "-c", &script]),
        sample_interval: Some(Duration::from_millis(20)),
        ..RecordOptions::new(&out)
    };
    let Some(summary) = try_record(&options) else { return };
    assert_eq!(summary.stopped_by, StopReason::CommandEnded);
    assert_eq!(summary.command_exit, Some(7));
    assert_eq!(summary.lost.events, 0);

    let (meta, rows) = read(&out);
    assert_eq!(meta.source.format, "tracefs");
    assert_eq!(meta.clock.name, "mono");
    assert!(meta.clock.unix_ns_at_zero.is_some());
    assert_eq!(meta.command_exit, Some(7));
    assert_eq!(meta.command.unwrap()[0], "sh");
    assert_eq!((meta.began, meta.ended), (Some(summary.began), Some(summary.ended)));
    assert!(meta.host.kernel.is_some() && meta.host.processors.is_some());
    assert!(!meta.devices.is_empty());
    let disk = &meta.devices[0];
    assert!(disk.name.is_some() && disk.size_bytes.is_some() && disk.scheduler.is_some());

    // With oflag=sync, dd ends only after all its writes have completed.
    let written: Vec<&Request> =
        rows.requests.iter().filter(|r| r.op == Op::Write && r.completed.is_some()).collect();
    assert!(written.iter().map(|r| r.bytes.0).sum::<u64>() >= 64 * 64 * 1024);
    for request in &written {
        assert!(meta.devices.iter().any(|device| device.id == request.device));
        let issued = request.issued.unwrap();
        assert!(request.completed.unwrap() >= issued && issued >= summary.began);
    }
    assert!(written.iter().any(|r| r.queued.is_some() && r.tid.is_some()));
    let mark = rows.marks.iter().find(|mark| mark.name == "command").unwrap();
    assert!(mark.at >= summary.began && mark.until.unwrap() <= summary.ended);
    for metric in [Metric::CpuActiveTicks, Metric::MemoryAvailableBytes, Metric::DiskWriteBytes] {
        assert!(rows.samples.iter().any(|sample| sample.metric == metric), "{metric:?}");
    }
    assert!(rows.threads.iter().any(|thread| thread.comm.is_some()));
    assert!(rows.threads.iter().any(|thread| thread.pid.is_some() && thread.uid.is_some()));
}

#[test]
fn io_on_a_loop_device_is_counted_once() {
    let dir = scratch();
    let image = dir.path().join("image");
    fs::write(&image, vec![0; 1 << 20]).unwrap();
    let Some(device) = LoopDevice::over(&image, &["--direct-io=on"]) else { return };
    let script = format!("dd if=/dev/zero of={} bs=64k count=8 oflag=direct 2>/dev/null", device.0);
    let run = |out: &str, select| {
        let command = words(&["sh", "-c", &script]);
        let options = RecordOptions { select, command, ..RecordOptions::new(dir.path().join(out)) };
        try_record(&options)?;
        let (meta, rows) = read(&options.out);
        let on = |named: bool| {
            let is_it = |id| {
                meta.devices.iter().any(|d| d.id == id && d.name.as_deref() == device.0.strip_prefix("/dev/"))
            };
            rows.requests.iter().filter(|row| row.op == Op::Write && is_it(row.device) == named).count()
        };
        Some((on(true), on(false)))
    };
    let Some((on_loop, _)) = run("all", vec![]) else { return };
    assert_eq!(on_loop, 0, "requests were recorded on the loop device");
    let Some((on_loop, elsewhere)) = run("one", vec![Selector::Device(device.0.clone().into())]) else {
        return;
    };
    assert!(on_loop >= 8);
    assert_eq!(elsewhere, 0);
}

#[test]
fn rows_of_the_caller_are_recorded() {
    let dir = scratch();
    let options = RecordOptions {
        duration: Some(Duration::from_millis(200)),
        ..RecordOptions::new(dir.path().join("recording"))
    };
    let mark = Mark { at: Timestamp(5), until: Some(Timestamp(9)), name: "phase".to_owned(), tid: None };
    if checked(record_with(&options, &mut |sink| sink.mark(&mark), &mut |_| {})).is_some() {
        assert_eq!(read(&options.out).1.marks, [mark]);
    }
}

/// Records the waits of all threads of a shell script, and its span.
fn waits_of(script: &str, until_idle: Option<Quiet>) -> Option<(RecordSummary, CollectedRows, Mark)> {
    let dir = scratch();
    let out = dir.path().join("recording");
    let options = RecordOptions {
        select: vec![Selector::Path(dir.path().to_owned())],
        command: words(&["sh", "-c", script]),
        setting: CommandSetting { own_group: true, dir: Some(dir.path().to_owned()), ..Default::default() },
        waits: true,
        until_idle,
        ..RecordOptions::new(&out)
    };
    let summary = try_record(&options)?;
    let (_, rows) = read(&out);
    let launch = rows.marks.iter().find(|mark| mark.name == "launch").unwrap().clone();
    Some((summary, rows, launch))
}

/// Returns the total time in seconds for which all threads together waited for the given reason.
fn waited_s(rows: &CollectedRows, reason: WaitReason) -> f64 {
    let waits = rows.waits.iter().filter(|wait| wait.reason == reason);
    waits.map(|wait| wait.ended.map_or(0, |ended| ended.0 - wait.began.0)).sum::<u64>() as f64 / 1e9
}

#[test]
fn why_threads_wait() {
    // Each script makes a thread wait at least 0.3 s for the reason.
    for (script, reason) in [
        ("exec sleep 0.3", WaitReason::Timer),
        ("sleep 0.3; true", WaitReason::Thread),
        ("sleep 0.3 | cat", WaitReason::Thread),
        ("head -c 300000 /dev/urandom > file; sync file; sleep 0.3", WaitReason::Timer),
    ] {
        let Some((summary, rows, launch)) = waits_of(script, None) else { return };
        assert_eq!(summary.command_exit, Some(0), "{script}");
        assert!(waited_s(&rows, reason) >= 0.29, "{script}: {:?}", rows.waits);
        let span = launch.until.unwrap().0 - launch.at.0;
        assert!(span >= 290_000_000 && launch.at >= summary.began, "{script}");
        // The waits of the command's first thread begin when the thread is created.
        let first = rows.waits.iter().find(|wait| Some(wait.tid) == launch.tid).unwrap();
        assert_eq!((first.began, first.reason), (launch.at, WaitReason::Cpu), "{script}");
    }
}

#[test]
fn a_wait_for_storage_names_its_request() {
    // A fast disk may complete a write before the writing thread sleeps, so some writes cause no wait.
    let script = "dd if=/dev/zero of=file bs=64k count=512 oflag=direct 2>/dev/null";
    let Some((summary, rows, _)) = waits_of(script, None) else { return };
    let storage: Vec<&Wait> = rows.waits.iter().filter(|wait| wait.reason == WaitReason::Storage).collect();
    let (waits, all, lost) = (storage.len(), rows.waits.len(), &summary.lost);
    assert!(
        waits >= 10,
        "only {waits} of {all} waits are for storage; {} requests, {lost:?} lost",
        rows.requests.len()
    );
    let named: Vec<u64> = storage.iter().filter_map(|wait| wait.request_id).collect();
    assert!(named.len() >= storage.len() / 2, "{} of {} waits name a request", named.len(), storage.len());
    for wait in storage.iter().filter(|wait| wait.request_id.is_some()) {
        let request =
            rows.requests.iter().find(|request| Some(request.request_id) == wait.request_id).unwrap();
        assert!(request.completed <= wait.ended);
    }
}

#[test]
fn a_command_that_becomes_quiet_is_ended() {
    let quiet = Quiet { below_share: 0.2, lasting: Duration::from_millis(300) };
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 1000 & sleep 1000";
    let Some((summary, rows, launch)) = waits_of(script, Some(quiet)) else { return };
    assert_eq!(summary.stopped_by, StopReason::Idle);
    let until = launch.until.unwrap();
    assert!(until < summary.ended && until.0 - launch.at.0 < 100_000_000_000);
    let alive = |tid: u32| {
        let command = fs::read_to_string(format!("/proc/{tid}/cmdline")).unwrap_or_default();
        command.contains("1000")
    };
    assert!(!rows.waits.iter().any(|wait| alive(wait.tid)), "a child of the command still runs");
}

#[test]
fn a_duration_ends_it() {
    let dir = scratch();
    let options = RecordOptions {
        duration: Some(Duration::from_millis(300)),
        ..RecordOptions::new(dir.path().join("recording"))
    };
    let Some(summary) = try_record(&options) else { return };
    assert_eq!(summary.stopped_by, StopReason::Duration);
    assert!(summary.ended.since(summary.began).unwrap().0 >= 300_000_000);
    read(&summary.out);
    let again = record(&options, &mut |_| {});
    assert!(matches!(again, Err(RecordError::Recording(_))), "{again:?}");
    assert!(record(&RecordOptions { overwrite: true, ..options }, &mut |_| {}).is_ok());
}

/// Creates a file, and a shell script that reads the file `times` times in 4 KiB reads, which bypass the page
/// cache. Returns the script and the number of reads.
fn reads(dir: &Path, mib: usize, times: usize) -> (String, u64) {
    let file = dir.join("data");
    fs::write(&file, vec![1; mib << 20]).unwrap();
    let one = format!("dd if={} of=/dev/null bs=4k iflag=direct 2>/dev/null || exit 9", file.display());
    (format!("sync {}; {}", file.display(), [&*one].repeat(times).join("; ")), (mib * times * 256) as u64)
}

/// Returns the number of the script's reads whose completion was captured.
fn completed_reads(rows: &CollectedRows) -> u64 {
    let reads = rows.requests.iter().filter(|r| r.op == Op::Read && r.bytes.0 == 4096);
    reads.filter(|read| read.completed.is_some()).count() as u64
}

/// Checks that each lost event has a processor and a time, that the counts add up, and that the recording
/// agrees with the summary.
fn loss_is_counted_and_placed(summary: &RecordSummary, meta: &Meta) {
    let lost = &summary.lost;
    assert_eq!(meta.lost, *lost);
    assert_eq!(lost.total(), Some(lost.events), "the kernel here counts");
    for gap in &lost.gaps {
        assert!(
            gap.after <= gap.before && gap.before <= summary.ended && gap.after >= summary.began,
            "{gap:?}"
        );
        assert!(gap.cpu.is_some(), "{gap:?}");
    }
    // If the number of lost events does not fit into the page, only the statistics contain it.
    let placed = lost.gaps.iter().filter_map(|gap| gap.count).sum::<u64>();
    let unnumbered = lost.gaps.iter().any(|gap| gap.count.is_none());
    if lost.gaps_beyond == 0 {
        assert!(placed == lost.events || unnumbered && placed < lost.events, "{placed} of {}", lost.events);
    }
}

#[test]
fn a_small_kernel_buffer_loses_events_and_counts_them() {
    let dir = scratch();
    let (script, expected) = reads(dir.path(), 1, 4);
    let options = RecordOptions {
        select: vec![Selector::Path(dir.path().to_owned())],
        command: words(&["sh", "-c", &script]),
        kernel_buffer_per_cpu: Some(ByteCount(8 << 10)),
        ..RecordOptions::new(dir.path().join("recording"))
    };
    let Some(summary) = try_record(&options) else { return };
    assert_eq!(summary.command_exit, Some(0));
    let (meta, rows) = read(&summary.out);
    loss_is_counted_and_placed(&summary, &meta);
    // Each read causes at least an issue event and a completion event.
    let missing = expected.saturating_sub(completed_reads(&rows));
    assert!(summary.lost.events >= missing, "{missing} reads are missing, {:?}", summary.lost);
    assert_eq!(
        summary.notes.iter().any(|note| note.contains("were lost because the kernel's buffer")),
        summary.lost.events > 0,
        "{:?}",
        summary.notes
    );
}

#[test]
fn a_full_buffer_ends_it_and_what_came_later_is_counted() {
    let dir = scratch();
    // Use a separate device, because I/O of other programs would fill the buffer before the command begins.
    let Some(system) = FileSystem::ext4(&dir.path().join("image")) else { return };
    let (script, expected) = reads(system.dir.path(), 4, 6);
    let full = RecordOptions {
        select: vec![Selector::Device(system.device.0.clone().into())],
        command: words(&["sh", "-c", &format!("{script}; exit 3")]),
        buffer: ByteCount(256 << 10),
        ..RecordOptions::new(dir.path().join("full"))
    };
    let Some(summary) = try_record(&full) else { return };
    assert_eq!(summary.stopped_by, StopReason::BufferFull);
    // After the buffer became full, the command ran to completion.
    assert_eq!(summary.command_exit, Some(3));
    let (meta, rows) = read(&summary.out);
    loss_is_counted_and_placed(&summary, &meta);
    assert!(summary.lost.events > 0);
    // After a certain time, no events of any processor were kept, so a request in flight at that time has no
    // completion.
    let end = summary
        .lost
        .gaps
        .iter()
        .filter(|gap| gap.before == summary.ended)
        .map(|gap| gap.after)
        .min()
        .unwrap();
    assert!(!rows.requests.is_empty());
    for request in &rows.requests {
        assert!(request.order_time() <= end && request.completed.is_none_or(|at| at <= end), "{request:?}");
    }
    assert!(completed_reads(&rows) < expected, "all reads fitted in the small buffer");
    assert!(summary.notes.iter().any(|note| note.contains("memory was full")), "{:?}", summary.notes);
}

#[test]
fn a_spill_file_takes_what_memory_does_not() {
    let dir = scratch();
    let (script, expected) = reads(dir.path(), 4, 6);
    // The buffer has room for two wake-ups, but not for the whole trace.
    let spill = RecordOptions {
        command: words(&["sh", "-c", &script]),
        buffer: ByteCount(2 << 20),
        spill_to: Some(dir.path().to_owned()),
        kernel_buffer_per_cpu: Some(ByteCount(256 << 10)),
        ..RecordOptions::new(dir.path().join("spilled"))
    };
    let Some(summary) = try_record(&spill) else { return };
    assert_eq!(summary.stopped_by, StopReason::CommandEnded);
    let (meta, rows) = read(&summary.out);
    loss_is_counted_and_placed(&summary, &meta);
    let seen = completed_reads(&rows);
    assert!(seen + summary.lost.events >= expected, "{seen} reads, {:?} lost", summary.lost);
}

/// A mounted tmpfs. Dropping this value unmounts the tmpfs.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn of(bytes: u64) -> Option<Tmpfs> {
        let dir = tempfile::tempdir().unwrap();
        let size = std::ffi::CString::new(format!("size={bytes}")).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        match rustix::mount::mount("none", dir.path(), "tmpfs", flags, size.as_c_str()) {
            Ok(()) => Some(Tmpfs(dir)),
            Err(errno) => {
                skip(Need::Root, errno);
                None
            }
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_spill_file_that_fails_costs_no_event_that_memory_can_hold() {
    let dir = scratch();
    let Some(small) = Tmpfs::of(256 << 10) else { return };
    let (script, expected) = reads(dir.path(), 4, 6);
    let spill = RecordOptions {
        command: words(&["sh", "-c", &script]),
        buffer: ByteCount(2 << 20),
        spill_to: Some(small.0.path().to_owned()),
        out: dir.path().join("spilled"),
        ..RecordOptions::new("")
    };
    let Some(summary) = try_record(&spill) else { return };
    let (meta, rows) = read(&summary.out);
    loss_is_counted_and_placed(&summary, &meta);
    assert!(
        summary.notes.iter().any(|note| note.contains("spill file could not be written")),
        "{:?}",
        summary.notes
    );
    let seen = completed_reads(&rows);
    if summary.stopped_by == StopReason::CommandEnded {
        assert!(seen + summary.lost.events >= expected, "{seen} reads, {:?} lost", summary.lost);
    } else {
        assert_eq!(summary.stopped_by, StopReason::BufferFull);
        assert!(summary.lost.events > 0);
    }
}

#[test]
fn what_does_not_exist_is_named() {
    let dir = scratch();
    let out = dir.path().join("recording");
    let unknown =
        |select| record(&RecordOptions { select: vec![select], ..RecordOptions::new(&out) }, &mut |_| {});
    let error = unknown(Selector::Device("mmcblk99".into())).unwrap_err();
    let expected = "there is no block device \"mmcblk99\" here; this machine has: ";
    assert!(error.to_string().starts_with(expected), "{error}");
    let error = unknown(Selector::Path("/no/such/path".into())).unwrap_err();
    assert!(error.to_string().starts_with("/no/such/path cannot be looked up"));
    let error = unknown(Selector::Path("/proc".into())).unwrap_err();
    assert!(matches!(error, RecordError::NoDeviceBelow { ref fs, .. } if fs == "proc"), "{error}");
    let nothing = RecordOptions { command: Some(Vec::new()), ..RecordOptions::new(&out) };
    assert!(matches!(record(&nothing, &mut |_| {}), Err(RecordError::EmptyCommand)));
    let no_parent = RecordOptions::new("/no/such/directory/recording");
    assert!(matches!(record(&no_parent, &mut |_| {}), Err(RecordError::Write { .. })));
    assert!(!out.exists());
}

#[test]
fn a_command_that_does_not_exist_leaves_nothing() {
    let dir = scratch();
    let out = dir.path().join("recording");
    let options = RecordOptions { command: words(&["/no/such/program"]), ..RecordOptions::new(&out) };
    match record(&options, &mut |_| {}) {
        Err(RecordError::Command { program, .. }) => assert_eq!(program, "/no/such/program"),
        Err(error) => {
            checked(Err(error));
        }
        Ok(summary) => panic!("{summary:?}"),
    }
    assert!(!out.exists());
}

/// The function `as_a_process` is not a test, but the process to which the tests below send signals.
#[test]
fn as_a_process() {
    let Some(out) = std::env::var_os("FONIO_TEST_OUT") else { return };
    let command = std::env::var("FONIO_TEST_COMMAND").ok();
    let options = RecordOptions {
        command: command.as_deref().and_then(|script| words(&["sh", "-c", script])),
        blocked: std::env::var_os("FONIO_TEST_BY_TRACEFS").map_or(BlockedBy::Best, |_| BlockedBy::Tracefs),
        ..RecordOptions::new(out)
    };
    let result = record(&options, &mut |progress| {
        if let fonio_record::Progress::Running { .. } = progress {
            println!("running");
        }
    });
    match result {
        Ok(summary) => println!("ended {:?} {:?}", summary.stopped_by, summary.command_signal),
        Err(error) => match lacking(&error) {
            Some(need) => println!("lacks {} {error}", need.name()),
            None => println!("failed {error}"),
        },
    }
}

/// Makes [`as_a_process`] record waits without BPF.
const BY_TRACEFS: [(&str, &str); 1] = [("FONIO_TEST_BY_TRACEFS", "1")];

struct Recorder {
    child: Child,
    lines: io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Recorder {
    /// Starts a recorder in another process and waits until it runs.
    fn start(out: &Path, command: Option<&str>) -> Option<Recorder> {
        Recorder::start_with(out, command, &[])
    }

    /// Starts a recorder like [`start`](Self::start), with additional environment variables.
    fn start_with(out: &Path, command: Option<&str>, variables: &[(&str, &str)]) -> Option<Recorder> {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", "live::as_a_process", "--nocapture"]).env("FONIO_TEST_OUT", out);
        program.envs(variables.iter().copied());
        if let Some(command) = command {
            program.env("FONIO_TEST_COMMAND", command);
        }
        let mut child = program.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut recorder = Recorder { child, lines };
        let line = recorder.line();
        if line == "running" {
            return Some(recorder);
        }
        let ended = recorder.child.wait().unwrap();
        let lacks = line.strip_prefix("lacks ").and_then(|rest| rest.split_once(' '));
        let Some((need, why)) = lacks else { panic!("the recorder did not run: {line}, {ended}") };
        skip(*Need::ALL.iter().find(|one| one.name() == need).unwrap(), why);
        None
    }

    /// Returns the next line printed by the recorder. Output of libtest may precede the line's text.
    fn line(&mut self) -> String {
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            for word in ["running", "ended ", "failed ", "lacks "] {
                // The output of libtest begins with "running 1 test".
                if let Some(at) = line.find(word)
                    && !line.contains("running 1 test")
                {
                    return line[at..].to_owned();
                }
            }
        }
        "the recorder ended early".to_owned()
    }

    fn last_line(&mut self) -> String {
        loop {
            let line = self.line();
            if line != "running" {
                return line;
            }
        }
    }

    fn kill(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

#[test]
fn ctrl_c_leaves_a_recording() {
    for variables in [&[][..], &BY_TRACEFS] {
        let dir = scratch();
        let out = dir.path().join("recording");
        let Some(mut recorder) = Recorder::start_with(&out, None, variables) else { return };
        recorder.kill(Signal::INT);
        assert_eq!(recorder.last_line(), "ended Interrupted None");
        assert!(recorder.child.wait().unwrap().success());
        let own = format!("fonio-{}-", recorder.child.id());
        assert!(instances().iter().all(|name| !name.starts_with(&own)));
        let (meta, rows) = read(&out);
        assert!(meta.ended > meta.began);
        assert!(!rows.samples.is_empty());
    }
}

/// Set in the process of a test that runs in a mount namespace of its own.
const OWN_MOUNTS: &str = "FONIO_TEST_OWN_MOUNTS";

/// Runs the calling test once more, in a mount namespace of its own. Returns whether this process is that run.
fn has_own_mounts(test: &str) -> bool {
    if std::env::var_os(OWN_MOUNTS).is_some() {
        return true;
    }
    let mut command = Command::new("unshare");
    command.arg("--mount").arg(std::env::current_exe().unwrap());
    let out = command.args(["--exact", test, "--nocapture"]).env(OWN_MOUNTS, "1").output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{}{said}", String::from_utf8_lossy(&out.stdout));
    eprint!("{said}");
    false
}

fn mount_here(source: &str, dir: &Path, options: Option<&std::ffi::CStr>) -> bool {
    rustix::mount::mount(source, dir, source, rustix::mount::MountFlags::empty(), options).is_ok()
}

/// Somebody unmounts tracefs during a recording. The recording goes on, and its instances are removed.
#[test]
fn tracefs_may_be_unmounted_during_a_recording() {
    skip_without!(Root);
    if !has_own_mounts("live::tracefs_may_be_unmounted_during_a_recording") {
        return;
    }
    let tracing = Path::new("/sys/kernel/tracing");
    for blocked in [BlockedBy::No, BlockedBy::Tracefs] {
        // It can be mounted already, and cannot be mounted twice.
        if !tracing.join("events").exists() && !mount_here("tracefs", tracing, None) {
            return skip(Need::Tracefs, "tracefs cannot be mounted");
        }
        let dir = scratch();
        let script =
            "umount --lazy /sys/kernel/tracing && dd if=/dev/zero of=file bs=64K count=16 conv=fsync 2>&1";
        let script = format!("cd {} && {script}", dir.path().display());
        let options = RecordOptions {
            select: vec![Selector::Path(dir.path().to_owned())],
            command: words(&["sh", "-c", &script]),
            blocked,
            ..RecordOptions::new(dir.path().join("recording"))
        };
        let Some(summary) = try_record(&options) else { return };
        assert_eq!(summary.command_exit, Some(0));
        assert!(!tracing.join("events").exists(), "it is unmounted");
        let (meta, rows) = read(&summary.out);
        assert!(meta.lost.is_nothing(), "{:?}", meta.lost);
        assert!(rows.requests.iter().any(|request| request.op == Op::Write), "its writes are recorded");
        let own = format!("fonio-{}-", std::process::id());
        assert_eq!(instances().iter().filter(|name| name.starts_with(&own)).count(), 0);
    }
}

/// If there is no room for a recording, the command is not started. If the command fills the file system, the
/// recording has the rows that fit into the room that was held.
#[test]
fn a_command_may_fill_the_file_system_of_its_recording() {
    skip_without!(Root);
    if !has_own_mounts("live::a_command_may_fill_the_file_system_of_its_recording") {
        return;
    }
    let dir = scratch();
    let (small, disk) = (dir.path().join("small"), dir.path().join("written"));
    fs::create_dir(&small).unwrap();
    fs::create_dir(&disk).unwrap();
    assert!(mount_here("tmpfs", &small, Some(c"size=8m")));
    let options = |script: &str, name: &str| RecordOptions {
        select: vec![Selector::Path(disk.clone())],
        command: words(&["sh", "-c", script]),
        ..RecordOptions::new(small.join(name))
    };
    let filled = format!(
        "cat /dev/zero >{}/foreign; dd if=/dev/zero of={}/file bs=64K count=16 conv=fsync 2>&1",
        small.display(),
        disk.display()
    );
    let Some(summary) = try_record(&options(&filled, "filled")) else { return };
    let (_, rows) = read(&summary.out);
    assert!(rows.requests.iter().any(|request| request.op == Op::Write), "its writes are recorded");
    // As much as 20 and 80 KiB free.
    for kib in [20, 80] {
        fs::File::options().write(true).open(small.join("foreign")).unwrap().set_len(0).unwrap();
        let free = || {
            let stat = rustix::fs::statvfs(&small).unwrap();
            stat.f_bfree * stat.f_frsize
        };
        let file = fs::File::create(small.join("foreign")).unwrap();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, free() - (kib << 10)).unwrap();
        let marker = disk.join("started");
        let error =
            record(&options(&format!("touch {}", marker.display()), "small"), &mut |_| {}).unwrap_err();
        let said = format!(
            "the file system or your quota has no room for a recording in {}: it needs at least 256 KiB",
            small.display()
        );
        assert!(error.to_string().starts_with(&said), "{error}");
        assert!(!marker.exists() && !small.join("small").exists());
    }
}

#[test]
fn a_second_ctrl_c_gives_it_up() {
    let dir = scratch();
    let out = dir.path().join("recording");
    // A command that ignores Ctrl-C prolongs the capture.
    let Some(mut recorder) = Recorder::start(&out, Some("trap '' INT; exec sleep 60")) else { return };
    recorder.kill(Signal::INT);
    std::thread::sleep(Duration::from_millis(300));
    recorder.kill(Signal::INT);
    assert_eq!(recorder.last_line(), "failed interrupted twice: no recording was kept");
    recorder.child.wait().unwrap();
    assert!(!out.exists());
}

#[test]
fn sigterm_is_passed_on_to_the_command() {
    let dir = scratch();
    let out = dir.path().join("recording");
    let Some(mut recorder) = Recorder::start(&out, Some("exec sleep 60")) else { return };
    recorder.kill(Signal::TERM);
    assert_eq!(recorder.last_line(), "ended Terminated Some(15)");
    assert!(recorder.child.wait().unwrap().success());
    assert_eq!(read(&out).0.command_exit, None);
}

#[test]
fn the_next_run_removes_what_a_killed_one_left() {
    let dir = scratch();
    let killed = dir.path().join("killed");
    let Some(mut recorder) = Recorder::start_with(&killed, None, &BY_TRACEFS) else { return };
    let prefix = format!("fonio-{}-", recorder.child.id());
    let left = |names: Vec<String>| names.iter().filter(|name| name.starts_with(&prefix)).count();
    // A killed recorder leaves one instance for block events and one for scheduler events.
    assert_eq!(left(instances()), 2);
    recorder.kill(Signal::KILL);
    recorder.child.wait().unwrap();
    assert!(!killed.exists());

    let options = RecordOptions {
        duration: Some(Duration::from_millis(20)),
        ..RecordOptions::new(dir.path().join("next"))
    };
    let mut notes = Vec::new();
    record(&options, &mut |progress| {
        if let fonio_record::Progress::Note(note) = progress {
            notes.push(note.to_owned());
        }
    })
    .unwrap();
    // Another recording, by a test or a user, may already have removed the instance.
    assert_eq!(left(instances()), 0);
    for note in notes.iter().filter(|note| note.contains("killed")) {
        assert!(note.contains("tracefs instance fonio-"), "{note}");
    }
}

#[test]
fn a_full_disk_keeps_what_fits_and_says_what_is_missing() {
    skip_without!(Root);
    let dir = scratch();
    let written = dir.path().join("written");
    let script =
        format!("dd if=/dev/zero of={} bs=512 count=12000 oflag=direct 2>/dev/null", written.display());
    let options = |out: &Path| RecordOptions {
        select: vec![Selector::Path(dir.path().to_owned())],
        command: words(&["sh", "-c", &script]),
        ..RecordOptions::new(out)
    };
    let Some(disk) = Tmpfs::of(320 << 10) else { return };
    let out = disk.0.path().join("recording");
    let missing = match record(&options(&out), &mut |_| {}) {
        Err(RecordError::DiskFull { out: kept, missing }) if kept == out => missing,
        outcome => {
            let summary = checked(outcome);
            // On file systems without direct I/O, the script causes few requests.
            return assert!(summary.is_none_or(|summary| summary.rows["requests"] < 8000));
        }
    };
    let (meta, rows) = read(&out);
    assert!(!rows.requests.is_empty() && rows.requests.len() < 12_000, "{}", rows.requests.len());
    assert!(missing.contains(" requests"), "{missing}");
    assert!(!rows.samples.is_empty() && !rows.threads.is_empty() && !rows.marks.is_empty());
    assert_eq!(meta.lost.total(), None, "the number of lost events is unknown");

    // On a full disk, the command is not started, and no part of the recording remains.
    let Some(disk) = Tmpfs::of(8 << 10) else { return };
    let out = disk.0.path().join("recording");
    let error = record(&options(&out), &mut |_| {}).unwrap_err();
    let said =
        format!("the file system or your quota has no room for a recording in {}: ", disk.0.path().display());
    assert!(error.to_string().starts_with(&said), "{error}");
    assert_eq!(fs::read_dir(disk.0.path()).unwrap().count(), 0);
}

#[test]
fn two_recordings_of_one_name_at_once_never_share_a_directory() {
    let dir = scratch();
    let out = dir.path().join("recording");
    let Some(mut first) = Recorder::start(&out, None) else { return };
    let Some(mut second) = Recorder::start(&out, None) else { return };
    for recorder in [&first, &second] {
        recorder.kill(Signal::INT);
    }
    for recorder in [&mut first, &mut second] {
        assert_eq!(recorder.last_line(), "ended Interrupted None");
        assert!(recorder.child.wait().unwrap().success());
    }
    let mut names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["recording", "recording-2"]);
    let [one, other] = ["recording", "recording-2"].map(|name| read(&dir.path().join(name)).0);
    assert!(one.began != other.began && one.rows["samples"] > 0 && other.rows["samples"] > 0);
}
