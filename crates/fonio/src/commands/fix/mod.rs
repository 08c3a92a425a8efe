//! Implements `fonio fix`, which shows, measures, applies, keeps and undoes fixes of the machine.

mod apply;
pub mod followed;
mod list;
mod process;
mod prove;
mod trial;
mod undo;

use std::path::PathBuf;

use anyhow::{Result, bail};
use fonio_experiment::{Candidate, FIXES, Fix as Listed, Real};
use fonio_host::{Applied, Changes, HostError, Kept, KeptFiles, Setting};
use serde::Serialize;

use crate::cli::Colour;
use crate::cli::fix::{Choice, Fix, FixCommand};
use crate::exit::Exit;
use apply::apply;
pub use apply::apply_now;
pub(super) use trial::tell as tell_live;
use undo::undo;

/// A setting that was applied or restored, as JSON output.
#[derive(Serialize)]
struct Done<'a> {
    /// Outcome: `applied`, `restored`, `nothing_left`, `changed_since`; --dry-run: `would_apply`,
    /// `would_restore`.
    outcome: &'a str,
    #[serde(flatten)]
    setting: &'a Applied,
    /// The setting's current value, if it differs from the value that fonio set.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<String>,
    /// The files that keep the setting across reboots, with the lines or the option that fonio adds to them
    /// (or removes on undo).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<Place>,
}

#[derive(Serialize)]
struct Place {
    file: PathBuf,
    lines: Vec<String>,
}

fn places(kept: &Kept) -> Vec<Place> {
    let places = kept.places(&KeptFiles::of_machine());
    places.into_iter().map(|(file, lines)| Place { file, lines }).collect()
}

pub fn run(arguments: &Fix, colour: Colour) -> Result<Exit> {
    match &arguments.command {
        None => list::screen(&arguments.screen),
        Some(FixCommand::Show(arguments)) => list::show(arguments),
        Some(FixCommand::Apply(arguments)) if arguments.pid.is_some() || !arguments.command.is_empty() => {
            process::apply(arguments)
        }
        Some(FixCommand::Apply(arguments)) => apply(arguments),
        Some(FixCommand::Undo(arguments)) => undo(arguments),
        Some(FixCommand::Prove(arguments)) => prove::run(arguments, colour),
        Some(FixCommand::Trial(arguments)) => trial::run(arguments),
    }
}

fn chosen(choice: Choice) -> impl Iterator<Item = &'static Listed> {
    let Choice { safe, no_hardware } = choice;
    FIXES.iter().filter(move |fix| (!safe || fix.loses.is_safe()) && !(no_hardware && fix.needs_hardware()))
}

/// Returns the setting of a candidate fix, or an error that explains how to make the change manually.
fn setting(change: &Candidate) -> Result<(&'static Listed, Setting)> {
    let Some(fix) = change.fix() else {
        bail!(
            "a device cannot be applied as a setting; replace the \
        hardware"
        )
    };
    match (change.setting(), fix.real) {
        (Some(setting), _) => Ok((fix, setting)),
        (None, Real::ByHand(how)) => {
            bail!("{} is not a setting of this machine. {how} {}", fix.name, fix.loses.sentence())
        }
        (None, Real::Setting(_) | Real::Trim) => bail!("{} needs a value", fix.name),
    }
}

fn changes() -> Result<Changes> {
    Changes::of_machine().map_err(with_hint)
}

/// Adds to an error that the setting was not changed, or that changing it needs root privileges.
fn with_hint(error: HostError) -> anyhow::Error {
    match error {
        HostError::BeingTested { .. } | HostError::InUse { .. } | HostError::NotSettable { .. } => {
            error.into()
        }
        error => anyhow::Error::new(error).context(hint()),
    }
}

const NEEDS_ROOT: &str = "changing settings needs root: run it with sudo";

pub(in crate::commands) fn hint() -> String {
    if rustix::process::geteuid().is_root() {
        "the setting could not be changed".to_owned()
    } else {
        NEEDS_ROOT.to_owned()
    }
}
