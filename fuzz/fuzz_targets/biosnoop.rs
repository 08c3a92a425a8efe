//! Reads arbitrary text of biosnoop and iosnoop, at once and in small reads. Checks that there is no panic and no
//! endless loop, that large and small reads give the same requests, and that each request ends after it begins.
//! The seeds are splices of texts of all forms.
#![no_main]

use fonio_core::{Batch, CollectedRows, TraceReader};
use fonio_fuzz::steps::Steps;
use fonio_fuzz::{memory, seeds};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::biosnoop::{BiosnoopReader, recognise};
use fonio_trace::input::Input;
use libfuzzer_sys::fuzz_target;

const TEXTS: [&str; 4] = [
    include_str!("../../crates/fonio-trace/tests/data/biosnoop.txt"),
    "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n\
     0.000004    supervise      1950   xvda1   W 13092560   4096       0.74\n\
     -0.000178   ?              0              R 0          0          0.61\n\
     Possibly lost 3 samples\n",
    "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES P QUE(ms) LAT(ms)\n\
     18446744073.709547 a b c   7      vdb     R 8          512   S    0.01    0.55\n\
     lost 12 events on CPU #1\n",
    "STARTs         ENDs           COMM             PID    TYPE DEV      BLOCK        BYTES     LATms\n\
     13462733.960512 13462733.961090 java           30603  WS   202,16   4895936      4096       0.58\n",
];

fn reader(bytes: &[u8], step: usize) -> BiosnoopReader {
    BiosnoopReader::new(Input::new("fuzz", Box::new(Steps::of(bytes, step))))
}

fn read(bytes: &[u8], step: usize) -> Batch {
    reader(bytes, step).read_all().expect("memory reads")
}

fuzz_target!(
    init: {
        memory::begin();
        seeds::write(|random| {
            let texts = TEXTS.map(str::to_owned).to_vec();
            let all = seeds::spliced(texts, 40, random, |a, b, random| seeds::splice_text(a, b, random));
            all.into_iter().map(String::into_bytes).collect()
        });
    },
    |bytes: &[u8]| memory::bounded(|| {
        recognise(bytes);
        let (whole, steps) = (read(bytes, usize::MAX), read(bytes, 7));
        assert_eq!(whole.requests, steps.requests);
        assert_eq!(whole.threads, steps.threads);
        assert_eq!(whole.lost, steps.lost);
        assert_eq!(whole.diagnostics, steps.diagnostics);
        assert!(whole.requests.iter().all(|request| request.issued <= request.completed));
        assert!(whole.requests.iter().all(|request| request.queued.is_none() || request.queued <= request.issued));
        assert!(whole.lost.iter().all(|gap| gap.before >= gap.after));
        assert!(whole.requests.len() <= bytes.iter().filter(|byte| **byte == b'\n').count() + 1);
        let mut rows = CollectedRows::default();
        assemble(&mut reader(bytes, usize::MAX), AssemblerOptions::default(), &mut rows).expect("it does no I/O");
    })
);
