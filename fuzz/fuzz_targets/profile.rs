//! Parses arbitrary device profiles and builds their devices. Checks for panics, endless loops and much memory,
//! and that a written profile gives the same profile when it is parsed again.
#![no_main]

use fonio_core::ByteCount;
use fonio_fuzz::{memory, seeds};
use fonio_sim::profile::{Profile, SHIPPED};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        memory::begin();
        seeds::write(|random| {
            let valid = SHIPPED.iter().map(|(name, _)| Profile::shipped(name).expect("it is shipped").to_toml()).collect();
            let all = seeds::spliced(valid, 200, random, |a, b, random| seeds::splice_text(a, b, random));
            all.into_iter().map(String::into_bytes).collect()
        });
    },
    |input: &[u8]| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        memory::bounded(|| match Profile::parse("p", text) {
            Ok(profile) => {
                let written = profile.to_toml();
                let again = Profile::parse("p", &written).expect("fonio wrote it");
                assert_eq!(again.to_toml(), written);
                // A device of 64 MiB, because a user chooses the capacity.
                let capacity = Some(ByteCount(64 << 20));
                if profile.limits(capacity).is_ok() {
                    let _ = profile.device(capacity, 1);
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        });
    }
);
