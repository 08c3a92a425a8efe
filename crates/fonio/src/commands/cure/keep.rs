//! The last step of a cure: a fix is kept.

use anyhow::{Context, Result, bail};
use clap::Parser;
use fonio_host::IoPriority;
use fonio_system::say;
use serde::Serialize;

use super::choices::{Choice, How};
use crate::cli::{Cli, Colour, Command};
use crate::commands::fix;
use crate::output;

/// A fix that was kept.
#[derive(Serialize)]
pub(super) struct Kept {
    /// The command that kept the fix.
    command: String,
    /// The command that undoes it.
    pub(super) undo: String,
}

/// Keeps a fix by the public command.
pub(super) fn keep(choice: &Choice, is_json: bool) -> Result<Kept> {
    if let How::IoClass { pids } = &choice.how {
        let mut done = 0;
        for pid in pids {
            match IoPriority::of(*pid).and_then(|process| process.set("idle")) {
                Ok(()) => done += 1,
                Err(error) => say!("note: the process {pid} keeps its I/O class: {error}"),
            }
        }
        if done == 0 {
            bail!("none of the processes runs any more, so there is nothing to keep");
        }
        let undo = pids.iter().map(|pid| format!("fonio fix apply io-class=none --pid {pid}"));
        return Ok(Kept { command: choice.command.clone(), undo: undo.collect::<Vec<_>>().join("; ") });
    }
    let mut words = choice.words.clone();
    if !matches!(choice.how, How::Process { .. }) {
        words.push("--keep".to_owned());
    }
    if is_json {
        words.push("--json".to_owned());
    }
    let line = output::joined(&words);
    let cli =
        Cli::try_parse_from(["fonio".to_owned()].iter().chain(&words)).context("the fix cannot be kept")?;
    let Some(Command::Fix(arguments)) = cli.command else {
        bail!("the words are not those of `fonio fix apply`")
    };
    fix::run(&arguments, Colour::Auto)?;
    let name = choice.name.split('=').next().unwrap_or(&choice.name);
    Ok(Kept { command: format!("fonio {line}"), undo: format!("fonio fix undo {name}") })
}
