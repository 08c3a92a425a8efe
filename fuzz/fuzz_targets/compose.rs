//! Parses arbitrary Compose files, and checks for panics, endless loops and much memory.
#![no_main]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fonio_fuzz::{memory, seeds};
use fonio_workload::compose::{Drive, Stack, Work};
use libfuzzer_sys::fuzz_target;

const VALID: [&str; 2] = [
    "name: shop\nx-all: &all\n  image: redis:${TAG:-7}\nservices:\n  db:\n    <<: *all\n    command: redis-server --save \"\"\n    \
     volumes: ['data:/data', './conf:/conf:ro']\n    healthcheck: { test: [CMD, redis-cli, ping], interval: 1m30s, retries: 4 }\n  \
     web:\n    build: .\n    depends_on: { db: { condition: service_healthy } }\n    environment: { A: b, C: }\n\
     volumes: { data: { driver: local } }\n",
    "services:\n  a:\n    image: i\n    environment: ['A=$$b', B]\n    entrypoint: [sh, -c]\n    command: 'exit 1'\n    profiles: [p]\n    \
     tmpfs: /tmp:size=1m\n    ulimits: { nofile: { soft: 1, hard: 2 } }\n    extra_hosts: ['b=host-gateway']\n    ports: ['1:2']\n    \
     volumes: [{ type: bind, source: ./a, target: /a, read_only: true }]\n  b: { image: i, links: [a], depends_on: [a] }\n",
];

fuzz_target!(
    init: {
        memory::begin();
        seeds::write(|random| {
            let valid = VALID.map(str::to_owned).to_vec();
            let all = seeds::spliced(valid, 300, random, |a, b, random| seeds::splice_text(a, b, random));
            all.into_iter().map(String::into_bytes).collect()
        });
    },
    |input: &[u8]| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let variables = BTreeMap::from([("TAG".to_owned(), "8".to_owned())]);
        memory::bounded(|| match Stack::parse(text, Path::new("c.yml"), Path::new("/folder"), &variables, &[]) {
            Ok(stack) => {
                let images = vec![PathBuf::from("/image"); stack.images().len()];
                let (app, _) = stack.app(&Work { drive: Drive::For(Duration::from_secs(1)), units: None }, &images);
                assert_eq!(app.scripts.len(), 1);
            }
            Err(error) => assert!(error.to_string().contains("c.yml"), "the error does not name the file: {error}"),
        });
    }
);
