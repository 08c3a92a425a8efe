//! Compares the request assembler with its naive oracle on arbitrary events.
#![no_main]

use fonio_core::Nanos;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::assembler::oracle::compare::{assert_same, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[options, horizon], events)) = bytes.split_first_chunk::<2>() else { return };
    let mut settings = AssemblerOptions::default();
    if options & 1 == 1 {
        settings.open_max = 1 + usize::from(options >> 2 & 0xf);
        settings.horizon = Nanos(u64::from(horizon) * 16);
        settings.disorder = Nanos(u64::from(options >> 6) * 50);
    }
    assert_same(&decode(events), &settings, options & 2 != 0);
});
