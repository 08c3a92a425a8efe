//! Checks that each section with a table of figures names the command that prints these figures, and that the
//! developer commands in the documents exist. (`crates/fonio/src/cli/documented.rs` checks user commands, and
//! `studies/src/documents` checks study commands.)

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Parser as _;
use fonio_testing::markdown::{self, Command};

use crate::circles::collect_sources;
use crate::{CommandLine, process};

/// The programs whose commands can print figures for documents.
const PROGRAMS: [&str; 4] = ["fonio", "cargo studies", "cargo xtask", "cargo test"];

/// Returns the errors in all documents, one line each.
pub fn breaches() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for path in documents()? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let shown = path.strip_prefix(process::root()).unwrap_or(&path).display();
        let objections = objections(&text).into_iter();
        found.extend(objections.map(|(line, objection)| format!("{shown}:{line}: {objection}")));
    }
    Ok(found)
}

/// Returns the Markdown files in the root folder of the repository, in `docs` and in `docs/tutorials`.
fn documents() -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for folder in ["", "docs", "docs/tutorials"].map(|folder| process::root().join(folder)) {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns the errors in a document, with line numbers.
fn objections(text: &str) -> Vec<(usize, String)> {
    let commands = markdown::commands(text, &PROGRAMS);
    let mut found = Vec::new();
    for table in markdown::figure_tables(text) {
        if !commands.iter().any(|command| table.section.contains(&command.line)) {
            let why = "no command in this section prints the figures of this table";
            found.push((table.line, why.to_owned()));
        }
    }
    for command in &commands {
        found.extend(objection(command).map(|why| (command.line, why)));
    }
    found
}

/// Returns the reason why a developer command is not valid; `None` if it is valid.
fn objection(command: &Command) -> Option<String> {
    let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["cargo", "test", "-p", package, rest @ ..] => wrong_test(package, rest),
        ["cargo", "xtask", rest @ ..] => wrong_xtask(rest),
        _ => None,
    }
}

/// Returns the reason why a test command is not valid: its package, its test (`NAME`) or its test program
/// (`--test NAME`) does not exist. Returns `None` if it is valid.
fn wrong_test(package: &str, rest: &[&str]) -> Option<String> {
    let folder = ["crates".as_ref(), Path::new("")].map(|parent| process::root().join(parent).join(package));
    let Some(folder) = folder.into_iter().find(|folder| folder.join("Cargo.toml").exists()) else {
        return Some(format!("there is no package `{package}`"));
    };
    match rest {
        ["--test", name, ..] => {
            let exists = ["tests/NAME.rs", "tests/NAME/main.rs"]
                .iter()
                .any(|path| folder.join(path.replace("NAME", name)).exists());
            (!exists).then(|| format!("`{package}` has no tests/{name}.rs"))
        }
        [name, ..] if !name.starts_with('-') => {
            let is_in = |part: &str, text: &str| contains(&folder.join(part), text);
            let exists = ["src", "tests"].iter().any(|part| is_in(part, &format!("fn {name}(")))
                || is_in("tests", &format!("mod {name};"));
            (!exists).then(|| format!("`{package}` has no test `{name}`"))
        }
        _ => None,
    }
}

/// Returns whether a source file in a folder contains the text.
fn contains(folder: &Path, text: &str) -> bool {
    let mut files = Vec::new();
    let is_listed = collect_sources(folder, &mut files).is_ok();
    is_listed && files.iter().any(|file| fs::read_to_string(file).is_ok_and(|source| source.contains(text)))
}

/// Returns the reason why a `cargo xtask` command is not valid; `None` if it is valid. A word in capitals is
/// a placeholder that the reader replaces.
fn wrong_xtask(words: &[&str]) -> Option<String> {
    let is_placeholder = |word: &&&str| word.chars().all(|c| c.is_ascii_uppercase());
    if words.iter().any(|word| is_placeholder(&word)) {
        return None;
    }
    let error = CommandLine::try_parse_from(["cargo xtask"].iter().chain(words)).err()?.to_string();
    let reason = error.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    Some(format!("`cargo xtask {}`: {reason}", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_without_a_command_and_wrong_commands_are_found() {
        let text = "# One\n\n| a | b |\n|---|---|\n| x | 1 s |\n\n## Two\n\n`cargo xtask bench watch --quik`, `cargo xtask benk`, \
                    `cargo xtask bench wach`, `cargo test -p fonio-core no_such_test`, `cargo xtask bench watch --for 1h`\n";
        let expected = [
            (3, "no command in this section prints the figures of this table"),
            (9, "`cargo xtask bench watch --quik`: unexpected argument '--quik' found"),
            (9, "`cargo xtask benk`: unrecognized subcommand 'benk'"),
            (9, "`cargo xtask bench wach`: unrecognized subcommand 'wach'"),
            (9, "`fonio-core` has no test `no_such_test`"),
        ];
        assert_eq!(objections(text), expected.map(|(line, why)| (line, why.to_owned())));
    }

    #[test]
    fn the_documents_have_commands() {
        let all = documents().expect("the repository can be listed").into_iter();
        let texts = all.map(|path| fs::read_to_string(path).expect("a document can be read"));
        let commands: usize = texts.map(|text| markdown::commands(&text, &["cargo xtask"]).len()).sum();
        assert!(commands > 20, "{commands}");
    }
}
