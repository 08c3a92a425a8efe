//! Compiles the program that kills a command at one of its calls that write.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::process;

const SOURCE: &str = include_str!("killed_at.c");

/// Compiles the program without shared libraries, so that it runs in any guest with this architecture.
pub fn compile(to: &Path) -> Result<()> {
    let source = to.with_extension("c");
    std::fs::write(&source, SOURCE)?;
    process::run(Command::new("cc").args(["-O2", "-static", "-Wall", "-Werror", "-o"]).arg(to).arg(&source))
}
