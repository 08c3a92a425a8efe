//! `fonio fix apply NAME --pid PID` and `fonio fix apply NAME -- CMD`: apply a fix to a single process.

use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use fonio_host::{IoPriority, Ledger, OfCommand, Scope, Setting, with_io_class};
use fonio_system::command::{Failure, start};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use super::apply::apply_to;
use super::{NEEDS_ROOT, list, setting};
use crate::cli::fix::FixApply;
use crate::exit::Exit;
use crate::{output, signals};

/// Pause between two checks whether the command has ended.
const PAUSE: Duration = Duration::from_millis(20);

/// The name of the only fix that Linux applies per thread. The others need a control group.
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
    let (fix, setting) = setting(&arguments.name)?;
    if fix.name == IO_CLASS {
        return apply_class(arguments);
    }
    if !setting.is_of_processes() {
        return Err(is_not_of_processes(arguments, &setting));
    }
    let setting = match &arguments.target {
        Some(path) => setting.on_disk_of(path)?,
        None => setting,
    };
    match arguments.pid {
        Some(pid) => apply_to(arguments, fix, setting, Some(&Path::new("/proc").join(pid.to_string()))),
        None => run_with(arguments, &setting),
    }
}

/// Runs a command in a control group with the setting.
fn run_with(arguments: &FixApply, setting: &Setting) -> Result<Exit> {
    let of_command = setting.for_command(&arguments.command)?;
    if arguments.dry_run {
        let line = arguments.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        writeln!(output::screen(), "Would run `{line}` with {setting} in its own control group.")?;
        return Ok(Exit::Fine);
    }
    ensure!(rustix::process::geteuid().is_root(), NEEDS_ROOT);
    let group = match of_command {
        OfCommand::Scope(mut command) => {
            signals::recover()?;
            // The command replaces this process, so the caller gets the command's exit code, and the command gets
            // signals. systemd removes the group after the last process of the command.
            return Err(command.exec()).context("cannot start systemd-run; install systemd");
        }
        OfCommand::Group(group) => group,
    };
    let stop = signals::begin()?;
    let mut ledger = Ledger::open(&Ledger::default_dir())?;
    let (program, words) = arguments.command.split_first().expect("the command has a word");
    let inside = group.enter(&mut ledger)?;
    let started = start(program, words, |_| ());
    drop(inside);
    let status = wait(started?, &stop)?;
    ledger.close()?;
    Ok(Exit::of_command(Failure::of(status.code(), status.signal())))
}

/// Waits until the command ends. Passes a signal such as SIGTERM to the command.
fn wait(mut child: Child, stop: &AtomicBool) -> Result<ExitStatus> {
    let mut is_passed = false;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) && !is_passed {
            is_passed = true;
            let signal = signals::exit_code().and_then(|code| Signal::from_named_raw(i32::from(code) - 128));
            if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
                // The call fails if the command has just ended.
                let _ = kill_process(pid, signal.unwrap_or(Signal::TERM));
            }
        }
        std::thread::sleep(PAUSE);
    }
}

fn apply_class(arguments: &FixApply) -> Result<Exit> {
    let name = arguments.name.name();
    if let Some(path) = &arguments.target {
        bail!(
            "{name} applies to all disks, so {} has no meaning here: name only the process",
            path.display()
        );
    }
    let class = name.split_once('=').map_or("idle", |(_, class)| class).to_owned();
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
    if !arguments.dry_run && class != "none" {
        writeln!(out, "Next: `fonio fix apply io-class=none --pid {pid}` removes the class.")?;
    }
    Ok(Exit::Fine)
}

/// Returns the error for a fix that cannot be applied to a process. The error names an alternative.
fn is_not_of_processes(arguments: &FixApply, setting: &Setting) -> anyhow::Error {
    let name = arguments.name.name();
    match setting.scope() {
        Scope::Unit => anyhow!(
            "{name} applies to systemd units, not to processes: run the command as a unit \
             (`systemd-run --unit NAME CMD`), then `fonio fix apply {name} NAME.service`"
        ),
        Scope::Machine => {
            anyhow!("{name} changes the whole machine, not a process: `fonio fix apply {name}`")
        }
        scope => {
            anyhow!("the fix cannot be applied to a process: {}", list::needs_path(&name, scope, false))
        }
    }
}
