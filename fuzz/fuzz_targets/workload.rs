//! Parses arbitrary workloads, and checks for panics, endless loops and much memory.
#![no_main]

use std::path::Path;

use fonio_fuzz::{memory, seeds};
use fonio_workload::definition::{Workload, shipped};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        memory::begin();
        seeds::write(|random| {
            let valid = shipped().iter().map(|shipped| shipped.text.to_owned()).collect();
            let all = seeds::spliced(valid, 300, random, |a, b, random| seeds::splice_text(a, b, random));
            all.into_iter().map(String::into_bytes).collect()
        });
    },
    |input: &[u8]| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        memory::bounded(|| match Workload::parse(text, "w.toml", Some(Path::new("/folder"))) {
            Ok(workload) => {
                let _ = workload.needs_http();
                assert!(workload.steps().all(|step| !step.kind().is_empty()));
            }
            Err(error) => assert!(error.to_string().contains("w.toml"), "the error does not name the file: {error}"),
        });
    }
);
