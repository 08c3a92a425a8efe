//! Reads arbitrary bytes as a Perfetto trace, with large and with small reads. Checks that there is no panic, and that large and
//! small reads give the same events. Also assembles the events. The seeds are splices of valid traces.
#![no_main]

use fonio_core::{Batch, CollectedRows, Random, TraceReader};
use fonio_fuzz::steps::Steps;
use fonio_fuzz::{memory, seeds};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::input::Input;
use fonio_trace::perfetto::encode::{Message, compressed, event, packet, trace};
use fonio_trace::perfetto::{PerfettoReader, recognise};
use libfuzzer_sys::fuzz_target;

fn reader(bytes: &[u8], step: usize) -> PerfettoReader {
    let bytes = Box::new(Steps::of(bytes, step));
    PerfettoReader::new(Input::new("fuzz", bytes))
}

fn read(bytes: &[u8], step: usize) -> Batch {
    reader(bytes, step).read_all().expect("memory reads")
}

/// Returns a text that a program writes to `trace_marker`.
fn print(random: &mut Random) -> &'static [u8] {
    const TEXTS: [&[u8]; 6] = [
        b"B|2|bindApplication",
        b"E|2",
        b"S|9|launchingActivity#7|0",
        b"F|9|launchingActivity#7|0",
        b"I|9|launchingActivity#7:completed-cold:com.example",
        b"now",
    ];
    TEXTS[random.below(6) as usize]
}

/// Returns packets of each kind that the reader knows.
fn packets(random: &mut Random) -> Vec<Message> {
    let mut time = 1000;
    let mut all = Vec::new();
    for _ in 0..4 {
        let mut bundle = Message::new().number(1, random.below(4));
        for _ in 0..random.below(12) {
            time += random.below(50);
            let tid = 1 + random.below(5) as u32;
            let request = Message::new().number(1, 1792).number(2, random.below(4) * 8).number(3, 8);
            let thread =
                Message::new().bytes(1, b"name").number(2, u64::from(tid)).number(4, random.below(4));
            let thread = thread.bytes(5, b"next").number(6, random.below(5));
            let file = Message::new().number(1, 4096).bytes(2, b"app").number(4, random.below(4) * 8);
            let file = file.number(5, 8).bytes(6, b"/data/a").number(7, u64::from(tid));
            let sync = Message::new().bytes(1, b"app").number(3, 8).bytes(4, b"/data/a").number(5, u64::from(tid));
            let reason = Message::new().number(1, u64::from(tid)).number(2, 1).number(3, random.below(2));
            bundle = bundle.message(
                2,
                &match random.below(14) {
                    0 => event(time, tid, 45, &request.number(4, 4096).bytes(5, b"WS").bytes(6, b"comm")),
                    1 => event(time, tid, 125, &request.bytes(5, b"WS").number(7, 0)),
                    2 => event(time, tid, 119, &request.bytes(4, b"R").bytes(5, b"comm")),
                    3 => event(time, tid, 20, &thread),
                    4 => event(time, tid, 18, &reason),
                    5 => event(time, tid, 3, &Message::new().bytes(2, print(random))),
                    6 => event(time, tid, 43 + random.below(2) as u32, &request),
                    7 => event(time, tid, 255 + random.below(2) as u32, &request),
                    8 => event(time, tid, 432 + 2 * random.below(2) as u32, &file.clone()),
                    9 => event(time, tid, 431 + 2 * random.below(2) as u32, &request),
                    10 => event(time, tid, 435 + random.below(2) as u32, &sync.clone()),
                    11 => event(time, tid, 65_536 + random.below(2) as u32, &request),
                    12 => event(time, tid, 327, &Message::new().bytes(1, b"writeback_start")),
                    _ => event(time, tid, 4, &thread),
                },
            );
        }
        let compact = Message::new().bytes(5, b"comm").packed(1, &[time, 5]).packed(2, &[2, 0]);
        let compact = compact.packed(3, &[1, 2]).packed(4, &[120, 120]).packed(6, &[0, 0]);
        let compact = compact.packed(7, &[time, 2]).packed(8, &[1, 2]).packed(11, &[0, 0]);
        bundle = match random.below(4) {
            0 => bundle.message(4, &compact),
            1 => bundle.number(3, 1).number(10, time),
            2 => {
                let name = Message::new().bytes(1, b"jbd2_start_commit");
                bundle.message(11, &Message::new().number(1, 65_536).message(2, &name))
            }
            _ => bundle.number(5, random.below(5)),
        };
        all.push(packet(1 + random.below(2) as u32, &bundle).number(42, random.below(2)));
    }
    let counter = Message::new().bytes(1, b"sda").number(2, random.below(9)).number(4, random.below(9));
    let mut counters = Message::new().message(13, &counter).number(9, time);
    for field in [1, 2, 3, 14] {
        let value = Message::new().number(1, random.below(60)).number(2, random.below(1 << 40));
        counters = counters.message(field, &value);
    }
    all.push(Message::new().message(7, &counters).number(8, time));
    let frame = |random: &mut Random| {
        let content = Message::new().number(1, random.below(3)).number(4, 2).number(9, random.below(200));
        let frame = Message::new().message(1 + random.below(5) as u32, &content);
        Message::new().message(76, &frame).number(8, time + random.below(50)).number(58, 3 * random.below(3))
    };
    all.extend([frame(random), frame(random), frame(random)]);
    let clock = |id: u64| Message::new().number(1, id).number(2, 500 + id);
    let process = Message::new().number(1, 2).number(2, 1).bytes(3, b"/bin/app").number(5, 10_001);
    let thread = Message::new().number(1, 3).bytes(2, b"worker").number(3, 2);
    let package = Message::new().bytes(1, b"com.example").number(2, 10_001);
    let symbol = Message::new().number(1, 1).bytes(2, b"io_schedule");
    let cpu = Message::new().number(1, 0).number(3, random.below(9));
    let stats = Message::new().number(1, 1 + random.below(2)).message(2, &cpu).bytes(7, b"block/x");
    all.extend([
        Message::new()
            .message(6, &[1, 3, 6].map(clock).iter().fold(Message::new(), |all, one| all.message(1, one))),
        Message::new().message(59, &Message::new().number(58, 3)).number(10, 1),
        Message::new().message(2, &Message::new().message(1, &process).message(2, &thread)).number(8, time),
        Message::new().message(47, &Message::new().message(1, &package)),
        Message::new().message(12, &Message::new().message(26, &symbol)).number(10, 1).number(13, 1),
        Message::new().message(34, &stats),
        Message::new().message(35, &Message::new().message(1, &Message::new().number(3, 1).number(18, 1))),
        Message::new().message(1, &Message::new().number(1, 0)).number(98, 1),
    ]);
    all
}

