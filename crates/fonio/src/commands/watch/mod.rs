//! `fonio watch`: the service that watches storage continuously, and its reports.

mod report;
mod service;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use fonio_system::say;
use fonio_watch::{Folders, Settings, Watch, serve};

use crate::cli::Colour;
use crate::cli::watch::{Place, Watch as Command};
use crate::exit::{self, Exit};
use crate::signals;

/// Runs one of the commands.
pub fn run(command: &Command, colour: Colour) -> Result<Exit> {
    match command {
        Command::Run { place } => watch(place),
        Command::Report(arguments) => report::run(arguments, colour),
        Command::Install { place } => service::install(place),
        Command::Start { place } => service::start(place),
        Command::Stop { place } => service::stop(place),
        Command::Uninstall { purge, place } => service::uninstall(*purge, place),
    }
}

/// The folders that the user named, or the usual ones.
fn folders(place: &Place) -> Result<Folders> {
    // The watch has another working directory.
    let named = |path: &Option<PathBuf>, usual: PathBuf| match path {
        Some(path) => std::path::absolute(path).with_context(|| format!("cannot find {}", path.display())),
        None => Ok(usual),
    };
    let usual = Folders::default();
    Ok(Folders { state: named(&place.state, usual.state)?, run: named(&place.run, usual.run)? })
}

/// Watches until a signal comes.
fn watch(place: &Place) -> Result<Exit> {
    if !rustix::process::geteuid().is_root() && place.state.is_none() {
        bail!("watching needs root: run `sudo fonio watch run`");
    }
    let settings = Settings::read(place.config.as_deref())?;
    let stop = signals::watch()?;
    let folders = folders(place)?;
    let watch = Watch::begin(settings, folders.clone(), tell)?;
    let servers = serve::start(watch.settings(), watch.shared(), tell)?;
    tell(&format!(
        "watching; the history is in {}, and `fonio watch report` shows it",
        folders.state.display()
    ));
    let ended = watch.run(&stop);
    drop(servers);
    if let Err(error) = ended {
        // A signal asked the watch to end, but this is still worth a message.
        tell(&format!(
            "{error}; the last minutes stay in memory, and the next watch before a reboot takes them up"
        ));
        return Ok(Exit::Command(exit::usage(false)));
    }
    Ok(Exit::Fine)
}

/// Writes to standard error: the journal of systemd, or the log of `fonio watch start`.
fn tell(sentence: &str) {
    say!("fonio: {sentence}");
}
