use expect_test::expect_file;
use fonio_core::{BlockEvent, ByteCount, CollectedRows, DeviceId, EventKind, Op, Request};
use fonio_testing::cases::cases;

use super::*;

/// Returns the rows that result from a script with one event per line: `TIME CPU CURRENT EVENT…`. `!` after
/// the current thread means that the event happened in a hard interrupt; `!!` means a soft interrupt. A stack
/// is given by its reason: `blocked REASON` or `waker REASON`.
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

#[test]
fn waits_of_a_command() {
    let file = expect_file!["cases.txt"];
    file.assert_eq(&cases(&file.data(), |script| rows(script) + "\n"));
}
