//! Refuses texts that identify a machine or a single device. StoreBench's own check refuses paths, addresses
//! and long numbers. The service also refuses host names and words that introduce a serial number, because
//! programs other than `fonio` can send results.

use serde_json::Value;

use crate::check::Problem;

/// Suffixes of host names in local networks and in the most common domains.
const DOMAINS: &str = "arpa box cloud com corp de dev edu fritz home internal intranet io lan local localdomain \
    localhost net org private test uk";

/// Words that precede a serial number or a host name.
const SERIAL_WORDS: [&str; 5] = ["serial", "serialno", "s/n", "cid", "hostname"];

/// Prefixes of words that contain a serial number or a host name.
const SERIAL_STARTS: [&str; 5] = ["serial=", "serial:", "sn=", "sn:", "hostname="];

/// Finds texts that must not be published in the JSON of a document. Returns the fields that contain such
/// texts. Panics if the text is not JSON.
pub fn problems(json: &str) -> Vec<Problem> {
    let mut found = Vec::new();
    if may_be_private(json) {
        let document = serde_json::from_str(json).expect("the document was written as JSON");
        walk(&document, &mut String::new(), &mut found);
    }
    found
}

/// Returns whether the JSON may contain a private text. Because of this fast check, the JSON of most
/// documents need not be parsed again. Parsing takes as long as all other processing of a submission.
fn may_be_private(json: &str) -> bool {
    if json.contains('\\') {
        // The JSON contains an escape, so it differs from the decoded texts.
        return true;
    }
    // In JSON without escapes, every second part between quotation marks is a string: a key or a value.
    json.split('"').skip(1).step_by(2).any(|text| private(text).is_some())
}

fn walk(value: &Value, path: &mut String, found: &mut Vec<Problem>) {
    let length = path.len();
    match value {
        Value::String(text) => {
            if let Some(what) = private(text) {
                let sentence = format!(
                    "the text has {what}, which the service does not accept; remove it and send again"
                );
                found.push(Problem::new(path.clone(), sentence));
            }
        }
        Value::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                path.push_str(&format!("[{at}]"));
                walk(value, path, found);
                path.truncate(length);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                walk(value, path, found);
                path.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn private(text: &str) -> Option<&'static str> {
    for word in
        text.split(|letter: char| letter.is_whitespace() || matches!(letter, ',' | ';' | '(' | ')' | '"'))
    {
        let bare = word.trim_end_matches(['.', ':', '!', '?']);
        let starts =
            |start: &&str| word.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start));
        if SERIAL_WORDS.iter().any(|known| bare.eq_ignore_ascii_case(known))
            || SERIAL_STARTS.iter().any(starts)
        {
            return Some("a word that introduces a serial number or a name");
        }
        if is_host(bare) {
            return Some("the name of a host");
        }
        if is_hardware_address(bare) {
            return Some("the address of a network card");
        }
    }
    None
}

/// Returns true for `pi.local` and `db-1.example.org`, but false for `6.1.0-18-arm64` and `mq-deadline`.
fn is_host(word: &str) -> bool {
    let Some((name, last)) = word.rsplit_once('.') else { return false };
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let has_letter = name.bytes().any(|byte| byte.is_ascii_alphabetic());
    DOMAINS.split(' ').any(|domain| last.eq_ignore_ascii_case(domain))
        && has_letter
        && name.split('.').all(is_part)
}

/// Returns whether a word is a hardware address such as `b8-27-eb-12-34-56`, with hyphens or colons.
fn is_hardware_address(word: &str) -> bool {
    const CHARS: usize = 17;
    if word.len() != CHARS {
        return false;
    }
    let parts: Vec<&str> = word.split(['-', ':']).collect();
    parts.len() == 6
        && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use fonio_testing::cases::lines;

    #[test]
    fn names_of_hosts_and_serial_numbers_are_found() {
        let file = expect_test::expect_file!["privacy_texts.txt"];
        file.assert_eq(&lines(&file.data(), |text| private(text).unwrap_or("-").to_owned()));
    }

    #[test]
    fn every_text_of_a_document_is_looked_at() {
        let clean = serde_json::to_value(sample::document()).unwrap();
        assert_eq!(problems(&clean.to_string()), []);
        // Replace each text in turn by a host name.
        let mut texts = 0;
        for at in 0.. {
            let mut document = clean.clone();
            let mut left = at;
            if !sample::replace_text(&mut document, &mut left, "ann.local") {
                break;
            }
            texts += 1;
            let found = problems(&document.to_string());
            assert_eq!(found.len(), 1, "text {at}");
            // Repeat the test with an escape in the JSON, because the check must then parse the JSON.
            document["zzz"] = Value::from("a \"quotation\"");
            assert_eq!(problems(&document.to_string()), found);
        }
        assert!(texts > 50, "{texts}");
    }

    #[test]
    fn a_private_text_behind_an_escape_is_found() {
        let found = problems(r#"{"a":"\u0070i.local","b":"x\"y","c":["on \"pi.local\""]}"#);
        let paths: Vec<&str> = found.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["a", "c[0]"]);
    }
}
