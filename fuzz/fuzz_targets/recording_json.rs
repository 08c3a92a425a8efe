//! Reads a recording with an arbitrary `meta.json` or `diagnostics.jsonl`, and checks for panics and much memory.
//! The first byte of the input selects the file.
#![no_main]

use fonio_core::{Diagnostic, Severity};
use fonio_fuzz::{memory, recording, seeds};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fn valid() -> Vec<Value> {
    let diagnostic = Diagnostic {
        severity: Severity::Warning,
        code: "lost-events".to_owned(),
        message: "3 events were lost".to_owned(),
        file: Some("trace.0".to_owned()),
        record: Some(7),
        offset: Some(4096),
        count: 3,
    };
    let values = [serde_json::to_value(recording::meta()), serde_json::to_value(diagnostic)];
    values.into_iter().map(|value| value.expect("it is JSON")).collect()
}

fuzz_target!(
    init: {
        memory::begin();
        seeds::write(|random| {
            let seed = |value: &Value| format!("{}{value}\n", if value.get("code").is_some() { 'd' } else { 'm' });
            let all = seeds::spliced(valid(), 200, random, seeds::splice_json);
            all.iter().map(|value| seed(value).into_bytes()).collect()
        });
    },
    |input: &[u8]| {
        let Some((&choice, text)) = input.split_first() else { return };
        let name = if choice % 2 == 0 { "diagnostics.jsonl" } else { "meta.json" };
        match memory::bounded(|| recording::read_with(name, text)) {
            Ok(sink) => assert!(sink.rows <= text.len() as u64, "{} rows", sink.rows),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
);
