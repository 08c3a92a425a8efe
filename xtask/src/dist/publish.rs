//! `cargo xtask dist publish`: sends the files of `cargo xtask dist all` to the release of a tag on GitHub.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::package::VERSION;
use super::{folder, notes};
use crate::process;

/// Creates the release with its notes and files. With `is_dry_run`, only prints the command.
pub fn run(is_dry_run: bool) -> Result<()> {
    let folder = folder()?;
    let notes = folder.join(notes::NAME);
    ensure!(notes.exists(), "{} does not exist; run `cargo xtask dist all` first", notes.display());
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .with_context(|| format!("cannot list {}", folder.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_file() && *path != notes)
        .collect();
    files.sort();
    let mut gh = Command::new("gh");
    gh.args([
        "release",
        "create",
        &format!("v{VERSION}"),
        "--verify-tag",
        "--title",
        &format!("fonio {VERSION}"),
    ]);
    gh.arg("--notes-file").arg(&notes).args(&files).current_dir(process::root());
    if is_dry_run {
        println!("{}", process::shown(&gh));
        return Ok(());
    }
    process::run(&mut gh)
}
