//! Runs the parts of a schedule, stores each part as soon as it ends, and creates the document.
//!
//! [`Kept`] contains the finished parts and is saved after each part, so a killed run continues with the next
//! part. However a run ends, [`Kept::document`] creates a complete document, which gives a reason for each
//! missing figure.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fonio_core::DeviceIdentity;
use fonio_storebench_document::document::{
    CapacityCheck, Document, Health, Key, Machine, Origin, SCHEMA, TEST_VERSION, size_class_gb,
};
use fonio_storebench_document::figures::{self, Part};
use fonio_storebench_document::{classes, verdict};
use serde::{Deserialize, Serialize};

use super::capacity::{self, FilePlaces};
use super::launch::{self, AppsFolder, Launching};
use super::parts::{NO_TIME, PartResult};
use super::schedule::{Schedule, ScheduledPart, Settings, Work};
use super::sync::{self, SyncTarget, Syncing};
use crate::error::BenchError;
use crate::fio::Fio;
use crate::run as fio_run;
use crate::target::Target;

/// Version of the format of [`Kept`]; runs with another version are not continued.
const KEPT_VERSION: u32 = 1;

/// Maximum age of an interrupted run that can be continued. An older run's device may have changed.
const CONTINUED_FOR_S: u64 = 24 * 3600;

/// The finished parts of a run, with the circumstances common to all parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    version: u32,
    /// The circumstances in which all parts were measured.
    #[serde(flatten)]
    pub of: Circumstances,
    /// The finished parts of the run.
    pub parts: Vec<PartResult>,
    /// Remarks on the complete run.
    pub notes: Vec<String>,
}

/// The circumstances that all parts of a run share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Circumstances {
    /// The absolute path of the directory or device. The path is not included in the document.
    pub target: PathBuf,
    /// Settings of the run.
    pub settings: Settings,
    /// The word `fonio` with the version.
    pub tool: String,
    /// The name of the program that measures.
    pub engine: String,
    /// The start time of the run, in seconds since 1970.
    pub began_unix_s: u64,
    /// Whether the figures were measured, emulated or modelled.
    pub origin: Origin,
    /// The target's file system; `none` for a raw device.
    pub file_system: String,
    /// The identity of the device.
    pub device: DeviceIdentity,
    /// The machine on which the run measures.
    pub machine: Machine,
    /// The wear that the device reports.
    pub health: Option<Health>,
}

impl Kept {
    /// Creates a run without finished parts.
    pub fn new(of: Circumstances) -> Kept {
        Kept { version: KEPT_VERSION, of, parts: Vec::new(), notes: Vec::new() }
    }

    /// Whether a run like `other` can continue this run: the target, the device, the settings and the
    /// versions are equal, and this run began less than a day ago.
    pub fn can_continue(&self, other: &Kept) -> bool {
        let age = other.of.began_unix_s.checked_sub(self.of.began_unix_s);
        // A card is identified by its capacity, model and revisions, so all of these must match.
        let comparable = |Kept { version, of, .. }: &Kept| {
            let DeviceIdentity { kind, model, manufacturer_id, firmware, capacity_bytes, .. } =
                of.device.clone();
            let device = (kind, model, manufacturer_id, firmware, capacity_bytes);
            let run = (of.target.clone(), of.settings.clone(), of.tool.clone(), of.engine.clone());
            (*version, run, of.origin, of.file_system.clone(), device)
        };
        age.is_some_and(|age_s| age_s < CONTINUED_FOR_S) && comparable(self) == comparable(other)
    }

    /// Returns the result of a part, if the part is finished.
    pub fn part(&self, part: Part) -> Option<&PartResult> {
        self.parts.iter().find(|kept| kept.part == part)
    }

    /// Returns the total duration of the finished parts, in seconds.
    pub fn took_s(&self) -> f64 {
        self.parts.iter().map(|part| part.took_s).sum()
    }

