//! Parses arbitrary sync policies, and checks for panics, endless loops and much memory. Text after a line `===`
//! is the path of a database.
#![no_main]

use std::path::Path;

use fonio_fuzz::{memory, seeds};
use fonio_sync_policy::Policy;
use libfuzzer_sys::fuzz_target;

const VALID: &str = "[[database]]\npath = \"/var/lib/app/*.db\"\nclass = \"ordered\"\nwindow-ms = 500\nto-wal = true\n\
    [[database]]\npath = \"/home/*/cache/\"\nclass = \"cache\"\ndrop-fsync = true\n\
    [[database]]\npath = \"/tmp/learn.db\"\nclass = \"learn\"\n[[database]]\npath = \"/a?c\"\nclass = \"durable\"\n";
const SPLIT: &str = "===\n";

fuzz_target!(
    init: {
        memory::begin();
        seeds::write(|random| {
            let all = seeds::spliced(vec![VALID.to_owned()], 60, random, |a, b, random| seeds::splice_text(a, b, random));
            all.into_iter().map(|text| format!("{text}{SPLIT}/var/lib/app/x.db").into_bytes()).collect()
        });
    },
    |input: &[u8]| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let (text, database) = text.split_once(SPLIT).unwrap_or((text, "/var/lib/app/x.db"));
        memory::bounded(|| match Policy::parse(text, Path::new("p.toml")) {
            Ok(policy) => {
                policy.class(Path::new(database));
                policy.drops_fsync();
                assert!(policy.rules().iter().all(|rule| rule.root().is_absolute()));
            }
            Err(error) => assert!(error.to_string().contains("p.toml"), "the error does not name the file: {error}"),
        });
    }
);
