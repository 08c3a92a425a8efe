//! Switches a setting of the machine in use back and forth, in slices of time, and compares how long threads
//! were blocked on storage with and without the setting.
//!
//! A slice goes through these steps:
//!
//! 1. One slice of each pair has the setting; the seed decides which slice.
//! 2. Before a slice with the setting, the old value is written to the ledger; then the new value is set.
//! 3. The carry-over time is not measured, so that requests from before the switch can complete.
//! 4. The I/O during the slice is recorded, as in any other recording.
//! 5. The setting's old value is restored, and the slice is analysed and written to the folder.
//!
//! Between slices, the setting's old value is in force. So a test leaves the machine as it was, whenever and
//! for whatever reason the test ends. The result leaves out a pair with only one measured slice.

mod folder;
mod result;
mod slice;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fonio_analysis::compare::paired::{PAIRS_MIN, Paired};
use fonio_core::Random;
use fonio_core::random::seed_for;
use fonio_host::{Applied, Ledger, OnlyChanger};
use fonio_machine::units_now;
use fonio_system::MountTable;
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use crate::recorded::Notes;
use crate::rounds::check_stop;
use folder::Folder;
pub use result::{LivePair, LiveResult, OfArm};
use slice::measure;
pub use slice::{BlockedProgramTime, MeasuredSlice, PressureShares};

/// The tested setting and the method, stored in the folder as `plan.json`. A resumed test must have the same
/// plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LivePlan {
    /// The version of the file format in the folder.
    pub version: u32,
    /// The name of the tested fix.
    pub fix: String,
    /// The tested setting, with its current value and the tested value.
    pub setting: Applied,
    /// The unit whose threads are measured; `None` for all programs that are not bulk work.
    pub unit: Option<String>,
    /// The measured time of each slice, in seconds.
    pub slice_s: f64,
    /// The time between a switch of the setting and the measurement, in seconds.
    pub carry_over_s: f64,
    /// The seed that decides the order of the slices within each pair.
    pub order_seed: u64,
}

impl LivePlan {
    /// The current version of the file format in the folder.
    pub const VERSION: u32 = 1;

    /// Returns the plan of the test in `folder`; `None` if the folder has no plan.
    pub fn of_folder(folder: &Path) -> Result<Option<LivePlan>, ExperimentError> {
        Folder::plan_in(folder)
    }

    /// Returns whether the slice with the setting comes first in this pair. Pairs are numbered from 1.
    pub fn is_setting_first(&self, pair: u32) -> bool {
        Random::new(seed_for(self.order_seed, u64::from(pair))).below(2) == 1
    }

    /// Returns the planned time of a pair, without the time to write the recordings.
    pub fn pair_time(&self) -> Duration {
        Duration::from_secs_f64(2.0 * (self.slice_s + self.carry_over_s))
    }

    /// Returns a phrase for sentences that names the measured programs.
    fn whose(&self) -> String {
        match &self.unit {
            Some(unit) => format!("threads of {unit}"),
            None => "threads".to_owned(),
        }
    }
}

/// The duration of a test, its folder, and its stop signal.
#[derive(Clone, Copy, Debug)]
pub struct LiveOptions<'a> {
    /// The duration of the test: a pair that would end later is not started.
    pub lasting: Duration,
    /// The folder for the slices; the folder can already contain slices of the same test.
    pub folder: &'a Path,
    /// A flag that a signal handler sets to end the test as soon as possible.
    pub stop: &'a AtomicBool,
}

/// Progress messages of a running test.
#[derive(Debug)]
#[non_exhaustive]
pub enum LiveProgress<'a> {
    /// A sentence for the user.
    Note(&'a str),
    /// A slice was measured.
    Slice {
        /// The slice that was measured.
        slice: &'a MeasuredSlice,
        /// The time for which threads were blocked in the slice, in seconds per second.
        blocked: f64,
        /// The time until the test ends.
        left: Duration,
    },
    /// A pair is complete.
    Pair {
        /// The result of all complete pairs.
        paired: &'a Paired,
    },
}

