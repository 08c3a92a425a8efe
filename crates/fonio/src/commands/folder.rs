//! Implements `fonio folder`, the command that is run by the systemd units of the fix folder-in-ram.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fonio_core::ByteCount;
use fonio_host::{Mirrored, start_folder_in_ram, write_out_folder};

use crate::cli::Folder;
use crate::exit::Exit;
use crate::output;

pub fn run(command: &Folder) -> Result<Exit> {
    match command {
        Folder::Start { size, dir } => {
            start_folder_in_ram(&found(dir)?, *size)?;
            Ok(Exit::Fine)
        }
        Folder::WriteOut { dir } => {
            let dir = found(dir)?;
            let Some(Mirrored { written, bytes, removed }) = write_out_folder(&dir)? else {
                // A unit that is stopped after `fonio fix undo` also runs this command.
                writeln!(output::screen(), "{} is not in memory: nothing to write out.", dir.display())?;
                return Ok(Exit::Fine);
            };
            let bytes = output::bytes(ByteCount(bytes));
            writeln!(
                output::screen(),
                "Wrote {} to the disk: {written} files and folders changed ({bytes}), {removed} removed.",
                dir.display()
            )?;
            Ok(Exit::Fine)
        }
    }
}

fn found(dir: &Path) -> Result<PathBuf> {
    fs::canonicalize(dir).with_context(|| format!("cannot find {}", dir.display()))
}