    /// Creates the result document. Figures of unfinished parts get the reason `missing`.
    pub fn document(&self, missing: &str) -> Document {
        let mut figures = BTreeMap::new();
        let (mut curve, mut launches, mut notes) = (None, Vec::new(), self.notes.clone());
        let mut capacity_check = CapacityCheck::NotChecked { reason: missing.to_owned() };
        let mut machine = self.of.machine.clone();
        let mut written_bytes = 0;
        machine.caches_dropped = false;
        for part in Part::ALL {
            let result = self.part(part).cloned().unwrap_or_else(|| PartResult::not_measured(part, missing));
            figures.extend(result.figures);
            curve = curve.or(result.curve);
            launches.extend(result.launches);
            notes.extend(result.notes);
            machine.caches_dropped |= result.caches_dropped.unwrap_or(false);
            written_bytes += result.written_bytes;
            capacity_check = result.capacity.unwrap_or(capacity_check);
        }
        for figure in figures::catalogue() {
            if let Some(measure) = figures.get_mut(&figure.name) {
                measure.put_in_order(&figure);
            }
        }
        let key = Key {
            test_version: TEST_VERSION,
            effort: self.of.settings.effort,
            mode: self.of.settings.mode,
            file_system: self.of.file_system.clone(),
            size_class_gb: size_class_gb(self.of.device.capacity_bytes),
        };
        let mut document = Document {
            schema: SCHEMA.to_owned(),
            tool: self.of.tool.clone(),
            engine: self.of.engine.clone(),
            began_unix_s: self.of.began_unix_s,
            took_s: (self.took_s() * 1e3).round() / 1e3,
            origin: self.of.origin,
            key,
            device: self.of.device.clone(),
            machine,
            classes: classes::verdicts(&figures),
            figures,
            sustained_curve: curve,
            launches,
            capacity_check,
            health: self.of.health.clone(),
            written_bytes,
            verdict: String::new(),
            notes,
        };
        document.verdict = verdict::sentence(&document);
        document
    }
}

/// The current step of a run, for progress reports.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// The part that is measured.
    pub part: Part,
    /// Position of the part among the measured parts, from 1.
    pub number: usize,
    /// Number of parts that the run measures.
    pub parts: usize,
    /// The name of the test.
    pub test: &'a str,
    /// The number of the test's current repetition.
    pub run: u32,
    /// The maximum time until the run ends.
    pub left_max: Duration,
}

/// Measures a directory or device with StoreBench.
pub struct Session<'a> {
    /// The fio program that runs the tests.
    pub fio: &'a Fio,
    /// The directory or device that is measured.
    pub target: &'a Target,
    /// The parts of the run and their planned work.
    pub schedule: &'a Schedule,
    /// Set by a signal handler to interrupt the run.
    pub stop: &'a AtomicBool,
}

