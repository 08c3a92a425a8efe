//! Checks that documents and results agree, and that the study commands in documents exist.

use std::collections::BTreeSet;
use std::path::Path;

use clap::Parser as _;
use fonio_testing::markdown;

use super::*;
use crate::CommandLine;

#[test]
fn the_documents_agree_with_the_results() {
    let changed = changed().expect("documents and results can be read");
    let paths: Vec<&Path> = changed.iter().map(|(path, _)| path.as_path()).collect();
    assert!(paths.is_empty(), "run `cargo studies documents`: {paths:?}");
}

#[test]
fn every_result_is_in_a_document() {
    let texts: String = all().expect("the documents can be read").into_iter().map(|(_, text)| text).collect();
    let blocks: Vec<Block<'_>> = texts.lines().filter_map(Block::begun_by).collect();
    for result in StudyResult::all().expect("all results can be read") {
        let file = process::root().join("studies/results").join(format!("{}.json", result.id));
        let text = fs::read_to_string(&file).expect("each result is in the file named after its id");
        assert_eq!(text, result.text().expect("JSON"), "{}", file.display());
        let id = result.id.as_str();
        let shows = |block: &Block<'_>| match block.kind {
            "results" => block.id() == id,
            "papers" => id.starts_with(block.name),
            _ => false,
        };
        assert!(blocks.iter().any(shows), "put `<!-- results: {id} -->` and `{END}` into a document");
    }
}

#[test]
fn tables_of_figures_are_written_from_results() {
    for (path, text) in all().expect("the documents can be read") {
        let mut within = BTreeSet::new();
        let mut is_within = false;
        for (at, line) in text.lines().enumerate() {
            is_within = Block::begun_by(line).is_some() || is_within && line != END;
            if is_within {
                within.insert(at + 1);
            }
        }
        for table in markdown::figure_tables(&text) {
            let head = text.lines().nth(table.line - 1).unwrap_or_default();
            let is_exempt = NOT_MEASURED.iter().any(|known| head.starts_with(known));
            assert!(
                is_exempt || within.contains(&table.line),
                "{}:{}: no result backs this table",
                path.display(),
                table.line
            );
        }
    }
}

/// Headings of tables whose numbers are not measurements.
const NOT_MEASURED: [&str; 1] = ["| request | answer |"];

#[test]
fn the_commands_of_studies_in_documents_are_valid() {
    let mut count = 0;
    for (path, text) in all().expect("the documents can be read") {
        for command in markdown::commands(&text, &["cargo studies"]) {
            count += 1;
            // Words in capitals are placeholders. The value of an option may be any word.
            let is_chosen = |at: usize| command.words[at].chars().all(|c| c.is_ascii_uppercase());
            let is_kept = |at: &usize| !is_chosen(*at) || command.words[*at - 1].starts_with("--");
            let words = (1..command.words.len()).filter(is_kept).map(|at| command.words[at].as_str());
            if let Err(error) = CommandLine::try_parse_from(words) {
                panic!("{}:{}: {error}", path.display(), command.line);
            }
        }
    }
    assert!(count > 20, "{count}");
}

fn results() -> BTreeMap<String, StudyResult> {
    let text = r#"{ "schema": 1, "id": "paper-a", "title": "a figure", "command": "cargo studies paper a",
        "origin": { "measured": { "commit": "0123456789abcdef", "changed": false, "date": "2026-11-25", "machine":
            { "kind": "x86_64, virtual", "processors": 2, "memory_bytes": 25769803776, "kernel": "6.18.0" } } },
        "columns": ["", "published", "ours", "each run", "kind", "verdict", "published numbers", "why"],
        "rows": [{ "name": "one", "cells": ["2 s", "1.5 s", { "values": [1.5], "unit": "s", "decimals": 1 }, "imitation",
            "agrees", { "values": [1], "unit": "", "decimals": 0 }, ""] }],
        "remark": "one 1.5 s." }"#;
    let result: StudyResult = serde_json::from_str(text).expect("a result");
    BTreeMap::from([(result.id.clone(), result)])
}

#[test]
fn blocks_are_written() {
    let text = "# A\n\n<!-- results: paper-a: ours, kind -->\nold\n<!-- end -->\n\n<!-- papers: paper- -->\n<!-- end -->\nB\n";
    let origin = "Measured on 2026-11-25 at 0123456789 by `cargo studies paper a` (x86_64, virtual, 2 processors, 24 GiB, Linux 6.18.0).";
    let expected = format!(
        "# A\n\n<!-- results: paper-a: ours, kind -->\n| | ours | kind |\n|---|---|---|\n| one | 1.5 s | imitation |\n\n\
         {origin}\n<!-- end -->\n\n<!-- papers: paper- -->\n| id | shows | result |\n|---|---|---|\n| `a` | a figure | \
         The study gives no numbers. On imitations: 1 agrees. one 1.5 s. {origin} |\n<!-- end -->\nB\n"
    );
    let written_once = written(text, &results()).expect("a document");
    assert_eq!(written_once, expected);
    assert_eq!(written(&written_once, &results()).expect("a document"), expected);
}

#[test]
fn figures_are_in_the_order_of_their_numbers() {
    let mut ids = ["a-f10", "a-t2", "a-f4"];
    ids.sort_by_key(|id| by_number(id));
    assert_eq!(ids, ["a-f4", "a-f10", "a-t2"]);
}

#[test]
fn unknown_results_and_open_blocks_are_refused() {
    for (text, why) in [
        ("<!-- results: b -->\n<!-- end -->\n", "no result `b`"),
        ("<!-- results: paper-a -->\n", "has no `<!-- end -->`"),
        ("<!-- results: paper-a -->\n<!-- results: paper-a -->\n<!-- end -->\n", "has no `<!-- end -->`"),
        ("<!-- end -->\n", "no block begins"),
        ("<!-- summary: studies -->\n<!-- end -->\n", "no summary is called `studies`; use `papers`"),
    ] {
        let error = format!("{:#}", written(text, &results()).expect_err("it is wrong"));
        assert!(error.contains(why), "{error}");
    }
}
