//! Compares the waits that result from scripts of events with the expected waits.

use expect_test::expect_file;
use fonio_testing::cases::cases;
use proptest::prelude::*;

use super::*;

/// Adds events such as `10 cpu0 left 7`, `20 cpu1 waking 7 by 9`, `20 cpu1 waking 7 by 9 irq`, `21 cpu0
/// woken 7`, `15 cpu0 gap`, `19 cpu0 reason 7 io`, and handles them up to a time: `until 30`.
fn run(script: &str) -> String {
    let mut threads = BlockedThreads::default();
    let mut shown = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["until", time] = words[..] {
            threads.until(time.parse().unwrap(), &mut |ended| shown += &show(&ended));
            continue;
        }
        let (time, cpu) = (words[0].parse().unwrap(), words[1].trim_start_matches("cpu").parse().unwrap());
        if words[2] == "gap" {
            threads.gap(time, cpu);
            continue;
        }
        let tid = words[3].parse().unwrap();
        let event = match words[2] {
            "was" => {
                threads.was_blocked(tid, Timestamp(time));
                continue;
            }
            "left" => SchedEvent::Switch {
                prev: tid,
                prev_comm: b"dd",
                left: Left::Blocked { uninterruptible: true },
                next: 0,
            },
            "waking" => SchedEvent::Waking { tid },
            "woken" => SchedEvent::Woken { tid },
            "reason" => SchedEvent::BlockedReason { tid, caller: 0x77, is_io: words.get(4) == Some(&"io") },
            other => panic!("{other}"),
        };
        let current = words.get(5).map_or(0, |by| by.parse().unwrap());
        let interrupt = (words.last() == Some(&"irq")).then_some(Interrupt::Hard);
        threads.event(time, cpu, &SchedRecord { current, interrupt, event });
    }
    for open in threads.take_open() {
        shown += &show(&open);
    }
    if threads.end_missed() > 0 {
        shown += &format!("{} without an end\n", threads.end_missed());
    }
    shown
}

fn show(thread: &BlockedThread) -> String {
    let BlockedThread { tid, began, ended, woken_by, .. } = thread;
    let ended = ended.map_or("…".to_owned(), |ended| ended.0.to_string());
    let by = woken_by.map(|by| match by.interrupt {
        None => format!(" by {}", by.current),
        Some(_) => format!(" by an interrupt on {}", by.cpu),
    });
    let io = thread.is_io.map(|is_io| if is_io { " for I/O" } else { " not for I/O" });
    let stack = if thread.stack.is_empty() { String::new() } else { format!(" in {:x?}", thread.stack) };
    let before = if thread.began_before { " (or before)" } else { "" };
    format!(
        "{tid} {}{before} to {ended}{}{}{stack}\n",
        began.0,
        by.unwrap_or_default(),
        io.unwrap_or_default()
    )
}

#[test]
fn waits_of_all_threads() {
    let file = expect_file!["cases.txt"];
    file.assert_eq(&cases(&file.data(), run));
}

#[test]
fn a_stack_belongs_to_the_last_switch_of_its_processor() {
    use crate::ring_buffer::{ByteOrder, EventFormat, SchedDecoder};
    let formats = [
        "name: sched_switch\nID: 1\nfield:unsigned short common_type; offset:0; size:2; signed:0;\n\
         field:unsigned char common_flags; offset:2; size:1; signed:0;\n\
         field:int common_pid; offset:4; size:4; signed:1;\nfield:int prev_pid; offset:8; size:4; signed:1;\n\
         field:int prev_state; offset:12; size:4; signed:1;\nfield:int next_pid; offset:16; size:4; signed:1;\n",
        "name: kernel_stack\nID: 2\nfield:int size; offset:8; size:4; signed:1;\n\
         field:unsigned long caller[8]; offset:16; size:64; signed:0;\n",
    ];
    let formats = formats.map(|text| EventFormat::parse(text).unwrap());
    let decoder = SchedDecoder::new(&formats, ByteOrder::Little).unwrap();
    let record = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut threads = BlockedThreads::default();
    for (time, cpu, bytes) in [
        (10, 0, record(&[1, 7, 7, 2, 0])),
        (11, 1, record(&[1, 8, 8, 2, 0])),
        (12, 0, record(&[2, 7, 2, 0, 0x111, 0, 0x222, 0])),
    ] {
        threads.event(time, cpu, &decoder.decode(&bytes).unwrap());
    }
    threads.until(20, &mut |ended| panic!("{ended:?}"));
    let open = threads.take_open();
    let stacks: Vec<(u32, &[u64])> = open.iter().map(|open| (open.tid, &open.stack[..])).collect();
    assert_eq!(stacks, [(7, &[0x111, 0x222][..]), (8, &[])]);
    assert_eq!(threads.stacks(), 1);
}

proptest! {
    /// The waits do not depend on how the events are divided into rounds of reading.
    #[test]
    fn rounds_change_nothing(
        events in prop::collection::vec((0_u8..3, 1_u32..4, 0_u32..3), 0..60),
        ends in prop::collection::vec(0_usize..60, 0..6),
    ) {
        let line = |(at, (what, tid, cpu)): (usize, &(u8, u32, u32))| {
            let what = ["left", "waking", "woken"][usize::from(*what)];
            format!("{} cpu{cpu} {what} {tid} by 9\n", at * 10)
        };
        let lines: Vec<String> = events.iter().enumerate().map(line).collect();
        let at_once = run(&(lines.concat() + "until 9999"));
        let mut rounds = String::new();
        for (at, line) in lines.iter().enumerate() {
            rounds += line;
            if ends.contains(&at) {
                rounds += &format!("until {}\n", at * 10);
            }
        }
        prop_assert_eq!(run(&(rounds + "until 9999")), at_once);
    }
}
