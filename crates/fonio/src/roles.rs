//! Defines the internal roles in which fonio starts itself.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result};
use fonio_experiment::{Roles, do_task, measure_speed, play_apart, replay, serve_http, start_task};
use fonio_system::say;

use crate::cli::run::Role;
use crate::exit::Exit;
use crate::output;

pub fn play(role: &Role) -> Result<Exit> {
    match role {
        Role::Http { address } => serve_http(*address)?,
        Role::Task { file } => return Ok(told(do_task(file)?)),
        Role::Replay { recording, file, layer, fast, result } => {
            let done = replay::sequence(recording, (*layer).into())?.replay(file, *fast)?;
            done.save(result)?;
            say!("replayed {} accesses, {}", done.accesses, output::bytes(done.bytes));
            if done.short_reads > 0 {
                say!("{} reads returned fewer bytes than in the recording", done.short_reads);
            }
        }
        Role::Apart { file } => play_apart(file, output::text)?,
        Role::Speed { what } => measure_speed(what)?,
        Role::Start { socket } => return Ok(told(start_task(socket)?)),
    }
    Ok(Exit::Fine)
}

/// Returns the exit code of a task. Another process tells why it failed.
fn told(has_succeeded: bool) -> Exit {
    if has_succeeded { Exit::Fine } else { Exit::Command(1) }
}

/// Returns the command with which this program starts itself in each role.
pub fn roles() -> Result<Roles> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Ok(Roles {
        program: std::env::current_exe().context("cannot find the fonio executable")?,
        serve_device: words(&["device", "serve"]),
        serve_http: words(&["role", "http"]),
        do_task: words(&["role", "task"]),
        start_task: words(&["role", "start"]),
        measure_speed: words(&["role", "speed"]),
        replay: words(&["role", "replay"]),
        mount: words(&["mount", "--foreground"]),
    })
}

/// Returns the command that starts this program as the server of an emulated device.
pub fn device_server(roles: &Roles) -> Command {
    let mut command = Command::new(&roles.program);
    command.args(&roles.serve_device);
    command
}

/// Returns the command with which this program plays a part of a recreated stall. A file name follows it.
pub fn apart() -> Result<[OsString; 3]> {
    let program = std::env::current_exe().context("cannot find the fonio executable")?;
    Ok([program.into(), "role".into(), "apart".into()])
}
