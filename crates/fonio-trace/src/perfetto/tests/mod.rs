//! Tests of the reader on generated traces, and on traces with known answers.

mod naive;
mod samples;

use fonio_core::{Batch, BlockedIn, CollectedRows, EventKind, IoWait, TraceReader};
use proptest::prelude::*;

use super::encode::{self, Message, compressed, event, packet, trace};
use super::*;

/// Reads a trace to its end.
fn read(bytes: &[u8]) -> (Batch, PerfettoReader) {
    let mut reader = PerfettoReader::new(Input::of("trace", bytes));
    (reader.read_all().expect("memory reads"), reader)
}

fn codes(all: &Batch) -> Vec<&str> {
    all.diagnostics.iter().map(|one| one.code.as_str()).collect()
}

/// Returns a request event: its issue has the number 45, its completion 125.
fn request(time: u64, tid: u32, number: u32, sector: u64) -> Message {
    let content = Message::new().number(1, 1792).number(2, sector).number(3, 8);
    let content = match number {
        45 => content.number(4, 4096).bytes(5, b"WS").bytes(6, b"fio").bytes(7, b""),
        119 => content.bytes(4, b"WS").bytes(5, b"fio"),
        _ => content.bytes(5, b"WS").number(7, 0),
    };
    event(time, tid, number, &content)
}

fn bundle(cpu: u32, events: &[Message]) -> Message {
    events.iter().fold(Message::new().number(1, u64::from(cpu)), |bundle, event| bundle.message(2, event))
}

fn switch(time: u64, from: u32, state: u64, to: u32) -> Message {
    let content = Message::new()
        .bytes(1, b"from")
        .number(2, u64::from(from))
        .number(4, state)
        .bytes(5, b"to")
        .number(6, u64::from(to));
    event(time, from, 4, &content)
}

fn waking(time: u64, tid: u32) -> Message {
    event(time, 0, 20, &Message::new().bytes(1, b"to").number(2, u64::from(tid)))
}

fn blocked_reason(time: u64, tid: u32, is_io: bool, caller: u64) -> Message {
    let content = Message::new().number(1, u64::from(tid)).number(2, caller).number(3, u64::from(is_io));
    event(time, 0, 18, &content)
}

#[test]
fn completions_of_one_processor_come_before_issues_of_another() {
    let bytes = trace(&[
        packet(1, &bundle(0, &[request(200, 0, 125, 8), request(400, 0, 125, 16)])),
        packet(1, &bundle(1, &[request(100, 7, 45, 8), request(300, 7, 45, 16)])),
    ]);
    let (all, reader) = read(&bytes);
    let kinds: Vec<_> = all.events.iter().map(|event| (event.time.0, event.kind)).collect();
    let (issue, complete) = (EventKind::Issue, EventKind::Complete);
    assert_eq!(kinds, [(100, issue), (200, complete), (300, issue), (400, complete)]);
    assert_eq!(all.events[0].device.to_string(), "7:0");
    assert_eq!((all.events[0].tid, all.events[0].cpu, all.events[0].bytes.0), (Some(7), Some(1), 4096));
    assert_eq!(all.threads.iter().filter(|row| row.comm.as_deref() == Some("fio")).count(), 1);
    assert_eq!(all.diagnostics, []);
    assert_eq!(reader.source().shows, ["issue", "complete"]);
    assert_eq!(reader.clock().name, "boot");
}

#[test]
fn damage_is_located_and_the_rest_is_read() {
    let good = |time| packet(1, &bundle(0, &[request(time, 7, 45, time)]));
    // A packet that is cut.
    let mut bytes = trace(&[good(1), good(2)]);
    bytes.pop();
    let (all, _) = read(&bytes);
    assert_eq!((all.events.len(), codes(&all)), (1, vec!["cut-packet"]));
    let place = all.diagnostics[0].clone();
    assert_eq!((place.record, place.offset), (Some(2), Some(trace(&[good(1)]).len() as u64)));
    // A packet with damaged contents, damaged compression, and compression within compression.
    let broken = Message(vec![0x08]);
    let not_zlib = Message::new().bytes(50, b"no zlib");
    let nested = compressed(&[compressed(&[good(4)]), good(5)]);
    let (all, _) = read(&trace(&[good(1), broken, good(2), not_zlib, good(3), nested, good(6)]));
    assert_eq!(all.events.iter().map(|event| event.time.0).collect::<Vec<_>>(), [1, 2, 3, 5, 6]);
    let expected = ["damaged-packet", "damaged-packet", "nested-compression"];
    assert_eq!((codes(&all), all.diagnostics[2].record), (expected.to_vec(), Some(6)));
    // Bytes that are no packet.
    let (all, _) = read(&[trace(&[good(1)]), vec![0x12, 0]].concat());
    assert_eq!((all.events.len(), codes(&all)), (1, vec!["not-a-packet"]));
    let (all, _) = read(&[]);
    assert_eq!(codes(&all), ["no-ftrace"]);
}

