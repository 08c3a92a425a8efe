//! Compares blocked threads and their causes with an oracle that examines every pair of a wait and a request.

use fonio_core::meta::{BLOCKED_PARTLY, SHOWS_BLOCKED};
use fonio_core::{
    BlockedCount, BlockedIn, Content, DeviceId, File, Meta, Metric, Nanos, RowSink, Sample, Thread,
    Timestamp, Wait, WaitReason,
};
use proptest::prelude::*;

use super::behind::{Owner, Source, Watch};
use super::*;
use crate::analyser::Analyser;
use crate::analyser::tests::{request, wait};
use crate::filter::Filter;
use crate::filter::FilterOptions;
use crate::question::options::AnalysisOptions;

/// Creates an analyser for a recording that begins at 0.
fn analyser() -> Analyser {
    let mut analyser = Analyser::new(AnalysisOptions::default());
    analyser.began(Timestamp(0)).unwrap();
    analyser
}

/// Analyses waits of threads together with requests. Each thread is a separate process, and process 8 is the
/// parent of process 9.
fn blocked(waits: &[&str], requests: &[&str], command_pid: Option<u32>) -> Option<Blocked> {
    let mut analyser = analyser();
    for (tid, parent) in [(1, 0), (7, 1), (8, 1), (9, 8), (10, 99)] {
        let (pid, comm) = (Some(tid), Some(format!("p{tid}")));
        analyser.thread(&Thread { tid, pid, comm, parent_pid: Some(parent), ..Thread::default() }).unwrap();
    }
    waits.iter().for_each(|text| analyser.wait(&wait(text)).unwrap());
    for (id, line) in requests.iter().enumerate() {
        analyser.request(&request(id as u64, line)).unwrap();
    }
    let (began, ended) = (Some(Timestamp(0)), Some(Timestamp(10_000_000_000)));
    let command = command_pid.map(|_| vec!["c".to_owned()]);
    analyser.finish(&Meta { began, ended, command, command_pid, ..Meta::default() }).blocked
}

fn roles(found: &Blocked) -> Vec<(&str, Role)> {
    found.programs.iter().map(|program| (program.name.as_str(), program.role)).collect()
}

#[test]
fn without_waits_nothing_is_claimed() {
    assert_eq!(blocked(&[], &["R 0+8 q0 d0 c10 t7"], None), None);
    // If the source can show waits, the answer is present even if no wait occurred.
    let mut meta = Meta::default();
    meta.source.shows.push(SHOWS_BLOCKED.to_owned());
    let found = Analyser::new(AnalysisOptions::default()).finish(&meta).blocked;
    assert_eq!(
        found,
        Some(Blocked {
            long: LongWaits { threshold_ns: Nanos(100_000_000), ..LongWaits::default() },
            ..Blocked::default()
        })
    );
}

#[test]
fn without_bpf_the_verdict_says_what_is_missing() {
    let mut meta =
        Meta { began: Some(Timestamp(0)), ended: Some(Timestamp(20_000_000_000)), ..Meta::default() };
    meta.source.shows = vec![SHOWS_BLOCKED.to_owned(), BLOCKED_PARTLY.to_owned()];
    for (text, is_the_problem) in [("7 fsync 0 10", false), ("7 fsync 0 15000000", true)] {
        let mut analyser = analyser();
        analyser.wait(&wait(text)).unwrap();
        analyser.request(&request(0, "R 0+8 q0 d0 c10 t7")).unwrap();
        let found = analyser.finish(&meta);
        assert!(found.blocked.unwrap().is_partial);
        assert_eq!(found.verdict.contains("without BPF"), !is_the_problem, "{}", found.verdict);
    }
}

/// Analyses a program whose threads or processes each wait for 20 ms of every 25 ms. In total, the program
/// used 1.4 s of processor time. Process 5 is the first process of the program.
fn pool(of_one_process: bool) -> BlockedProgram {
    let mut analyser = analyser();
    let threads = 100..660;
    let row = |tid: u32, pid: u32| Thread {
        tid,
        pid: Some(pid),
        comm: Some("db".to_owned()),
        parent_pid: Some(1),
        ..Thread::default()
    };
    analyser.thread(&row(5, 5)).unwrap();
    for tid in threads.clone() {
        analyser.thread(&row(tid, if of_one_process { 5 } else { tid })).unwrap();
    }
    for (at, tid) in threads.enumerate() {
        analyser.wait(&wait(&format!("{tid} fsync {} {}", at * 25_000, at * 25_000 + 20_000))).unwrap();
    }
    let ended = Timestamp(14_000_000_000);
    analyser
        .sample(&Sample {
            time: ended,
            metric: Metric::ProcessCpuNs,
            subject: Some("5".to_owned()),
            value: 1_400_000_000,
        })
        .unwrap();
    analyser.request(&request(0, "WS 0+8 q0 d0 c20000 t100")).unwrap();
    let meta = Meta { began: Some(Timestamp(0)), ended: Some(ended), ..Meta::default() };
    let mut found = analyser.finish(&meta);
    assert_eq!(found.verdict_id, "blocked", "{}", found.verdict);
    assert!(
        found.verdict.contains("of its working time (11.2 s of 12.6 s, summed over 560 threads)"),
        "{}",
        found.verdict
    );
    found.blocked.take().unwrap().programs.swap_remove(0)
}

