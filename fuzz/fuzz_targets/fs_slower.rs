//! Reads arbitrary text of ext4slower, its relatives and fileslower, at once and in small reads. Checks that there is no panic
//! and no endless loop, that large and small reads give the same rows, that each call ends after it begins, and that each file
//! of a call is known. The seeds are splices of texts of all forms.
#![no_main]

use fonio_core::{Batch, CollectedRows, TraceReader};
use fonio_fuzz::steps::Steps;
use fonio_fuzz::{memory, seeds};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::fs_slower::{FsSlowerReader, recognise};
use fonio_trace::input::Input;
use libfuzzer_sys::fuzz_target;

const TEXTS: [&str; 4] = [
    "Tracing ext4 operations slower than 10 ms\n\
     TIME     COMM           PID    T BYTES   OFF_KB   LAT(ms) FILENAME\n\
     23:59:59 cron           16464  R 1249    0          16.05 common-auth\n\
     00:00:01 my program 7 R 16464  W 4096    12         10.50 a file, with 7 R 1 2 3.5 blanks\n\
     00:00:01 cron           16464  S 4294967285 0       11.00 common-auth\n\
     Possibly lost 3 samples\n",
    "Tracing xfs operations... Hit Ctrl-C to end.\n\
     TIME     COMM             PID     T BYTES   OFF_KB   LAT(ms) FILENAME\n\
     lost 2 events on CPU #1\n\
     08:00:18 bash             577     F LL_MAX  0           0.49 sleep\n\
     08:00:18 bash             577     R -5      0           0.25 sleep\n",
    "ENDTIME_us,TASK,PID,TYPE,BYTES,OFFSET_b,LATENCY_us,FILE\n\
     6137363776,run,12297,R,104,512,8,a,b \"c\"\n\
     6137364026,x,7,R,y,12297,O,0,0,9,run\n\
     18446744073709551615,run,4294967295,W,LL_MAX,9223372036854775807,18446744073709551,x\n",
    "Tracing sync read/writes slower than 10 ms\n\
     TIME(s)  COMM           TID    D BYTES   LAT(ms) FILENAME\n\
     0.013    randread.pl    4762   R 8192      12.70 data1\n\
     8.850    run time 1     23    W 4294967295 21.00 .\n",
];

fn reader(bytes: &[u8], step: usize) -> FsSlowerReader {
    FsSlowerReader::new(Input::new("fuzz", Box::new(Steps::of(bytes, step))))
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
        assert_eq!(whole.calls, steps.calls);
        assert_eq!(whole.files, steps.files);
        assert_eq!(whole.threads, steps.threads);
        assert_eq!(whole.lost, steps.lost);
        assert_eq!(whole.diagnostics, steps.diagnostics);
        assert!(whole.calls.iter().all(|call| call.exited.is_some_and(|exited| call.entered <= exited)));
        assert!(whole.calls.iter().all(|call| call.file_id.is_none_or(|file| (file as usize) < whole.files.len())));
        assert!(whole.lost.iter().all(|gap| gap.before >= gap.after));
        assert!(whole.calls.len() <= bytes.iter().filter(|byte| **byte == b'\n').count() + 1);
        let mut rows = CollectedRows::default();
        assemble(&mut reader(bytes, usize::MAX), AssemblerOptions::default(), &mut rows).expect("it does no I/O");
    })
);
