//! `fonio fix apply NAME --pid PID` and `fonio fix apply NAME -- CMD`: apply a fix to a single process.

use std::io::Write;
use std::os::unix::process::CommandExt;

use anyhow::{Context, Result, bail};
use fonio_experiment::Candidate;
use fonio_host::{IoPriority, Scope, with_io_class};
use serde::Serialize;

use super::{list, setting};
use crate::cli::fix::FixApply;
use crate::exit::Exit;
use crate::output;

/// The name of the only fix that Linux applies per thread.
const IO_CLASS: &str = "io-class";

/// The new I/O class of a process, as JSON output.
#[derive(Serialize)]
struct Changed<'a> {
    outcome: &'a str,
    pid: u32,
    threads: &'a [u32],
    old: &'a str,
    new: &'a str,
}

pub(super) fn apply(arguments: &FixApply) -> Result<Exit> {
    let class = class(&arguments.name)?;
    let mut out = output::screen();
    let Some(pid) = arguments.pid else {
        let line = arguments.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        if arguments.dry_run {
            writeln!(out, "Would run `{line}` with the I/O class {class}.")?;
            return Ok(Exit::Fine);
        }
        drop(out);
        // The command replaces this process, so the caller gets the command's exit code, and the command gets
        // signals.
        let error = with_io_class(&class, &arguments.command).exec();
        return Err(error).context("cannot start ionice; install util-linux");
    };
    let process = IoPriority::of(pid)?;
    if !arguments.dry_run {
        process.set(&class)?;
    }
    let outcome = if arguments.dry_run { "would_apply" } else { "applied" };
    if arguments.json {
        let (threads, old) = (process.threads.as_slice(), process.now.as_str());
        return output::json(&Changed { outcome, pid, threads, old, new: &class });
    }
    let (would, count) = (if arguments.dry_run { "Would set" } else { "Set" }, process.threads.len());
    let threads = if count == 1 { "thread" } else { "threads" };
    writeln!(out, "{would} the I/O class of process {pid} ({count} {threads}): {} -> {class}", process.now)?;
    writeln!(
        out,
        "Only the schedulers bfq, mq-deadline and smartio use the class, which lasts until the process ends."
    )?;
    if !arguments.dry_run {
        writeln!(out, "Next: `ionice -c none -p {pid}` removes the class.")?;
    }
    Ok(Exit::Fine)
}

/// Returns the I/O class that a fix gives to a process, or an error that names an alternative.
fn class(change: &Candidate) -> Result<String> {
    let name = change.name();
    let (fix, setting) = setting(change)?;
    if fix.name == IO_CLASS {
        return Ok(name.split_once('=').map_or("idle", |(_, class)| class).to_owned());
    }
    match setting.scope() {
        Scope::Unit => bail!(
            "Linux applies {name} to control groups, not to processes: run the command as a unit \
             (`systemd-run --unit NAME CMD`), then `fonio fix apply {name} NAME.service`"
        ),
        Scope::Machine => bail!("{name} changes the whole machine, not a process: `fonio fix apply {name}`"),
        scope => bail!("the fix cannot be applied to a process: {}", list::needs_path(&name, scope, false)),
    }
}
