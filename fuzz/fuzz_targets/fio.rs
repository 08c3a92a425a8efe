//! Reads arbitrary logs and iologs of fio, at once and in small reads. Checks that there is no panic and no endless loop, that
//! large and small reads give the same rows, and that each call ends after it begins. The seeds are splices of logs of all
//! forms. The first byte is the kind of the log.
#![no_main]

use fonio_core::{Batch, CollectedRows, TraceReader};
use fonio_fuzz::steps::Steps;
use fonio_fuzz::{memory, seeds};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::fio_iolog::FioIologReader;
use fonio_trace::fio_log::{FioLogReader, recognise};
use fonio_trace::input::Input;
use libfuzzer_sys::fuzz_target;

const TEXTS: [&str; 7] = [
    "09, 9620329, 0, 4096, 0\n10, 774347, 1, 4096, 0\n10, 777162, 2, 4096, 1\n",
    "19, 9620329, 0, 4096, 1011712, 0x4002\n9, 100, 3, 0, 0, 0x0000\n9, 5, 1, 8192, 512, 0x0000\n",
    "21795808298235, 670091, 0, 4096, 1011712, 0\n1795808298236, 670091, 1, 4096, 1011712, 0\n",
    "3500, 1000, 0, 0, 0\n500, 2000, 1, 0, 0\n1000, 3000, 0, 0, 0\n",
    "29, 18446744073709551615, 0, 4096, 0, 123456789\n18446744073709551615, 5, 0, 4096, 0, 123456789\n",
    "4fio version 3 iolog\n201 /dev/sda write 8192 4096\n202 /dev/sda sync 0 0\n203 /a b/c read 0 512\n",
    "4fio version 2 iolog\n/dev/sda open\n/dev/sda write 8192 4096\n/dev/sda wait 1500 0\n/dev/sda sync 0 0\n",
];
const NAMES: [&str; 4] = ["a_clat.1.log", "a_lat.1.log", "a_bw.1.log", "a_iops.1.log"];

fn reader(kind: u8, bytes: &[u8], step: usize) -> Option<Box<dyn TraceReader>> {
    let stream = Box::new(Steps::of(bytes, step));
    match NAMES.get(usize::from(kind % 5)) {
        Some(name) => {
            let reader = FioLogReader::open(Input::new(*name, stream), bytes).ok()?;
            Some(Box::new(reader))
        }
        None => Some(Box::new(FioIologReader::new(Input::new("a", stream)))),
    }
}

fn read(kind: u8, bytes: &[u8], step: usize) -> Option<Batch> {
    Some(reader(kind, bytes, step)?.read_all().expect("memory reads"))
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
        let Some((kind, bytes)) = bytes.split_first() else { return };
        recognise(bytes);
        let Some(whole) = read(*kind, bytes, usize::MAX) else { return };
        let steps = read(*kind, bytes, 7).expect("the head is the same");
        assert_eq!(whole.requests, steps.requests);
        assert_eq!(whole.samples, steps.samples);
        assert_eq!(whole.diagnostics, steps.diagnostics);
        let begun = |row: &fonio_core::Request| row.issued.or(row.queued);
        assert!(whole.requests.iter().all(|row| row.completed.is_none() || begun(row) <= row.completed));
        assert!(whole.samples.iter().all(|sample| sample.value >= 0));
        let mut rows = CollectedRows::default();
        let mut again = reader(*kind, bytes, usize::MAX).expect("the head is the same");
        assemble(&mut *again, AssemblerOptions::default(), &mut rows).expect("it does no I/O");
    })
);
