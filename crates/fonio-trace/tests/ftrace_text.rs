//! Tests how ftrace text of several kernels is read, from bytes to events.

use expect_test::{Expect, expect, expect_file};
use fonio_core::{Batch, BlockEvent, CollectedRows, EventKind, Op, TraceReader};
use fonio_trace::ftrace_text::{FtraceReader, recognise};
use fonio_trace::input::Input;

/// Returns all output of a reader.
fn read_all(bytes: &[u8]) -> (Batch, FtraceReader) {
    let mut reader = FtraceReader::new(Input::of("trace.txt", bytes));
    (reader.read_all().expect("memory reads"), reader)
}

fn event(event: &BlockEvent) -> String {
    let mut line = format!(
        "{} {:?} {} {} {:#x} {}+{} cpu {} tid {}",
        event.time.0,
        event.kind,
        event.device,
        event.op.name(),
        event.flags.0,
        event.sector.0,
        event.bytes.0,
        event.cpu.map_or("?".into(), |cpu| cpu.to_string()),
        event.tid.map_or("?".into(), |tid| tid.to_string()),
    );
    if let Some(ioprio) = event.ioprio {
        line += &format!(" ioprio {}/{}/{}", ioprio >> 13, ioprio >> 3 & 0x3ff, ioprio & 7);
    }
    if let Some(error) = event.error {
        line += &format!(" error {error}");
    }
    line
}

fn show(bytes: &[u8]) -> String {
    let (all, reader) = read_all(bytes);
    let mut text = format!("{:?}\n{:?}\n", reader.source(), reader.clock());
    text.extend(all.events.iter().map(|one| event(one) + "\n"));
    for one in &all.threads {
        text += &format!("thread {} from {} pid {:?} {:?}\n", one.tid, one.from.0, one.pid, one.comm);
    }
    text.extend(all.marks.iter().map(|one| format!("{one:?}\n")));
    text.extend(all.samples.iter().map(|one| format!("{one:?}\n")));
    text.extend(all.lost.iter().map(|one| format!("{one:?}\n")));
    for one in &all.diagnostics {
        text += &format!(
            "{:?} {} line {:?} byte {:?} ×{}: {}\n",
            one.severity, one.code, one.record, one.offset, one.count, one.message
        );
    }
    text
}

/// Reads a trace of kernel 3.4 with a thread-group column, a trace without latency columns, and a trace of
/// kernel 6.18 with I/O priorities.
#[test]
fn traces_of_several_kernels() {
    for name in ["ftrace-3.4-tgid", "ftrace-nolatency", "ftrace-6.18"] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
        let trace = std::fs::read(format!("{folder}/{name}.txt")).expect("the trace is part of the sources");
        assert!(recognise(&trace), "{name}");
        expect_file![format!("data/{name}.expected")].assert_eq(&show(&trace));
    }
}

#[test]
fn carriage_returns_and_a_missing_header_change_nothing() {
    let trace = include_str!("data/ftrace-6.18.txt");
    let bare: String =
        trace.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\r\n")).collect();
    assert!(recognise(bare.as_bytes()));
    assert_eq!(read_all(bare.as_bytes()).0.events, read_all(trace.as_bytes()).0.events);
}

fn check(trace: &str, expected: Expect) {
    expected.assert_eq(&show(trace.as_bytes()));
}

