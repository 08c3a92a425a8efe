//! Reads arbitrary bytes as perf.data, with random access and as a stream of small reads. Checks that there is no panic and no
//! endless loop, that memory is bounded, and that both ways give the same events. The seeds are valid files, also compressed
//! and as perf writes them into a pipe, and splices of them; some are larger than every buffer of the reader.
#![no_main]

use fonio_core::{Batch, CollectedRows, Random, TraceReader};
use fonio_fuzz::steps::Steps;
use fonio_fuzz::{memory, seeds};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::input::Input;
use fonio_trace::perf_data::PerfDataReader;
use fonio_trace::perf_data::encode::{Contents, Event, SAMPLE_TYPE, Written};
use fonio_tracefs::ring_buffer::ByteOrder;
use libfuzzer_sys::fuzz_target;

const FORMATS: &str = include_str!("../../crates/fonio-tracefs/tests/data/linux-6.18-x86_64/formats");
const SWITCH: &str = "name: sched_switch\nID: 9\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
    \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
    \tfield:pid_t next_pid;\toffset:40;\tsize:4;\tsigned:1;\n";
const SYNC: &str =
    "name: ext4_sync_file_enter\nID: 8\n\tfield:int datasync;\toffset:8;\tsize:4;\tsigned:1;\n";
const SYNC_END: &str = "name: ext4_sync_file_exit\nID: 7\n\tfield:int ret;\toffset:8;\tsize:4;\tsigned:1;\n";

/// Returns the ids of the block events in [`FORMATS`].
fn block_ids() -> Vec<u16> {
    FORMATS.lines().filter_map(|line| line.trim().strip_prefix("ID: ")?.parse().ok()).collect()
}

fn raw(random: &mut Random) -> Vec<u8> {
    let mut raw = vec![0; 96];
    let id = match random.below(8) {
        0 => 9,
        1 => 8,
        2 => 7,
        _ => *seeds::one(&block_ids(), random),
    };
    raw[..2].copy_from_slice(&id.to_le_bytes());
    // Small numbers in all fields make equal devices, sectors and threads likely.
    for at in (4..96).step_by(4) {
        raw[at] = random.below(4) as u8;
    }
    raw
}

fn contents(random: &mut Random) -> Contents {
    let formats: Vec<String> = FORMATS.split("name: ").skip(1).map(|rest| format!("name: {rest}")).collect();
    let mut time = 1_000_000;
    let count = if random.below(8) == 0 { 5000 } else { 60 };
    let records = (0..count).map(|_| {
        time += random.below(500);
        let (id, cpu, tid) = (random.below(4), random.below(3) as u32, random.below(5) as u32);
        match random.below(24) {
            0 => Written::Comm { id, time: time * random.below(2), pid: 1, tid, name: b"a name".to_vec() },
            1 => Written::Lost { id, time, cpu, count: random.below(9) },
            2 => Written::LostSamples { count: random.below(30), flags: 0x8000 * random.below(2) as u16 },
            3 | 4 => Written::Round,
            5 => Written::Other {
                kind: *seeds::one(&[1, 64, 66, 69, 71, 80, 81, 83], random),
                flags: 0,
                fields: vec![random.below(256) as u8; 8 * random.below(900) as usize],
            },
            _ => Written::Sample { id, time: time - random.below(400), pid: 1, tid, cpu, raw: raw(random) },
        }
    });
    let records = records.collect();
    let mut event = |ids: Vec<u64>| Event {
        kind: 2 - u32::from(random.below(8) == 0),
        sample_type: SAMPLE_TYPE ^ if random.below(4) == 0 { 1 << random.below(17) } else { 0 },
        period: 1 + random.below(8) / 7,
        clock_id: (random.below(2) == 0).then_some(random.below(12) as u32),
        ids,
    };
    let events = vec![event(vec![1, 2]), event(vec![3])];
    Contents {
        order: ByteOrder::Little,
        systems: vec![
            ("block".into(), formats),
            ("sched".into(), vec![SWITCH.into()]),
            ("ext4".into(), vec![SYNC.into(), SYNC_END.into()]),
        ],
        events,
        clocks: (random.below(2) == 0).then_some((5_000_000, 1_000_000)),
        records,
        packed_together: if random.below(2) == 0 { 0 } else { 1 + random.below(300) as usize },
    }
}

fn write_seeds() {
    seeds::write(|random| {
        let valid: Vec<Vec<u8>> = (0..24)
            .map(|number| {
                let contents = contents(random);
                if number % 3 == 0 { contents.pipe() } else { contents.file() }
            })
            .collect();
        seeds::spliced(valid, 60, random, |a, b, random| seeds::splice_bytes(a, b, random))
    });
}

fn read(input: Input) -> Option<Batch> {
    PerfDataReader::open(input).ok().map(|mut reader| reader.read_all().expect("memory reads"))
}

fuzz_target!(
    init: {
        memory::begin();
        write_seeds();
    },
    |bytes: &[u8]| memory::bounded(|| {
        let file = read(Input::of("fuzz", bytes));
        let stream = read(Input::new("fuzz", Box::new(Steps::of(bytes, 7))));
        assert_eq!(file.is_some(), stream.is_some());
        let (Some(file), Some(stream)) = (file, stream) else { return };
        assert_eq!(file.events, stream.events);
        assert_eq!(file.threads, stream.threads);
        assert_eq!(file.waits, stream.waits);
        assert_eq!(file.calls, stream.calls);
        assert_eq!(file.lost, stream.lost);
        assert_eq!(file.diagnostics, stream.diagnostics);
        assert!(file.lost.iter().all(|gap| gap.before >= gap.after));
        if let Ok(mut reader) = PerfDataReader::open(Input::of("fuzz", bytes)) {
            let mut rows = CollectedRows::default();
            assemble(&mut reader, AssemblerOptions::default(), &mut rows).expect("it does no I/O");
        }
    })
);