fn write_seeds() {
    seeds::write(|random| {
        let valid: Vec<Vec<Message>> = (0..20).map(|_| packets(random)).collect();
        let spliced = seeds::spliced(valid, 100, random, |a, b, random| {
            let mut all = a.clone();
            for _ in 0..=random.below(4) {
                let other = seeds::one(b, random).clone();
                let place = random.below(all.len() as u64) as usize;
                match random.below(4) {
                    0 => all[place] = other,
                    1 => all.insert(place, other),
                    2 => all[place] = compressed(&[all[place].clone(), other]),
                    // The end of one message after the start of another.
                    _ => {
                        let cut = random.below(1 + all[place].0.len() as u64) as usize;
                        let from = random.below(1 + other.0.len() as u64) as usize;
                        all[place].0.truncate(cut);
                        all[place].0.extend_from_slice(&other.0[from..]);
                    }
                }
            }
            all
        });
        spliced.iter().map(|packets| trace(packets)).collect()
    });
}

fuzz_target!(
    init: {
        memory::begin();
        write_seeds();
    },
    |bytes: &[u8]| memory::bounded(|| {
        recognise(bytes);
        let (whole, steps) = (read(bytes, usize::MAX), read(bytes, 7));
        assert_eq!(whole.events, steps.events);
        assert_eq!(whole.threads, steps.threads);
        assert_eq!(whole.lost, steps.lost);
        assert_eq!(whole.marks, steps.marks);
        assert_eq!(whole.waits, steps.waits);
        assert_eq!(whole.samples, steps.samples);
        assert_eq!(whole.calls, steps.calls);
        assert!(whole.calls.iter().all(|call| call.exited.is_none_or(|exited| exited >= call.entered)));
        assert_eq!(whole.files, steps.files);
        assert!(whole.waits.iter().all(|wait| wait.row.ended.is_none_or(|ended| ended >= wait.row.began)));
        assert_eq!(whole.diagnostics, steps.diagnostics);
        assert!(whole.lost.iter().all(|gap| gap.before >= gap.after));
        let mut rows = CollectedRows::default();
        assemble(&mut reader(bytes, usize::MAX), AssemblerOptions::default(), &mut rows).expect("it does no I/O");
    })
);
