use fonio_core::meta::SHOWS_SCHEDULER;
use fonio_core::{Call, CollectedRows, IoWait, Mark, Meta, RowSink, Thread, Timestamp, Wait, WaitReason};

use super::*;
use crate::analyser::{Analyser, Analysis};
use crate::filter::{Filter, FilterOptions};
use crate::question::options::AnalysisOptions;

const MS: u64 = 1_000_000;

/// A wait: thread, begin and end in milliseconds, the kernel's account, and the function.
type Asleep = (u32, u64, u64, IoWait, &'static str);

fn wait((tid, began, ended, io_wait, function): Asleep) -> Wait {
    Wait {
        tid,
        began: Timestamp(began * MS),
        ended: Some(Timestamp(ended * MS)),
        reason: if io_wait == IoWait::Yes { WaitReason::Storage } else { WaitReason::Unknown },
        request_id: None,
        waker_tid: None,
        blocked_in: None,
        file_id: None,
        io_wait: Some(io_wait),
        function: (!function.is_empty()).then(|| function.to_owned()),
    }
}

fn mark(tid: u32, at: u64, until: Option<u64>, name: &str) -> Mark {
    Mark {
        at: Timestamp(at * MS),
        until: until.map(|until| Timestamp(until * MS)),
        name: name.to_owned(),
        tid: Some(tid),
    }
}

fn thread(tid: u32, pid: u32, comm: &str, unit: Option<&str>) -> Thread {
    let (comm, unit) = (Some(comm.to_owned()), unit.map(str::to_owned));
    Thread { tid, pid: Some(pid), comm, unit, ..Thread::default() }
}

fn meta(ended_ms: u64) -> Meta {
    let mut meta =
        Meta { began: Some(Timestamp(0)), ended: Some(Timestamp(ended_ms * MS)), ..Meta::default() };
    meta.source.format = "perfetto".to_owned();
    meta.source.shows = vec![SHOWS_SCHEDULER.to_owned()];
    meta
}

fn fed(sink: &mut dyn RowSink, waits: &[Asleep], marks: &[Mark], calls: &[Call]) {
    sink.began(Timestamp(0)).unwrap();
    let package = "com.example.long.app";
    for row in [
        thread(30, 30, "xample.long.app", Some(package)),
        thread(31, 30, "RenderThread", Some(package)),
        thread(40, 40, "kworker/0:1", None),
    ] {
        sink.thread(&row).unwrap();
    }
    waits.iter().for_each(|row| sink.wait(&wait(*row)).unwrap());
    marks.iter().for_each(|row| sink.mark(row).unwrap());
    calls.iter().for_each(|row| sink.call(row).unwrap());
}

fn analysed(waits: &[Asleep], marks: &[Mark], ended_ms: u64) -> Analysis {
    let mut analyser = Analyser::new(AnalysisOptions::default());
    fed(&mut analyser, waits, marks, &[]);
    analyser.finish(&meta(ended_ms))
}

/// An analysis in which all figures of this question are known.
pub(crate) fn example() -> Analysis {
    analysed(&[(30, 0, 500, IoWait::Yes, "folio_wait_bit_common")], &[], 5000)
}

fn times(time: &SleepTime) -> (u64, u64, u64) {
    (time.io_ns.0 / MS, time.not_io_ns.0 / MS, time.unknown_ns.0 / MS)
}

#[test]
fn each_sum_has_three_parts() {
    let waits = [
        (30, 0, 100, IoWait::Yes, "folio_wait_bit_common"),
        (30, 200, 230, IoWait::No, "jbd2_log_wait_commit"),
        (31, 0, 7, IoWait::Unknown, ""),
        (40, 0, 900, IoWait::Yes, "submit_bio_wait"),
    ];
    let analysis = analysed(&waits, &[], 2000);
    let answer = analysis.uninterruptible.as_ref().unwrap();
    assert_eq!((times(&answer.all), answer.all.waits, answer.all.longest_ns.0), ((1000, 30, 7), 4, 900 * MS));
    let threads: Vec<_> = (answer.threads.iter())
        .map(|row| (row.tid, row.full_name(), row.is_kernel, times(&row.time)))
        .collect();
    let package = "com.example.long.app";
    assert_eq!(
        threads,
        [
            (40, "kworker/0:1 (thread 40)".to_owned(), true, (900, 0, 0)),
            (30, format!("xample.long.app (thread 30 of {package})"), false, (100, 30, 0)),
            (31, format!("RenderThread (thread 31 of {package})"), false, (0, 0, 7)),
        ]
    );
    let functions: Vec<_> =
        answer.functions.iter().map(|row| (row.function.as_str(), times(&row.time))).collect();
    assert_eq!(
        functions,
        [
            ("submit_bio_wait", (900, 0, 0)),
            ("folio_wait_bit_common", (100, 0, 0)),
            ("jbd2_log_wait_commit", (0, 30, 0)),
        ]
    );
    // The waits count neither as waits for storage nor as requests.
    assert_eq!((&analysis.blocked, &analysis.launch, analysis.totals.requests), (&None, &None, 0));
    assert!(analysis.validity.ok && analysis.validity.unknown[0].contains("no block events"));
    let ids: Vec<&str> = analysis.findings.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids, ["no-block-events"]);
}

