//! Reads arbitrary bytes as trace.dat, with random access and as a stream. Checks that there is no panic and no endless
//! loop, that memory is bounded, and that both ways give the same events. The seeds are valid files of both versions,
//! with pages of a real kernel, and splices of them; some are larger than every buffer of the reader.
#![no_main]

use fonio_core::{Batch, CollectedRows, Random, TraceReader};
use fonio_fuzz::{memory, seeds};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::input::Input;
use fonio_trace::trace_dat::TraceDatReader;
use fonio_trace::trace_dat::encode::Contents;
use libfuzzer_sys::fuzz_target;

const HEADER_PAGE: &str = include_str!("../../crates/fonio-tracefs/tests/data/linux-6.18-x86_64/header_page");
const FORMATS: &str = include_str!("../../crates/fonio-tracefs/tests/data/linux-6.18-x86_64/formats");
const CPU0: &[u8] = include_bytes!("../../crates/fonio-tracefs/tests/data/linux-6.18-x86_64/cpu0.pages");
const CPU1: &[u8] = include_bytes!("../../crates/fonio-tracefs/tests/data/linux-6.18-x86_64/cpu1.pages");

/// Formats of the scheduler's events. The records of the pages have other events, and damage makes them these.
const SWITCH: &str = "name: sched_switch\nID: 9\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
    \tfield:pid_t prev_pid;\toffset:8;\tsize:4;\tsigned:1;\n\
    \tfield:int prev_state;\toffset:12;\tsize:4;\tsigned:1;\n\
    \tfield:pid_t next_pid;\toffset:16;\tsize:4;\tsigned:1;\n";
const WAKING: &str = "name: sched_waking\nID: 10\n\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n";
const REASON: &str = "name: sched_blocked_reason\nID: 11\n\
    \tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\
    \tfield:void* caller;\toffset:16;\tsize:8;\tsigned:0;\n\
    \tfield:bool io_wait;\toffset:12;\tsize:1;\tsigned:0;\n";

const PRINT: &str = "name: print\nID: 5\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n";
const ENTER: &str = "name: ext4_sync_file_enter\nID: 12\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\tfield:int datasync;\toffset:8;\tsize:4;\tsigned:1;\n";

/// Returns a page with texts of programs, sync calls and events of the scheduler.
fn written(random: &mut Random) -> Vec<u8> {
    let mut time = 0;
    let records = (0..random.below(40)).map(|_| {
        time += random.below(1000);
        let mut raw = vec![0; 24];
        raw[0] = *seeds::one(&[5, 9, 10, 11, 12, 13], random);
        for at in [4, 8, 12, 16] {
            raw[at] = random.below(4) as u8;
        }
        if raw[0] == 5 {
            raw.truncate(16);
            let texts = ["B|2|a", "E|2", "S|9|launching: a|0", "F|9|launching: a|0", "now"];
            raw.extend(seeds::one(&texts, random).bytes().chain(*b"\n\0"));
        }
        (time, raw)
    });
    let records: Vec<(u64, Vec<u8>)> = records.collect();
    Contents::page(random.below(1 << 40), &records)
}

fn contents(random: &mut Random) -> Contents {
    let formats: Vec<String> = FORMATS.split("name: ").skip(1).map(|rest| format!("name: {rest}")).collect();
    let mut pages = || match random.below(7) {
        5 | 6 => written(random),
        0 => Vec::new(),
        1 => vec![random.below(256) as u8; 4096 * random.below(300) as usize],
        2 => CPU0.repeat(1 + random.below(4) as usize),
        _ => CPU1[..4096 * random.below(CPU1.len() as u64 / 4096) as usize].to_vec(),
    };
    let mut buffer = |name: &str, clock: &str| (name.to_owned(), clock.to_owned(), vec![pages(), pages()]);
    let buffers = vec![buffer("", "local"), buffer("disks", "mono")];
    let sched = [SWITCH, WAKING, REASON].map(str::to_owned).to_vec();
    let syncs = vec![ENTER.to_owned(), ENTER.replace("enter", "exit").replace("ID: 12", "ID: 13")];
    let systems =
        vec![("block".to_owned(), formats), ("sched".to_owned(), sched), ("ext4".to_owned(), syncs)];
    Contents {
        header_page: HEADER_PAGE.into(),
        ftrace: vec![PRINT.into()],
        systems,
        symbols: "ffffffff81000000 T io_schedule\nffffffff81000100 T _end\n".into(),
        names: "1 init\n77 a name\n".into(),
        clock: (*seeds::one(&["local [mono]", "[local] mono", "mono", ""], random)).into(),
        buffers,
        page_bytes: 4096,
        chunk_pages: 1 + random.below(20) as usize,
        packing: (*seeds::one(&["none", "zstd", "zlib"], random)).into(),
    }
}

fn write_seeds() {
    seeds::write(|random| {
        let valid: Vec<Vec<u8>> = (0..12)
            .map(|number| {
                let contents = contents(random);
                if number % 3 == 0 { contents.version_6() } else { contents.version_7() }
            })
            .collect();
        seeds::spliced(valid, 40, random, |a, b, random| seeds::splice_bytes(a, b, random))
    });
}

fn read(bytes: &[u8], has_file: bool) -> Option<Batch> {
    let mut input = Input::of("fuzz", bytes);
    if !has_file {
        input.file = None;
    }
    TraceDatReader::open(input).ok().map(|mut reader| reader.read_all().expect("memory reads"))
}

fuzz_target!(
    init: {
        memory::begin();
        write_seeds();
    },
    |bytes: &[u8]| memory::bounded(|| {
        let (file, stream) = (read(bytes, true), read(bytes, false));
        let (Some(file), Some(stream)) = (file, stream) else { return };
        assert_eq!(file.events, stream.events);
        assert_eq!(file.threads, stream.threads);
        assert_eq!(file.lost, stream.lost);
        assert_eq!(file.marks, stream.marks);
        assert_eq!(file.calls, stream.calls);
        assert!(file.calls.iter().all(|call| call.exited.is_some_and(|exited| exited >= call.entered)));
        assert_eq!(file.diagnostics, stream.diagnostics);
        assert!(file.lost.iter().all(|gap| gap.before >= gap.after));
        if let Ok(mut reader) = TraceDatReader::open(Input::of("fuzz", bytes)) {
            let mut rows = CollectedRows::default();
            assemble(&mut reader, AssemblerOptions::default(), &mut rows).expect("it does no I/O");
        }
    })
);
