//! Lists the questions that a trace can answer, by format. The table in `docs/traces.md` is made from this list.

use crate::format::Format;

/// A question that a trace may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TraceQuestion {
    /// How long the device took for a request: from issue to completion.
    ServiceTime,
    /// How long a request waited before its issue.
    QueueTime,
    /// Which thread or process issued a request.
    Issuer,
    /// Which thread was blocked in the kernel, and for how long.
    Blocked,
    /// Which request a blocked thread waited for.
    WaitedRequest,
    /// Which other thread ended the wait of a blocked thread.
    WaitedThread,
    /// Whether the kernel counted a wait as I/O, and in which function the thread slept.
    WaitReason,
    /// How latencies are distributed, as numbers of requests in ranges.
    Histogram,
    /// How much each device moved, and which share of the time it was busy.
    Totals,
    /// How long sync calls took in a file system.
    SyncCalls,
    /// Which calls of a file system were slow, of which program and file.
    SlowCalls,
    /// How long an Android app took to launch, its waits in this time, and the critical path.
    AppLaunches,
    /// Which frames of an Android app were late, and its waits in this time.
    LateFrames,
}

/// Whether traces of a format answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Every trace of the format does.
    Yes,
    /// A trace does, if these events, columns or actions were recorded.
    With(&'static str),
    /// No trace of the format does.
    No,
}

/// The events from which requests are joined with waits.
const REQUESTS_AND_WAITS: &str = "block_rq_issue, block_rq_complete, sched_switch, sched_waking";

impl TraceQuestion {
    /// All questions.
    pub const ALL: [TraceQuestion; 13] = [
        TraceQuestion::Totals,
        TraceQuestion::ServiceTime,
        TraceQuestion::Histogram,
        TraceQuestion::QueueTime,
        TraceQuestion::Issuer,
        TraceQuestion::Blocked,
        TraceQuestion::WaitedRequest,
        TraceQuestion::WaitedThread,
        TraceQuestion::WaitReason,
        TraceQuestion::SyncCalls,
        TraceQuestion::SlowCalls,
        TraceQuestion::AppLaunches,
        TraceQuestion::LateFrames,
    ];

    /// Returns the question in the user's words.
    pub fn words(self) -> &'static str {
        match self {
            TraceQuestion::ServiceTime => "How long did the device take? In which queue, at which depth?",
            TraceQuestion::Histogram => "In which ranges are the latencies, without single requests?",
            TraceQuestion::QueueTime => "How long did requests wait before the device?",
            TraceQuestion::Issuer => "Whose requests were they?",
            TraceQuestion::Blocked => "Who was blocked in the kernel (state D), and for how long?",
            TraceQuestion::WaitedRequest => {
                "Which request did a blocked thread wait for? Whose requests were in the way?"
            }
            TraceQuestion::WaitedThread => {
                "Which other thread did a blocked thread wait for, such as for a lock?"
            }
            TraceQuestion::WaitReason => "Was the wait I/O, and in which function of the kernel?",
            TraceQuestion::Totals => "How much did each device move? (requests, bytes)",
            TraceQuestion::SyncCalls => "How long did sync calls take?",
            TraceQuestion::SlowCalls => "Which programs made slow calls of a file system, on which files?",
            TraceQuestion::AppLaunches => {
                "What held up the launch of an Android app? What was its critical path?"
            }
            TraceQuestion::LateFrames => "What held up a late frame of an Android app?",
        }
    }
}

impl Format {
    /// Returns whether traces of the format answer a question.
    pub fn answers(self, question: TraceQuestion) -> Answered {
        use Answered::{No, With, Yes};
        use TraceQuestion::{Histogram, Issuer, QueueTime, ServiceTime, SlowCalls, SyncCalls, Totals};
        match self {
            Format::Ftrace
            | Format::PerfScript
            | Format::PerfData
            | Format::Systrace
            | Format::Perfetto
            | Format::TraceDat
            | Format::Ctf => self.answers_by_events(question),
            Format::Blktrace | Format::Blkparse => match question {
                Totals => With("actions D or C"),
                ServiceTime => With("actions D and C"),
                QueueTime => With("action Q"),
                Issuer => Yes,
                _ => No,
            },
            Format::Biosnoop => match question {
                Totals | ServiceTime | Issuer => Yes,
                QueueTime => With("`-Q`"),
                _ => No,
            },
            Format::Csv => match question {
                Totals => Yes,
                ServiceTime => With("issue, and completion or latency"),
                QueueTime => With("queueing time"),
                Issuer => With("process or tid"),
                _ => No,
            },
            Format::FioLog => match question {
                Totals => Yes,
                ServiceTime => With("`_clat` in its name"),
                _ => No,
            },
            Format::Totals => match question {
                Totals => With("totals of iostat, sar -d or /proc/diskstats"),
                Histogram => With("a histogram of biolatency"),
                _ => No,
            },
            Format::FsSlower => match question {
                SlowCalls => Yes,
                SyncCalls => With("sync calls slower than the limit"),
                _ => No,
            },
            Format::MsrCambridge if question == ServiceTime => Yes,
            Format::MsrCambridge | Format::DiskSim | Format::FioIolog | Format::Vscsi => match question {
                Totals => Yes,
                _ => No,
            },
        }
    }