#[test]
fn verdicts_of_a_whole_trace() {
    let io = (30, 0, 500, IoWait::Yes, "folio_wait_bit_common");
    let lock = (31, 0, 600, IoWait::No, "rwsem_down_read");
    for (waits, ended, id, words) in [
        (
            vec![io, lock],
            5000,
            "scheduler-io",
            "500 ms counted as I/O by the kernel, none not counted, none unknown, mostly in folio_wait_bit_common",
        ),
        (
            vec![io, lock],
            5500,
            "scheduler-blocked",
            "RenderThread (thread 31 of com.example.long.app) was blocked in the kernel: none counted as I/O by the kernel, 600 ms not counted, none unknown",
        ),
        (
            vec![io, lock],
            9000,
            "scheduler-little",
            "In 9 s, xample.long.app (thread 30 of com.example.long.app) was blocked longest: 500 ms counted",
        ),
        (
            vec![io],
            999,
            "scheduler-too-short",
            "Blocked longest in the kernel was xample.long.app (thread 30 of com.example.long.app): 500 ms counted",
        ),
        (vec![], 999, "scheduler-too-short", "a verdict needs a second."),
        (vec![], 2000, "scheduler-little", "No program was blocked in the kernel for long (state D)."),
        // The kernel's own threads are not programs.
        (vec![(40, 0, 900, IoWait::Yes, "")], 2000, "scheduler-little", "No program was blocked"),
    ] {
        let analysis = analysed(&waits, &[], ended);
        assert_eq!(analysis.verdict_id, id, "{}", analysis.verdict);
        assert!(analysis.verdict.contains(words), "{}", analysis.verdict);
        for word in ["Storage is", "mmcblk", "in flight"] {
            assert!(!analysis.verdict.contains(word), "{}", analysis.verdict);
        }
    }
}

/// Marks of the system server and of the app, as each version of Android writes them.
#[test]
fn launches_of_each_android() {
    let package = "com.example.long.app";
    let launching = format!("launching: {package}");
    let completed = format!("launchingActivity#7:completed-warm:{package}");
    let intent = "MetricsLogger:launchObserverNotifyIntentStarted";
    let step = |name| mark(30, 120, Some(130), name);
    let new = [mark(9, 100, Some(200), "launchingActivity#7"), mark(9, 200, None, &completed)];
    let old = [mark(9, 110, Some(200), &launching)];
    let with_intent = [mark(9, 10, None, intent), mark(9, 100, None, intent), old[0].clone()];
    for (marks, at, kind) in [
        // Android 13 and later writes both spans.
        ([&new[..], &old[..]].concat(), 100, LaunchKind::Warm),
        ([&old[..], &[step("bindApplication"), step("activityStart")]].concat(), 110, LaunchKind::Cold),
        (
            [&with_intent[..], &[step("activityStart"), step("activityResume")]].concat(),
            100,
            LaunchKind::Warm,
        ),
        ([&with_intent[..], &[step("activityResume")]].concat(), 100, LaunchKind::Hot),
        (old.to_vec(), 110, LaunchKind::Unknown),
    ] {
        let waits = [
            (30, 50, 160, IoWait::Yes, "f"),
            (31, 150, 250, IoWait::No, ""),
            (30, 300, 400, IoWait::Yes, ""),
        ];
        let analysis = analysed(&waits, &marks, 500);
        let answer = analysis.uninterruptible.as_ref().unwrap();
        let [launch] = answer.launches.as_slice() else { panic!("{:?}", answer.launches) };
        assert_eq!((launch.package.as_str(), launch.kind, launch.at_ns.0), (package, kind, at * MS));
        assert_eq!(launch.duration_ns.0, (200 - at) * MS);
        let threads: Vec<_> = (launch.threads.iter())
            .map(|row| (row.is_ui, row.tid, times(&row.time), row.function.as_deref()))
            .collect();
        assert_eq!(threads, [(true, 30, (160 - at, 0, 0), Some("f")), (false, 31, (0, 50, 0), None)]);
        // A launch is judged over its own span, also in a short trace.
        assert_eq!(analysis.verdict_id, "scheduler-io");
        let words = format!("In the {}launch of {package} (", kind.word());
        assert!(analysis.verdict.contains(&words), "{}", analysis.verdict);
    }
}

