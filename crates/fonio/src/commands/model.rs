//! Implements `fonio replay RECORDING --on model:PROFILE`, which replays a recording in virtual time, with
//! models of a device and of schedulers.

use std::path::Path;

use anyhow::{Context, Result, bail};
use fonio_core::ByteCount;
use fonio_experiment::replay::model::{
    Model, model_document, replay_in_model, scheduler_named, scheduler_names,
};
use fonio_sim::scheduler::Policy;

use crate::cli::Colour;
use crate::cli::run::{Layer, Replay};
use crate::exit::Exit;
use crate::output;
use crate::progress::Progress;

/// The prefix that marks a replay target as a device model.
pub const PREFIX: &str = "model:";

pub fn run(arguments: &Replay, recording: &Path, colour: Colour) -> Result<Exit> {
    let at = &arguments.setup;
    let [place] = at.on.as_slice() else {
        bail!("a recording is replayed on one model at a time: name one place with --on")
    };
    let profile = place.strip_prefix(PREFIX).context("--on must name a model")?;
    let others = [
        ("--layer calls", arguments.layer == Layer::Calls),
        ("--fix", arguments.fix.is_some()),
        ("--fs", !at.filesystem.is_empty()),
        ("--mount-options", !at.mount_options.is_empty()),
        ("--full", at.full.is_some()),
        ("--cpu", at.cpu.is_some()),
        ("--memory", at.memory.is_some()),
        ("--link", at.link.is_some()),
        ("--fault", !at.fault.is_empty()),
        ("--output", at.out.is_some()),
        ("--erase", at.erase.is_some()),
        ("--dilate", at.dilate != 1.0),
    ];
    if let Some((option, _)) = others.iter().find(|(_, is_there)| *is_there) {
        bail!(
            "{option} does not apply to a model, which has only the device and its scheduler; leave it out, \
             or replay on a device"
        );
    }
    let schedulers: Vec<Policy> = match at.scheduler.as_slice() {
        [] => Policy::ALL.to_vec(),
        named => named.iter().map(|name| known(name)).collect::<Result<_>>()?,
    };
    let model = Model {
        profile,
        size: ByteCount(at.size),
        seed: at.seed,
        fast: arguments.fast,
        of_device: None,
        idle: None,
    };
    let progress = Progress::phase(format!("Replaying in a model of {profile}"));
    let replay = replay_in_model(recording, &model, &schedulers)?;
    drop(progress);
    if at.json {
        output::json(&replay)?;
    } else {
        output::show_on_terminal(&model_document(&replay), colour)?;
    }
    output::write_html(&model_document(&replay), at.html.as_deref())?;
    Ok(Exit::Fine)
}

fn known(name: &str) -> Result<Policy> {
    scheduler_named(name).with_context(|| {
        format!("there is no model of a scheduler `{name}`{}", fonio_core::nearest(name, scheduler_names()))
    })
}
