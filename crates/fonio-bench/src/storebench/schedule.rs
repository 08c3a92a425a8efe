//! Schedules a run: its measurements, the amount that they write, and the division of the time.
//!
//! Each part gets a share of the remaining time, so the time that a fast device saves goes to later parts.
//! The written amount is limited before the run: [`Schedule::within`] first shortens the long write, then
//! reduces repetitions, and then omits parts.

use std::time::Duration;

use fonio_core::ByteCount;
use fonio_storebench_document::document::{self, Mode};
use fonio_storebench_document::figures::{AT_ONCE, Part, SIZES};
use serde::{Deserialize, Serialize};

use crate::concurrency;
use crate::plan::{self, Scope, Set, Test};
use crate::run;

const MIB: u64 = 1 << 20;

/// The reason given for missing write figures if the device was only read.
pub const READS_ONLY: &str = "a device is only read unless --erase allows overwriting it";

/// Size of a synchronous write in bytes.
pub(super) const WRITE_BYTES: u64 = 4 << 10;

/// Maximum duration of a run.
pub const TIME_MAX: Duration = Duration::from_secs(10 * 60);

/// Default maximum number of bytes that a run writes.
pub const WRITE_MAX: u64 = 16 << 30;

/// The settings of a run. An interrupted run is continued only if its settings are equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Whether the run is full or quick.
    pub effort: document::Effort,
    /// Whether the target is a directory, a raw device, or a raw device that is only read.
    pub mode: Mode,
    /// Maximum duration of the run.
    pub time_max: Duration,
    /// Maximum number of bytes that the run writes.
    pub write_max: u64,
    /// Seed from which random addresses are drawn.
    pub seed: u64,
}

/// A part of a run with its planned work.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledPart {
    /// The part that is planned.
    pub part: Part,
    /// The part's weight when the time is divided among the parts.
    pub weight: u32,
    /// The work that the part does.
    pub work: Work,
    /// Maximum number of bytes that the part writes.
    pub writes_max: u64,
}

/// The work that a part of a run does.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Runs benchmark tests with fio.
    Tests {
        /// The tests that fio runs.
        tests: Vec<Test>,
        /// Minimum number of runs per test.
        runs_min: u32,
        /// Maximum number of runs per test.
        runs_max: u32,
        /// Maximum duration of a run of a test.
        run_time_max: Duration,
    },
    /// Repeatedly writes 4 KiB and calls fdatasync.
    Sync(SyncWork),
    /// Launches the apps repeatedly.
    Launch {
        /// Maximum number of repetitions of the launches.
        runs_max: u32,
        /// Factor that scales the amounts that the apps read and write.
        scale: f64,
    },
    /// Writes test regions and reads them back, to check the capacity.
    Capacity {
        /// Number of test regions that are written.
        places: u64,
    },
    /// The part does not run, for the contained reason.
    LeftOut(String),
}

/// The number and range of small synchronous writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyncWork {
    /// The address range of the synchronous writes.
    pub range_bytes: u64,
    /// Maximum number of synchronous writes in a run.
    pub writes_max: u64,
    /// Minimum number of runs of the synchronous writes.
    pub runs_min: u32,
    /// Maximum number of runs of the synchronous writes.
    pub runs_max: u32,
    /// Maximum duration of a run of synchronous writes.
    pub run_time_max: Duration,
}

/// The address range of the tests. The studies' 128 MB and 1 GB would take minutes on a slow card.
const RANGE_BYTES: u64 = 64 * MIB;
/// The address range of the tests in a quick run.
const RANGE_QUICK_BYTES: u64 = 16 * MIB;

/// Address range of synchronous writes. It is larger than the range whose mapping a small controller keeps in
/// memory.
const SYNC_BYTES: u64 = 16 * MIB;
/// Number of synchronous writes per run: enough for a 99th percentile.
const SYNC_WRITES: u64 = 1000;

/// Number of bytes of the long write, which is more than the fast cache of most cards and eMMC devices.
const SUSTAINED_BYTES: u64 = 4096 * MIB;
/// The minimum length of the long write, because a shorter write does not fill the cache of a device.
const SUSTAINED_MIN_BYTES: u64 = 256 * MIB;
const SUSTAINED_QUICK_BYTES: u64 = 128 * MIB;

/// Size of the apps' files: 264 MB of code, plus settings (`fortyapps.toml`), rounded up.
const APPS_BYTES: u64 = 272 * MIB;
const APPS_QUICK_SCALE: f64 = 0.05;

/// Number of regions that the capacity check writes.
const PLACES: u64 = 64;
const PLACES_QUICK: u64 = 16;
/// Size of a region of the capacity check.
pub const PLACE_BYTES: u64 = MIB;

/// The parts of a run with their planned work.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The parts, in the order in which they run.
    pub parts: Vec<ScheduledPart>,
}