#[test]
fn late_frames_are_judged_over_their_own_span() {
    let waits = [(31, 100, 130, IoWait::Yes, "folio_wait_bit_common")];
    let marks = [
        mark(30, 90, Some(140), "late frame: App Deadline Missed"),
        mark(30, 90, Some(140), "late frame: Display HAL"),
        mark(30, 200, Some(220), "late frame: App Deadline Missed"),
    ];
    let analysis = analysed(&waits, &marks, 500);
    assert!(
        analysis.verdict.contains("In a late frame of com.example.long.app (at 90 ms, 50 ms long), its RenderThread (thread 31) was blocked in the kernel: 30 ms counted"),
        "{}",
        analysis.verdict
    );
    assert_eq!(analysis.uninterruptible.unwrap().late_frames.len(), 3);
    // The app is not the reason that this frame was late.
    assert_eq!(analysed(&waits, &marks[1..2], 500).verdict_id, "scheduler-too-short");
}

#[test]
fn sync_calls_have_their_waits() {
    let call = |call_id, name: &str, entered, exited| Call {
        call_id,
        name: name.to_owned(),
        tid: 30,
        file_id: None,
        offset: None,
        bytes: None,
        entered: Timestamp(entered * MS),
        exited: Some(Timestamp(exited * MS)),
        result: Some(0),
        sqlite_write: None,
        file_flags: None,
    };
    let mut analyser = Analyser::new(AnalysisOptions::default());
    let waits = [(30, 12, 19, IoWait::Yes, ""), (30, 33, 37, IoWait::No, ""), (30, 50, 60, IoWait::Yes, "")];
    let calls = [call(0, "fsync", 10, 20), call(1, "fdatasync", 30, 40), call(2, "read", 50, 60)];
    fed(&mut analyser, &waits, &[], &calls);
    let answer = analyser.finish(&meta(100)).uninterruptible.unwrap();
    let [syncs] = answer.syncs.as_slice() else { panic!("{:?}", answer.syncs) };
    assert_eq!((syncs.tid, syncs.calls, syncs.time_ns.0, syncs.longest_ns.0), (30, 2, 20 * MS, 10 * MS));
    assert_eq!((times(&syncs.blocked), syncs.blocked.waits), ((7, 4, 0), 2));
}

#[test]
fn a_filter_selects_waits() {
    let waits =
        [(30, 0, 500, IoWait::Yes, ""), (40, 0, 100, IoWait::Yes, ""), (30, 1000, 1100, IoWait::No, "")];
    let of = |options: FilterOptions| {
        let options = AnalysisOptions { filter: Some(options), ..AnalysisOptions::default() };
        let mut filter = Filter::new(options.filter.clone().unwrap(), Analyser::new(options)).unwrap();
        fed(&mut filter, &waits, &[], &[]);
        let analysis = filter.into_inner().finish(&meta(5000));
        (times(&analysis.uninterruptible.unwrap().all), analysis.verdict_id)
    };
    let until_ns = Some(Nanos(400 * MS));
    assert_eq!(of(FilterOptions { until_ns, ..FilterOptions::default() }).0, (500, 0, 0));
    let comms = vec!["xample.long.app".to_owned()];
    let (found, verdict) = of(FilterOptions { comms, ..FilterOptions::default() });
    assert_eq!((found, verdict.as_str()), ((500, 100, 0), "scheduler-io"));
}