#[test]
fn a_small_file_cannot_unpack_to_gigabytes() {
    let zeros = vec![0; 3 << 20];
    let large = Message::new().bytes(5000, &zeros);
    let bomb = compressed(&vec![large; 30]);
    let after = packet(1, &bundle(0, &[request(1, 7, 45, 8)]));
    let (all, _) = read(&trace(&[bomb, after]));
    assert_eq!((all.events.len(), codes(&all)), (1, vec!["damaged-packet"]));
    assert!(all.diagnostics[0].message.contains("64 MiB"));
}

#[test]
fn packets_of_another_machine_are_left_out() {
    let own = packet(1, &bundle(0, &[request(1, 7, 45, 8)]));
    let other = packet(2, &bundle(0, &[request(2, 7, 45, 8)])).number(98, 5);
    let (all, _) = read(&trace(&[other, own]));
    assert_eq!((all.events.len(), codes(&all)), (1, vec!["other-machine"]));
}

#[test]
fn two_data_sources_count_an_event_once() {
    let events = [request(1, 7, 45, 8), request(2, 7, 125, 8)];
    let both = [1, 2].map(|sequence| packet(sequence, &bundle(0, &events)));
    let (all, _) = read(&trace(&both));
    assert_eq!((all.events.len(), codes(&all)), (2, vec!["repeated-events"]));
}

#[test]
fn times_of_day_come_from_the_snapshot() {
    let clock = |id, time| Message::new().number(1, id).number(2, time);
    let snapshot = Message::new()
        .message(1, &clock(1, 1_000_000_000_000))
        .message(1, &clock(5, 300))
        .message(1, &clock(6, 500));
    let raw = bundle(0, &[request(1, 7, 45, 8)]).number(5, 4);
    let boot = bundle(0, &[request(1, 7, 45, 8)]);
    let snapshot = Message::new().message(6, &snapshot);
    let of = |bundle: &Message| read(&trace(&[snapshot.clone(), packet(1, bundle)])).1.clock();
    assert_eq!((of(&boot).name.as_str(), of(&boot).unix_ns_at_zero), ("boot", Some(999_999_999_500)));
    assert_eq!((of(&raw).name.as_str(), of(&raw).unix_ns_at_zero), ("mono_raw", Some(999_999_999_700)));
    let (all, _) = read(&trace(&[packet(1, &boot), packet(1, &raw)]));
    assert_eq!(codes(&all), ["second-clock"]);
}

#[test]
fn names_come_from_the_process_tree_and_the_packages() {
    let process =
        Message::new().number(1, 70).number(2, 1).bytes(3, b"com.example.long.app").number(5, 10_123);
    let thread = Message::new().number(1, 71).number(3, 70).bytes(2, b"worker");
    let tree = Message::new().message(1, &process).message(2, &thread);
    let package = Message::new().bytes(1, b"com.example.long.app").number(2, 10_123);
    let bytes = trace(&[
        packet(1, &bundle(0, &[request(50, 71, 45, 8)])),
        Message::new().message(2, &tree).number(8, 10),
        Message::new().message(47, &Message::new().message(1, &package)),
    ]);
    let (all, _) = read(&bytes);
    let row =
        |tid| all.threads.iter().rfind(|row| row.tid == tid && row.unit.is_some()).expect("it is named");
    let unit = Some("com.example.long.app");
    let main = row(70);
    assert_eq!(main.comm.as_deref(), Some("xample.long.app"));
    assert_eq!((main.uid, main.parent_pid, main.unit.as_deref()), (Some(10_123), Some(1), unit));
    assert_eq!((row(71).pid, row(71).unit.as_deref()), (Some(70), unit));
}