#[test]
fn a_pool_of_threads_or_processes_is_one_program() {
    for of_one_process in [true, false] {
        let program = pool(of_one_process);
        assert_eq!((program.name.as_str(), program.threads), ("db", 560));
        assert_eq!(program.worst.share, 0.8, "the threads waited one after the other");
        let working = program.working.unwrap();
        assert!((0.85..0.9).contains(&working.storage_share), "{working:?}");
    }
}

#[test]
fn a_command_owns_the_processes_that_it_started() {
    // The parent of process 99 is unknown, so process 10 may be part of the command.
    let waits = ["7 fsync 0 5000", "8 read 0 1000", "9 read 0 2000", "10 read 0 3000"];
    let found = blocked(&waits, &[], Some(8)).unwrap();
    let of_interest = ["p10", "p9", "p8"].map(|name| (name, Role::OfInterest));
    assert_eq!(roles(&found), of_interest.into_iter().chain([("p7", Role::Other)]).collect::<Vec<_>>());
    let found = blocked(&waits, &[], None).unwrap();
    assert!(roles(&found).iter().all(|(_, role)| *role == Role::OfInterest));
}

#[test]
fn discards_are_no_bulk_work() {
    let requests: Vec<String> =
        (0..100).map(|at| format!("D {}+32768 q{at}0 d{at}0 c{at}9 t7", at * 32768)).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    let found = blocked(&["7 metadata 0 500"], &requests, None).unwrap();
    assert_eq!(roles(&found), [("p7", Role::OfInterest)]);
}

#[test]
fn short_waits_count_and_a_lock_does_not() {
    let mut analyser = analyser();
    let count = |blocked_in, reason| BlockedCount {
        tid: 7,
        blocked_in,
        reason,
        from: Timestamp(0),
        until: Timestamp(1_000_000_000),
        below: Nanos(1_000_000),
        count: 10,
        total: Nanos(6_000_000),
    };
    for row in [
        count(BlockedIn::Read, WaitReason::Storage),
        // The kernel does not count a wait for the journal's commit as I/O.
        count(BlockedIn::Fsync, WaitReason::Unknown),
        count(BlockedIn::Write, WaitReason::Unknown),
    ] {
        analyser.blocked_count(&row).unwrap();
    }
    let (began, ended) = (Some(Timestamp(0)), Some(Timestamp(1_000_000_000)));
    let found = analyser.finish(&Meta { began, ended, ..Meta::default() }).blocked.unwrap();
    let program = &found.programs[0];
    assert_eq!((program.waits, program.time_ns, program.longest_ns), (20, Nanos(12_000_000), None));
    assert_eq!(program.worst.share, 0.012);
}

#[test]
fn absurd_counts_do_not_overflow() {
    let mut analyser = analyser();
    for _ in 0..3 {
        let row = BlockedCount {
            tid: 7,
            blocked_in: BlockedIn::Read,
            reason: WaitReason::Storage,
            from: Timestamp(0),
            until: Timestamp(1_000_000_000),
            below: Nanos(1_000_000),
            count: u64::MAX,
            total: Nanos(u64::MAX),
        };
        analyser.blocked_count(&row).unwrap();
    }
    let (began, ended) = (Some(Timestamp(0)), Some(Timestamp(1_000_000_000)));
    let found = analyser.finish(&Meta { began, ended, ..Meta::default() }).blocked.unwrap();
    assert_eq!((found.programs[0].waits, found.programs[0].worst.share), (3 << 32, 1.0));
}

