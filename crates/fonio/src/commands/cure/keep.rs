//! The last step of a cure: a fix is kept, and the results of trials are remembered for the next time.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Parser;
use fonio_core::Unit;
use fonio_host::IoPriority;
use fonio_system::{TrustedFolder, say, state};
use fonio_watch::times;
use serde::{Deserialize, Serialize};

use super::attempt::Attempt;
use super::choices::{Choice, How};
use super::said::Said;
use super::seen::Seen;
use crate::cli::{Cli, Colour, Command};
use crate::commands::fix;

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
        let list =
            |before: &str| pids.iter().map(|pid| format!("{before}{pid}")).collect::<Vec<_>>().join(" ");
        return Ok(Kept {
            command: format!(
                "fonio fix apply io-class=idle{}",
                list(" --pid ").split("  ").next().unwrap_or_default()
            ),
            undo: format!("ionice -c none -p {}", list("")),
        });
    }
    let mut words = choice.words.clone();
    words.push("--keep".to_owned());
    if is_json {
        words.push("--json".to_owned());
    }
    let line = shlex::try_join(words.iter().map(String::as_str)).context("the command cannot be shown")?;
    let cli =
        Cli::try_parse_from(["fonio".to_owned()].iter().chain(&words)).context("the fix cannot be kept")?;
    let Some(Command::Fix(arguments)) = cli.command else {
        bail!("the words are not those of `fonio fix apply`")
    };
    fix::run(&arguments, Colour::Auto)?;
    let name = choice.name.split('=').next().unwrap_or(&choice.name);
    Ok(Kept { command: format!("fonio {line}"), undo: format!("fonio fix undo {name}") })
}

/// The file with the results of trials, in the folder that survives a reboot.
const FILE: &str = "trials.json";
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The newest results that are kept.
const RESULTS_MAX: usize = 200;

/// The result of an earlier trial of a fix on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Known {
    fix: String,
    mechanism: String,
    device: String,
    way: String,
    date: String,
    pub(super) ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

impl Known {
    pub(super) fn sentence(&self) -> String {
        let Known { date, ratio, low, high, .. } = self;
        let interval = match (low, high) {
            (Some(low), Some(high)) => format!(" ({low:.2} to {high:.2})"),
            _ => String::new(),
        };
        match ratio {
            Some(ratio) => {
                format!(
                    "A trial here on {date}: the waits took {} of their time{interval}.",
                    Unit::Share.format(*ratio)
                )
            }
            None => format!("A trial here on {date} showed nothing."),
        }
    }
}

/// Returns the newest result of a fix for the same cause on the same device.
pub(super) fn known(seen: &Seen, said: &Said, fix: &str) -> Option<Known> {
    let folder = TrustedFolder::open(&state::lasting_folder()?).ok()??;
    let (mechanism, device) = of(seen, said)?;
    let all = read(&folder);
    all.into_iter()
        .rev()
        .find(|known| known.fix == fix && known.mechanism == mechanism && known.device == device)
}

/// Remembers a result. If that is not possible, the next cure knows less, which a note says.
pub(super) fn remember(seen: &Seen, said: &Said, choice: &Choice, attempt: &Attempt) {
    let Some((mechanism, device)) = of(seen, said) else { return };
    let Some(place) = state::lasting_folder() else { return };
    let written = TrustedFolder::make(&place).and_then(|folder| {
        let mut all = read(&folder);
        all.push(Known {
            fix: choice.name.clone(),
            mechanism,
            device,
            way: attempt.way.to_owned(),
            date: times::day(now()),
            ratio: attempt.ratio,
            low: attempt.low,
            high: attempt.high,
        });
        let from = all.len().saturating_sub(RESULTS_MAX);
        folder.replace(FILE, &serde_json::to_vec_pretty(&all[from..]).expect("the results are JSON"))
    });
    if let Err(error) = written {
        say!("note: the result of this trial is not remembered: {error}");
    }
}

fn read(folder: &TrustedFolder) -> Vec<Known> {
    let Ok(Some(text)) = folder.read(FILE, FILE_BYTES_MAX) else { return Vec::new() };
    serde_json::from_slice(&text).unwrap_or_else(|error| {
        let path = folder.path().join(FILE);
        say!("note: {} cannot be understood and is written anew: {error}", path.display());
        Vec::new()
    })
}

fn now() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX)
}

/// Returns the mechanism and the device of a stall. The device is named by its model, because numbers change.
fn of(seen: &Seen, said: &Said) -> Option<(String, String)> {
    let name = seen.analysis.diagnosis.as_ref()?.device.as_deref()?;
    let device = seen.analysis.devices.iter().find(|device| device.shown() == name);
    let model = device.and_then(|device| device.model.clone()).unwrap_or_else(|| name.to_owned());
    Some((said.mechanism.clone()?, model))
}