#[test]
fn waits_are_io_or_not_or_unknown() {
    let symbol = |id, name: &[u8]| Message::new().message(26, &Message::new().number(1, id).bytes(2, name));
    let mut events = vec![switch(0, 9, 0, 7)];
    for (at, reason) in [(100, Some(true)), (200, Some(false)), (300, None)] {
        events.push(switch(at, 7, 2, 0));
        events.push(waking(at + 10, 7));
        events.extend(reason.map(|is_io| blocked_reason(at + 11, 7, is_io, 4)));
        events.push(switch(at + 50, 0, 0, 7));
    }
    // State S, an idle worker of an old kernel, and a wait that does not end.
    events.push(switch(400, 7, 1, 8));
    events.push(switch(410, 8, 0x402, 7));
    events.push(switch(420, 7, 2, 8));
    let bytes = trace(&[packet(1, &bundle(0, &events)).message(12, &symbol(4, b"wait_on_page"))]);
    let (all, _) = read(&bytes);
    let waits: Vec<_> = (all.waits.iter().map(|seen| &seen.row))
        .map(|wait| {
            (wait.tid, wait.began.0, wait.ended.map(|at| at.0), wait.io_wait, wait.function.as_deref())
        })
        .collect();
    let named = Some("wait_on_page");
    assert_eq!(
        waits,
        [
            (7, 100, Some(110), Some(IoWait::Yes), named),
            (7, 200, Some(210), Some(IoWait::No), named),
            (7, 300, Some(310), Some(IoWait::Unknown), None),
        ]
    );
    let reasons: Vec<_> =
        all.waits.iter().map(|seen| &seen.row).map(|wait| (wait.reason.name(), wait.blocked_in)).collect();
    let operation = Some(BlockedIn::Unknown);
    assert_eq!(reasons, [("storage", operation), ("unknown", operation), ("unknown", operation)]);
    assert_eq!(codes(&all), ["no-block-events"]);
}

/// Compact wake-ups do not name the waker; since version 30 of Perfetto, their flags show interrupts.
#[test]
fn a_compact_wake_up_shows_the_waker_if_its_flags_do() {
    // The thread 9 runs on processor 0. It wakes the thread 7, and an interrupt that stops it wakes 8.
    let waits = |flags: Option<[u64; 2]>| {
        let compact = Message::new().bytes(5, b"name").packed(7, &[200, 20]).packed(8, &[7, 8]);
        let compact = compact.packed(9, &[0, 0]).packed(10, &[120, 120]).packed(11, &[0, 0]);
        let compact = flags.map_or(compact.clone(), |flags| compact.packed(12, &flags));
        let first = [switch(100, 7, 2, 8), switch(110, 8, 2, 9), request(210, 9, 125, 8)];
        let last = [switch(300, 9, 1, 7), switch(310, 7, 0, 8)];
        let bytes = trace(&[packet(1, &bundle(0, &[&first[..], &last].concat()).message(4, &compact))]);
        let (all, _) = read(&bytes);
        all.waits.iter().map(|seen| (seen.row.tid, seen.row.waker_tid, seen.completed_on)).collect::<Vec<_>>()
    };
    assert_eq!(waits(Some([0, 0x10])), [(7, Some(9), None), (8, None, Some(0))]);
    assert_eq!(waits(None), [(7, None, None), (8, None, Some(0))]);
}

/// Returns an event at the begin of a read (432), a write (434) or a sync (436) of a file.
fn file_begun(time: u64, number: u32, tid: u32, inode: u64, offset: u64) -> Message {
    let path = format!("/data/app/{inode}.db");
    let content = match number {
        436 => {
            Message::new().bytes(1, b"app").number(3, inode).bytes(4, path.as_bytes()).number(5, tid.into())
        }
        _ => {
            let content = Message::new().number(1, 4096).bytes(2, b"app").number(3, 1 << 20).number(4, inode);
            content.number(5, offset).bytes(6, path.as_bytes()).number(7, tid.into())
        }
    };
    event(time, tid, number, &content)
}

/// Returns an event at the end of a read (431), a write (433) or a sync (435); it happens on the thread `tid`.
fn file_ended(time: u64, number: u32, tid: u32, inode: u64, offset: u64) -> Message {
    event(time, tid, number, &Message::new().number(1, 0).number(2, inode).number(3, offset))
}