#[test]
fn behind_whom_on_the_device_of_the_own_requests() {
    let found = blocked(
        &["7 fsync 1000 2000"],
        &[
            // Half of the wait is due to a request of the waiting process itself; the other device is
            // ignored.
            "WS 0+8 q1500 d1500 c2000 t7",
            "W 0+8 q1500 d1500 c5000 t8",
            "W 0+8 q0 d1500 c9000 t9 dev1",
        ],
        None,
    );
    let behind = &found.unwrap().programs[0].behind;
    let short: Vec<_> = behind.iter().map(|row| (row.process.as_str(), row.is_own, row.share)).collect();
    assert_eq!(short, [("p7", true, 0.5), ("p8", false, 0.5)]);
    // If the waiting process had no requests, it is unknown for which of the two devices its thread waited.
    let found = blocked(
        &["7 fsync 1000 2000"],
        &["W 0+8 q1500 d1500 c5000 t8", "W 0+8 q1500 d1500 c9000 t9 dev1"],
        None,
    );
    assert_eq!(found.unwrap().programs[0].behind, []);
    // Even if only one device had requests, the thread may have waited for a device that was not recorded.
    let found = blocked(&["7 fsync 1000 2000"], &["W 0+8 q1500 d1500 c5000 t8"], None).unwrap();
    assert_eq!((&found.programs[0].behind[..], found.programs[0].device), (&[][..], None));
    // The journal's thread 9 ended the wait, and wrote to the second device.
    let found = blocked(
        &["7 fsync 1000 2000 w9"],
        &["W 0+8 q1500 d1500 c5000 t8", "W 0+8 q1500 d1500 c9000 t9 dev1"],
        None,
    );
    assert_eq!(found.unwrap().programs[0].device, Some(1));
}

/// A backup of many small files counts as one blocking program, not as many files.
#[test]
fn behind_a_program_with_many_files() {
    let own = "WS 0+8 q0 d0 c1 t7".to_owned();
    let others = (0..200).map(|at| format!("W {}+8 q0 d0 c{} t8", at * 8, 1000 + at * 10));
    let requests: Vec<String> = [own].into_iter().chain(others).collect();
    let mut analyser = analyser();
    analyser.wait(&wait("7 fsync 0 3000")).unwrap();
    for (id, line) in requests.iter().enumerate() {
        let mut row = request(id as u64, line);
        row.file_id = Some(id as u32);
        analyser.request(&row).unwrap();
    }
    let found = analyser.finish(&Meta {
        began: Some(Timestamp(0)),
        ended: Some(Timestamp(9_000_000)),
        ..Meta::default()
    });
    let behind = &found.blocked.unwrap().programs[0].behind;
    assert_eq!((behind[0].process.as_str(), behind[0].file.as_deref()), ("tid 8", None));
    assert!(behind[0].share > 0.99, "{behind:?}");
}

/// The thread's waits pass the filter; the waits of the awaited thread do not.
#[test]
fn a_filter_leaves_the_chain_whole() {
    let options = FilterOptions { comms: vec!["p7".to_owned()], ..FilterOptions::default() };
    let analysis = AnalysisOptions { filter: Some(options.clone()), ..AnalysisOptions::default() };
    let mut filter = Filter::new(options, Analyser::new(analysis)).unwrap();
    filter.began(Timestamp(0)).unwrap();
    for tid in [7, 8] {
        let (pid, comm) = (Some(tid), Some(format!("p{tid}")));
        filter.thread(&Thread { tid, pid, comm, ..Thread::default() }).unwrap();
    }
    for row in ["7 other_thread 0 3000 w8", "8 fsync 1000 2000"] {
        filter.wait(&wait(row)).unwrap();
    }
    let (began, ended) = (Some(Timestamp(0)), Some(Timestamp(9_000_000)));
    let found = filter.into_inner().finish(&Meta { began, ended, ..Meta::default() }).blocked.unwrap();
    let programs: Vec<_> = found.programs.iter().map(|row| (row.name.as_str(), row.time_ns)).collect();
    assert_eq!(programs, [("p7", Nanos(1_000_000))]);
    assert_eq!(found.programs[0].through.as_ref().unwrap().name, "p8");
}