impl Session<'_> {
    /// Measures the parts that are missing in `kept`, and saves each measured part with `save`. Returns the
    /// error that ended the run; the finished parts are in `kept`.
    pub fn run(
        &self,
        kept: &mut Kept,
        save: &mut dyn FnMut(&Kept) -> Result<(), BenchError>,
        progress: &mut dyn FnMut(&Step<'_>),
    ) -> Result<(), BenchError> {
        let spent = Duration::from_secs_f64(kept.took_s().max(0.0));
        let until = Instant::now() + kept.of.settings.time_max.saturating_sub(spent);
        let measured: Vec<&ScheduledPart> = self.schedule.measured().collect();
        for (at, planned) in self.schedule.parts.iter().enumerate() {
            if kept.part(planned.part).is_some() {
                continue;
            }
            let later: u32 = self.schedule.parts[at..]
                .iter()
                .filter(|part| !matches!(part.work, Work::LeftOut(_)))
                .map(|part| part.weight)
                .sum();
            let left = until.saturating_duration_since(Instant::now());
            let share = left.mul_f64(f64::from(planned.weight) / f64::from(later.max(1)));
            let number = measured.iter().position(|part| part.part == planned.part).map_or(0, |at| at + 1);
            let mut tell = |test: &str, run: u32| {
                let left_max = until.saturating_duration_since(Instant::now());
                progress(&Step { part: planned.part, number, parts: measured.len(), test, run, left_max });
            };
            let began = Instant::now();
            let mut result = self.part(planned, share, kept.of.settings.seed, &mut tell)?;
            if self.stop.load(Ordering::Relaxed) {
                return Err(BenchError::Interrupted);
            }
            result.took_s = began.elapsed().as_secs_f64();
            kept.parts.push(result);
            save(kept)?;
        }
        Ok(())
    }

    fn part(
        &self,
        planned: &ScheduledPart,
        time: Duration,
        seed: u64,
        progress: &mut dyn FnMut(&str, u32),
    ) -> Result<PartResult, BenchError> {
        let part = planned.part;
        let until = Instant::now() + time;
        match &planned.work {
            Work::LeftOut(reason) => Ok(PartResult::not_measured(part, reason)),
            Work::Tests { tests, .. } => {
                let effort = planned.effort(time, seed).expect("tests have an effort");
                let measured = fio_run::run(self.fio, self.target, tests, &effort, self.stop, |name, run| {
                    progress(name, run);
                });
                match measured {
                    Ok(benchmark) => {
                        let mut result = PartResult::of_benchmark(part, &benchmark, NO_TIME);
                        result.explain_missing(tests);
                        Ok(result)
                    }
                    Err(BenchError::TimeOver) => Ok(PartResult::not_measured(part, NO_TIME)),
                    Err(error) => Err(error),
                }
            }
            Work::Sync(work) => {
                self.target.make_room()?;
                let target = match self.target.beside() {
                    Some(beside) => SyncTarget::in_folder(&beside)?,
                    None => SyncTarget::device(self.target.file())?,
                };
                let syncing = Syncing { work: *work, seed, until, stop: self.stop };
                sync::measure(&target, &syncing, progress)
            }
            Work::Launch { runs_max, scale } => {
                let Some(beside) = self.target.beside() else {
                    return Ok(PartResult::not_measured(part, "a raw device has no files"));
                };
                self.target.make_room()?;
                let path = beside.with_extension("apps");
                let folder = AppsFolder::make(path.clone()).map_err(BenchError::system("make", &path))?;
                let launching =
                    Launching { folder, runs_max: *runs_max, scale: *scale, seed, until, stop: self.stop };
                launch::measure(&launching, progress)
            }
            Work::Capacity { places } => {
                progress("writing and reading back", 1);
                self.capacity(*places, until, seed)
            }
        }
    }

    /// Checks the device's capacity. Half of the available time is reserved for reading the regions back.
    fn capacity(&self, count: u64, until: Instant, seed: u64) -> Result<PartResult, BenchError> {
        let mut result = PartResult::not_measured(Part::Capacity, "the capacity check did not start");
        let until = Instant::now() + until.saturating_duration_since(Instant::now()) / 2;
        let place = self.target.place();
        let places = match self.target.beside() {
            Some(beside) => {
                self.target.make_room()?;
                let now = crate::place::Place::of(&place.path);
                FilePlaces::reserve(&beside, now.free_bytes, count)
            }
            None => FilePlaces::across(self.target.file(), place.size_bytes, count).map(Some),
        };
        let not_checked = |reason: String| Some(CapacityCheck::NotChecked { reason });
        let is_device = self.target.beside().is_none();
        match places {
            Ok(Some(mut places)) => {
                let stop = || self.stop.load(Ordering::Relaxed);
                let checked = capacity::check(&mut places, seed, is_device, until, &stop)?;
                result.written_bytes = checked.written_bytes;
                result.capacity = Some(checked.verdict);
            }
            Ok(None) => {
                result.capacity = not_checked(format!(
                    "{} cannot reserve space, so fonio cannot choose regions across the device; use f3, which fills the free space instead",
                    place.file_system.as_deref().unwrap_or("the file system")
                ));
            }
            Err(error) => {
                result.capacity = not_checked(format!("cannot reserve the space ({error})"));
            }
        }
        Ok(result)
    }
}