/// The calls: thread, name, path, offset, bytes, begin, end and result.
fn calls(all: &Batch) -> Vec<String> {
    let path = |id: Option<u32>| {
        let file = all.files.iter().find(|file| Some(file.file_id) == id);
        file.and_then(|file| file.path.clone()).unwrap_or_else(|| "-".to_owned())
    };
    let show = |number: Option<i64>| number.map_or("-".to_owned(), |number| number.to_string());
    let calls = all.calls.iter().map(|call| {
        format!(
            "{} {} {} at {} of {}: {}..{} = {}",
            call.tid,
            call.name,
            path(call.file_id),
            show(call.offset.map(|offset| offset as i64)),
            show(call.bytes.map(|bytes| bytes.0 as i64)),
            call.entered.0,
            call.exited.expect("it ended").0,
            show(call.result),
        )
    });
    calls.collect()
}

#[test]
fn reads_and_writes_of_android_name_the_file() {
    let first = [
        file_begun(10, 432, 30, 5, 0),
        file_begun(20, 434, 31, 6, 8192),
        file_ended(25, 433, 31, 6, 8192),
        // The read of the same place of another file with this inode number.
        file_begun(30, 432, 30, 7, 0),
        file_begun(31, 432, 31, 7, 0),
        file_begun(50, 432, 30, 8, 4096),
        file_begun(60, 432, 30, u64::MAX, u64::MAX),
    ];
    // The device's interrupts stop other threads.
    let second = [
        file_ended(40, 431, 0, 5, 0),
        file_ended(41, 431, 0, 7, 0),
        file_ended(42, 431, 0, 7, 0),
        file_ended(43, 431, 0, 9, 0),
        file_ended(70, 431, 0, u64::MAX, u64::MAX),
    ];
    let bytes = trace(&[packet(1, &bundle(0, &first)), packet(1, &bundle(1, &second))]);
    let (all, _) = read(&bytes);
    assert_eq!(
        calls(&all),
        [
            "31 write /data/app/6.db at 8192 of 4096: 20..25 = -",
            "30 read /data/app/5.db at 0 of 4096: 10..40 = -",
            "30 read /data/app/18446744073709551615.db at - of 4096: 60..70 = -",
        ]
    );
    let files: Vec<_> = all.files.iter().map(|file| (file.file_id, file.inode, file.from.0)).collect();
    assert_eq!(files[..3], [(0, Some(5), 10), (1, Some(6), 20), (2, Some(7), 30)]);
    let threads: Vec<_> = all.threads.iter().map(|row| (row.tid, row.comm.as_deref())).collect();
    assert_eq!(threads, [(30, Some("app")), (31, Some("app"))]);
    let said = all.diagnostics.iter().find(|one| one.code == "calls-without-end").expect("it is said");
    assert_eq!(said.message, "3 reads and writes of files were left out, because their end is unknown.");
}

#[test]
fn syncs_of_android_name_the_file_of_the_file_system_event() {
    let enter = |time, tid, is_data| {
        event(time, tid, 43, &Message::new().number(1, 1).number(2, 5).number(4, is_data))
    };
    let exit = |time, tid| event(time, tid, 44, &Message::new().number(1, 1).number(2, 5).number(3, 0));
    let of = |events: &[Message]| calls(&read(&trace(&[packet(1, &bundle(0, events))])).0);
    // Android's event alone, after, and before the file system's.
    let alone = [file_begun(10, 436, 30, 5, 0), file_ended(90, 435, 30, 5, 0)];
    assert_eq!(of(&alone), ["30 fsync /data/app/5.db at - of -: 10..90 = -"]);
    let after = [enter(9, 30, 1), file_begun(10, 436, 30, 5, 0), exit(80, 30), file_ended(90, 435, 30, 5, 0)];
    assert_eq!(of(&after), ["30 fdatasync /data/app/5.db at - of -: 9..80 = 0"]);
    let before = [file_begun(8, 436, 30, 5, 0), enter(9, 30, 0), exit(80, 30), file_ended(90, 435, 30, 5, 0)];
    assert_eq!(of(&before), ["30 fsync /data/app/5.db at - of -: 8..80 = 0"]);
    // The end of the first call was not recorded, and the second does not name its file.
    let later = [file_begun(8, 436, 30, 5, 0), enter(9_000_000, 30, 0), exit(9_000_080, 30)];
    assert_eq!(of(&later), ["30 fsync - at - of -: 9000000..9000080 = 0"]);
}

