//! Reads arbitrary CTF traces: a description and one or two streams, at once and in small reads. Checks that there is no panic
//! and no endless loop, that large and small reads give the same rows, and that no gap ends before it begins. The seeds are
//! splices of real traces. The first two bytes are the length of the description.
#![no_main]

use fonio_core::{Batch, CollectedRows, TraceReader};
use fonio_fuzz::steps::Steps;
use fonio_fuzz::{memory, seeds};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::ctf::CtfReader;
use fonio_trace::input::Input;
use libfuzzer_sys::fuzz_target;

const TRACES: [(&[u8], &[u8]); 2] = [
    (
        include_bytes!("../../crates/fonio-trace/tests/data/ctf/lttng-ust/metadata"),
        include_bytes!("../../crates/fonio-trace/tests/data/ctf/lttng-ust/c_1"),
    ),
    (
        include_bytes!("../../crates/fonio-trace/tests/data/ctf/babeltrace2/metadata"),
        include_bytes!("../../crates/fonio-trace/tests/data/ctf/babeltrace2/stream-0"),
    ),
];

fn reader(bytes: &[u8], step: usize) -> Option<CtfReader> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (description, streams) = rest.split_at(length);
    let (first, second) = streams.split_at(streams.len() / 2);
    // One stream, or two whose packets can be anything.
    let parts = if bytes[0] & 1 == 0 { vec![streams] } else { vec![first, second] };
    let input = |name: &str, bytes: &[u8]| {
        let head = bytes[..bytes.len().min(4096)].to_vec();
        (head, Input::new(name, Box::new(Steps::of(bytes, step))))
    };
    let mut inputs = vec![input("metadata", description)];
    inputs.extend(parts.into_iter().map(|part| input("stream", part)));
    CtfReader::open(inputs).ok()
}

fn read(bytes: &[u8], step: usize) -> Option<Batch> {
    Some(reader(bytes, step)?.read_all().expect("memory reads"))
}

fuzz_target!(
    init: {
        memory::begin();
        seeds::write(|random| {
            let whole = TRACES.map(|(description, stream)| {
                let length = u16::try_from(description.len()).expect("it is short").to_le_bytes();
                [length.as_slice(), description, stream].concat()
            });
            seeds::spliced(whole.to_vec(), 40, random, |a, b, random| seeds::splice_bytes(a, b, random))
        });
    },
    |bytes: &[u8]| memory::bounded(|| {
        let Some(whole) = read(bytes, usize::MAX) else { return };
        let steps = read(bytes, 7).expect("the description is the same");
        assert_eq!(whole.events, steps.events);
        assert_eq!(whole.threads, steps.threads);
        assert_eq!(whole.lost, steps.lost);
        assert_eq!(whole.diagnostics, steps.diagnostics);
        assert!(whole.lost.iter().all(|gap| gap.before >= gap.after));
        let mut rows = CollectedRows::default();
        let mut again = reader(bytes, usize::MAX).expect("the description is the same");
        assemble(&mut again, AssemblerOptions::default(), &mut rows).expect("it does no I/O");
    })
);
