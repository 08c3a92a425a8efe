//! Passes arbitrary rows to the consumers of recordings: analysis and reports, exports, redaction. Checks for
//! panics, endless loops and much memory. The first byte of the input selects the consumer.
#![no_main]

use fonio_fuzz::rows::{Bytes, Rows};
use fonio_fuzz::{memory, recording, seeds, sinks};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        memory::begin();
        seeds::write(|random| {
            let seed = |choice: u8| {
                let length = 50 + random.below(2000);
                std::iter::once(choice).chain((0..length).map(|_| random.next_u64() as u8)).collect()
            };
            (0..64).map(seed).collect()
        });
    },
    |input: &[u8]| {
        let Some((&choice, bytes)) = input.split_first() else { return };
        let rows = Rows::read(&mut Bytes::new(bytes));
        memory::bounded(|| sinks::consume(choice, &recording::meta(), |sink| rows.pour(sink)));
    }
);
