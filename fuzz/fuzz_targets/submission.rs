//! Tests submissions to the results service: there is no panic, an accepted document is stored unchanged, and
//! a rejection contains a sentence. The input is a document, or lines that change the sample document: each
//! line has a path and the new JSON value.
#![no_main]

use std::sync::LazyLock;

use fonio_storebench_document::document::{Document, JSON_BYTES_MAX};
use fonio_storebench_document::{Refusal, Submission, compare, plausibility, sample};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

static SAMPLE: LazyLock<Value> =
    LazyLock::new(|| serde_json::to_value(sample::document()).expect("it is JSON"));

/// Returns the sample document, changed by lines such as `/device/model "SC32G"`. A line can also add a new
/// key.
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
    match Submission::read(&bytes) {
        Ok((submission, json)) => {
            let sent: Document = serde_json::from_slice(&bytes).expect("it was accepted");
            assert_eq!(serde_json::from_str::<Document>(&json).expect("it is stored"), sent);
            // The stored text must be accepted again, and stored unchanged.
            let (again, _) = Submission::read(json.as_bytes()).expect("it was accepted before");
            let hidden = |document: &Document| plausibility::reason_to_hide(document, sample::BEGAN_UNIX_S);
            assert_eq!(hidden(&again), hidden(&submission));
            assert!(!compare::compare(&submission, &sample::document()).verdict.is_empty());
        }
        Err(Refusal::NotADocument(sentence)) => assert!(!sentence.is_empty()),
        Err(Refusal::Problems(problems)) => {
            assert!(!problems.is_empty());
            assert!(problems.iter().all(|problem| !problem.sentence.is_empty()), "{problems:?}");
        }
    }
});
