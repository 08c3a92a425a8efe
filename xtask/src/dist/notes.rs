//! Makes the notes of a release: the section of `CHANGELOG.md` for its version.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::folder;
use super::package::VERSION;
use crate::process;

/// The name of the file with the notes.
pub const NAME: &str = "RELEASE.md";
/// The heading of the changes that no release contains yet.
const UNRELEASED: &str = "Unreleased";

/// Writes the notes. Without a tag, the section of changes that are not released yet will do. A tag needs the
/// section of its version, and must have the version of the workspace.
pub fn make() -> Result<PathBuf> {
    let tag = tag()?;
    let changelog = process::root().join("CHANGELOG.md");
    let text =
        fs::read_to_string(&changelog).with_context(|| format!("cannot read {}", changelog.display()))?;
    let notes = notes(&text, tag.as_deref())?;
    let path = folder()?.join(NAME);
    fs::write(&path, notes).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Returns the tag of the last commit that begins with `v` and a digit; `None` if there is no tag.
fn tag() -> Result<Option<String>> {
    let tags = process::output(
        Command::new("git")
            .args(["tag", "--points-at", "HEAD", "--list", "v[0-9]*"])
            .current_dir(process::root()),
    )?;
    Ok(tags.lines().last().map(str::to_owned))
}

fn notes(changelog: &str, tag: Option<&str>) -> Result<String> {
    if let Some(tag) = tag {
        ensure!(
            tag == format!("v{VERSION}"),
            "the tag {tag} does not name the version {VERSION} in Cargo.toml; change the version, or move the tag"
        );
    }
    let section = match (section(changelog, VERSION), tag) {
        (Some(section), _) => section,
        (None, Some(tag)) => {
            bail!("CHANGELOG.md has no section `## {VERSION}`, which becomes the notes of {tag}")
        }
        (None, None) => section(changelog, UNRELEASED).with_context(|| {
            format!("CHANGELOG.md has neither a section `## {VERSION}` nor `## {UNRELEASED}`")
        })?,
    };
    Ok(format!("# fonio {VERSION}\n\n{section}\n"))
}

/// Returns the text of the section with this heading, which a date can follow.
fn section<'a>(changelog: &'a str, heading: &str) -> Option<&'a str> {
    let is_heading =
        |line: &str| line.strip_prefix("## ").and_then(|rest| rest.split(' ').next()) == Some(heading);
    let mut at = 0;
    let mut begin = None;
    for line in changelog.split_inclusive('\n') {
        if let Some(begin) = begin
            && line.starts_with("## ")
        {
            return Some(changelog[begin..at].trim());
        }
        at += line.len();
        if is_heading(line.trim_end()) {
            begin = Some(at);
        }
    }
    begin.map(|begin| changelog[begin..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str =
        "# Changelog\n\n## Unreleased\n\nNew.\n\n### Part\n\n- one\n\n## 0.0.9 (2020-01-01)\n\nOld.\n";

    #[test]
    fn the_section_of_the_version_becomes_the_notes() {
        let released = OLD.replace("## Unreleased", &format!("## {VERSION} (2026-01-01)"));
        let wanted = format!("# fonio {VERSION}\n\nNew.\n\n### Part\n\n- one\n");
        assert_eq!(notes(&released, Some(&format!("v{VERSION}"))).expect("notes"), wanted);
        assert_eq!(notes(OLD, None).expect("notes"), wanted);
        assert_eq!(section(OLD, "0.0.9"), Some("Old."));
    }

    #[test]
    fn a_tag_without_a_section_or_of_another_version_is_refused() {
        let error = notes(OLD, Some(&format!("v{VERSION}"))).expect_err("no section").to_string();
        assert!(error.contains("has no section"), "{error}");
        let error = notes(OLD, Some("v9.9.9")).expect_err("another version").to_string();
        assert!(error.contains("does not name the version"), "{error}");
    }
}
