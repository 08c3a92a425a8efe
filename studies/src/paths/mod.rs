//! `cargo studies paths`: walks the paths of strangers, from their first command to a proven fix.
//!
//! A path is a list of commands exactly as a person types them. The study prepares the place without typing, types
//! the commands, and then compares fonio's answers with a truth that it finds out without fonio. A path that needs
//! more minutes or commands than the limits is a miss, and the table shows it.

mod container;
mod databases;
mod home;
mod quiet;
mod state;
mod typed;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use xtask::results::{Cell, Row, StudyResult, folder};

use crate::{process, tools};
use databases::minutes;

const ID: &str = "paths";
const TITLE: &str = "the paths of strangers to a proven fix";
const COMMAND: &str = "cargo studies paths";
const COLUMNS: [&str; 9] = [
    "path",
    "minutes to the end",
    "minutes to a proven fix",
    "commands typed",
    "words read",
    "verdict right",
    "fix right",
    "as before",
    "what was shown",
];
/// The row with the limits, which is above the paths.
const LIMITS: &str = "limit";
const MINUTES_MAX: f64 = 5.0;
const COMMANDS_MAX: u32 = 3;

#[derive(Args)]
pub struct Arguments {
    /// Walk only this path (default: all paths). Repeatable.
    #[arg(long, value_name = "PATH", value_parser = PATHS.map(|path| path.0))]
    only: Vec<String>,
    /// Use this program, for example a release build (default: builds fonio as for tests).
    #[arg(long, value_name = "FONIO")]
    program: Option<PathBuf>,
}

type WalkPath = fn(&Walk<'_>) -> Result<Outcome>;

/// The paths, in the order of the table.
const PATHS: [(&str, WalkPath); 6] = [
    ("python", |walk| databases::PYTHON.walk(walk)),
    ("node", |walk| databases::NODE.walk(walk)),
    ("go", |walk| databases::GO.walk(walk)),
    ("container", container::walk),
    ("home", home::walk),
    ("quiet", quiet::walk),
];

/// The program and the folders of a path.
struct Walk<'a> {
    fonio: &'a Path,
    /// The folder that contains `fonio`, for `PATH`.
    programs: &'a Path,
    scratch: PathBuf,
}

impl Walk<'_> {
    /// Returns a folder of this path for generated files, which stay for the next run.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.scratch.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }
}

enum Outcome {
    Walked(Walked),
    /// This machine lacks something.
    Skipped(String),
}

/// Whether an answer is right, or the reason why it is not.
type Answer = Result<(), String>;

fn wrong(why: &str) -> Answer {
    Err(why.to_owned())
}

/// A path that was walked to its end.
struct Walked {
    /// Time from the first command to the end of the last one.
    ended: Duration,
    /// Time from the first command to a fix that was proven or kept, if the path has one.
    fixed: Option<Duration>,
    typed: u32,
    words: usize,
    /// Whether fonio named the right cause.
    verdict: Option<Answer>,
    /// Whether the fix is right; `None` if the path has no fix.
    fix: Option<Answer>,
    /// Whether files and settings were byte for byte as before.
    as_before: Answer,
    /// The result in a few words.
    shown: String,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if !process::is_root() {
        bail!("the paths need root: emulated cards, mounts and recordings do");
    }
    tools::ensure(&[tools::BUILD])?;
    let (fonio, build) = process::fonio_of_study(arguments.program.as_deref())?;
    process::outlive_signals()?;
    let programs = fonio.parent().context("the program is in no folder")?;
    let result = folder().join(ID).with_extension("json");
    kept_rows(&result)?;
    let mut failed = Vec::new();
    for (name, walk) in PATHS {
        if !arguments.only.is_empty() && !arguments.only.iter().any(|only| only == name) {
            continue;
        }
        println!("{name}:");
        let scratch = process::scratch("paths")?.join(name);
        match walk(&Walk { fonio: &fonio, programs, scratch }) {
            Ok(Outcome::Walked(walked)) => {
                // A result after each path, so an interrupted run keeps the paths before. The file is read
                // again, because another run may have walked another path meanwhile.
                let mut rows = kept_rows(&result)?;
                keep(&mut rows, row(name, &walked));
                write(&rows, build)?;
            }
            Ok(Outcome::Skipped(why)) => println!("  skipped: {why}"),
            Err(error) => {
                process::check_signals()?;
                println!("  failed: {error:#}");
                failed.push(name);
            }
        }
    }
    ensure!(failed.is_empty(), "not walked to the end: {}", failed.join(", "));
    Ok(())
}