/// The reason why a test ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Ended {
    /// The test has shown clearly whether the setting helps.
    Answered,
    /// The time limit of the test was reached.
    Time,
    /// The user stopped the test, or an operation failed. The setting is restored.
    Error(ExperimentError),
}

/// The outcome of a test that started, even if it failed.
#[derive(Debug)]
pub struct LiveOutcome {
    /// The result of the complete pairs of slices.
    pub result: LiveResult,
    /// Why the test ended.
    pub ended: Ended,
}

/// Runs the test of `plan`, or resumes the test in the folder, and reports progress to the caller. Fails if
/// the test cannot start: another fonio process is changing the setting, the unit does not exist, or the
/// folder contains another test. Errors after the start are in [`LiveOutcome::ended`].
pub fn run_live(
    plan: &LivePlan,
    options: &LiveOptions<'_>,
    progress: &mut dyn FnMut(LiveProgress<'_>),
) -> Result<LiveOutcome, ExperimentError> {
    let state = Ledger::default_dir();
    let _only = OnlyChanger::begin(&state, &plan.setting.target)?;
    plan.setting.expect_old()?;
    let groups = plan.unit.as_deref().map(check_unit).transpose()?;
    let folder = Folder::begin(options.folder, plan)?;
    let slices = folder.slices()?;
    let mut test = Test {
        pressure: groups.as_ref().and_then(pressure_file),
        plan: folder.plan().clone(),
        options,
        folder,
        slices,
        ledger: Ledger::open(&state)?,
        notes: Notes::default(),
        began: Instant::now(),
        measured_here: 0,
    };
    let ended = match test.run(progress) {
        Ok(ended) => ended,
        Err(error) => Ended::Error(error),
    };
    let Test { plan, slices, folder, ledger, .. } = test;
    let closed = ledger.close();
    let result = LiveResult::of(&plan, &slices);
    folder.write_result(&result)?;
    match closed {
        // If the old value could not be restored, report this error, not the error that ended the test.
        Err(error) => Ok(LiveOutcome { result, ended: Ended::Error(error.into()) }),
        Ok(()) => Ok(LiveOutcome { result, ended }),
    }
}

struct Test<'a> {
    plan: LivePlan,
    options: &'a LiveOptions<'a>,
    folder: Folder,
    /// All slices of the test, including slices from before a resume.
    slices: Vec<MeasuredSlice>,
    ledger: Ledger,
    pressure: Option<PathBuf>,
    notes: Notes,
    began: Instant,
    measured_here: u32,
}

