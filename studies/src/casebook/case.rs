//! A case: a real program, how it is run, and the answers that are right.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// One case of the casebook.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The file's name without its extension.
    #[serde(skip)]
    pub name: String,
    /// The folder's name.
    #[serde(skip)]
    pub set: String,
    /// One sentence: what runs.
    pub title: String,
    /// The address of the public report from which the case is made.
    pub source: String,
    /// What the reporter saw, and what the cause was.
    #[expect(dead_code, reason = "for readers of the file")]
    pub report: String,
    /// Debian packages.
    pub packages: Vec<String>,
    /// Python packages with their versions, such as `lmdb==1.4.1`, in the virtual environment `/venv`.
    #[serde(default)]
    pub pip: Vec<String>,
    /// The profile of the emulated card.
    pub device: String,
    #[serde(default = "size")]
    pub size: String,
    #[serde(default = "ext4")]
    pub fs: String,
    /// Mount options.
    #[serde(default)]
    pub options: Option<String>,
    /// Length of the recording in seconds.
    pub seconds: u64,
    /// A bash script that runs before the recording.
    pub prepare: String,
    /// A bash script that runs during the recording.
    pub load: String,
    /// Who wrote the case.
    pub author: String,
    pub expected: Expected,
}

/// The answers to a case. A list has the accepted answers; an empty list means that none should be given.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Whether storage holds a program up.
    pub storage: bool,
    pub victim: Vec<String>,
    pub operation: Vec<String>,
    pub file: Vec<String>,
    pub culprit: Vec<String>,
    pub mechanism: Vec<String>,
    /// Kinds of remedies of which at least one must be given.
    pub right: Vec<String>,
    pub acceptable: Vec<String>,
    /// Kinds of remedies that must not be given.
    pub wrong: Vec<String>,
}

fn size() -> String {
    "1GiB".to_owned()
}

fn ext4() -> String {
    "ext4".to_owned()
}

/// The sets of cases, in the order in which they were written. The rules were changed after the runs of the
/// first set. No rule had been changed for the cases of another set when they ran for the first time.
pub const SETS: [&str; 6] = ["first", "last", "later", "final", "closing", "more"];

/// Reads the cases of one set, in the order of their names.
pub fn read(folder: &Path, set: &str) -> Result<Vec<Case>> {
    let folder = folder.join(set);
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let read = |path: &PathBuf| one(path).with_context(|| path.display().to_string());
    paths.iter().map(|path| Ok(Case { set: set.to_owned(), ..read(path)? })).collect()
}

fn one(path: &Path) -> Result<Case> {
    let mut case: Case = toml::from_str(&std::fs::read_to_string(path)?)?;
    case.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let Expected { right, acceptable, wrong, .. } = &case.expected;
    let both = right.iter().chain(acceptable).find(|kind| wrong.contains(kind));
    ensure!(both.is_none(), "the remedy {both:?} is both right and wrong");
    Ok(case)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xtask::process;

    #[test]
    fn cases_can_be_read() {
        for set in SETS {
            check(&read(&process::root().join("studies/casebook"), set).unwrap());
        }
    }

    fn check(cases: &[Case]) {
        for case in cases {
            assert!((12..=60).contains(&case.seconds), "{}: {} s", case.name, case.seconds);
            assert!(case.source.starts_with("http"), "{} names no public report", case.name);
            assert!(!case.expected.storage || !case.expected.victim.is_empty(), "{}", case.name);
        }
        let storage = cases.iter().filter(|case| case.expected.storage).count();
        let tenths = storage * 10 / cases.len();
        assert!((4..=6).contains(&tenths), "{storage} of {} cases are about storage", cases.len());
    }
}