#[test]
fn events_without_a_row_are_counted_by_name() {
    let none = Message::new().number(1, 5);
    let named = |name: &str| Message::new().bytes(1, name.as_bytes());
    let describe =
        |id: u64, name: &str| Message::new().number(1, id).bytes(2, &named(name).0).bytes(3, b"jbd2");
    let events = [
        event(10, 7, 41, &none),
        event(11, 7, 41, &none),
        event(12, 7, 406, &none),
        event(13, 7, 327, &named("writeback_start")),
        event(14, 7, 65_536, &none),
        event(15, 7, 65_536, &none),
        event(16, 7, 65_536, &none),
        // Events of other parts of the kernel, and events without description.
        event(17, 7, 13, &none),
        event(18, 7, 65_537, &none),
        request(19, 7, 45, 8),
    ];
    let first = bundle(0, &events).message(11, &describe(65_536, "jbd2_start_commit\x1b"));
    let (all, _) = read(&trace(&[packet(1, &first)]));
    let said = all.diagnostics.iter().find(|one| one.code == "unused-events").expect("it is said");
    assert_eq!(
        said.message,
        "7 events were not used, because fonio has no row for them: jbd2_start_commit\\u{1b} (3), \
         ext4_da_write_begin (2), ufshcd_command (1), writeback_start (1)."
    );
    let (all, _) = read(&trace(&[packet(1, &bundle(0, &[request(19, 7, 45, 8)]))]));
    assert!(!codes(&all).contains(&"unused-events"));
}

fn print(time: u64, tid: u32, text: &str) -> Message {
    event(time, tid, 3, &Message::new().number(1, 77).bytes(2, text.as_bytes()))
}

#[test]
fn marks_of_programs_are_read() {
    let first = [print(10, 9, "S|9|launching: com.example|0"), print(11, 30, "B|30|bindApplication")];
    let second = [print(20, 30, "E|30"), print(30, 9, "F|9|launching: com.example|0\n"), print(31, 9, "now")];
    let bytes = trace(&[packet(1, &bundle(0, &first)), packet(1, &bundle(1, &second))]);
    let marks = read(&bytes).0.marks.into_iter();
    let marks: Vec<_> =
        marks.map(|mark| (mark.at.0, mark.until.map(|at| at.0), mark.name, mark.tid)).collect();
    let bind = (11, Some(20), "bindApplication".to_owned(), Some(30));
    let launch = (10, Some(30), "launching: com.example".to_owned(), Some(9));
    let now = (31, None, "now".to_owned(), Some(9));
    assert_eq!(marks, [bind, launch, now]);
}

#[test]
fn late_frames_are_marks_on_the_clock_of_the_events() {
    let clock = |id, time| Message::new().number(1, id).number(2, time);
    let snapshot = Message::new().message(1, &clock(3, 1000)).message(1, &clock(6, 1500));
    let snapshot = Message::new().message(6, &snapshot);
    let frame = |time: u64, field: u32, content: &Message, clock: Option<u64>| {
        let packet = Message::new().message(76, &Message::new().message(field, content)).number(8, time);
        clock.map_or(packet.clone(), |clock| packet.number(58, clock))
    };
    let late = |cookie, reasons| Message::new().number(1, cookie).number(4, 30).number(9, reasons);
    let end = |cookie| Message::new().number(1, cookie);
    let both = |time, clock| [frame(time, 4, &late(5, 64 | 8), clock), frame(time + 40, 5, &end(5), clock)];
    let on_time = [frame(100, 4, &late(6, 1), None), frame(120, 5, &end(6), None)];
    let events = packet(1, &bundle(0, &[switch(10, 1, 0, 2)]));
    let of = |packets: &[&[Message]]| {
        let (all, _) = read(&trace(&packets.concat()));
        let unclocked = codes(&all).contains(&"unclocked-frames");
        (all.marks.iter().map(|mark| (mark.at.0, mark.until.map(|at| at.0))).collect::<Vec<_>>(), unclocked)
    };
    let (snapshot, events) = (std::slice::from_ref(&snapshot), std::slice::from_ref(&events));
    assert_eq!(of(&[events, &both(600, None), &on_time]), (vec![(600, Some(640))], false));
    assert_eq!(of(&[snapshot, events, &both(600, Some(3))]), (vec![(1100, Some(1140))], false));
    assert_eq!(of(&[events, &both(600, Some(3))]), (vec![], true));
    let defaults = Message::new().message(59, &Message::new().number(58, 3)).number(10, 4);
    let of_sequence = both(600, None).map(|packet| packet.number(10, 4));
    let found = of(&[snapshot, events, std::slice::from_ref(&defaults), &of_sequence]);
    assert_eq!(found, (vec![(1100, Some(1140))], false));
    let (all, _) = read(&trace(&[events, &both(600, None)].concat()));
    assert_eq!(all.marks[0].name, "late frame: Display HAL, App Deadline Missed");
    assert_eq!(all.marks[0].tid, Some(30));
}

