//! A submission to the results service: no panic, an accepted document is stored as it was sent, and a refused one has a
//! sentence. The input is a document, or lines that change one: a place and the JSON that is put there.
#![no_main]

use std::sync::LazyLock;

use fonio_bench::storebench::document::{Document, JSON_BYTES_MAX};
use fonio_results::{compression, sample, submission};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

static SAMPLE: LazyLock<Value> =
    LazyLock::new(|| serde_json::to_value(sample::document()).expect("it is JSON"));

/// The sample, changed by lines such as `/device/model "SC32G"`. A place that does not exist becomes a new key.
fn changed(lines: &str) -> Vec<u8> {
    let mut document = SAMPLE.clone();
    for line in lines.lines() {
        let Some((place, json)) = line.split_once(' ') else { continue };
        let Ok(value) = serde_json::from_str::<Value>(json) else { continue };
        let (parent, key) = place.rsplit_once('/').unwrap_or(("", place));
        match document.pointer_mut(parent) {
            Some(Value::Object(map)) => {
                map.insert(key.to_owned(), value);
            }
            Some(Value::Array(values)) => values.push(value),
            _ => {}
        }
    }
    serde_json::to_vec(&document).expect("it is JSON")
}

fuzz_target!(|input: &[u8]| {
    let bytes = match input.strip_prefix(b"change\n").map(std::str::from_utf8) {
        Some(Ok(lines)) => changed(lines),
        _ => input.to_vec(),
    };
    if bytes.len() > JSON_BYTES_MAX {
        return;
    }
    match submission::read(&bytes, sample::BEGAN_UNIX_S) {
        Ok(entry) => {
            let stored = compression::decompress(&entry.document, JSON_BYTES_MAX).expect("it was compressed");
            let sent: Document = serde_json::from_slice(&bytes).expect("it was accepted");
            assert_eq!(serde_json::from_slice::<Document>(&stored).expect("it was stored"), sent);
            // What is stored is accepted again, with the same end.
            let again = submission::read(&stored, sample::BEGAN_UNIX_S).expect("it was accepted before");
            assert_eq!(
                (again.key, again.figures, again.hidden_reason),
                (entry.key, entry.figures, entry.hidden_reason)
            );
        }
        Err(problem) => {
            assert!(problem.status.is_client_error() && !problem.sentence.is_empty(), "{problem:?}");
        }
    }
});
