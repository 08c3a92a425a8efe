use fonio_core::{Mark, Meta, Thread, Wait};

use super::*;
use crate::question::options::AnalysisOptions;

/// One wait per line: `TID BEGAN..ENDED REASON [by WAKER]`, times in milliseconds; thread 1 is the first of the launch.
fn launch(until: u64, waits: &str) -> Option<Launch> {
    let mut tally = LaunchTally::default();
    let mut context = Context::new(&AnalysisOptions::default());
    let (at, until) = (Timestamp(1_000_000), Some(Timestamp(until * 1_000_000)));
    let mark = Mark { at, until, name: "launch".to_owned(), tid: Some(1) };
    tally.row(Row::Mark(&mark), &mut context);
    for line in waits.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (began, ended) = words[1].split_once("..").expect("a range");
        let ms = |text: &str| text.parse::<u64>().ok().map(|ms| Timestamp(ms * 1_000_000));
        let tid = words[0].parse().expect("a thread");
        context.threads.add(&Thread { tid, comm: Some(format!("t{tid}")), ..Thread::default() });
        let row = Wait {
            tid,
            began: ms(began).expect("a begin"),
            ended: ms(ended),
            reason: WaitReason::from_name(words[2]).expect("a reason"),
            request_id: None,
            waker_tid: words.get(4).and_then(|waker| waker.parse().ok()),
            blocked_in: None,
            file_id: None,
            io_wait: None,
            function: None,
        };
        tally.row(Row::Wait(&row), &mut context);
    }
    let meta =
        Meta { command_user_ns: Some(3_000_000), command_system_ns: Some(1_000_000), ..Meta::default() };
    tally.finish(&mut context.end(&meta))
}

/// Returns the parts of the critical path in milliseconds. The parts must sum to the launch's duration.
fn parts(launch: &Launch) -> [u64; 8] {
    let path = &launch.path;
    assert_eq!(path.sum_ns(), launch.duration_ns);
    let programs: Nanos = launch.programs.iter().map(|program| program.path.sum_ns()).sum();
    assert_eq!(programs, launch.duration_ns);
    [
        path.running_ns,
        path.storage_ns,
        path.network_ns,
        path.timer_ns,
        path.lock_ns,
        path.thread_ns,
        path.cpu_ns,
        path.unknown_ns,
    ]
    .map(|ns| ns.0 / 1_000_000)
}

#[test]
fn one_thread_is_what_it_did() {
    let found = launch(
        101,
        "1 1..2 cpu by 9
         1 10..60 storage
         1 60..62 cpu
         1 70..80 network
         1 90..95 timer",
    )
    .expect("a launch");
    assert_eq!(parts(&found), [32, 50, 10, 5, 0, 0, 3, 0]);
    assert_eq!(found.user_share, Some(0.75));
    assert_eq!(found.storage_waits, 1);
    assert_eq!(found.verdict, "50 % of the launch is spent waiting for storage.");
}

#[test]
fn who_waits_for_another_thread_waits_for_what_that_does() {
    // Thread 1 creates thread 2 and waits for its end. Thread 2 waits for storage, and then for a lock that
    // is held by a thread outside the launch.
    let found = launch(
        101,
        "1 1..1 cpu by 9
         2 11..16 cpu by 1
         1 12..91 thread by 2
         2 20..70 storage
         2 75..80 lock by 77
         1 91..92 cpu",
    )
    .expect("a launch");
    // Thread 1 runs from 1 to 11 ms. The path then follows thread 2 (cpu 5, runs 4, storage 50, runs 5, lock
    // 5, runs 11) and returns to thread 1 (cpu 1, runs 9).
    assert_eq!(parts(&found), [39, 50, 0, 0, 5, 0, 6, 0]);
    assert_eq!(found.programs[0].name, "t2");
    assert_eq!(found.all_threads.thread_ns, Nanos(79_000_000));
    assert_eq!(found.threads, 2);
}

#[test]
fn a_launch_that_became_quiet_ends_with_its_last_activity() {
    let found = launch(
        500,
        "1 1..1 cpu by 9
         1 11..900 network
         2 6..6 cpu by 1
         2 31..900 lock",
    )
    .expect("a launch");
    // Thread 2 ran until 31 ms. Thread 1 created thread 2.
    assert_eq!(found.duration_ns, Nanos(30_000_000));
    assert_eq!(parts(&found), [30, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        found.verdict,
        "Storage is not the problem of this launch (0 % of it): 100 % is spent running."
    );
}

#[test]
fn a_thread_that_has_ended_does_not_run_to_the_quiet_end() {
    // Thread 2 ended after 21 ms. Thread 3 still runs at the end of the launch; its last wait begins when the
    // thread ends.
    let quiet = "1 1..2 cpu by 9
         1 10..50 thread by 2
         2 11..11 cpu by 1
         2 20..21 storage
         1 60..? unknown";
    let found = launch(200, quiet).expect("a launch");
    assert_eq!(found.duration_ns, Nanos(59_000_000));
    let found = launch(200, &format!("{quiet}\n3 55..55 cpu by 1\n3 210..? unknown")).expect("a launch");
    assert_eq!(found.duration_ns, Nanos(199_000_000));
}

#[test]
fn threads_that_wake_each_other_end_somewhere() {
    let found = launch(
        101,
        "1 1..1 cpu by 9
         1 50..101 thread by 2
         2 40..101 thread by 1",
    )
    .expect("a launch");
    assert_eq!(found.duration_ns, Nanos(100_000_000));
    parts(&found);
}

#[test]
fn without_a_mark_or_waits_there_is_no_launch() {
    assert_eq!(launch(101, ""), None);
    assert_eq!(launch(101, "2 1..2 cpu by 1"), None);
}
