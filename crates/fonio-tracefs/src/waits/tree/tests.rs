use expect_test::{Expect, expect};
use fonio_core::{BlockEvent, ByteCount, CollectedRows, DeviceId, EventKind, Op, Request};

use super::*;

/// The rows of a script with one event per line: `TIME CPU CURRENT EVENT…`. `!` after the current thread means a hard
/// interrupt, `!!` a soft one. A stack is written as the reason that it shows: `blocked REASON` or `waker REASON`.
fn rows(script: &str) -> String {
    let mut tree = WaitTree::new(10, Reasons::default());
    let mut completions = Completions::default();
    let mut named = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].trim_end_matches('!').parse::<u64>().expect("a number");
        let (time, cpu) = (number(0), number(1) as u32);
        let event = match words[3] {
            "fork" => SchedEvent::Fork { parent: number(2) as u32, child: number(4) as u32 },
            "wake" => SchedEvent::Waking { tid: number(4) as u32 },
            "ran" => SchedEvent::Ran { tid: number(4) as u32, ns: number(5) },
            "complete" => {
                let event = BlockEvent::new(Timestamp(time), EventKind::Complete, DeviceId(0));
                let event = BlockEvent { cpu: Some(cpu), ..event };
                completions.event(&event);
                let request = Request::new(DeviceId(0), Op::Read, ByteCount(0));
                completions.request(&Request {
                    request_id: number(4),
                    completed: Some(Timestamp(time)),
                    ..request
                });
                continue;
            }
            "blocked" | "waker" => {
                let reason = WaitReason::from_name(words[4]);
                match tree.stack_of.remove(&cpu) {
                    Some(StackOf::Blocked(at)) => tree.intervals[at].reason = reason,
                    Some(StackOf::Waking(at)) => {
                        tree.intervals[at].woken.as_mut().expect("it was woken").learn(reason);
                    }
                    Some(StackOf::EarlyWaking(_)) | None => {}
                }
                continue;
            }
            left => SchedEvent::Switch {
                prev: number(2) as u32,
                prev_comm: b"x",
                left: match left {
                    "preempted" => Left::Preempted,
                    "sleeps" => Left::Blocked { uninterruptible: false },
                    "waits" => Left::Blocked { uninterruptible: true },
                    "ends" => Left::Ended,
                    other => panic!("{other}?"),
                },
                next: number(4) as u32,
            },
        };
        let interrupt = match words[2].matches('!').count() {
            0 => None,
            1 => Some(Interrupt::Hard),
            _ => Some(Interrupt::Soft),
        };
        let record = SchedRecord { current: number(2) as u32, interrupt, event };
        tree.event(time, cpu, &record, &mut named);
    }
    let span = tree.span();
    let mut rows = CollectedRows::default();
    tree.finish(&completions, &mut rows).expect("memory takes everything");
    let at = |time: Option<Timestamp>| time.map_or_else(|| "?".to_owned(), |time| time.0.to_string());
    let waits: String = rows.waits.iter().map(show).collect();
    format!("{waits}command {}..{}", at(span.began), at(span.ended))
}

fn show(row: &Wait) -> String {
    let ended = row.ended.map_or_else(|| "?".to_owned(), |ended| ended.0.to_string());
    let request = row.request_id.map(|request| format!(" request {request}"));
    let waker = row.waker_tid.map(|waker| format!(" by {waker}"));
    let (request, waker) = (request.unwrap_or_default(), waker.unwrap_or_default());
    format!("{} {}..{ended} {}{request}{waker}\n", row.tid, row.began.0, row.reason.name())
}

fn check(script: &str, expected: Expect) {
    expected.assert_eq(&rows(script));
}

