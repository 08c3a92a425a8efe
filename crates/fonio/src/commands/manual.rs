//! Manual pages and completions, made from the command line's own definition.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::Exit;

/// Writes `fonio.1` and a page for each command into `dir`.
pub fn pages(dir: &Path) -> Result<Exit> {
    std::fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    clap_mangen::generate_to(Cli::command(), dir)
        .with_context(|| format!("the manual pages cannot be written to {}", dir.display()))?;
    writeln!(
        io::stdout(),
        "Manual pages are in {}; read one with `man -l {}/fonio.1`.",
        dir.display(),
        dir.display()
    )?;
    Ok(Exit::Fine)
}

/// Prints completions for `shell`.
pub fn completions(shell: Shell) -> Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "fonio", &mut text);
    io::stdout().write_all(&text)?;
    Ok(Exit::Fine)
}
