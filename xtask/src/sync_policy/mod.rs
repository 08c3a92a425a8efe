//! `cargo xtask bench sync-policy`: the library `fonio-sqlite-sync` under power cuts, in SQLite's own tests, in a whole Debian, and its
//! cost.

mod overhead;
mod system;
mod veryquick;

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::{process, tools};

/// Cuts without `--cuts`.
const CUTS: u32 = 10_000;

/// `[--cuts N]`, `overhead`, `veryquick` or `system`.
pub fn run(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["overhead"] => overhead::run(),
        ["system"] => system::run(),
        ["veryquick", ref rest @ ..] => veryquick::run(rest),
        [] => cuts(CUTS),
        ["--cuts", number] => cuts(number.parse().context("--cuts wants a number")?),
        _ => bail!("the words are: --cuts N, overhead, veryquick [CLASS…], or system"),
    }
}

/// Builds the library and returns its path.
fn library() -> Result<PathBuf> {
    process::run(process::cargo().args(["build", "--package", "fonio-sqlite-sync"]))?;
    Ok(process::target().join("debug/libfonio_sqlite_sync.so"))
}

fn cuts(number: u32) -> Result<()> {
    ensure!(process::is_root(), "emulated devices and mounts need root: run it with sudo");
    tools::ensure(&[tools::BUILD])?;
    let library = library()?;
    let state = process::scratch("sync-policy")?.join("rounds.jsonl");
    // Ctrl-C reaches the example too, which undoes what it made.
    process::outlive_signals()?;
    let mut example = process::cargo();
    example.args(["run", "--quiet", "--package", "fonio-emulator", "--example", "sync_policy", "--"]);
    process::run(example.arg(&library).arg(&state).arg(number.to_string()))?;
    println!("\nThe rounds are in {}; remove it to begin anew.", state.display());
    Ok(())
}
