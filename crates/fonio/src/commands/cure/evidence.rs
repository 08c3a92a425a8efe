//! What is known about the gain of a fix on a stall, before it is tried: an earlier trial on this machine, or a model
//! of the disk.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use fonio_core::{ByteCount, Unit};
use fonio_experiment::ExperimentError;
use fonio_experiment::replay::model::{Grid, ModelRun, ProgramTimes, replay_in_models, scheduler_named};
use fonio_sim::scheduler::Policy;
use serde::Serialize;

use super::said::Said;
use super::seen::Seen;
use super::trials::{Known, known};
use crate::profiles;

/// What is known about a fix.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Evidence {
    /// A trial on this machine.
    Trial(Known),
    /// A model of the disk and of the schedulers.
    Model(Predicted),
    /// A model of the disk, which does not reproduce the recording.
    WrongModel(Predicted),
    /// Nothing. The order is that of the catalogue.
    Catalogue,
}

/// What a model says about the requests of the delayed program.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Predicted {
    /// The profile of the disk.
    profile: String,
    /// The mean response times in seconds: in the recording, and in the model without and with the fix.
    recorded_s: f64,
    without_s: f64,
    with_s: f64,
}

/// A model is used if it reproduces the recorded mean response time within this factor. A predicted gain must be larger
/// than this factor to change the order of the fixes.
const FACTOR: f64 = 1.5;
/// A model says nothing about fewer requests.
const REQUESTS_MIN: u64 = 20;
/// The size of a disk whose size is not recorded.
const SIZE: ByteCount = ByteCount(8 << 30);

impl Evidence {
    /// Returns the best evidence on a fix, which may give the program in the way an I/O class: a shown difference of a trial here, then a model, then a trial that showed nothing.
    pub(super) fn of(seen: &Seen, said: &Said, fix: &str, class: Option<&str>) -> Evidence {
        let trial = known(seen, said, fix);
        let is_shown = trial.as_ref().is_some_and(Known::is_shown);
        match (trial, predicted(seen, fix, class)) {
            (Some(trial), _) if is_shown => Evidence::Trial(trial),
            (_, Some(predicted)) if predicted.is_like_recorded() => Evidence::Model(predicted),
            (Some(trial), _) => Evidence::Trial(trial),
            (None, Some(predicted)) => Evidence::WrongModel(predicted),
            (None, None) => Evidence::Catalogue,
        }
    }

    /// Returns the expected time of the waits with the fix divided by their time without it; 1 if it is unknown.
    pub(super) fn rank(&self) -> f64 {
        match self {
            Evidence::Trial(trial) => trial.rank(),
            Evidence::Model(predicted) => predicted.rank(),
            Evidence::WrongModel(_) | Evidence::Catalogue => 1.0,
        }
    }

    pub(super) fn sentence(&self) -> String {
        const CATALOGUE: &str =
            "Its place in this list is that of the catalogue: it was not tried on this machine yet";
        match self {
            Evidence::Trial(trial) => trial.sentence(),
            Evidence::Model(predicted) => predicted.sentence(),
            Evidence::WrongModel(Predicted { profile, recorded_s, without_s, .. }) => format!(
                "{CATALOGUE}, and the model of the disk ({profile}) does not reproduce the recording: {} per request, \
                 recorded {}.",
                Unit::S.format(*without_s),
                Unit::S.format(*recorded_s)
            ),
            Evidence::Catalogue => format!("{CATALOGUE}."),
        }
    }
}

impl Predicted {
    fn is_like_recorded(&self) -> bool {
        let ratio = self.without_s / self.recorded_s;
        (1.0 / FACTOR..=FACTOR).contains(&ratio)
    }

    fn rank(&self) -> f64 {
        let ratio = self.with_s / self.without_s;
        if (1.0 / FACTOR..=FACTOR).contains(&ratio) { 1.0 } else { ratio }
    }

    fn sentence(&self) -> String {
        let Predicted { profile, recorded_s, without_s, with_s } = self;
        let time = |seconds: f64| Unit::S.format(seconds);
        let (with, without, recorded) = (time(*with_s), time(*without_s), time(*recorded_s));
        let says = match self.rank() {
            1.0 => "predicts no clear change of the delayed program's requests",
            rank if rank < 1.0 => "predicts shorter waits of the delayed program's requests",
            _ => "predicts longer waits of the delayed program's requests",
        };
        format!(
            "A model of the disk ({profile}) {says}: {with} each with the fix, {without} without it, recorded \
             {recorded}."
        )
    }
}

/// Replays the requests of the recording on the model of the disk, without and with the fix. Returns `None` if there is
/// no such model, or if the fix is neither a scheduler nor an I/O class.
fn predicted(seen: &Seen, fix: &str, class: Option<&str>) -> Option<Predicted> {
    let diagnosis = seen.analysis.diagnosis.as_ref()?;
    let name = diagnosis.device.as_deref()?;
    let device =
        seen.meta.devices.iter().find(|device| device.name.as_deref() == Some(name)).or_else(|| {
            let shown = seen.analysis.devices.iter().find(|device| device.shown() == name)?;
            seen.meta.devices.iter().find(|device| device.id.to_string() == shown.device)
        })?;
    let now = scheduler_named(device.scheduler.as_deref()?)?;
    let with = match class {
        Some("idle") => now,
        Some(_) => return None,
        None => scheduler_named(fix)?,
    };
    let victim = diagnosis.program.as_deref()?;
    let profile: PathBuf = profiles::of_model(device.model.as_deref()?)?;
    let profile = profile.to_str()?;
    let replay = |policy: Policy, idle: Option<&str>| {
        let size = device.size_bytes.unwrap_or(SIZE);
        let grid = Grid {
            devices: &[profile.to_owned()],
            changes: &[],
            schedulers: &[policy],
            size,
            seed: 1,
            fast: false,
            of_device: Some(device.id),
            idle,
        };
        let never = AtomicBool::new(false);
        replay_in_models::<ExperimentError>(&seen.recording, &grid, &never, &|_| Ok(())).ok()
    };
    let without = replay(now, None)?;
    let with = replay(with, class.and(diagnosis.culprit.as_deref()))?;
    let recorded_s = mean(&without.recorded, victim)?;
    let of = |runs: &[ModelRun]| mean(&runs.first()?.programs, victim);
    Some(Predicted {
        profile: profiles::shown(profile).to_owned(),
        recorded_s,
        without_s: of(&without.runs)?,
        with_s: of(&with.runs)?,
    })
}

/// Returns the mean response time of a program's requests.
fn mean(programs: &[ProgramTimes], name: &str) -> Option<f64> {
    let program = programs.iter().find(|program| program.name == name)?;
    let count = program.reads.count + program.writes.count;
    (count >= REQUESTS_MIN).then(|| (program.reads.sum_s + program.writes.sum_s) / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_counts_only_if_it_exceeds_the_error_of_the_model() {
        for (recorded_s, without_s, with_s, is_like, rank) in [
            (0.010, 0.012, 0.003, true, 0.25),
            (0.010, 0.012, 0.010, true, 1.0),
            (0.010, 0.012, 0.036, true, 3.0),
            (0.010, 0.030, 0.003, false, 0.1),
        ] {
            let predicted = Predicted { profile: "sd_a1".to_owned(), recorded_s, without_s, with_s };
            assert_eq!(predicted.is_like_recorded(), is_like);
            assert!((predicted.rank() - rank).abs() < 1e-9, "{predicted:?}");
        }
    }
}