/// The threads of a program count together under the name of its process.
#[test]
fn a_program_has_the_name_of_its_process() {
    let mut analyser = analyser();
    for (tid, comm) in [(5, "mysqld"), (6, "connection"), (7, "ib_log_writer")] {
        let (pid, comm) = (Some(5), Some(comm.to_owned()));
        analyser.thread(&Thread { tid, pid, comm, ..Thread::default() }).unwrap();
    }
    for text in ["6 other_thread 0 300000 w7", "7 fsync 10 290000"] {
        analyser.wait(&wait(text)).unwrap();
    }
    analyser.request(&request(0, "R 0+8 q0 d0 c10 t7")).unwrap();
    let (began, ended) = (Some(Timestamp(0)), Some(Timestamp(10_000_000_000)));
    let found = analyser.finish(&Meta { began, ended, ..Meta::default() }).blocked.unwrap();
    assert_eq!(roles(&found), [("mysqld", Role::OfInterest)]);
    assert_eq!((found.programs[0].threads, found.programs[0].waits), (2, 2));
    let long: Vec<_> = found.long.longest.iter().map(|wait| (wait.tid, wait.program.as_str())).collect();
    assert_eq!(long, [(6, "mysqld"), (7, "mysqld")]);
    let through = found.long.longest[0].through.as_ref().unwrap();
    assert_eq!((through.name.as_str(), through.full_name().as_str()), ("mysqld", "its thread ib_log_writer"));
}

/// A server of a file system waits on behalf of the program that called.
#[test]
fn a_server_is_not_the_delayed_program() {
    let roles_of = |waits: &[&str], server: &str| {
        let mut analyser = analyser();
        for (pid, comm) in [(7, "sqlite3"), (8, server)] {
            let (tid, comm) = (pid, Some(comm.to_owned()));
            analyser.thread(&Thread { tid, pid: Some(pid), comm, ..Thread::default() }).unwrap();
        }
        // The thread of the server of `fonio mount`.
        let comm = Some("fonio-fuse".to_owned());
        analyser.thread(&Thread { tid: 9, pid: Some(8), comm, ..Thread::default() }).unwrap();
        waits.iter().for_each(|text| analyser.wait(&wait(text)).unwrap());
        let (began, ended) = (Some(Timestamp(0)), Some(Timestamp(1_000_000_000)));
        let found = analyser.finish(&Meta { began, ended, ..Meta::default() }).blocked.unwrap();
        roles(&found).into_iter().map(|(name, role)| (name.to_owned(), role)).collect::<Vec<_>>()
    };
    let (sqlite, of) =
        (|| ("sqlite3".to_owned(), Role::OfInterest), |name: &str, role| (name.to_owned(), role));
    let through = ["7 other_thread 0 300000 w8", "8 fsync 10 290000"];
    assert_eq!(roles_of(&through, "bindfs"), [sqlite(), of("bindfs", Role::Server)]);
    assert_eq!(roles_of(&through[1..], "bindfs"), [of("bindfs", Role::OfInterest)], "it works for itself");
    let through = ["7 other_thread 0 300000 w9", "9 fsync 10 290000"];
    assert_eq!(roles_of(&through, "fonio"), [sqlite(), of("fonio-mount", Role::Server)]);
    assert_eq!(roles_of(&through[1..], "fonio"), [of("fonio-mount", Role::Server)]);
}

/// A shell starts programs one after the other, and each program re-creates its journal.
#[test]
fn many_files_of_one_path_are_one_place() {
    let mut analyser = analyser();
    for tid in 7..50 {
        let (pid, comm) = (Some(tid), Some(if tid == 7 { "sh" } else { "sqlite3" }.to_owned()));
        analyser.thread(&Thread { tid, pid, comm, ..Thread::default() }).unwrap();
    }
    for tid in 8..50 {
        let path = Some("/notes.db-journal".to_owned());
        let (from, content) = (Timestamp(0), Content::SqliteJournal);
        analyser.file(&File { file_id: tid, from, device: None, inode: None, path, content }).unwrap();
        let at = tid * 1000;
        analyser.wait(&wait(&format!("7 other_thread {at} {} w{tid}", at + 900))).unwrap();
        analyser.wait(&wait(&format!("{tid} fsync {} {} f{tid}", at + 100, at + 600))).unwrap();
    }
    let (began, ended) = (Some(Timestamp(0)), Some(Timestamp(60_000_000)));
    let found = analyser.finish(&Meta { began, ended, ..Meta::default() }).blocked.unwrap();
    let shell = found.programs.iter().find(|program| program.name == "sh").unwrap();
    let through = shell.through.as_ref().unwrap();
    assert_eq!(
        (shell.time_ns, through.name.as_str(), through.file.as_deref()),
        (Nanos(42 * 500_000), "sqlite3", Some("/notes.db-journal"))
    );
}