impl Test<'_> {
    fn run(&mut self, progress: &mut dyn FnMut(LiveProgress<'_>)) -> Result<Ended, ExperimentError> {
        let before = LiveResult::of(&self.plan, &self.slices);
        self.tell_need(&before.paired, progress);
        loop {
            let result = LiveResult::of(&self.plan, &self.slices);
            self.folder.write_result(&result)?;
            // A resumed test measures at least one slice, even if earlier slices give a final answer.
            if result.paired.answer.is_final() && self.measured_here > 0 {
                return Ok(Ended::Answered);
            }
            if self.began.elapsed() + self.pair_time() > self.options.lasting {
                return Ok(Ended::Time);
            }
            let pair = self.slices.iter().map(|slice| slice.pair).max().unwrap_or(0) + 1;
            let first = self.plan.is_setting_first(pair);
            for with_setting in [first, !first] {
                check_stop(self.options.stop)?;
                self.slice(pair, with_setting, progress)?;
            }
            let now = LiveResult::of(&self.plan, &self.slices);
            progress(LiveProgress::Pair { paired: &now.paired });
            if now.paired.pairs == PILOT_PAIRS
                && before.paired.pairs < PILOT_PAIRS
                && !now.paired.answer.is_final()
            {
                self.tell_need(&now.paired, progress);
            }
        }
    }

    fn slice(
        &mut self,
        pair: u32,
        with_setting: bool,
        progress: &mut dyn FnMut(LiveProgress<'_>),
    ) -> Result<(), ExperimentError> {
        let number = self.slices.iter().map(|slice| slice.number).max().unwrap_or(0) + 1;
        let to = self.folder.recording(number);
        let note = &mut |text: &str| {
            if self.notes.is_new(text) {
                progress(LiveProgress::Note(text));
            }
        };
        let entry = if with_setting { Some(self.plan.setting.borrow(&mut self.ledger)?) } else { None };
        let measured = measure(
            &self.plan,
            slice::Place { number, pair, with_setting, pressure: self.pressure.as_deref(), to: &to },
            self.options.stop,
            note,
        );
        if let Some(entry) = entry {
            self.ledger.undo(entry)?;
        }
        let slice = measured.inspect_err(|_| {
            // The folder contains an incomplete slice. An error while removing the slice does not matter.
            let _ = std::fs::remove_dir_all(&to);
        })?;
        self.folder.write_slice(&slice)?;
        self.slices.push(slice);
        self.measured_here += 1;
        let slice = self.slices.last().expect("it was just added");
        let blocked = slice.blocked(|program| slice::counts(program, &self.plan, &BTreeSet::new()));
        let left = self.options.lasting.saturating_sub(self.began.elapsed());
        progress(LiveProgress::Slice { slice, blocked, left });
        if let Some(problem) = &slice.problem {
            let text = format!("slice {number} and the other slice of its pair are left out: {problem}");
            progress(LiveProgress::Note(&text));
        }
        Ok(())
    }

    /// Returns the time that a pair of slices takes, including the time to write recordings, if known.
    fn pair_time(&self) -> Duration {
        match self.measured_here {
            0 => self.plan.pair_time(),
            slices => (self.began.elapsed() / slices * 2).max(self.plan.pair_time()),
        }
    }

    /// Tells the user how long the test must run to show an effect of 20 percent.
    fn tell_need(&self, known: &Paired, progress: &mut dyn FnMut(LiveProgress<'_>)) {
        let each = self.pair_time().as_secs_f64();
        let left = self.options.lasting.saturating_sub(self.began.elapsed()).as_secs_f64();
        let fit = known.pairs + (left / each) as usize;
        let (minutes, pairs) = (|pairs: usize| result::minutes(pairs as f64 * each), known.pairs);
        let text = match known.pairs_needed {
            Some(needed) if pairs >= PILOT_PAIRS => {
                let enough = if needed <= fit {
                    "the time suffices".to_owned()
                } else {
                    format!(
                        "--for is too short: set it to {}, or continue later with --resume",
                        minutes(needed)
                    )
                };
                format!(
                    "After {pairs} pairs: to show an effect of 20 %, the test needs about {}; {enough}.",
                    minutes(needed)
                )
            }
            None if pairs >= PILOT_PAIRS => format!(
                "After {pairs} pairs: this load varies too much to show an effect of 20 % in 1000 pairs; try longer slices."
            ),
            _ if fit < PAIRS_MIN => format!(
                "--for is too short: only {fit} pairs of slices fit, and even a clear difference needs {PAIRS_MIN} ({}). Continue the test later with --resume.",
                minutes(PAIRS_MIN)
            ),
            _ => format!(
                "Showing a clear difference takes {PAIRS_MIN} pairs ({}). The time to show an effect of 20 % depends on the load; it is estimated after {PILOT_PAIRS} pairs.",
                minutes(PAIRS_MIN)
            ),
        };
        progress(LiveProgress::Note(&text));
    }
}

/// Number of pairs needed to estimate how much a load varies.
const PILOT_PAIRS: usize = 3;

/// Returns the control groups of a unit. The unit must have at least one process.
fn check_unit(unit: &str) -> Result<BTreeSet<String>, ExperimentError> {
    let mut now = units_now();
    now.remove(unit)
        .ok_or_else(|| ExperimentError::NoUnit { unit: unit.to_owned(), seen: now.into_keys().collect() })
}

/// Returns the pressure file of the control group that contains all `groups`; `None` if that group is the
/// root, or if the kernel does not measure pressure.
fn pressure_file(groups: &BTreeSet<String>) -> Option<PathBuf> {
    let root = MountTable::read().ok()?.of_kind("cgroup2").next()?.dir.clone();
    let mut groups = groups.iter();
    let mut common: PathBuf = groups.next()?.trim_start_matches('/').into();
    for group in groups {
        while !Path::new(group.trim_start_matches('/')).starts_with(&common) {
            common.pop();
        }
    }
    let file = root.join(&common).join("io.pressure");
    (!common.as_os_str().is_empty() && file.exists()).then_some(file)
}

#[cfg(test)]
mod tests {
    use fonio_analysis::waits::blocked::Role;
    use fonio_core::Nanos;

    use super::*;

    pub(super) fn plan() -> LivePlan {
        LivePlan {
            version: LivePlan::VERSION,
            fix: "bfq".to_owned(),
            setting: Applied {
                target: serde_json::from_str(r#"{"kind": "scheduler", "device": "mmcblk0"}"#)
                    .expect("a target"),
                old: "none".to_owned(),
                new: "bfq".to_owned(),
            },
            unit: None,
            slice_s: 40.0,
            carry_over_s: 5.0,
            order_seed: 1,
        }
    }

    /// Creates a slice of 40 s with one program, blocked for this many milliseconds.
    pub(super) fn slice(number: u32, pair: u32, with_setting: bool, blocked_ms: u64) -> MeasuredSlice {
        MeasuredSlice {
            number,
            pair,
            with_setting,
            measured_s: 40.0,
            programs: vec![BlockedProgramTime {
                name: "python3".to_owned(),
                unit: Some("notes.service".to_owned()),
                role: Role::OfInterest,
                time_ns: Nanos(blocked_ms * 1_000_000),
                long: 1,
            }],
            machine_pressure: Some(PressureShares { some: Some(0.5), full: None }),
            unit_pressure: None,
            problem: None,
            recording: format!("slice-{number:03}"),
        }
    }

    #[test]
    fn the_order_is_that_of_the_seed_and_balanced_by_pairs() {
        let order = |order_seed| {
            let plan = LivePlan { order_seed, ..plan() };
            (1..=400).map(|pair| plan.is_setting_first(pair)).collect::<Vec<bool>>()
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        for seed in 0..20 {
            let order = order(seed);
            let first = order.iter().filter(|first| **first).count();
            assert!((150..=250).contains(&first), "seed {seed}: the same order in {first} of 400 pairs");
            let changes = order.windows(2).filter(|two| two[0] != two[1]).count();
            assert!((150..=250).contains(&changes), "seed {seed}: the order changes {changes} times");
        }
    }

    #[test]
    fn a_unit_that_does_not_exist_is_refused_with_those_that_do() {
        let error = check_unit("no such unit").expect_err("it does not exist").to_string();
        assert!(error.starts_with("the unit \"no such unit\" has no process now; "), "{error}");
        let of = |seen: &[&str]| {
            let seen = seen.iter().map(|unit| (*unit).to_owned()).collect();
            ExperimentError::NoUnit { unit: "a".to_owned(), seen }.to_string()
        };
        assert!(of(&["b.service", "c.service"]).ends_with("there are b.service, c.service"));
        assert!(of(&["x"; 40]).ends_with("x, and 10 more"));
    }

    #[test]
    fn groups_of_a_unit_share_the_pressure_of_the_group_above_them() {
        let groups = |groups: &[&str]| groups.iter().map(|group| (*group).to_owned()).collect();
        assert_eq!(pressure_file(&groups(&["/a.slice/no-such.service"])), None);
        assert_eq!(pressure_file(&groups(&["/a/b", "/c/d"])), None, "the root group is not the unit's");
        assert_eq!(pressure_file(&groups(&[])), None);
    }
}
