//! Implements `fonio replay RECORDING --on model:PROFILE`, which replays a recording in virtual time, with
//! models of devices and of schedulers.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fonio_core::meta::{Clock, Device, Source};
use fonio_core::{ByteCount, DeviceId, Meta, RowSink, Thread, Timestamp};
use fonio_experiment::replay::model::{
    Grid, ModelReplay, ModelRun, Requests, model_document, replay_in_models, scheduler_named, scheduler_names,
};
use fonio_recording::Writer;
use fonio_sim::scheduler::Policy;
use fonio_sim::simulation;
use serde::Serialize;

use crate::cli::Colour;
use crate::cli::run::{Layer, Replay};
use crate::exit::Exit;
use crate::output;
use crate::progress::Progress;
use crate::results::{self, RESULTS, results_directory, summarise};
use crate::signals::watch;

/// The prefix that marks a replay target as a device model.
pub const PREFIX: &str = "model:";

/// The format in the metadata of a recording with simulated requests.
const FORMAT: &str = "simulation";

/// A replay with the folders of its recordings.
#[derive(Serialize)]
struct Kept<'a> {
    #[serde(flatten)]
    replay: &'a ModelReplay,
    /// The recordings with the requests of the runs, in the order of the runs.
    recordings: Vec<PathBuf>,
}

pub fn run(arguments: &Replay, recording: &Path, colour: Colour) -> Result<Exit> {
    let at = &arguments.setup;
    let devices = models(&at.on)?;
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
    let grid = Grid {
        devices: &devices,
        changes: &arguments.change,
        schedulers: &schedulers,
        size: ByteCount(at.size),
        seed: at.seed,
        fast: arguments.fast,
        of_device: None,
        idle: None,
    };
    let stop = watch()?;
    let out = at.out.as_deref().map(|named| results_directory(Some(named), RESULTS)).transpose()?;
    let progress = Progress::phase(format!("Replaying on models of {}", devices.join(", ")));
    let replay = replay_in_models(recording, &grid, &stop, &|requests| match &out {
        Some(out) => write(requests, &out.join(folder(requests.cell, requests.run))),
        None => Ok(()),
    });
    drop(progress);
    let replay = replay.inspect_err(|_| {
        if let Some(out) = &out {
            remove(out);
        }
    })?;
    let document = model_document(&replay);
    if let Some(out) = &out {
        let recordings = replay.runs.iter().enumerate().map(|(cell, run)| out.join(folder(cell, run)));
        summarise(&Kept { replay: &replay, recordings: recordings.collect() }, out)?;
    }
    if at.json {
        output::json(&replay)?;
    } else {
        output::show_on_terminal(&document, colour)?;
    }
    let page = out.as_deref().map(|out| results::page(at, out));
    output::write_html(&document, page.as_deref().or(at.html.as_deref()))?;
    Ok(Exit::Fine)
}

/// Returns the names of the models. The prefix of the first place holds for all.
fn models(places: &[String]) -> Result<Vec<String>> {
    let name = |place: &String| {
        let name = place.strip_prefix(PREFIX).unwrap_or(place);
        if Path::new(name).is_dir() || name.starts_with("md-raid0:") {
            bail!(
                "{name} is not a model; replay in models and on devices with one command each, or name a profile \
                 (`fonio device list`)"
            );
        }
        Ok(name.to_owned())
    };
    places.iter().map(name).collect()
}

fn known(name: &str) -> Result<Policy> {
    scheduler_named(name).with_context(|| {
        format!("there is no model of a scheduler `{name}`{}", fonio_core::nearest(name, scheduler_names()))
    })
}

/// Returns the name of the folder with the requests of a run, such as `01-sd_a1-mq-deadline`.
fn folder(cell: usize, run: &ModelRun) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._=%+-".contains(letter);
    let card =
        run.card().chars().map(|letter| if is_plain(letter) { letter } else { '-' }).collect::<String>();
    format!("{:02}-{}-{}", cell + 1, card.trim_matches(['.', '-']), run.scheduler)
}

/// Writes the simulated requests as a recording, with the recorded threads.
fn write(requests: &Requests<'_>, path: &Path) -> Result<()> {
    let Requests { run, ran, names, .. } = requests;
    let mut writer = Writer::create(path, results::recording(false))?;
    for (tid, name) in *names {
        writer.thread(&Thread { tid: *tid, comm: Some(name.clone()), ..Thread::default() })?;
    }
    for (row, done) in (0..).zip(&ran.done) {
        writer.request(&simulation::row(row, done))?;
    }
    let settings = &run.summary.settings;
    let ended = ran.done.iter().map(|done| done.completed).max();
    writer.finish(Meta {
        source: Source {
            format: FORMAT.to_owned(),
            files: Vec::new(),
            shows: ["queue", "issue", "complete"].map(str::to_owned).to_vec(),
        },
        clock: Clock { name: "virtual".to_owned(), unix_ns_at_zero: None },
        began: Some(Timestamp(0)),
        ended,
        seed: Some(settings.seed),
        devices: vec![Device {
            id: DeviceId::default(),
            name: Some(run.card()),
            size_bytes: Some(ByteCount(settings.capacity_bytes)),
            scheduler: Some(run.scheduler.clone()),
            depth: Some(settings.depth),
            ..Device::default()
        }],
        ..Meta::default()
    })?;
    Ok(())
}

/// Removes what a failed replay wrote. The folder was empty before.
fn remove(out: &Path) {
    let entries = fs::read_dir(out).into_iter().flatten().flatten();
    let results = entries.filter(|entry| entry.path().is_dir());
    results.for_each(|entry| drop(fs::remove_dir_all(entry.path())));
    let _ = fs::remove_dir(out);
}