/// A copy that syncs its files waits longest, for its own requests.
#[test]
fn a_program_that_bulk_work_delays_comes_first() {
    let first = |size: u64| {
        let mut waits: Vec<String> = Vec::new();
        let mut requests: Vec<String> = Vec::new();
        for at in (0..1000).map(|number| number * 10_000) {
            waits.push(format!("7 fsync {at} {}", at + 9_000));
            requests.push(format!("WS {at}+{size} q{at} d{at} c{} t7", at + 9_000));
            if at % 100_000 == 0 {
                waits.push(format!("8 read {at} {}", at + 8_000));
                requests.push(format!("R {at}+8 q{at} d{at} c{} t8", at + 8_000));
            }
        }
        waits.push("8 read 10000000 11000000".to_owned());
        requests.push("R 5+8 q10000000 d10000000 c11000000 t8".to_owned());
        requests.push("W 5000+9000 q10000000 d10000000 c11000000 t7".to_owned());
        let waits: Vec<&str> = waits.iter().map(String::as_str).collect();
        let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
        blocked(&waits, &requests, None).unwrap().programs[0].name.clone()
    };
    assert_eq!(first(256), "p8", "128 KiB for each sync");
    assert_eq!(first(16), "p7", "a server waits for its small syncs");
}

/// The file is on no device, and no thread involved has a request.
#[test]
fn a_read_of_a_pipe_or_from_a_server_is_no_wait_for_storage() {
    let is_problem = |device: DeviceId, path: Option<&str>, waker: &str| {
        let mut analyser = analyser();
        for (tid, parent) in [(7, 1), (8, 1), (20, 2)] {
            analyser
                .thread(&Thread { tid, pid: Some(tid), parent_pid: Some(parent), ..Thread::default() })
                .unwrap();
        }
        let path = path.map(str::to_owned);
        let (from, content) = (Timestamp(0), Content::Data);
        let file = File { file_id: 1, from, device: Some(device), inode: Some(3), path, content };
        analyser.file(&file).unwrap();
        let row = wait(&format!("7 read 0 9000000 f1 {waker}"));
        // The last wait is open at the end of the recording, so its file is unknown.
        for row in [row, wait("7 read 9500000 20000000")] {
            analyser.wait(&Wait { reason: WaitReason::Storage, ..row }).unwrap();
        }
        analyser.request(&request(0, "R 0+8 q0 d0 c100 t9")).unwrap();
        let (began, ended) = (Some(Timestamp(0)), Some(Timestamp(20_000_000_000)));
        let found = analyser.finish(&Meta { began, ended, ..Meta::default() }).blocked.unwrap();
        found.programs.iter().any(|program| program.is_problem)
    };
    let (anonymous, disk) = (DeviceId::new(0, 45), DeviceId::new(8, 1));
    assert!(!is_problem(anonymous, None, ""), "a file of the kernel");
    assert!(!is_problem(anonymous, Some("/mnt/archive/file"), "w8"), "a server answers");
    assert!(is_problem(anonymous, Some("/mnt/nfs/file"), "w20"), "the kernel ends the wait");
    assert!(is_problem(anonymous, Some("/mnt/nfs/file"), ""), "an interrupt ends the wait");
    assert!(is_problem(disk, None, ""), "a file on a disk");
}

/// The recording is started by a program with the name of the recorded command.
#[test]
fn the_waits_of_the_command_s_starter_do_not_count() {
    let mut analyser = analyser();
    for (tid, parent, comm) in [(1, 0, "init"), (7, 1, "python3"), (8, 7, "fonio"), (9, 8, "python3")] {
        let (pid, comm) = (Some(tid), Some(comm.to_owned()));
        analyser.thread(&Thread { tid, pid, comm, parent_pid: Some(parent), ..Thread::default() }).unwrap();
    }
    for at in 0..100 {
        analyser.wait(&wait(&format!("9 fsync {} {}", at * 10_000, at * 10_000 + 6_000))).unwrap();
    }
    analyser.request(&request(0, "WS 0+8 q0 d0 c6000 t9")).unwrap();
    let ended = Timestamp(1_000_000_000);
    for (metric, pid, ms) in
        [(Metric::ProcessChildNs, 7, 1000), (Metric::ProcessCpuNs, 7, 5), (Metric::ProcessCpuNs, 9, 400)]
    {
        let (subject, value) = (Some(pid.to_string()), ms * 1_000_000);
        analyser.sample(&Sample { time: ended, metric, subject, value }).unwrap();
    }
    let (began, command) = (Some(Timestamp(0)), Some(vec!["python3".to_owned()]));
    let meta = Meta { began, ended: Some(ended), command, command_pid: Some(9), ..Meta::default() };
    let found = analyser.finish(&meta);
    assert!(found.verdict.contains("60 % of its working time (600 ms of 1 s"), "{}", found.verdict);
    let blocked = found.blocked.unwrap();
    let work = blocked.work.iter().map(|work| (work.is_of_command, work.processor_ns, work.child_ns));
    let outside = (false, Nanos(5_000_000), Nanos(1_000_000_000));
    assert!(work.eq([outside, (true, Nanos(400_000_000), Nanos(0))]), "{:?}", blocked.work);
}