    /// Returns whether traces of a format with the kernel's tracepoints answer a question.
    fn answers_by_events(self, question: TraceQuestion) -> Answered {
        use TraceQuestion::{
            AppLaunches, Blocked, Histogram, Issuer, LateFrames, QueueTime, ServiceTime, SlowCalls,
            SyncCalls, Totals, WaitReason, WaitedRequest, WaitedThread,
        };
        let lacks: &[TraceQuestion] = match self {
            Format::PerfScript => &[WaitedThread, AppLaunches, LateFrames],
            Format::PerfData => &[WaitReason, AppLaunches, LateFrames],
            Format::Ctf => &[WaitedThread, WaitReason, SyncCalls, AppLaunches, LateFrames],
            Format::Perfetto => &[],
            _ => &[LateFrames],
        };
        if lacks.contains(&question) {
            return Answered::No;
        }
        Answered::With(match question {
            Totals => "block_rq_issue or block_rq_complete",
            ServiceTime => "block_rq_issue, block_rq_complete",
            QueueTime => "block_bio_queue",
            Issuer => "block_rq_issue or block_bio_queue",
            Blocked => "sched_switch, sched_waking",
            WaitedRequest | WaitedThread => REQUESTS_AND_WAITS,
            WaitReason => "sched_blocked_reason (Android's kernels)",
            SyncCalls => "ext4_sync_file_enter, _exit; f2fs_sync_file_enter, _exit",
            AppLaunches => "atrace am, sched_switch, sched_waking",
            LateFrames => "android.surfaceflinger.frametimeline, and sched_switch",
            Histogram | SlowCalls => return Answered::No,
        })
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::meta::{LATE_FRAME, SHOWS_SLOW_CALLS};
    use fonio_core::{CollectedRows, Metric};

    use super::*;
    use crate::assemble::assemble;
    use crate::assembler::AssemblerOptions;
    use crate::input::Input;
    use crate::perfetto::encode::{Message, event, packet, trace};
    use crate::recognise::{ReadOptions, open};

    /// Checks that the table in `docs/traces.md` is up to date; `UPDATE_EXPECT=1 cargo test` writes it.
    #[test]
    fn the_published_table_is_up_to_date() {
        const BEGIN: &str = "<!-- questions -->\n";
        const END: &str = "<!-- end of questions -->\n";
        let mut text = String::from("| question | answered by | if the trace has |\n|---|---|---|\n");
        for question in TraceQuestion::ALL {
            // Formats with the same condition share a row.
            let mut rows: Vec<(Answered, Vec<String>)> = Vec::new();
            for format in Format::ALL {
                let (answered, name) = (format.answers(question), format!("`{format}`"));
                match rows.iter_mut().find(|(known, _)| *known == answered) {
                    Some((_, names)) => names.push(name),
                    None => rows.push((answered, vec![name])),
                }
            }
            let mut words = question.words();
            for (answered, names) in rows {
                let condition = match answered {
                    Answered::Yes => "always",
                    Answered::With(condition) => condition,
                    Answered::No => continue,
                };
                text += &format!("| {words} | {} | {condition} |\n", names.join(", "));
                // The question stands once.
                words = "";
            }
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/traces.md");
        let document = std::fs::read_to_string(path).expect("the document is there");
        let (before, rest) = document.split_once(BEGIN).expect("the document marks the table");
        let (_, after) = rest.split_once(END).expect("the document marks the end of the table");
        expect_test::expect_file!["../../../docs/traces.md"]
            .assert_eq(&format!("{before}{BEGIN}\n{text}\n{END}{after}"));
    }

    /// Checks that the table in `README.md` is up to date; `UPDATE_EXPECT=1 cargo test` writes it.
    #[test]
    fn the_table_of_formats_is_up_to_date() {
        const BEGIN: &str = "<!-- formats -->\n";
        const END: &str = "<!-- end of formats -->\n";
        const COLUMNS: [(&str, &[TraceQuestion]); 5] = [
            ("requests, latency", &[TraceQuestion::ServiceTime]),
            ("whose requests", &[TraceQuestion::Issuer]),
            ("who was blocked", &[TraceQuestion::Blocked]),
            ("calls", &[TraceQuestion::SlowCalls, TraceQuestion::SyncCalls]),
            ("totals", &[TraceQuestion::Totals, TraceQuestion::Histogram]),
        ];
        // Formats with the same answers share a row.
        let mut rows: Vec<([&str; COLUMNS.len()], Vec<&str>)> = Vec::new();
        for format in Format::ALL {
            let cells = COLUMNS.map(|(_, questions)| {
                let answers = || questions.iter().map(|question| format.answers(*question));
                if answers().any(|answer| answer == Answered::Yes) {
                    "yes"
                } else if answers().all(|answer| answer == Answered::No) {
                    ""
                } else {
                    "if recorded"
                }
            });
            match rows.iter_mut().find(|(known, _)| *known == cells) {
                Some((_, names)) => names.push(format.describe()),
                None => rows.push((cells, vec![format.describe()])),
            }
        }
        let mut text = format!("| trace | {} |\n|---|", COLUMNS.map(|(name, _)| name).join(" | "));
        text += &format!("{}\n", "---|".repeat(COLUMNS.len()));
        for (cells, names) in rows {
            text += &format!("| {} | {} |\n", names.join("; "), cells.join(" | "));
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
        let document = std::fs::read_to_string(path).expect("the document is there");
        let (before, rest) = document.split_once(BEGIN).expect("the document marks the table");
        let (_, after) = rest.split_once(END).expect("the document marks the end of the table");
        expect_test::expect_file!["../../../README.md"]
            .assert_eq(&format!("{before}{BEGIN}\n{text}\n{END}{after}"));
    }

    /// Returns the questions that a trace answers, by its rows.
    fn answered(bytes: &[u8], format: Format) -> Vec<TraceQuestion> {
        // The name of a log of fio says what its values are.
        answered_by(vec![Input::of("trace_clat.log", bytes)], format)
    }

    fn answered_by(inputs: Vec<Input>, format: Format) -> Vec<TraceQuestion> {
        let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
        let mut reader = open(inputs, &options).expect("it is read");
        let mut rows = CollectedRows::default();
        let meta = assemble(&mut *reader, AssemblerOptions::default(), &mut rows).expect("memory reads");
        let is_slow = meta.source.shows.iter().any(|shown| shown == SHOWS_SLOW_CALLS);
        let has_mark = |begin: &str| rows.marks.iter().any(|mark| mark.name.starts_with(begin));
        let waits = !rows.waits.is_empty();
        let is_for_thread = |row: &fonio_core::Wait| row.blocked_in.is_some() && row.waker_tid.is_some();
        // Waits in other states than D are recorded during launches.
        let has_path = rows.waits.iter().any(|row| row.blocked_in.is_none());
        let moved = rows.samples.iter().any(|sample| sample.metric == Metric::DiskRequests);
        let known = [
            (TraceQuestion::Totals, moved || !rows.requests.is_empty()),
            (TraceQuestion::ServiceTime, rows.requests.iter().any(|row| row.service().is_some())),
            (TraceQuestion::Histogram, rows.samples.iter().any(|sample| sample.metric.is_of_histogram())),
            (TraceQuestion::QueueTime, rows.requests.iter().any(|row| row.queue().is_some())),
            (TraceQuestion::Issuer, rows.requests.iter().any(|row| row.tid.is_some())),
            (TraceQuestion::Blocked, waits),
            (TraceQuestion::WaitedRequest, rows.waits.iter().any(|row| row.request_id.is_some())),
            (TraceQuestion::WaitedThread, rows.waits.iter().any(is_for_thread)),
            (TraceQuestion::WaitReason, rows.waits.iter().any(|row| row.function.is_some())),
            (TraceQuestion::SyncCalls, rows.calls.iter().any(|row| row.name.contains("sync"))),
            (TraceQuestion::SlowCalls, is_slow && !rows.calls.is_empty()),
            (TraceQuestion::AppLaunches, has_path && has_mark("launching: ")),
            (TraceQuestion::LateFrames, waits && has_mark(LATE_FRAME)),
        ];
        known.into_iter().filter(|(_, is_known)| *is_known).map(|(question, _)| question).collect()
    }

    const TEXT: &str = "\
a-30 [000] ..... 1.000000: tracing_mark_write: S|9|launching: com.example|0
a-30 [000] ..... 1.001000: f2fs_sync_file_enter: dev = (8,0), ino = 12
a-30 [000] ..... 1.002000: block_bio_queue: 8,0 WS 8 + 8 [a]
a-30 [000] ..... 1.003000: block_rq_issue: 8,0 WS 4096 () 8 + 8 [a]
a-30 [000] d..2. 1.004000: sched_switch: prev_comm=a prev_pid=30 prev_prio=1 prev_state=D ==> next_comm=b next_pid=31 next_prio=1
b-31 [000] d..2. 1.004500: sched_switch: prev_comm=b prev_pid=31 prev_prio=1 prev_state=D ==> next_comm=b next_pid=0 next_prio=1
<idle>-0 [000] d..2. 1.005000: block_rq_complete: 8,0 WS () 8 + 8 [0]
<idle>-0 [000] d..2. 1.006000: sched_waking: comm=a pid=30 prio=1 target_cpu=000
<idle>-0 [000] d..2. 1.006001: sched_blocked_reason: pid=30 iowait=1 caller=io_schedule+0x1/0x2
<idle>-0 [000] d..2. 1.007000: sched_switch: prev_comm=b prev_pid=0 prev_prio=1 prev_state=R ==> next_comm=a next_pid=30 next_prio=1
a-30 [000] ..... 1.008000: f2fs_sync_file_exit: dev = (8,0), ino = 12, datasync = 0, ret = 0
a-30 [000] d..2. 1.008500: sched_waking: comm=b pid=31 prio=1 target_cpu=000
a-30 [000] d..2. 1.008600: sched_switch: prev_comm=a prev_pid=30 prev_prio=1 prev_state=S ==> next_comm=b next_pid=31 next_prio=1
b-31 [000] ..... 1.009000: tracing_mark_write: F|9|launching: com.example|0
";

    /// The same events as `perf script` prints them, without marks.
    fn perf_script() -> String {
        let lines = TEXT.lines().filter(|line| !line.contains("tracing_mark_write"));
        let perf = |line: &str| {
            let (thread, rest) = line.split_once(" [000] ").expect("there is a processor");
            let (comm, tid) = thread.rsplit_once('-').expect("there is a thread");
            let (_, rest) = rest.split_once(' ').expect("there are flags");
            let (time, event) = rest.split_once(": ").expect("there is a time");
            format!("{comm} {tid} [000] {time}:   system:{event}\n")
        };
        lines.map(perf).collect()
    }

    /// A perf.data with the same events, without marks and the reason of the wait.
    /// The formats of the same events, as a tracepoint's file in tracefs has them.
    fn formats(all: &[(&str, u16)]) -> Vec<String> {
        const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
            \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
            \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
            \tfield:unsigned int nr_sector;\toffset:12;\tsize:4;\tsigned:0;\n\
            \tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield:pid_t prev_pid;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield:int prev_state;\toffset:12;\tsize:4;\tsigned:1;\n\
            \tfield:pid_t next_pid;\toffset:16;\tsize:4;\tsigned:1;\n\
            \tfield:bool io_wait;\toffset:12;\tsize:1;\tsigned:0;\n\
            \tfield:void* caller;\toffset:16;\tsize:8;\tsigned:0;\n";
        all.iter().map(|(name, id)| format!("name: {name}\nID: {id}\n{COMMON}")).collect()
    }

    const BLOCKS: [(&str, u16); 3] =
        [("block_bio_queue", 1), ("block_rq_issue", 2), ("block_rq_complete", 3)];
    const SYNCS: [(&str, u16); 2] = [("f2fs_sync_file_enter", 4), ("f2fs_sync_file_exit", 5)];
    const SCHEDULER: [(&str, u16); 2] = [("sched_switch", 6), ("sched_waking", 7)];

    /// The records of the same events, with their times and threads. The event 8 is `sched_blocked_reason`.
    fn records() -> Vec<(u64, u8, Vec<u8>)> {
        let record = |time: u64, id: u8, tid: u8, numbers: [u8; 3]| {
            let mut raw = vec![0; 24];
            (raw[0], raw[4]) = (id, tid);
            (raw[8], raw[12], raw[16]) = (numbers[0], numbers[1], numbers[2]);
            (time, tid, raw)
        };
        vec![
            record(11, 4, 30, [0; 3]),
            record(12, 1, 30, [8, 8, 64]),
            record(13, 2, 30, [8, 8, 64]),
            record(14, 6, 30, [30, 2, 31]),
            record(14, 6, 31, [31, 2, 0]),
            record(15, 3, 0, [8, 8, 64]),
            record(16, 7, 0, [30, 0, 0]),
            record(17, 8, 0, [30, 1, 0x55]),
            record(18, 6, 0, [0, 0, 30]),
            record(19, 5, 30, [0; 3]),
            record(20, 7, 30, [31, 0, 0]),
            record(21, 6, 30, [30, 1, 31]),
        ]
    }

    fn perf_data() -> Vec<u8> {
        use fonio_tracefs::ring_buffer::ByteOrder;

        use crate::perf_data::encode::{Contents, Event, Written};

        let sample = |(time, tid, raw): (u64, u8, Vec<u8>)| {
            let tid = u32::from(tid);
            Written::Sample { id: 1, time, pid: tid, tid, cpu: 0, raw }
        };
        Contents {
            order: ByteOrder::Little,
            systems: vec![
                ("block".into(), formats(&BLOCKS)),
                ("f2fs".into(), formats(&SYNCS)),
                ("sched".into(), formats(&SCHEDULER)),
            ],
            events: vec![Event::tracepoint(vec![1])],
            clocks: None,
            records: records().into_iter().map(sample).collect(),
            packed_together: 0,
        }
        .file()
    }

    const PRINT: &str = "name: print\nID: 9\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n";

    /// A trace.dat of a kernel of Android.
    fn trace_dat() -> Vec<u8> {
        use crate::trace_dat::encode::Contents;

        const HEADER_PAGE: &str =
            include_str!("../../fonio-tracefs/tests/data/linux-6.18-x86_64/header_page");
        let scheduler = [&SCHEDULER[..], &[("sched_blocked_reason", 8)]].concat();
        let print = |time: u64, tid: u8, text: &str| {
            let mut raw = vec![0; 16];
            (raw[0], raw[4]) = (9, tid);
            raw.extend(text.bytes().chain(*b"\n\0"));
            (time, raw)
        };
        let mut records: Vec<(u64, Vec<u8>)> =
            records().into_iter().map(|(time, _, raw)| (time, raw)).collect();
        records.insert(0, print(10, 30, "S|9|launching: com.example|0"));
        records.push(print(21, 31, "F|9|launching: com.example|0"));
        Contents {
            header_page: HEADER_PAGE.into(),
            ftrace: vec![PRINT.into()],
            systems: vec![
                ("block".into(), formats(&BLOCKS)),
                ("f2fs".into(), formats(&SYNCS)),
                ("sched".into(), formats(&scheduler)),
            ],
            symbols: "50 T io_schedule\n60 T schedule\n".into(),
            clock: "local [mono]".into(),
            buffers: vec![(String::new(), "mono".into(), vec![Contents::page(0, &records)])],
            page_bytes: 4096,
            chunk_pages: 1,
            packing: "none".into(),
            ..Contents::default()
        }
        .version_7()
    }

    /// A trace of Perfetto with the same events, and a late frame.
    fn perfetto() -> Vec<u8> {
        let request = |number: u32| {
            let content = Message::new().number(1, 8 << 8).number(2, 8).number(3, 8);
            match number {
                45 => content.number(4, 4096).bytes(5, b"WS").bytes(6, b"a"),
                119 => content.bytes(4, b"WS").bytes(5, b"a"),
                _ => content.bytes(5, b"WS").number(7, 0),
            }
        };
        let switch = |from: u64, state, to: u64| {
            Message::new().bytes(1, b"a").number(2, from).number(4, state).bytes(5, b"b").number(6, to)
        };
        let print = |text: &[u8]| Message::new().bytes(2, text);
        let sync = Message::new().number(1, 8 << 8).number(2, 12);
        let events = [
            event(10, 30, 3, &print(b"S|9|launching: com.example|0")),
            event(11, 30, 255, &sync),
            event(12, 30, 119, &request(119)),
            event(13, 30, 45, &request(45)),
            event(14, 30, 4, &switch(30, 2, 31)),
            event(14, 31, 4, &switch(31, 2, 0)),
            event(15, 0, 125, &request(125)),
            event(16, 0, 20, &Message::new().bytes(1, b"a").number(2, 30)),
            event(17, 0, 18, &Message::new().number(1, 30).number(2, 1).number(3, 1)),
            event(18, 0, 4, &switch(0, 0, 30)),
            event(19, 30, 256, &sync),
            event(19, 30, 20, &Message::new().bytes(1, b"b").number(2, 31)).number(5, 0),
            event(20, 30, 4, &switch(30, 1, 31)),
            event(20, 31, 3, &print(b"F|9|launching: com.example|0")),
        ];
        let bundle =
            events.iter().fold(Message::new().number(1, 0), |bundle, event| bundle.message(2, event));
        let symbol = Message::new().message(26, &Message::new().number(1, 1).bytes(2, b"io_schedule"));
        let frame = |time, field, content: &Message| {
            Message::new().message(76, &Message::new().message(field, content)).number(8, time)
        };
        let late = Message::new().number(1, 5).number(4, 30).number(9, 64);
        trace(&[
            packet(1, &bundle).message(12, &symbol),
            frame(12, 4, &late),
            frame(19, 5, &Message::new().number(1, 5)),
        ])
    }

    /// The questions that a trace in several files answers.
    #[test]
    fn a_folder_answers_what_the_table_says() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/ctf/babeltrace2");
        let inputs = ["metadata", "stream", "stream-0"].map(|name| {
            Input::of(name, std::fs::read(format!("{folder}/{name}")).expect("it is part of the sources"))
        });
        let listed =
            TraceQuestion::ALL.into_iter().filter(|question| Format::Ctf.answers(*question) != Answered::No);
        assert_eq!(answered_by(inputs.into(), Format::Ctf), listed.collect::<Vec<_>>());
    }

    /// A trace with everything that a format can show answers exactly the questions of the table.
    #[test]
    fn traces_answer_what_the_table_says() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
        let file = |name: &str| std::fs::read(format!("{folder}/{name}")).expect("it is part of the sources");
        let msr = "128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,hm,1,Write,2822144,4096,230\n";
        for (format, bytes) in [
            (Format::Blktrace, file("takeoverjp-sample.blktrace.0")),
            (Format::Blkparse, file("takeoverjp-sample.blkparse.txt")),
            (Format::Ftrace, TEXT.into()),
            (Format::PerfScript, perf_script().into()),
            (Format::PerfData, perf_data()),
            (Format::Systrace, format!("TRACE:\n{TEXT}").into()),
            (Format::Biosnoop, file("biosnoop.txt")),
            (
                Format::FsSlower,
                "TIME COMM PID T BYTES OFF_KB LAT(ms) FILENAME\n06:35:01 a 30 S 0 0 16.05 b\n".into(),
            ),
            (Format::Perfetto, perfetto()),
            (Format::TraceDat, trace_dat()),
            (Format::MsrCambridge, msr.into()),
            (Format::DiskSim, file("mqsim-tpcc-200.trace")),
            (Format::FioIolog, "fio version 3 iolog\n1 /dev/sda read 0 4096\n".into()),
            (Format::FioLog, "1, 295912, 0, 4096, 0\n".into()),
            (Format::Vscsi, file("synthetic.vscsi")),
        ] {
            let listed =
                TraceQuestion::ALL.into_iter().filter(|question| format.answers(*question) != Answered::No);
            assert_eq!(answered(&bytes, format), listed.collect::<Vec<_>>(), "{format}");
        }
        // A text has totals or a histogram, not both.
        let totals = answered(b"Device tps kB_read/s kB_wrtn/s\nsda 1 2 3\n", Format::Totals);
        assert_eq!(totals, [TraceQuestion::Totals]);
        let histogram = "Tracing block device I/O...\n usecs : count distribution\n 0 -> 1 : 5 |*|\n";
        assert_eq!(answered(histogram.as_bytes(), Format::Totals), [TraceQuestion::Histogram]);
    }
}