/// A launch in a trace with requests: the app reads, and then waits for its own thread, which syncs a file. Another program
/// waits for a lock that this thread holds.
#[test]
fn a_launch_with_requests_has_a_critical_path_and_a_chain() {
    let text = include_str!("../../../../fonio-trace/tests/data/launch-chain.txt");
    let mut reader =
        fonio_trace::recognise::open(vec![fonio_trace::input::Input::of("trace", text)], &Default::default())
            .expect("it is recognised");
    let mut rows = CollectedRows::default();
    let meta =
        fonio_trace::assemble::assemble(&mut *reader, Default::default(), &mut rows).expect("memory reads");
    let mut requests = std::mem::take(&mut rows.requests);
    requests.sort_by(|a, b| a.order(b));
    let mut analyser = Analyser::new(AnalysisOptions::default());
    std::mem::take(&mut rows.threads).iter().try_for_each(|row| analyser.thread(row)).unwrap();
    rows.feed(&mut analyser).unwrap();
    requests.iter().try_for_each(|row| analyser.request(row)).unwrap();
    let analysis = analyser.finish(&meta);
    let launch = &analysis.uninterruptible.as_ref().expect("it shows the scheduler").launches[0];
    let found = launch.path.as_ref().expect("it shows all states");
    let us = |time: Nanos| time.0 / 1000;
    // The app runs for 26 ms after the sync of its worker, for which it waited. Before, it waited for its read. At the
    // start, it waited for the system server, of which the trace shows nothing before.
    let path = &found.path;
    let parts = [path.running_ns, path.storage_ns, path.cpu_ns, path.thread_ns, path.unknown_ns].map(us);
    assert_eq!(parts, [38_000, 37_004, 4_496, 0, 500]);
    assert_eq!((found.storage_waits, found.storage_waits_with_request), (2, 2));
    let programs: Vec<_> =
        (found.programs.iter()).map(|program| (program.name.as_str(), us(program.path.storage_ns))).collect();
    assert_eq!(programs, [("ample.app", 19_002), ("worker", 18_002), ("system_server", 0)]);
    // The lock's waiter waited for the worker while it was in its sync; and the backup was in the way of the read.
    let blocked = analysis.blocked.expect("it shows requests and waits");
    let reader = blocked.programs.iter().find(|program| program.name == "reader").expect("it waited");
    let through = reader.through.as_ref().expect("it waited for a thread");
    assert_eq!((through.name.as_str(), through.blocked_in.as_str()), ("ample.app", "fsync"));
    assert_eq!(us(reader.time_ns), 50_002 - 33_000);
    let app = blocked.programs.iter().find(|program| program.name == "ample.app").expect("it waited");
    let others: Vec<&str> =
        app.behind.iter().filter(|row| !row.is_own).map(|row| row.process.as_str()).collect();
    assert_eq!(others, ["backup"]);
    let operations: Vec<&str> = app.operations.iter().map(|row| row.blocked_in.as_str()).collect();
    assert_eq!(operations, ["read", "fsync"]);
}

/// In the sample of a launch, the storage on the critical path is the I/O of Perfetto's `trace_processor`.
#[test]
fn the_storage_of_a_sample_is_that_of_trace_processor() {
    let folder = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/phones");
    if !folder.is_dir() {
        return fonio_testing::skip(
            fonio_testing::Need::Shared,
            format!("{} does not exist", folder.display()),
        );
    }
    let name = "synthetic-android-startup.pftrace";
    let expected = std::fs::read_to_string(folder.join(format!("expected/{name}.startup.csv"))).unwrap();
    let io = expected.lines().find_map(|line| line.strip_prefix("\"io\",")?.split(',').next()).unwrap();
    let bytes = std::fs::read(folder.join(name)).unwrap();
    let input = fonio_trace::input::Input::of(name, bytes);
    let mut reader =
        fonio_trace::recognise::open(vec![input], &Default::default()).expect("it is recognised");
    let mut analyser = Analyser::new(AnalysisOptions::default());
    let meta = fonio_trace::assemble::assemble(&mut *reader, Default::default(), &mut analyser).unwrap();
    let analysis = analyser.finish(&meta);
    let launch = &analysis.uninterruptible.as_ref().expect("it shows the scheduler").launches[0];
    let path = &launch.path.as_ref().expect("it shows all states").path;
    assert_eq!(path.storage_ns.0.to_string(), io);
    assert_eq!(path.sum_ns(), launch.duration_ns);
}