/// Each transaction waits for the database and for a re-created journal.
#[test]
fn the_files_of_a_database_count_together() {
    let file = |paths: &[&str]| {
        let mut analyser = analyser();
        for (file_id, path) in (1..).zip(paths) {
            let (from, path, content) = (Timestamp(0), Some((*path).to_owned()), Content::Data);
            analyser.file(&File { file_id, from, device: None, inode: None, path, content }).unwrap();
            let at = file_id * 1000;
            analyser.wait(&wait(&format!("7 fsync {at} {} f{file_id}", at + 500))).unwrap();
        }
        let found = analyser.finish(&Meta::default()).blocked.unwrap().programs.remove(0).file.unwrap();
        (found.path, format!("{:.2}", found.share), found.journal)
    };
    let journal = Some("/n.db-journal".to_owned());
    let found = file(&["/n.db", "/n.db-journal", "/n.db-journal", "/x"]);
    assert_eq!(found, ("/n.db".to_owned(), "0.75".to_owned(), journal.clone()));
    assert_eq!(file(&["/n.db-wal", "/n.db", "/x"]), ("/n.db".to_owned(), "0.67".to_owned(), None));
    // Without the database file, a path that ends in `-journal` may belong to another kind of file.
    assert_eq!(
        file(&["/n.db-journal", "/n.db-journal"]),
        ("/n.db-journal".to_owned(), "1.00".to_owned(), None)
    );
}

#[test]
fn behind_whom_is_unknown_if_a_filter_leaves_requests_out() {
    let filter = FilterOptions { ops: vec!["write".to_owned()], ..FilterOptions::default() };
    let options = AnalysisOptions { filter: Some(filter), ..AnalysisOptions::default() };
    let mut analyser = Analyser::new(options);
    analyser.wait(&wait("7 fsync 0 3000")).unwrap();
    analyser.request(&request(0, "W 0+8 q0 d0 c2000 t7")).unwrap();
    assert_eq!(analyser.finish(&Meta::default()).blocked.unwrap().programs[0].behind, []);
}

proptest! {
    #[test]
    fn request_time_is_that_of_every_pair(
        waits in prop::collection::vec((0_u64..100, 1_u64..40, 0_u32..4), 1..20),
        requests in prop::collection::vec((0_u64..120, 0_u64..30, 0_u32..4, any::<bool>()), 0..40),
    ) {
        let waits: Vec<_> = (waits.iter())
            .map(|&(began, length, tid)| ((tid, 0), tid, count::Kept::new(began, began + length)))
            .collect();
        let mut watch = Watch::new(waits.clone());
        let owner = |process| (Owner { process, unit: None, is_own: false }, (None, Content::Data));
        for &(start, length, process, is_issued_for_it) in &requests {
            let outstanding = (Timestamp(start), Timestamp(start + length));
            let source = Source { pid: Some(process), is_issued_for_it, ..Source::default() };
            watch.request(outstanding, 0, source, owner(process));
        }
        for (key, pid, kept) in &waits {
            let same = waits.iter().filter(|(other, _, wait)| other == key && wait.began == kept.began);
            // Skip several waits of one thread with the same begin time, which real threads do not have.
            if same.count() > 1 {
                continue;
            }
            let mut expected: std::collections::BTreeMap<u32, [u64; 2]> = std::collections::BTreeMap::new();
            for &(start, length, process, is_issued_for_it) in &requests {
                let overlap = (start + length).min(kept.ended.0).saturating_sub(start.max(kept.began.0));
                if overlap > 0 {
                    let sums = expected.entry(process).or_default();
                    sums[0] += overlap;
                    sums[1] += if is_issued_for_it { overlap } else { 0 };
                }
            }
            // Without requests of the waiting process, the device is unknown.
            if !expected.contains_key(pid) {
                expected.clear();
            }
            let found = watch.behind(*key, kept.began);
            let found = found.map(|(_, owners)| owners.by_process()).unwrap_or_default();
            prop_assert_eq!(&found, &expected, "of thread {:?}", pid);
        }
    }
}

