//! Reads arbitrary text of iostat, sar, biolatency and copies of /proc/diskstats, at once and in small reads. Checks that there
//! is no panic and no endless loop, that large and small reads give the same samples, and that no sample is negative. The
//! seeds are splices of texts of all forms.
#![no_main]

use fonio_core::{Batch, CollectedRows, TraceReader};
use fonio_fuzz::steps::Steps;
use fonio_fuzz::{memory, seeds};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::input::Input;
use fonio_trace::totals::{TotalsReader, recognise};
use libfuzzer_sys::fuzz_target;

const TEXTS: [&str; 6] = [
    "Linux 6.1.0-18-amd64 (host) \t11/27/26 \t_x86_64_\t(2 CPU)\n\n\
     11/27/26 23:59:55\n\
     Device            r/s     rkB/s   r_await rareq-sz     w/s     wkB/s   w_await     f/s f_await  aqu-sz  %util\n\
     sda            900.00  99999.00      1.00     9.00    9.00      9.00      9.00    9.00    9.00    9.00  99.00\n\n\
     11/28/26 00:00:05\n\
     Device            r/s     rkB/s   r_await rareq-sz     w/s     wkB/s   w_await     f/s f_await  aqu-sz  %util\n\
     sda             10.00     40.00      2.00     4.00   20.00    160.00      3.00    1.00    5.00    0.08  12,50\n",
    "11:50:00 PM       DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util\n\
     12:00:00 AM       sda      2.00      1.5k      4.00      0.00      2.00      0.01     10.00      1.5%\n\
     12:10:00 AM       sda      4.00      1.5G      4.00      0.00      2.00      0.01      5.00      0.5%\n",
    "1764258000\n   8       0 sda 96 0 4504 10 0 0 0 0 0 12 10 0 0 0 0 0 0\n\
     1764258001.5\n   8       0 sda 196 0 14504 10 0 0 0 0 0 12 10 0 0 0 0 0 0\n",
    "   8       0 sda 96 0 4504 10 0 0 0 0 0 12 10\n   8       0 sda 97 0 4504 10 0 0 0 0 0 12 18446744073709551615\n",
    "Tracing block device I/O... Hit Ctrl-C to end.\n\n23:59:59\n\ndisk = vda\tflags = Sync-Write\n\
     \x20    usecs               : count    distribution\n\
     \x20        0 -> 1          : 2        |      |\n\
     \x20      256 -> 511        : 77       |******|\n\n00:00:00\n\nBucket disk = 'xvdb'\n\
     \x20    msecs               : count     distribution\n\
     \x20        2 -> 3          : 9223372036854775807        |   |\n",
    "{'ts': '2026-11-27 23:59:59', 'val_type': 'usecs', 'data': [{'interval-start': 0, 'interval-end': 1, 'count': 0}, \
     {'interval-start': 2, 'interval-end': 3, 'count': 12}], 'disk': b'vdb'}\n",
];

fn reader(bytes: &[u8], step: usize) -> TotalsReader {
    TotalsReader::new(Input::new("fuzz", Box::new(Steps::of(bytes, step))), bytes)
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
        assert_eq!(whole.samples, steps.samples);
        assert_eq!(whole.diagnostics, steps.diagnostics);
        assert!(whole.samples.iter().all(|sample| sample.value >= 0));
        let mut rows = CollectedRows::default();
        assemble(&mut reader(bytes, usize::MAX), AssemblerOptions::default(), &mut rows).expect("it does no I/O");
    })
);
