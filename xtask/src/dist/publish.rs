//! `cargo xtask dist publish`: sends the files of `cargo xtask dist all` to the release of a tag on a forge.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::package::VERSION;
use super::{folder, notes};
use crate::{process, tools};

/// A forge that shows releases.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Forge {
    Github,
    Gitlab,
}

/// Creates the release with its notes and files. With `is_dry_run`, only prints the command.
pub fn run(on: Forge, is_dry_run: bool) -> Result<()> {
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
    let (tool, title): (tools::Tool, _) = match on {
        Forge::Github => (("gh", "gh", "making a release on GitHub"), "--title"),
        Forge::Gitlab => (("glab", "glab", "making a release on GitLab"), "--name"),
    };
    let mut forge = Command::new(tool.0);
    forge.args(["release", "create", &format!("v{VERSION}"), title, &format!("fonio {VERSION}")]);
    forge.arg("--notes-file").arg(&notes).args(&files).current_dir(process::root());
    if is_dry_run {
        println!("{}", process::shown(&forge));
        return Ok(());
    }
    tools::ensure(&[&[tool]])?;
    process::run(&mut forge)
}