#[test]
fn only_the_unit_of_interest_is_of_interest() {
    let found = |unit: Option<&str>| {
        let unit_of_interest = unit.map(str::to_owned);
        let mut analyser = Analyser::new(AnalysisOptions { unit_of_interest, ..AnalysisOptions::default() });
        analyser.began(Timestamp(0)).unwrap();
        for (tid, unit) in [(1, Some("notes.service")), (7, Some("mail.service")), (8, None)] {
            let (pid, comm, unit) = (Some(tid), Some(format!("p{tid}")), unit.map(str::to_owned));
            analyser.thread(&Thread { tid, pid, comm, unit, ..Thread::default() }).unwrap();
            analyser.wait(&wait(&format!("{tid} fsync {} {}", tid * 1000, tid * 2_000_000))).unwrap();
        }
        let meta =
            Meta { began: Some(Timestamp(0)), ended: Some(Timestamp(20_000_000_000)), ..Meta::default() };
        let found = analyser.finish(&meta);
        let roles = roles(found.blocked.as_ref().unwrap());
        (roles[0].0.to_owned(), roles.iter().filter(|(_, role)| *role == Role::OfInterest).count())
    };
    assert_eq!(found(None), ("p8".to_owned(), 3));
    assert_eq!(found(Some("notes.service")), ("p1".to_owned(), 1));
    assert_eq!(found(Some("no.service")).1, 0);
}

/// Thread 7 saves a file by renaming, 300 times, with a new file number each time; thread 8 saves it once.
#[test]
fn files_with_one_path_are_one_row() {
    let mut analyser = analyser();
    let files = (1..=301).map(|file_id| (file_id, "/n/NAME")).chain([(400, "/n/other")]);
    for (file_id, path) in files {
        let (from, path, content) = (Timestamp(0), Some(path.to_owned()), Content::Data);
        analyser.file(&File { file_id, from, device: None, inode: None, path, content }).unwrap();
    }
    for save in 0..300 {
        let began = save * 1000;
        analyser.wait(&wait(&format!("7 fsync {began} {} f{}", began + 500, save + 1))).unwrap();
    }
    for text in ["8 fsync 0 90000 f301", "8 fsync 90000 90001 f400", "8 fsync 90001 90003 f500"] {
        analyser.wait(&wait(text)).unwrap();
    }
    let (began, ended) = (Some(Timestamp(0)), Some(Timestamp(1_000_000_000)));
    let found = analyser.finish(&Meta { began, ended, ..Meta::default() }).blocked.unwrap();
    let rows: Vec<_> = (found.files.iter())
        .map(|row| (row.path.as_deref(), row.waits, row.time_ns.0, row.longest_ns.0, row.program.as_str()))
        .collect();
    assert_eq!(
        rows,
        [
            (Some("/n/NAME"), 301, 240_000_000, 90_000_000, "tid 7"),
            (None, 1, 2_000, 2_000, "tid 8"),
            (Some("/n/other"), 1, 1_000, 1_000, "tid 8"),
        ]
    );
    assert_eq!(found.file_waits_beyond_cap, 0);
}

/// A program that waits most of the time, in many short waits, is drawn as blocked most of the time.
#[test]
fn all_waits_are_drawn() {
    let mut analyser = analyser();
    // Thread 7 waits for 86 % of 10 s in 1,000 waits, alternately in two operations. Thread 9 has few waits.
    for at in 0..1000 {
        let operation = if at < 500 { "fsync" } else { "read" };
        analyser.wait(&wait(&format!("7 {operation} {} {}", at * 10_000, at * 10_000 + 8_600))).unwrap();
    }
    for at in 0..16 {
        analyser.wait(&wait(&format!("9 fsync {} {}", at * 500_000, at * 500_000 + 1_000))).unwrap();
    }
    let (began, ended) = (Some(Timestamp(0)), Some(Timestamp(10_000_000_000)));
    let found = analyser.finish(&Meta { began, ended, ..Meta::default() }).blocked.unwrap();
    assert_eq!(found.intervals_beyond_cap, 0);
    let of = |name: &str, operation: &str| -> (usize, f64) {
        let program = found.programs.iter().position(|row| row.name == name).unwrap() as u32;
        let is_of = |row: &&Interval| row.program == program && row.blocked_in == operation;
        let rows: Vec<&Interval> = found.intervals.iter().filter(is_of).collect();
        (rows.len(), rows.iter().map(|row| row.time_ns.as_secs_f64()).sum())
    };
    assert_eq!(of("tid 9", "fsync").0, 16);
    for operation in ["fsync", "read"] {
        let (rows, seconds) = of("tid 7", operation);
        assert!((60..=128).contains(&rows), "{operation}: {rows} bars");
        assert!((seconds - 4.3).abs() < 0.01, "{operation}: {seconds} s");
    }
    for pair in found.intervals.iter().filter(|row| row.is_sum).collect::<Vec<_>>().windows(2) {
        assert!(pair[0].at_ns + pair[0].time_ns <= pair[1].at_ns, "{pair:?}");
    }
    let last = found.intervals.last().unwrap();
    assert!(last.at_ns + last.time_ns <= Nanos(10_000_000_000), "{last:?}");
}