#[test]
fn counters_of_the_machine_are_samples() {
    let disk = |name: &str, read: u64| {
        Message::new().bytes(1, name.as_bytes()).number(2, read).number(3, 9).number(4, 2 * read)
    };
    let cpu = |cpu: u64| {
        Message::new().number(1, cpu).number(2, 70_000_000).number(4, 30_000_000).number(5, 90_000_000)
    };
    let counters = |disk: &Message| {
        Message::new()
            .message(1, &Message::new().number(1, 17).number(2, 4))
            .message(2, &Message::new().number(1, 50).number(2, 3))
            .message(3, &cpu(0))
            .message(3, &cpu(1))
            .message(13, disk)
            .message(14, &Message::new().number(1, 3).number(2, 5_000_000))
            .message(14, &Message::new().number(1, 99).number(2, 1))
    };
    let packet_of = |counters: &Message| Message::new().message(7, counters).number(8, 150).number(10, 2);
    let (all, _) = read(&trace(&[
        packet_of(&counters(&disk("sda", 6)).number(9, 140)),
        // A disk without any I/O, and a name that no disk has.
        packet_of(&counters(&disk("sdb", 0))),
        packet_of(&counters(&disk(&"x".repeat(40), 6)).number(9, u64::MAX)),
        packet(1, &bundle(0, &[request(200, 0, 125, 8)])),
    ]));
    let shown: Vec<String> = all
        .samples
        .iter()
        .map(|one| {
            format!(
                "{} {} {} {}",
                one.time.0,
                one.metric.name(),
                one.subject.as_deref().unwrap_or("-"),
                one.value
            )
        })
        .collect();
    assert_eq!(
        shown[..11],
        [
            "140 memory_dirty_bytes - 4096",
            "140 major_faults - 3",
            "140 processor_active_ticks cpu0 10",
            "140 processor_active_ticks cpu1 10",
            "140 disk_read_bytes sda 3072",
            "140 disk_write_bytes sda 6144",
            "140 pressure_some_us io 5000",
            "140 cpu_active_ticks - 20",
            "140 cpu_idle_ticks - 18",
            "140 cpu_iowait_ticks - 0",
            "140 cpu_steal_ticks - 0",
        ]
    );
    assert!(shown[11..].iter().all(|line| !line.contains("disk")), "{shown:?}");
    // Events by another clock.
    let (all, _) = read(&trace(&[
        packet(1, &bundle(0, &[request(200, 0, 125, 8)]).number(5, 4)),
        packet_of(&counters(&disk("sda", 6))),
    ]));
    assert!(all.samples.is_empty() && codes(&all).contains(&"unclocked-counters"), "{:?}", codes(&all));
}