impl Schedule {
    /// Creates a schedule that writes at most `settings.write_max` bytes and fits into `room` bytes.
    pub fn within(settings: &Settings, room: u64) -> Schedule {
        let quick = settings.effort == document::Effort::Quick;
        let mut shape = Shape {
            sustained: if quick { SUSTAINED_QUICK_BYTES } else { SUSTAINED_BYTES }.min(room / 2) / MIB * MIB,
            runs_max: if quick { 1 } else { 5 },
            omitted: Vec::new(),
        };
        loop {
            let schedule = shape.schedule(settings, room);
            if schedule.writes_max() <= settings.write_max {
                return schedule;
            }
            if shape.sustained >= 2 * SUSTAINED_MIN_BYTES {
                shape.sustained = shape.sustained / 2 / MIB * MIB;
            } else if shape.runs_max > 1 {
                shape.runs_max -= 1;
            } else {
                let written = schedule.parts.iter().filter(|part| part.writes_max > 0);
                match written.max_by_key(|part| part.writes_max) {
                    Some(part) => shape.omitted.push(part.part),
                    None => return schedule,
                }
            }
        }
    }

    /// Returns the maximum number of bytes that all parts together write.
    pub fn writes_max(&self) -> u64 {
        self.parts.iter().map(|part| part.writes_max).sum()
    }

    /// Returns the parts that are measured, without the omitted parts.
    pub fn measured(&self) -> impl Iterator<Item = &ScheduledPart> {
        self.parts.iter().filter(|part| !matches!(part.work, Work::LeftOut(_)))
    }
}

/// The quantities that [`Schedule::within`] varies.
struct Shape {
    sustained: u64,
    runs_max: u32,
    omitted: Vec<Part>,
}

impl Shape {
    fn schedule(&self, settings: &Settings, room: u64) -> Schedule {
        Schedule { parts: Part::ALL.into_iter().map(|part| self.part(part, settings, room)).collect() }
    }

    fn part(&self, part: Part, settings: &Settings, room: u64) -> ScheduledPart {
        let quick = settings.effort == document::Effort::Quick;
        let reads_only = settings.mode == Mode::DeviceReadOnly;
        let range = if quick { RANGE_QUICK_BYTES } else { RANGE_BYTES };
        let runs_min = self.runs_max.min(3);
        let ms = |full: u64, short: u64| Duration::from_millis(if quick { short } else { full });
        let of_tests =
            |tests, runs_min, runs_max, run_time_max| Work::Tests { tests, runs_min, runs_max, run_time_max };
        let (weight, work) = match part {
            Part::Sizes => (28, of_tests(sizes(range), runs_min, self.runs_max, ms(2500, 500))),
            Part::Slowdown => (18, of_tests(interference(range / 2), runs_min, self.runs_max, ms(2000, 500))),
            Part::Sync => {
                let work = SyncWork {
                    range_bytes: SYNC_BYTES,
                    writes_max: SYNC_WRITES,
                    runs_min,
                    runs_max: self.runs_max,
                    run_time_max: ms(2000, 500),
                };
                (4, Work::Sync(work))
            }
            Part::Sustained => {
                (12, of_tests(set(Set::Sustained, range, self.sustained), 1, 1, ms(60_000, 5000)))
            }
            Part::Launch => {
                let scale = if quick { APPS_QUICK_SCALE } else { 1.0 };
                (20, Work::Launch { runs_max: self.runs_max.min(3), scale })
            }
            Part::Concurrency => {
                let at_once: Vec<u32> = std::iter::once(1).chain(AT_ONCE).collect();
                (16, of_tests(concurrency::tests(&at_once, range), runs_min, self.runs_max, ms(500, 100)))
            }
            Part::Capacity => (6, Work::Capacity { places: if quick { PLACES_QUICK } else { PLACES } }),
        };
        let work = match (work, part) {
            (Work::Tests { tests, runs_min, runs_max, run_time_max }, Part::Sizes | Part::Concurrency)
                if reads_only =>
            {
                let tests = tests.into_iter().filter(|test| !test.access.writes());
                // The tests only read existing data, so no range is prepared.
                let tests = tests.map(|test| Test { prepare_bytes: 0, ..test }).collect();
                Work::Tests { tests, runs_min, runs_max, run_time_max }
            }
            _ if reads_only => Work::LeftOut(READS_ONLY.to_owned()),
            (_, Part::Launch) if settings.mode == Mode::Device => {
                Work::LeftOut("a raw device has no files; measure a directory on it".to_owned())
            }
            (work, _) => work,
        };
        let work = match work {
            Work::LeftOut(reason) => Work::LeftOut(reason),
            _ if self.omitted.contains(&part) => {
                Work::LeftOut("its writes would exceed the --max-write limit".to_owned())
            }
            work if extent(&work) > room => Work::LeftOut(format!(
                "this part needs {} MiB of free space, but only {} MiB are free",
                extent(&work) / MIB,
                room / MIB
            )),
            work => work,
        };
        ScheduledPart { part, weight, writes_max: writes_max(&work), work }
    }
}

