//! Tests how waits of threads are joined with requests and with each other.

use expect_test::{Expect, expect};
use fonio_core::CollectedRows;
use fonio_core::meta::{BLOCKED_PARTLY, SHOWS_BLOCKED, SHOWS_SCHEDULER};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::input::Input;
use fonio_trace::recognise::{ReadOptions, open};

/// A launch of an app during a backup. The app reads, and then waits for its own thread, which syncs a file. Another
/// program waits for a lock that this thread holds.
const LAUNCH: &str = include_str!("data/launch-chain.txt");

/// Returns the waits: thread, times in microseconds, operation, reason, account, the thread that ended the wait, and the
/// sector of the request that ended it.
fn show(text: &str) -> String {
    let mut reader =
        open(vec![Input::of("trace.txt", text)], &ReadOptions::default()).expect("it is recognised");
    let mut rows = CollectedRows::default();
    let meta = assemble(&mut *reader, AssemblerOptions::default(), &mut rows).expect("memory reads");
    let shows = |what: &str| meta.source.shows.iter().any(|shown| shown == what);
    assert!([SHOWS_SCHEDULER, SHOWS_BLOCKED, BLOCKED_PARTLY].into_iter().all(shows), "{:?}", meta.source);
    assert!(rows.waits.is_sorted_by_key(|row| row.began));
    let mut shown = String::new();
    for row in &rows.waits {
        let request = row.request_id.map(|id| {
            let request = rows.requests.iter().find(|request| request.request_id == id);
            request.and_then(|request| request.sector).expect("the request is there").0
        });
        let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
        shown += &format!(
            "{} {}..{} {} {} {} by {} request {}\n",
            row.tid,
            row.began.0 / 1000,
            number(row.ended.map(|at| at.0 / 1000)),
            row.blocked_in.map_or("-", |operation| operation.name()),
            row.reason.name(),
            row.io_wait.map_or("-", |account| account.name()),
            number(row.waker_tid.map(u64::from)),
            number(request),
        );
    }
    shown
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&show(text));
}

#[test]
fn waits_are_joined_with_requests_and_threads() {
    check(
        LAUNCH,
        expect![[r#"
        30 900000..1000500 - thread - by 900 request -
        31 950000..1028000 - thread - by 30 request -
        40 970000..1031200 - thread - by 50 request -
        30 1000500..1001000 - cpu - by - request -
        900 1001600..1060000 - unknown - by - request -
        30 1006000..1025002 read storage yes by - request 100
        30 1025002..1026000 - cpu - by - request -
        31 1028000..1029000 - cpu - by - request -
        30 1029000..1053000 - thread - by 31 request -
        40 1031200..1031300 - cpu - by - request -
        50 1031300..1033000 - cpu - by - request -
        31 1032000..1050002 fsync storage yes by - request 300
        40 1033000..1052500 unknown lock no by 31 request -
        31 1050002..1051000 - cpu - by - request -
        40 1052500..1053500 - cpu - by - request -
        30 1053000..1054000 - cpu - by - request -
        50 1053500..- - unknown - by - request -
        31 1054000..- - unknown - by - request -
        40 1060000..- - unknown - by - request -
    "#]],
    );
}

/// Without the kernel's account, a completion just before the wake-up shows that the thread waited for storage.
#[test]
fn a_completion_shows_what_an_ordinary_kernel_does_not_tell() {
    let lines = LAUNCH.lines().filter(|line| !line.contains("sched_blocked_reason"));
    let text: String =
        lines.filter(|line| !line.contains("launchingActivity")).map(|line| format!("{line}\n")).collect();
    check(
        &text,
        expect![[r#"
        30 1006000..1025002 read storage unknown by - request 100
        31 1032000..1050002 fsync storage unknown by - request 300
        40 1033000..1052500 unknown unknown unknown by 31 request -
    "#]],
    );
    // Without flags, an interrupt looks like the thread that it stopped.
    let flags = ["d..2.", "d..3.", "d.h1.", "d.h2.", "d.h3.", "d.h4.", "....."];
    let bare = flags.iter().fold(text, |text, flags| text.replace(&format!("] {flags} "), "] "));
    check(
        &bare,
        expect![[r#"
        30 1006000..1025002 read storage unknown by - request 100
        31 1032000..1050002 fsync storage unknown by - request 300
        40 1033000..1052500 unknown unknown unknown by - request -
    "#]],
    );
}

/// `trace-cmd report` writes switches and wake-ups in a short form.
#[test]
fn the_short_form_of_trace_cmd() {
    check(
        "\
 fio-7 [000] ..... 1.000000: block_bio_queue: 8,0 R 8 + 8 [fio]
 fio-7 [000] ..... 1.001000: block_rq_issue: 8,0 R 4096 () 8 + 8 [fio]
 fio-7 [000] d..2. 1.002000: sched_switch: fio:7 [120] D ==> swapper/0:0 [120]
 <idle>-0 [000] d.h1. 1.003000: block_rq_complete: 8,0 R () 8 + 8 [0]
 <idle>-0 [000] d.h2. 1.003001: sched_wakeup: fio:7 [120] CPU:000
 <idle>-0 [000] d..2. 1.004000: sched_switch: swapper/0:0 [120] R ==> fio:7 [120]
",
        expect![[r#"
            7 1002000..1003001 read storage unknown by - request 8
        "#]],
    );
}

/// Several requests complete in one microsecond; each thread waited for its own.
#[test]
fn requests_of_the_same_time_are_told_apart_by_their_threads() {
    let mut text = String::new();
    for tid in 5..8 {
        text += &format!(" a-{tid} [000] ..... 1.00000{tid}: block_bio_queue: 8,0 R {tid}0 + 8 [a]\n");
        text += &format!(" a-{tid} [000] ..... 1.00010{tid}: block_rq_issue: 8,0 R 4096 () {tid}0 + 8 [a]\n");
        text += &format!(
            " a-{tid} [000] d..2. 1.00020{tid}: sched_switch: prev_comm=a prev_pid={tid} prev_prio=1 prev_state=D ==> next_comm=b next_pid=0 next_prio=1\n"
        );
    }
    for tid in 5..8 {
        text += &format!(" <idle>-0 [000] d.h1. 2.000000: block_rq_complete: 8,0 R () {tid}0 + 8 [0]\n");
    }
    for tid in 5..8 {
        text += &format!(
            " <idle>-0 [000] d.h2. 2.000000: sched_waking: comm=a pid={tid} prio=1 target_cpu=000\n"
        );
    }
    for tid in 5..8 {
        text += &format!(
            " a-9 [000] d..2. 2.10000{tid}: sched_switch: prev_comm=a prev_pid=9 prev_prio=1 prev_state=S ==> next_comm=a next_pid={tid} next_prio=1\n"
        );
    }
    check(
        &text,
        expect![[r#"
        5 1000205..2000000 read storage unknown by - request 50
        6 1000206..2000000 read storage unknown by - request 60
        7 1000207..2000000 read storage unknown by - request 70
    "#]],
    );
}