/// A launch in a systrace of Android: who was blocked, by the kernel's account, and in which function.
#[test]
fn waits_of_threads() {
    let text = "\
system-900 (900) [001] ...1 1.000000: tracing_mark_write: S|900|launching: com.example|0
<idle>-0 (-----) [000] d..2 1.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=ample.app next_pid=30 next_prio=110
ample.app-30 (30) [000] d..2 1.010000: sched_switch: prev_comm=ample.app prev_pid=30 prev_prio=110 prev_state=D|K ==> next_comm=swapper/0 next_pid=0 next_prio=120
<idle>-0 (-----) [001] d..2 1.040000: sched_waking: comm=ample.app pid=30 prio=110 success=1 target_cpu=000
<idle>-0 (-----) [001] d..2 1.040001: sched_blocked_reason: pid=30 iowait=1 caller=wait_on_page_bit+0x34/0x70
<idle>-0 (-----) [000] d..2 1.041000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=ample.app next_pid=30 next_prio=110
ample.app-30 (30) [000] d..2 1.050000: f2fs_sync_file_enter: dev = (259,23), ino = 12, pino = 3, i_mode = 0x81b0
ample.app-30 (30) [000] d..2 1.050001: sched_switch: prev_comm=ample.app prev_pid=30 prev_prio=110 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
<idle>-0 (-----) [000] d..2 1.051000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=ample.app next_pid=30 next_prio=110
ample.app-30 (30) [000] d..2 1.052000: sched_switch: prev_comm=ample.app prev_pid=30 prev_prio=110 prev_state=D ==> next_comm=swapper/0 next_pid=0 next_prio=120
<idle>-0 (-----) [000] d..2 1.062000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=ample.app next_pid=30 next_prio=110
ample.app-30 (30) [000] d..2 1.063000: f2fs_sync_file_exit: dev = (259,23), ino = 12, cp_reason: no needed, datasync = 1, ret = 0
system-900 (900) [001] ...1 1.070000: tracing_mark_write: F|900|launching: com.example|0
";
    let (all, reader) = read_all(text.as_bytes());
    assert_eq!(reader.source().shows, ["scheduler"]);
    let shown: Vec<String> = (all.waits.iter().map(|seen| &seen.row))
        .map(|wait| {
            let ended = wait.ended.expect("it ended");
            format!("{} {} {} {:?} {:?}", wait.tid, wait.began.0, ended.0, wait.io_wait, wait.function)
        })
        .chain(all.calls.iter().map(|call| {
            format!("{} {} {} {:?}", call.name, call.tid, call.entered.0, call.exited.map(|at| at.0))
        }))
        .chain(
            all.marks
                .iter()
                .map(|mark| format!("{} {} {:?}", mark.name, mark.at.0, mark.until.map(|at| at.0))),
        )
        .collect();
    expect![[r#"
        30 1010000000 1040000000 Some(Yes) Some("wait_on_page_bit")
        30 1040000000 1041000000 None None
        30 1050001000 1051000000 None None
        30 1052000000 1062000000 Some(Unknown) None
        fdatasync 30 1050000000 Some(1063000000)
        launching: com.example 1000000000 Some(1070000000)"#]]
    .assert_eq(&shown.join("\n"));
    // A wait across lost events is left out.
    let lost = text.replacen("<idle>-0 (-----) [001]", "CPU:0 [LOST 3 EVENTS]\n<idle>-0 (-----) [001]", 1);
    let (all, _) = read_all(lost.as_bytes());
    assert_eq!(
        all.waits.iter().map(|seen| &seen.row).map(|wait| wait.began.0).collect::<Vec<_>>(),
        [1_050_001_000, 1_052_000_000]
    );
}

#[test]
fn nanoseconds_and_counters() {
    check(
        "a-1 [000] ..... 12.000000345: block_plug: [a]\n",
        expect![[r#"
            Source { format: "ftrace", files: ["trace.txt"], shows: ["plug"] }
            Clock { name: "unknown", unix_ns_at_zero: None }
            12000000345 Plug 0:0 other 0x0 0+0 cpu 0 tid 1
            thread 1 from 12000000345 pid None Some("a")
        "#]],
    );
    check(
        "a-1 [000] ..... 345: block_plug: [a]\n",
        expect![[r#"
            Source { format: "ftrace", files: ["trace.txt"], shows: ["plug"] }
            Clock { name: "counter", unix_ns_at_zero: None }
            345 Plug 0:0 other 0x0 0+0 cpu 0 tid 1
            thread 1 from 345 pid None Some("a")
            Warning counter-clock line Some(1) byte Some(0) ×1: The times are whole numbers, so the trace clock was a counter (`counter`, `x86-tsc`, `uptime`); they are treated as nanoseconds, so all durations are in its units.
        "#]],
    );
}

#[test]
fn damage_is_told_with_its_place_and_the_rest_is_read() {
    let long = "x".repeat(100_000);
    check(
        &format!(
            "garbage\na-1 [000] 1.0: block_rq_issue: 8,0 R\n{long}\n  [000] 1.0: block_rq_issue: 8,0 R 0 () 1 + 8 [a]\na-1 [000] 1.5: block_rq_issue: 8,0 R 0 () 1 + 8 [a]\na-1 [000] 1.6: block_rq_is"
        ),
        expect![[r#"
            Source { format: "ftrace", files: ["trace.txt"], shows: ["issue"] }
            Clock { name: "unknown", unix_ns_at_zero: None }
            1500000000 Issue 8:0 read 0x0 1+4096 cpu 0 tid 1
            thread 1 from 1000000000 pid None Some("a")
            Note no-event line Some(1) byte Some(0) ×1: Lines that are not ftrace events were skipped, the first at this position.
            Warning unreadable-event line Some(2) byte Some(8) ×1: This `block_rq_issue` is in a format that no known kernel writes; it was skipped.
            Warning long-line line Some(3) byte Some(45) ×1: The line is longer than 65536 bytes; it was skipped.
            Warning unreadable-line line Some(4) byte Some(100046) ×1: The line names a block event, but its columns cannot be read; it was skipped.
        "#]],
    );
}

/// Tests the complete trace. The golden test above uses only its beginning.
#[test]
fn every_line_of_a_real_trace_is_understood() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/ftrace-6.18-block.txt");
    let trace = match std::fs::read(&path) {
        Err(error) => {
            return fonio_testing::skip(
                fonio_testing::Need::Shared,
                format!("cannot read {}: {error}", path.display()),
            );
        }
        Ok(trace) => trace,
    };
    let (all, _) = read_all(&trace);
    assert_eq!(all.diagnostics, []);
    let lines = trace.split(|byte| *byte == b'\n');
    let named = lines.filter(|line| line.windows(8).any(|part| part == b": block_")).count();
    assert_eq!(all.events.len(), named);
    let flushes =
        all.events.iter().filter(|event| event.kind == EventKind::Issue && event.op == Op::Flush).count();
    assert!(flushes > 10, "{flushes} flushes");
}

mod properties {
    use fonio_core::{ByteCount, DeviceId, Flags, Sector, Timestamp};
    use proptest::prelude::*;

    use super::*;

    /// Formats an event as Linux 6.11 and later do.
    fn write(event: &BlockEvent, comm: &str, rwbs: &str) -> String {
        let (seconds, micros) = (event.time.0 / 1_000_000_000, event.time.0 / 1000 % 1_000_000);
        let (tid, cpu) = (event.tid.unwrap_or(0), event.cpu.unwrap_or(0));
        let (name, body) = {
            let (major, minor) = (event.device.major(), event.device.minor());
            let place = format!("{} + {}", event.sector.0, event.bytes.0 / 512);
            let ioprio = event.ioprio.unwrap_or(0);
            let class = ["none", "rt", "be", "idle"][usize::from(ioprio >> 13)];
            let priority = format!("{class},{},{}", ioprio >> 3 & 0x3ff, ioprio & 7);
            match event.kind {
                EventKind::Issue => (
                    "block_rq_issue",
                    format!("{major},{minor} {rwbs} {} () {place} {priority} [{comm}]", event.bytes.0),
                ),
                EventKind::Complete => (
                    "block_rq_complete",
                    format!("{major},{minor} {rwbs} () {place} {priority} [{}]", event.error.unwrap_or(0)),
                ),
                EventKind::Remap { from_device, from_sector } => (
                    "block_bio_remap",
                    format!(
                        "{major},{minor} {rwbs} {place} <- ({},{}) {}",
                        from_device.major(),
                        from_device.minor(),
                        from_sector.0
                    ),
                ),
                _ => ("block_bio_queue", format!("{major},{minor} {rwbs} {place} [{comm}]")),
            }
        };
        format!("{comm:>16}-{tid:<7} [{cpu:03}] ..s1. {seconds:>5}.{micros:06}: {name}: {body}\n")
    }

    fn kinds() -> impl Strategy<Value = EventKind> {
        prop_oneof![
            Just(EventKind::Issue),
            Just(EventKind::Complete),
            Just(EventKind::BioQueue),
            (any::<u32>(), any::<u64>()).prop_map(|(device, sector)| EventKind::Remap {
                from_device: DeviceId(device),
                from_sector: Sector(sector)
            }),
        ]
    }

    proptest! {
        #[test]
        fn an_event_written_is_the_event_read(
            (micros, kind, device) in (0_u64..1 << 50, kinds(), any::<u32>()),
            (sector, sectors) in (any::<u64>(), 1_u64..1 << 23),
            (rwbs, op, flags) in prop_oneof![
                Just(("RA", Op::Read, Flags::READAHEAD)),
                Just(("WFSM", Op::Write, Flags::FUA | Flags::SYNC | Flags::META)),
                Just(("FF", Op::Flush, Flags::PREFLUSH)),
                Just(("D", Op::Discard, Flags::NONE)),
            ],
            (cpu, tid) in (0_u32..4096, 1_u32..1 << 22),
            comm in "[ -~]{1,15}",
            (class, low, error) in (0_u16..4, 0_u16..1 << 13, -133_i32..=0),
        ) {
            let ends = kind == EventKind::Complete;
            let has_priority = ends || kind == EventKind::Issue;
            let expected = BlockEvent {
                sector: Sector(sector),
                bytes: ByteCount(sectors * 512),
                op,
                flags,
                flags_known: Flags::KNOWN_FROM_RWBS,
                cpu: Some(cpu),
                tid: Some(tid),
                ioprio: has_priority.then_some(class << 13 | low),
                error: ends.then_some(error),
                ..BlockEvent::new(Timestamp(micros * 1000), kind, DeviceId(device))
            };
            let text = write(&expected, &comm, rwbs);
            // A thread name that looks like the start of an event cannot be distinguished from a real event.
            let (all, _) = read_all(text.as_bytes());
            prop_assert_eq!(&all.events, &[expected], "{}", text);
            prop_assert_eq!(&all.diagnostics, &[]);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            recognise(&bytes);
            read_all(&bytes);
        }

        #[test]
        fn no_damage_makes_it_panic(cut in 0_usize..4000, at in 0_usize..4000, byte in any::<u8>()) {
            let mut trace = include_bytes!("data/ftrace-3.4-tgid.txt").to_vec();
            let place = at % trace.len();
            trace[place] = byte;
            trace.truncate(trace.len() - cut % trace.len());
            read_all(&trace);
        }
    }
}

/// The trace has one read between scheduler lines, a second without events, and one damaged time.
#[test]
fn a_trace_spans_all_its_events() {
    let line = |seconds: &str, event: &str| format!("            dd-7     [000] .....  {seconds}: {event}\n");
    let sched = "sched_switch: prev_comm=dd prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120";
    let issue = "block_rq_issue: 8,0 R 4096 () 8 + 8 none,0,0 [dd]";
    let complete = "block_rq_complete: 8,0 R () 8 + 8 none,0,0 [0]";
    let mut text = [line("10.000000", sched), line("12.000000", issue), line("12.001000", complete)].concat();
    text += &line("15.000000", sched);
    let meta_of = |text: &str| {
        let mut reader = FtraceReader::new(Input::of("trace.txt", text));
        let mut rows = CollectedRows::default();
        let options = fonio_trace::assembler::AssemblerOptions::default();
        let meta = fonio_trace::assemble::assemble(&mut reader, options, &mut rows).expect("memory reads");
        let seconds = |time: Option<fonio_core::Timestamp>| time.expect("there are events").0 as f64 / 1e9;
        assert_eq!(rows.began, meta.began);
        let codes: Vec<String> = rows.diagnostics.into_iter().map(|one| one.code).collect();
        (seconds(meta.began), seconds(meta.ended), codes)
    };
    assert_eq!(meta_of(&text), (10.0, 15.0, vec![]));
    let damaged = text.clone() + &line("3155760000.000000", sched);
    assert_eq!(meta_of(&damaged), (10.0, 15.0, vec!["absurd-time".to_owned()]));
}