/// Threads that wait in parallel fill the parts of the recording, but not more.
#[test]
fn bars_of_parallel_threads_do_not_overlap() {
    let mut analyser = analyser();
    for tid in [7, 8, 9] {
        let (pid, comm) = (Some(7), Some("pool".to_owned()));
        analyser.thread(&Thread { tid, pid, comm, ..Thread::default() }).unwrap();
        for at in 0..100 {
            let operation = ["fsync", "read"][at % 2];
            let began = at * 10_000;
            analyser.wait(&wait(&format!("{tid} {operation} {began} {}", began + 10_000))).unwrap();
        }
    }
    let (began, ended) = (Some(Timestamp(0)), Some(Timestamp(2_000_000_000)));
    let found = analyser.finish(&Meta { began, ended, ..Meta::default() }).blocked.unwrap();
    let mut end = Nanos(0);
    for row in &found.intervals {
        assert!(row.is_sum && row.at_ns >= end, "{row:?}");
        end = row.at_ns + row.time_ns;
    }
    let sum: f64 = found.intervals.iter().map(|row| row.time_ns.as_secs_f64()).sum();
    assert!((sum - 1.0).abs() < 0.01, "{sum} s");
    assert_eq!(found.intervals_beyond_cap, 0);
}

/// `--device` keeps the requests of the device, and with them the owner of the requests that were in the way.
#[test]
fn a_filter_by_device_keeps_the_culprit() {
    let of = |devices: &[&str]| {
        let devices: Vec<String> = devices.iter().map(|device| (*device).to_owned()).collect();
        let options = FilterOptions { devices, ..FilterOptions::default() };
        let analysis = AnalysisOptions { filter: Some(options.clone()), ..AnalysisOptions::default() };
        let mut filter = Filter::new(options, Analyser::new(analysis)).unwrap();
        filter.began(Timestamp(0)).unwrap();
        for tid in [7, 8, 9] {
            let (pid, comm, parent_pid) = (Some(tid), Some(format!("p{tid}")), Some(1));
            filter.thread(&Thread { tid, pid, comm, parent_pid, ..Thread::default() }).unwrap();
        }
        filter.wait(&wait("7 fsync 0 900000")).unwrap();
        filter.wait(&wait("9 fsync 0 950000")).unwrap();
        for (id, line) in [
            "WS 0+8 q0 d0 c900000 t7",
            "W 64+1024 q0 d0 c900000 t8",
            "W 2048+1024 q0 d0 c900000 t8",
            "WS 0+8 q0 d0 c950000 t9 dev1",
        ]
        .iter()
        .enumerate()
        {
            filter.request(&request(id as u64, line)).unwrap();
        }
        let (began, ended) = (Some(Timestamp(0)), Some(Timestamp(1_000_000_000)));
        filter.into_inner().finish(&Meta { began, ended, ..Meta::default() })
    };
    let found = of(&["179:0"]);
    let blocked = found.blocked.as_ref().unwrap();
    // The wait for the other device does not count.
    assert_eq!(roles(blocked), [("p7", Role::OfInterest)]);
    assert_eq!(blocked.elsewhere.as_ref().map(|elsewhere| elsewhere.program.as_str()), Some("p9"));
    assert!(found.verdict.contains("came from p8"), "{}", found.verdict);
    let found = of(&["179:1"]);
    assert_eq!(roles(found.blocked.as_ref().unwrap()), [("p9", Role::OfInterest)]);
    assert!(!found.verdict.contains("p8"), "{}", found.verdict);
}

/// Process 8 is the parent of process 9, and process 7 is not.
#[test]
fn a_shell_does_not_feel_the_waits_of_its_child() {
    for (waits_for, expected) in [(7, (2, Some("p7"))), (8, (1, Some("p9")))] {
        let waits = format!("{waits_for} other_thread 0 900000 w9");
        let found = blocked(&[&waits, "9 fsync 1000 400000", "9 fsync 410000 460000"], &[], None).unwrap();
        let longest = found.long.longest.first().map(|wait| wait.program.as_str());
        assert_eq!((found.long.count, longest), expected);
        assert_eq!(found.programs.len(), 2);
    }
}