/// Returns the space that a part needs on the target, in bytes.
fn extent(work: &Work) -> u64 {
    match work {
        Work::Tests { tests, .. } => tests.iter().map(Test::extent_bytes).max().unwrap_or(0),
        Work::Sync(work) => work.range_bytes,
        Work::Launch { scale, .. } => (APPS_BYTES as f64 * scale) as u64 + 32 * MIB,
        Work::Capacity { places } => places * PLACE_BYTES,
        Work::LeftOut(_) => 0,
    }
}

fn writes_max(work: &Work) -> u64 {
    match work {
        Work::Tests { tests, runs_min, runs_max, .. } => {
            plan::volume(tests, *runs_min, *runs_max).writes_max_bytes
        }
        Work::Sync(work) => work.range_bytes + work.writes_max * u64::from(work.runs_max) * WRITE_BYTES,
        Work::Launch { runs_max, scale } => (APPS_BYTES as f64 * scale) as u64 * u64::from(*runs_max),
        // A region is written once more if its content is wrong when it is read back.
        Work::Capacity { places } => 2 * places * PLACE_BYTES,
        Work::LeftOut(_) => 0,
    }
}

impl ScheduledPart {
    /// Returns the limits for fio if the part has `time` left.
    pub(super) fn effort(&self, time: Duration, seed: u64) -> Option<run::Effort> {
        let Work::Tests { runs_min, runs_max, run_time_max, .. } = &self.work else { return None };
        Some(run::Effort {
            runs_min: *runs_min,
            runs_max: *runs_max,
            run_time_max: *run_time_max,
            sustained_time_max: (*run_time_max).min(time),
            time_max: time,
            seed,
            by_turns: true,
            ..run::Effort::FULL
        })
    }
}

fn set(set: Set, range: u64, sustained: u64) -> Vec<Test> {
    plan::tests(&Scope { sustained: ByteCount(sustained), ..Scope::of(&[set], ByteCount(range)) })
}

/// Returns tests of every access pattern with every request size. Read tests come first, so they do not wait
/// for work left over from writes. Within reads and writes, the tests that the verdict needs come first,
/// because the time may not suffice for all tests.
pub(super) fn sizes(range: u64) -> Vec<Test> {
    let mut tests = set(Set::Sizes, range, 0);
    let needed = |test: &Test| {
        let at = if test.access.is_sequential() { SIZES[2] } else { SIZES[0] };
        test.request_bytes == at
    };
    tests.sort_by_key(|test| (test.access.writes(), !needed(test)));
    tests
}

/// Returns the tests of concurrent reads and writes. Random tests come first, because the verdict needs them.
pub(super) fn interference(range: u64) -> Vec<Test> {
    let mut tests = set(Set::Interference, range, 0);
    tests.sort_by_key(|test| test.access.is_sequential());
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(mode: Mode, write_max: u64) -> Settings {
        Settings { effort: document::Effort::Full, mode, time_max: TIME_MAX, write_max, seed: 1 }
    }

    #[test]
    fn schedules_keep_their_limits() {
        let room = 20 << 30;
        let mut shown = String::new();
        for (mode, write_max, room) in [
            (Mode::Directory, WRITE_MAX, room),
            (Mode::Directory, 2 << 30, room),
            (Mode::Directory, 300 << 20, room),
            (Mode::DeviceReadOnly, WRITE_MAX, room),
            (Mode::Device, WRITE_MAX, 100 << 20),
        ] {
            let schedule = Schedule::within(&settings(mode, write_max), room);
            shown += &format!("{mode:?}, at most {} MiB, room for {} MiB\n", write_max / MIB, room / MIB);
            for part in &schedule.parts {
                let work = match &part.work {
                    Work::Tests { tests, runs_max, .. } => {
                        format!("{} tests, up to {runs_max} runs", tests.len())
                    }
                    Work::Sync(SyncWork { writes_max, runs_max, .. }) => {
                        format!("{writes_max} synchronous writes, up to {runs_max} runs")
                    }
                    Work::Launch { runs_max, scale } => format!("up to {runs_max} launches of {scale}"),
                    Work::Capacity { places } => format!("{places} places"),
                    Work::LeftOut(reason) => format!("left out: {reason}"),
                };
                shown += &format!("{:?}: {work}; {} MiB\n", part.part, part.writes_max / MIB);
            }
            shown += &format!("{} MiB in all\n\n", schedule.writes_max() / MIB);
        }
        expect_test::expect_file!["../../tests/golden/schedules.txt"].assert_eq(&shown);
        for write_max in [0, 1, 1 << 20, 1 << 28, 1 << 30, 1 << 34] {
            let schedule = Schedule::within(&settings(Mode::Directory, write_max), room);
            assert!(schedule.writes_max() <= write_max, "{write_max}");
        }
    }
}
