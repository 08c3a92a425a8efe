//! Checks that the workflows for forges only call `cargo xtask`, so that every step also runs locally.

use std::fs;

use anyhow::{Context, Result};
use xtask::process;

/// The folder with the workflows for GitHub, and the file for GitLab.
const GITHUB: &str = ".github/workflows";
const GITLAB: &str = ".gitlab-ci.yml";

/// Returns the commands that are not allowed, one line each.
pub fn breaches() -> Result<Vec<String>> {
    let mut files = vec![process::root().join(GITLAB)];
    let folder = process::root().join(GITHUB);
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        files.push(entry?.path());
    }
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let shown = file.strip_prefix(process::root()).unwrap_or(&file).display();
        for (line, command) in foreign(&text) {
            found.push(format!("{shown}:{line}: `{command}` is not a `cargo xtask` command"));
        }
    }
    Ok(found)
}

/// Returns the commands of a workflow that are not `cargo xtask`, with their lines. Each command is on one line:
/// `run: COMMAND`, or an item of a list `script:`.
fn foreign(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    // The indentation of the list of commands that contains the line.
    let mut script = None;
    for (at, line) in text.lines().enumerate() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let item = content.trim_start_matches("- ");
        let command = if let Some(command) = item.strip_prefix("run:") {
            Some(command)
        } else if let Some((_, command)) =
            item.split_once(':').filter(|(key, _)| ["script", "before_script", "after_script"].contains(key))
        {
            script = Some(indent);
            (!command.trim().is_empty()).then_some(command)
        } else if script.is_some_and(|list| indent > list || (indent == list && content.starts_with("- "))) {
            Some(item)
        } else {
            script = None;
            None
        };
        if let Some(command) = command.map(str::trim)
            && !command.starts_with("cargo xtask ")
        {
            found.push((at + 1, command));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_commands_are_found() {
        let text = "jobs:\n  a:\n    steps:\n      - uses: x@v1\n      - run: cargo xtask test\n      - run: |\n          make\n      - name: b\n        run: make\n";
        assert_eq!(foreign(text), [(6, "|"), (9, "make")]);
        let text = "a:\n  script:\n    - cargo xtask test\n    - make\n  artifacts:\n    paths: [x]\nb:\n  before_script: make\n";
        assert_eq!(foreign(text), [(4, "make"), (8, "make")]);
    }
}