#[test]
fn sync_calls_are_paired_by_thread() {
    let sync = |time, tid, field, number: u32, value| {
        event(time, tid, field, &Message::new().number(1, 8).number(2, 12).number(number, value))
    };
    let minus_five = (-5_i64) as u64;
    let events = [
        sync(10, 7, 43, 4, 1),
        sync(11, 8, 255, 4, 0o100644),
        sync(20, 7, 44, 3, 0),
        sync(31, 8, 256, 5, minus_five),
        // Its begin is missing.
        sync(40, 7, 44, 3, 0),
    ];
    let (all, _) = read(&trace(&[packet(1, &bundle(0, &events))]));
    let calls: Vec<_> = (all.calls.iter())
        .map(|call| (call.tid, call.name.as_str(), call.entered.0, call.exited.map(|at| at.0), call.result))
        .collect();
    let expected = [(7, "fdatasync", 10, Some(20), Some(0)), (8, "fsync", 11, Some(31), Some(-5))];
    assert_eq!(calls, expected);
    let mut rows = CollectedRows::default();
    let mut reader = PerfettoReader::new(Input::of("trace", trace(&[packet(1, &bundle(0, &events))])));
    crate::assemble::assemble(&mut reader, crate::assembler::AssemblerOptions::default(), &mut rows)
        .expect("memory reads");
    assert_eq!(rows.calls.iter().map(|call| call.call_id).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn losses_are_told_with_their_place() {
    let first = packet(1, &bundle(0, &[switch(10, 5, 2, 0), request(20, 7, 45, 8)]));
    let lost = bundle(0, &[request(40, 7, 45, 16), switch(50, 0, 0, 5)]);
    let check = |packets: &[Message], code: &str, gap: (u64, u64)| {
        let (all, reader) = read(&trace(packets));
        assert_eq!(codes(&all)[0], code);
        let gaps: Vec<_> = all.lost.iter().map(|gap| (gap.after.0, gap.before.0)).collect();
        assert_eq!(gaps, [gap]);
        assert_eq!((all.diagnostics[0].record, all.events.len()), (Some(packets.len() as u64), 2));
        // The wait of thread 5 goes across the gap.
        assert_eq!((all.waits.len(), reader.state.sleeps.cut), (0, 1));
    };
    check(&[first.clone(), packet(1, &lost.clone().number(3, 1))], "lost-events", (20, 40));
    let rows = |packets: &[Message]| {
        let mut reader = PerfettoReader::new(Input::of("trace", trace(packets)));
        let mut rows = CollectedRows::default();
        let options = crate::assembler::AssemblerOptions::default();
        crate::assemble::assemble(&mut reader, options, &mut rows).expect("memory reads");
        rows.requests.iter().filter(|row| row.completed.is_some()).count()
    };
    // A completion after the gap does not end a request from before.
    let completes = bundle(0, &[request(40, 0, 125, 8)]);
    assert_eq!(rows(&[first.clone(), packet(1, &completes)]), 1);
    assert_eq!(rows(&[first.clone(), packet(1, &completes.number(3, 1))]), 0);
    let (all, _) = read(&trace(&[first.clone(), packet(1, &lost).number(42, 1).number(87, 0)]));
    assert_eq!(codes(&all)[..2], ["dropped-packets", "lost-events"]);
    // The first packet of each sequence has the flag without a loss.
    let (all, _) = read(&trace(&[first.clone().number(42, 1).number(87, 1)]));
    assert_eq!((codes(&all), all.lost.len()), (vec![], 0));
    // A ring buffer: the second processor's events begin late.
    let ring = bundle(1, &[request(30, 7, 45, 24)]).number(10, 25);
    let (all, _) = read(&trace(&[first.clone(), packet(1, &ring)]));
    assert_eq!((codes(&all)[0], all.lost[0].before.0), ("overwritten-events", 30));
    // The kernel's counters show a loss that no bundle shows.
    let stats = |phase, overrun| {
        let cpu = Message::new().number(1, 0).number(3, overrun);
        let stats = Message::new().number(1, phase).message(2, &cpu).bytes(7, b"block/block_rq_insert");
        Message::new().message(34, &stats)
    };
    let buffers = Message::new().message(1, &Message::new().number(3, 46).number(18, 2));
    let (all, _) = read(&trace(&[first, stats(1, 5), stats(2, 12), Message::new().message(35, &buffers)]));
    assert_eq!(codes(&all), ["kernel-overrun", "overwritten-buffer", "discarded-packets", "denied-events"]);
    assert_eq!((all.lost[0].count, all.lost[0].after.0, all.lost[0].before.0), (Some(7), 10, 20));
    assert!(all.diagnostics[3].message.contains("block/block_rq_insert"));
}

#[test]
fn events_out_of_every_order_are_counted() {
    // The third round of processor 0 has an event of the first round.
    let mut packets = Vec::new();
    for round in 1..6 {
        for cpu in 0..2 {
            let at = round * 100 + u64::from(cpu);
            packets.push(packet(1, &bundle(cpu, &[request(at, 7, 45, at)])));
        }
    }
    packets.push(packet(1, &bundle(0, &[request(150, 7, 45, 1)])));
    let (all, reader) = read(&trace(&packets));
    assert_eq!((all.events.len(), reader.state.order.late), (11, 1));
    assert_eq!(codes(&all), ["out-of-order"]);
}

/// A trace of several processors, drained in rounds as the recorder does.
#[derive(Clone, Debug)]
struct Drained {
    cpus: u32,
    /// For each event: the time since the event before, the processor, and a number that gives its kind.
    events: Vec<(u64, u32, u32)>,
    /// Number of events between two drains of a processor.
    per_drain: usize,
    compress: bool,
    compact: bool,
}

fn drained() -> impl Strategy<Value = Drained> {
    let events = prop::collection::vec((0_u64..40, 0_u32..4, 0_u32..60), 0..120);
    (1_u32..5, events, 1_usize..9, any::<bool>(), any::<bool>()).prop_map(
        |(cpus, events, per_drain, compress, compact)| Drained { cpus, events, per_drain, compress, compact },
    )
}

impl Drained {
    /// Returns the trace.
    fn bytes(&self) -> Vec<u8> {
        let mut time = 1000;
        let mut waiting: Vec<Vec<(u64, u32)>> = vec![Vec::new(); self.cpus as usize];
        let mut running = vec![0; self.cpus as usize];
        let (mut packets, mut turn) = (Vec::new(), 0);
        for (number, (step, cpu, kind)) in self.events.iter().enumerate() {
            time += step;
            let cpu = cpu % self.cpus;
            waiting[cpu as usize].push((time, *kind));
            if number % self.per_drain == 0 {
                packets.extend(self.drain(turn, &mut waiting, &mut running));
                turn = (turn + 1) % self.cpus;
            }
        }
        for cpu in (0..self.cpus).map(|cpu| (turn + cpu) % self.cpus) {
            packets.extend(self.drain(cpu, &mut waiting, &mut running));
        }
        if self.compress && packets.len() > 2 {
            let rest = packets.split_off(packets.len() / 2);
            packets.push(compressed(&rest));
        }
        trace(&packets)
    }

    /// Returns the bundle of everything that waits in a processor's buffer.
    fn drain(&self, cpu: u32, waiting: &mut [Vec<(u64, u32)>], running: &mut [u32]) -> Option<Message> {
        let events = std::mem::take(&mut waiting[cpu as usize]);
        if events.is_empty() {
            return None;
        }
        let mut message = Message::new().number(1, u64::from(cpu));
        let mut columns: [Vec<u64>; 8] = Default::default();
        let mut before = 0;
        for (time, kind) in events {
            let tid = 1 + kind % 7;
            match kind {
                0..10 => message = message.message(2, &request(time, tid, 45, u64::from(kind))),
                10..20 => message = message.message(2, &request(time, tid, 125, u64::from(kind - 10))),
                20..25 => message = message.message(2, &request(time, tid, 119, u64::from(kind))),
                25..35 => message = message.message(2, &waking(time, tid)),
                35..40 => message = message.message(2, &blocked_reason(time, tid, kind % 2 == 0, 0)),
                _ => {
                    let state = [0, 1, 2, 2, 2, 0x402][kind as usize % 6];
                    let from = std::mem::replace(&mut running[cpu as usize], tid);
                    if self.compact {
                        for (column, value) in [(1, time - before), (2, state), (3, u64::from(tid)), (6, 0)] {
                            columns[column].push(value);
                        }
                        before = time;
                    } else {
                        message = message.message(2, &switch(time, from, state, tid));
                    }
                }
            }
        }
        if !columns[1].is_empty() {
            let compact = Message::new().bytes(5, b"to");
            let compact =
                [1, 2, 3, 6].into_iter().fold(compact, |all, at| all.packed(at, &columns[at as usize]));
            message = message.message(4, &compact);
        }
        Some(encode::packet(1, &message))
    }
}

proptest! {
    #[test]
    fn events_and_waits_are_those_of_a_naive_reader(drained in drained()) {
        let bytes = drained.bytes();
        let (all, reader) = read(&bytes);
        let naive = naive::read(&bytes);
        let events: Vec<_> =
            all.events.iter().map(|event| (event.time.0, event.cpu, event.kind, event.sector.0)).collect();
        prop_assert_eq!(events, naive.events);
        prop_assert_eq!(reader.state.order.late, 0);
        let mut waits: Vec<_> = (all.waits.iter().map(|seen| &seen.row))
            .map(|wait| (wait.tid, wait.began.0, wait.ended.expect("it ended").0, wait.io_wait.expect("it is known")))
            .collect();
        waits.sort_unstable();
        prop_assert_eq!(waits, naive.waits);
    }

    #[test]
    fn damage_neither_panics_nor_adds_events(
        drained in drained(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = drained.bytes();
        for (at, byte) in damage {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        recognise(&bytes);
        let (all, _) = read(&bytes);
        prop_assert!(all.events.len() <= drained.events.len() || drained.compress);
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        recognise(&bytes);
        read(&bytes);
        read(&trace(&[encode::packet(1, &Message(bytes))]));
    }
}
