//! `cargo studies documents`: writes the tables of figures in documents from the results.
//!
//! `<!-- results: ID -->` … `<!-- end -->` contains the table of a result, and `<!-- results: ID: COLUMN,
//! COLUMN -->` contains some columns of this table. `<!-- papers: PREFIX -->` contains a line for each result
//! whose id has this prefix. `<!-- summary: papers -->` contains the counts of all papers. The text between the two
//! comments is always generated.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use xtask::results::{Machine, Origin, StudyResult};

use crate::{paper, process};

#[derive(Args)]
pub struct Arguments {
    /// Fail if a document differs, instead of writing it.
    #[arg(long)]
    check: bool,
}

const END: &str = "<!-- end -->";

pub fn run(arguments: &Arguments) -> Result<()> {
    let changed = changed()?;
    for (path, text) in &changed {
        let shown = path.strip_prefix(process::root()).unwrap_or(path).display();
        if arguments.check {
            println!("{shown} differs from the results");
        } else {
            fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
            println!("{shown} was written");
        }
    }
    ensure!(
        changed.is_empty() || !arguments.check,
        "run `cargo studies documents`, and review the difference"
    );
    Ok(())
}

/// Returns the documents whose tables differ from the results, each with its corrected text.
fn changed() -> Result<Vec<(PathBuf, String)>> {
    let results: BTreeMap<String, StudyResult> =
        StudyResult::all()?.into_iter().map(|result| (result.id.clone(), result)).collect();
    let mut changed = Vec::new();
    for (path, text) in all()? {
        let should = written(&text, &results).with_context(|| path.display().to_string())?;
        if should != text {
            changed.push((path, should));
        }
    }
    Ok(changed)
}

/// Reads the Markdown files in the root folder of the repository and in `docs`.
fn all() -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for folder in [process::root().to_owned(), process::root().join("docs")] {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let text =
                    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                found.push((path, text));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A block of a document that is generated from results.
struct Block<'a> {
    /// The kind of the block: `results`, `papers` or `summary`.
    kind: &'a str,
    /// The id of a result with optional columns, or a prefix of ids.
    name: &'a str,
}

impl<'a> Block<'a> {
    fn begun_by(line: &'a str) -> Option<Block<'a>> {
        let (kind, name) = line.strip_prefix("<!-- ")?.strip_suffix(" -->")?.split_once(": ")?;
        ["results", "papers", "summary"].contains(&kind).then_some(Block { kind, name })
    }

    fn id(&self) -> &'a str {
        self.name.split_once(": ").map_or(self.name, |(id, _)| id)
    }

    fn text(&self, results: &BTreeMap<String, StudyResult>) -> Result<String> {
        if self.kind == "results" {
            let result =
                results.get(self.id()).with_context(|| format!("there is no result `{}`", self.id()))?;
            let origin = measured(&result.origin, &result.command);
            let table = match self.name.split_once(": ") {
                Some((_, columns)) => result.with_columns(&columns.split(", ").collect::<Vec<_>>())?.table(),
                None => result.table(),
            };
            return Ok(table + &origin.map_or_else(String::new, |origin| format!("\n{origin}\n")));
        }
        if self.kind == "summary" {
            ensure!(self.name == "papers", "no summary is called `{}`; use `papers`", self.name);
            return paper::summary(results);
        }
        let mut text = "| id | shows | result |\n|---|---|---|\n".to_owned();
        let mut papers: Vec<_> = results.iter().filter(|(id, _)| id.starts_with(self.name)).collect();
        papers.sort_by_key(|(id, _)| by_number(id));
        for (id, result) in papers {
            let origin = measured(&result.origin, &result.command);
            let origin = origin.map_or_else(String::new, |origin| format!(" {origin}"));
            let name = id.trim_start_matches("paper-");
            let _ = writeln!(text, "| `{name}` | {} | {}{origin} |", result.title, paper::described(result)?);
        }
        Ok(text)
    }
}

/// Splits an id into its prefix and its final number. This makes it possible to sort ids by number, with 4
/// before 10.
fn by_number(id: &str) -> (&str, u32) {
    let name = id.trim_end_matches(|c: char| c.is_ascii_digit());
    (name, id[name.len()..].parse().unwrap_or(0))
}

/// Returns a sentence about the origin of a measured result. A transcribed result gets no sentence, because
/// the text around its table states the origin.
fn measured(origin: &Origin, command: &str) -> Option<String> {
    let Origin::Measured { commit, changed, date, machine } = origin else { return None };
    let Machine { kind, processors, memory_bytes, kernel } = machine;
    let commit = commit.get(..10).unwrap_or(commit);
    let changed = if *changed { " with changes" } else { "" };
    let gib = *memory_bytes as f64 / f64::from(1 << 30);
    Some(format!(
        "Measured on {date} at {commit}{changed} by `{command}` ({kind}, {processors} processors, {gib:.0} GiB, Linux \
         {kernel})."
    ))
}

fn written(text: &str, results: &BTreeMap<String, StudyResult>) -> Result<String> {
    let mut out = String::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        out += line;
        out.push('\n');
        let Some(block) = Block::begun_by(line) else {
            ensure!(line != END, "line {}: no block begins before this end", at + 1);
            continue;
        };
        out += &block.text(results).with_context(|| format!("line {}", at + 1))?;
        let is_end = |(_, line): &(usize, &str)| *line == END || Block::begun_by(line).is_some();
        match lines.find(is_end) {
            Some((_, END)) => out += &format!("{END}\n"),
            _ => bail!("line {}: the block has no `{END}`", at + 1),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