#[test]
fn a_command_that_reads_and_ends() {
    check(
        "100 0 5 fork 10
         130 1 0 preempted 10
         200 1 10 waits 0
         203 1 10 blocked storage
         900 0 7 complete 42
         905 0 7! wake 10
         906 0 7 waker storage
         950 1 0 preempted 10
         990 1 10 preempted 8
         1000 1 8 preempted 10
         1100 1 10 ends 0",
        expect![[r#"
            10 100..130 cpu by 5
            10 200..905 storage request 42
            10 905..950 cpu
            10 990..1000 cpu
            command 100..1100"#]],
    );
}

#[test]
fn children_belong_to_the_command_and_others_do_not() {
    check(
        "100 0 5 fork 10
         100 1 0 preempted 10
         200 1 10 fork 11
         205 1 10 sleeps 0
         206 1 10 blocked thread
         210 0 0 preempted 11
         300 0 11 wake 10
         301 0 11 waker thread
         301 0 5 fork 12
         305 0 11 ends 12
         310 1 0 preempted 10
         320 0 12 waits 0",
        expect![[r#"
            10 100..100 cpu by 5
            11 200..210 cpu by 10
            10 205..300 thread by 11
            10 300..310 cpu
            command 100..?"#]],
    );
}

#[test]
fn where_the_stack_shows_no_reason_the_waker_decides() {
    check(
        "0 0 5 fork 10
         0 0 5 preempted 10
         10 0 10 sleeps 0
         11 0 10 blocked nothing
         20 0 0! wake 10
         21 0 0 waker network
         21 0 0 preempted 10
         30 0 10 sleeps 0
         31 0 10 blocked lock
         40 0 0! wake 10
         41 0 0 waker timer
         41 0 0 preempted 10
         50 0 10 waits 0
         60 0 0! wake 10
         60 0 0 preempted 10
         70 0 10 sleeps 0",
        expect![[r#"
            10 0..0 cpu by 5
            10 10..20 network
            10 20..21 cpu
            10 30..40 timer
            10 40..41 cpu
            10 50..60 storage
            10 70..? unknown
            command 0..?"#]],
    );
}

#[test]
fn an_interrupt_without_a_stack_counts_as_timer_or_network() {
    // The last four: a stack that shows no reason, a wait for a lock with a timeout, a read that an interrupt ends, and
    // a thread that wakes another without a stack.
    check(
        "0 0 5 fork 10
         0 0 5 preempted 10
         10 1 10 sleeps 0
         20 1 0! wake 10
         20 1 0 preempted 10
         30 1 10 sleeps 0
         40 1 0!! wake 10
         40 1 0 preempted 10
         50 1 10 waits 0
         60 1 0! wake 10
         60 1 0 preempted 10
         70 0 10 sleeps 0
         80 0 0! wake 10
         80 0 0 waker nothing
         80 0 0 preempted 10
         90 1 10 sleeps 0
         90 1 10 blocked lock
         100 1 0! wake 10
         100 1 0 preempted 10
         110 1 10 sleeps 0
         110 1 10 blocked storage
         120 1 0!! wake 10
         120 1 0 preempted 10
         130 1 10 sleeps 0
         140 1 7 wake 10
         140 1 0 preempted 10
         150 1 10 ends 0",
        expect![[r#"
            10 0..0 cpu by 5
            10 10..20 timer
            10 30..40 network
            10 50..60 storage
            10 70..80 unknown
            10 90..100 timer
            10 110..120 storage
            10 130..140 unknown by 7
            command 0..150"#]],
    );
}

#[test]
fn woken_while_it_leaves() {
    check(
        "0 0 5 fork 10
         0 0 5 preempted 10
         10 1 6! wake 10
         12 0 10 waits 0
         13 0 10 blocked storage
         15 0 0 preempted 10
         20 0 10 sleeps 0
         30 0 0 preempted 10",
        expect![[r#"
            10 0..0 cpu by 5
            10 12..15 cpu
            10 20..30 unknown
            command 0..?"#]],
    );
}

#[test]
fn processors_whose_clocks_differ() {
    // The thread runs on processor 1 before processor 0 reports that it was created, and again before it reports the
    // wake-up.
    check(
        "100 1 0 preempted 10
         103 0 5 fork 10
         200 1 10 sleeps 0
         201 1 10 blocked nothing
         300 1 0 preempted 10
         303 0 0! wake 10
         304 0 0 waker network
         400 1 10 ends 0",
        expect![[r#"
            10 103..103 cpu by 5
            10 200..300 network
            command 103..400"#]],
    );
}

#[test]
fn a_thread_came_onto_an_idle_processor_when_its_runtime_began() {
    // Processor 1 goes from idle to the thread at 130, at 340 (another thread ran there before), and at 620, without a
    // wake-up in the trace. At 730 the thread continues after a preemption.
    check(
        "100 0 5 fork 10
         180 1 10! ran 10 50
         200 1 10 ran 10 20
         200 1 10 sleeps 0
         201 1 10 blocked nothing
         300 0 0! wake 10
         301 0 0 waker timer
         330 1 8 sleeps 0
         400 1 10 ran 10 60
         400 1 10 waits 0
         401 1 10 blocked storage
         700 1 10 ran 10 80
         700 1 10 preempted 0
         750 1 10 ran 10 20
         760 1 10 ran 10 10
         760 1 10 ends 0",
        expect![[r#"
            10 100..130 cpu by 5
            10 200..300 timer
            10 300..340 cpu
            10 400..620 storage
            10 700..730 cpu
            command 100..760"#]],
    );
}

#[test]
fn a_runtime_that_contradicts_what_was_seen() {
    // Processor 1, whose clock is behind, reports how long the thread ran on processor 0 after the thread left it. Then
    // the thread leaves a processor without an event of entering it and without any run time. Finally it ran for longer
    // than since its wake-up.
    check(
        "0 0 5 fork 10
         0 0 5 preempted 10
         100 0 10 waits 0
         101 0 10 blocked storage
         102 1 7! ran 10 40
         200 0 0! wake 10
         260 1 10 waits 0
         300 1 0! wake 10
         340 1 10 ran 10 50
         340 1 10 ends 0",
        expect![[r#"
            10 0..0 cpu by 5
            10 100..200 storage
            10 200..260 cpu
            10 260..300 storage
            command 0..340"#]],
    );
}

#[test]
fn a_trace_without_idle_threads_and_runtimes() {
    // The trace does not show processor 1 going from idle to the thread. The second time, another thread ran there
    // until 340.
    check(
        "100 0 5 fork 10
         200 1 10 sleeps 0
         201 1 10 blocked nothing
         300 0 0! wake 10
         301 0 0 waker timer
         330 1 8 sleeps 0
         340 1 9 sleeps 0
         400 1 10 waits 0
         401 1 10 blocked storage
         500 0 0! wake 10
         501 0 0 waker storage
         600 1 10 preempted 0
         700 1 10 ends 0",
        expect![[r#"
            10 100..100 cpu by 5
            10 200..300 timer
            10 300..340 cpu
            10 400..500 storage
            10 600..700 cpu
            command 100..700"#]],
    );
}
