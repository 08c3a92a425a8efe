//! `cargo xtask sentences`: draws sentences for a language review.
//!
//! The draw depends only on the commit, so nobody can influence it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use sha2::{Digest, Sha256};

use xtask::process;

/// Minimum number of words in a sentence; shorter texts are headings and labels.
const WORDS_MIN: usize = 5;

/// The options of `cargo xtask sentences`.
#[derive(Args)]
pub struct Arguments {
    /// Draw this many sentences.
    #[arg(long, value_name = "N", default_value_t = 200)]
    count: usize,
    /// Use this hash instead of the hash of the last commit.
    #[arg(long, value_name = "HASH")]
    commit: Option<String>,
}

/// Prints random sentences from documents, comments and messages, with file and line.
pub fn run(Arguments { count, commit }: Arguments) -> Result<()> {
    let commit = commit.map_or_else(head, Ok)?;
    let mut drawn: Vec<(Vec<u8>, Sentence)> = all()?
        .into_iter()
        .map(|sentence| {
            let key = Sha256::digest(format!("{commit}\n{}", sentence.text)).to_vec();
            (key, sentence)
        })
        .collect();
    let of = drawn.len();
    drawn.sort();
    drawn.truncate(count);
    println!("{} of {of} sentences, drawn by commit {commit}", drawn.len());
    for (at, (_, Sentence { file, line, text })) in drawn.iter().enumerate() {
        println!("{:3}. {}:{line}: {text}", at + 1, file.display());
    }
    Ok(())
}

fn head() -> Result<String> {
    process::output(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(process::root()))
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sentence {
    text: String,
    file: PathBuf,
    line: usize,
}

/// Returns all sentences without duplicates, each with the position at which it first occurs.
fn all() -> Result<Vec<Sentence>> {
    let root = process::root();
    let files = process::output(Command::new("git").args(["ls-files", "*.md", "*.rs"]).current_dir(root))?;
    let mut known = BTreeSet::new();
    let mut sentences = Vec::new();
    for file in files.lines() {
        let file = Path::new(file);
        let text =
            fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {}", file.display()))?;
        let blocks = if file.extension().is_some_and(|extension| extension == "md") {
            paragraphs(&text)
        } else {
            comments_and_messages(&text)
        };
        for (line, block) in blocks {
            for text in split(&block) {
                if known.insert(text.clone()) {
                    sentences.push(Sentence { text, file: file.to_owned(), line });
                }
            }
        }
    }
    Ok(sentences)
}

/// Returns the paragraphs and list items of a Markdown text, each with the number of its first line. Leaves
/// out code, tables and headings.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut in_fence = false;
    let mut is_open = false;
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            in_fence = !in_fence;
        }
        let item = trimmed.strip_prefix("- ");
        let is_other = trimmed.is_empty() || trimmed.starts_with(['#', '|', '`', '<']) && item.is_none();
        // Indented lines are code, unless they continue the open block of a list item.
        let is_code = in_fence || line.starts_with("    ") && !is_open;
        if is_other && !(trimmed.starts_with('`') && is_open && !trimmed.starts_with("```")) || is_code {
            is_open = false;
        } else if let Some(item) = item {
            found.push((at + 1, item.to_owned()));
            is_open = true;
        } else if is_open {
            let (_, block) = found.last_mut().expect("a block is open");
            block.push(' ');
            block.push_str(trimmed);
        } else {
            found.push((at + 1, trimmed.to_owned()));
            is_open = true;
        }
    }
    found
}

/// Returns the comments of a Rust text and the string literals that are on a single line, each with the
/// number of its first line.
fn comments_and_messages(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let comment = ["/// ", "//! ", "// "].iter().find_map(|mark| trimmed.strip_prefix(mark));
        match comment {
            Some(words) if words.starts_with("# ") || words.starts_with("```") => is_open = false,
            Some(words) if is_open => {
                let (_, block) = found.last_mut().expect("a block is open");
                block.push(' ');
                block.push_str(words.trim());
            }
            Some(words) => {
                found.push((at + 1, words.trim().to_owned()));
                is_open = true;
            }
            None => {
                is_open = false;
                let mut literals = trimmed.split('"').skip(1).step_by(2).filter(|text| text.contains(' '));
                found.extend(literals.by_ref().map(|literal| (at + 1, literal.to_owned())));
            }
        }
    }
    found
}

/// Splits a block into sentences, and leaves out short sentences.
fn split(block: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut rest = block;
    while !rest.is_empty() {
        let ends = [". ", "? ", "! "].iter().filter_map(|end| rest.find(end)).min();
        let (sentence, after) = match ends {
            Some(at) => (&rest[..=at], &rest[at + 2..]),
            None => (rest, ""),
        };
        let words = sentence.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic));
        if words.count() >= WORDS_MIN {
            sentences.push(sentence.trim().to_owned());
        }
        rest = after;
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_documents_are_found() {
        let text = "# A heading of five long words\n\nA first sentence has words. `cargo` begins\nthe second one here.\n\n    \
                    a block of code is not one\n\n| a table | of | more | words | here |\n- An item of a list goes\n  on here.\n";
        let found: Vec<_> = paragraphs(text)
            .iter()
            .flat_map(|(line, block)| split(block).into_iter().map(|s| (*line, s)))
            .collect();
        let expected = [
            (3, "A first sentence has words."),
            (3, "`cargo` begins the second one here."),
            (9, "An item of a list goes on here."),
        ];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn comments_and_messages_are_found() {
        let text = "/// Returns the number of requests.\n///\n/// # Errors\nfn f() {\n    bail!(\"no device has this name\");\n}\n";
        let found = comments_and_messages(text);
        let expected = [(1, "Returns the number of requests."), (5, "no device has this name")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }
}