/// Reads the rows of earlier runs, without the limits.
fn kept_rows(path: &Path) -> Result<Vec<Row>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let found = StudyResult::read(path)?;
    ensure!(found.columns == COLUMNS, "the table has other columns now; remove {}", path.display());
    Ok(found.rows.into_iter().filter(|row| row.name != LIMITS).collect())
}

/// Puts a row in its place in the table. Rows of unknown paths stay at the end.
fn keep(rows: &mut Vec<Row>, row: Row) {
    rows.retain(|other| other.name != row.name);
    rows.push(row);
    rows.sort_by_key(|row| PATHS.iter().position(|(name, _)| *name == row.name).unwrap_or(PATHS.len()));
}

fn write(rows: &[Row], build: &str) -> Result<()> {
    let mut result = StudyResult::begin(ID, TITLE, COMMAND, &COLUMNS)?;
    let nothing = || Cell::from("");
    let limits = vec![
        Cell::once(MINUTES_MAX, "", 1),
        Cell::once(MINUTES_MAX, "", 1),
        Cell::count(COMMANDS_MAX),
        nothing(),
        nothing(),
        nothing(),
        nothing(),
        nothing(),
    ];
    result.row(LIMITS, limits);
    for row in rows {
        result.row(row.name.clone(), row.cells.clone());
    }
    result.remark = format!("{build} of fonio. Each row is the last run of its path.");
    result.keep(true)?;
    Ok(())
}

fn row(name: &str, walked: &Walked) -> Row {
    let limited = |value: f64, decimals: usize, max: f64| {
        let shown = format!("{value:.decimals$}");
        if value > max { Cell::from(format!("**missed: {shown}**")) } else { Cell::from(shown) }
    };
    let answer = |answer: Option<&Answer>| match answer {
        None => Cell::from("–"),
        Some(Ok(())) => Cell::from("yes"),
        Some(Err(why)) => Cell::from(format!("**no: {}**", why.replace('|', "/"))),
    };
    let fixed = match walked.fixed {
        Some(time) => limited(minutes(time), 2, MINUTES_MAX),
        None if walked.fix.is_none() => Cell::from("–"),
        None => Cell::from("**missed: no fix**"),
    };
    let cells = vec![
        limited(minutes(walked.ended), 2, MINUTES_MAX),
        fixed,
        limited(f64::from(walked.typed), 0, f64::from(COMMANDS_MAX)),
        Cell::count(walked.words),
        answer(walked.verdict.as_ref()),
        answer(walked.fix.as_ref()),
        answer(Some(&walked.as_before)),
        Cell::from(walked.shown.replace('|', "/")),
    ];
    Row { name: name.to_owned(), cells }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked() -> Walked {
        Walked {
            ended: Duration::from_secs(90),
            fixed: Some(Duration::from_secs(60)),
            typed: 2,
            words: 300,
            verdict: Some(Ok(())),
            fix: Some(Ok(())),
            as_before: Ok(()),
            shown: "2 times as fast".to_owned(),
        }
    }

    fn shown(walked: &Walked) -> Vec<String> {
        row("python", walked).cells.iter().map(Cell::shown).collect()
    }

    #[test]
    fn a_miss_is_shown_as_a_miss() {
        assert_eq!(shown(&walked()), ["1.50", "1.00", "2", "300", "yes", "yes", "yes", "2 times as fast"]);
        let late = Walked { ended: Duration::from_secs(360), typed: 4, fixed: None, ..walked() };
        assert_eq!(shown(&late)[..3], ["**missed: 6.00**", "**missed: no fix**", "**missed: 4**"]);
        let without = Walked { fixed: None, fix: None, verdict: Some(wrong("another cause")), ..walked() };
        let cells = shown(&without);
        assert_eq!(
            (cells[1].as_str(), cells[4].as_str(), cells[5].as_str()),
            ("–", "**no: another cause**", "–")
        );
    }

    #[test]
    fn a_new_row_replaces_the_old_row_of_its_path() {
        let mut rows = Vec::new();
        for name in ["quiet", "guest", "python", "quiet"] {
            keep(&mut rows, row(name, &walked()));
        }
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["python", "quiet", "guest"]);
    }
}
