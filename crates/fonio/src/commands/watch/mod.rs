//! `fonio watch`: the service that watches storage continuously, and its reports.

mod changes;
mod destination;
mod history;
mod notify;
mod phone;
mod remedy;
mod report;
mod send;
mod status;

use std::io::Write;

use anyhow::{Result, bail};
use fonio_system::say;
use fonio_watch::{Settings, Watch, serve, service};

use crate::cli::Colour;
use crate::cli::watch::{Place, Watch as Command};
use crate::exit::{self, Exit};
use crate::{output, signals};

pub fn run(command: &Command, colour: Colour) -> Result<Exit> {
    match command {
        Command::Run { place, phone: Some(phone) } => phone::watch(phone, place),
        Command::Run { place, phone: None } => watch(place),
        Command::Report(arguments) => report::run(arguments, colour),
        Command::Status(arguments) => match &arguments.phone {
            Some(phone) => phone::show(phone, arguments),
            None => status::run(arguments),
        },
        Command::Send(arguments) => send::run(arguments),
        Command::Digest { place } => status::digest(place),
        Command::Install { place } => install(place),
        Command::Start { place } => start(place),
        Command::Stop { place } => stop(place),
        Command::Uninstall { purge, place } => uninstall(*purge, place),
    }
}

fn need_root(what: &str) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("this needs root: run `sudo fonio watch {what}`");
    }
    Ok(())
}

fn install(place: &Place) -> Result<Exit> {
    need_root("install")?;
    service::install(&place.paths())?;
    writeln!(output::screen(), "The watch runs now and starts at each boot.\nNext: sudo fonio watch report")?;
    Ok(Exit::Fine)
}

fn start(place: &Place) -> Result<Exit> {
    if place.state.is_none() {
        need_root("start")?;
    }
    match service::start(&place.paths())? {
        Some(process) => {
            writeln!(output::screen(), "The watch is already running (process {}).", process.pid)?
        }
        None => writeln!(
            output::screen(),
            "The watch runs until it is stopped or the machine restarts.\nNext: sudo fonio watch report"
        )?,
    }
    Ok(Exit::Fine)
}

fn stop(place: &Place) -> Result<Exit> {
    if place.state.is_none() {
        need_root("stop")?;
    }
    let said = match service::stop(&place.paths().folders()?)? {
        true => "The watch has stopped. Its history is kept; `sudo fonio watch report` shows it.",
        false => "No watch runs.",
    };
    writeln!(output::screen(), "{said}")?;
    Ok(Exit::Fine)
}

fn uninstall(purge: bool, place: &Place) -> Result<Exit> {
    need_root("uninstall")?;
    service::uninstall(&place.paths().folders()?, purge)?;
    let history = if purge { "Its history is removed." } else { "Its history is kept; --purge removes it." };
    writeln!(output::screen(), "The watch is no longer a service. {history}")?;
    Ok(Exit::Fine)
}

fn watch(place: &Place) -> Result<Exit> {
    if !rustix::process::geteuid().is_root() && place.state.is_none() {
        bail!("watching needs root: run `sudo fonio watch run`");
    }
    let settings = Settings::read(place.config.as_deref())?;
    let stop = signals::watch()?;
    let folders = place.paths().folders()?;
    let watch = Watch::begin(settings, folders.clone(), tell)?;
    let servers = serve::start(watch.settings(), watch.shared(), tell)?;
    let notifier = notify::start(watch.settings(), &folders, watch.shared(), tell)?;
    tell(&format!(
        "watching; the history is in {}, and `fonio watch report` shows it",
        folders.state.display()
    ));
    let ended = watch.run(&stop);
    drop(notifier);
    drop(servers);
    if let Err(error) = ended {
        // The watch was ended by a signal, so its exit code does not show this error; print it for the user.
        tell(&format!(
            "{error}; the last minutes stay in memory, and the next watch stores them if it starts before a reboot"
        ));
        return Ok(Exit::Command(exit::usage(false)));
    }
    Ok(Exit::Fine)
}

/// Writes to standard error, which is systemd's journal or the log of `fonio watch start`.
fn tell(sentence: &str) {
    say!("fonio: {sentence}");
}
