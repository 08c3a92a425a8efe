//! Plays a scene with and without a fix, in pairs.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fonio_analysis::compare::paired::{PAIRS_MIN, Paired, PairedAnswer, compare_one_of};
use fonio_core::Random;
use fonio_core::random::seed_for;
use fonio_host::{Applied, Ledger, OnlyChanger, Setting, Step, borrow_io_class, pause};
use fonio_system::TrialName;
use rustix::fs::syncfs;
use serde::{Deserialize, Serialize};

use super::apart::{Apart, Group, Helper};
use super::{Scene, written_back};
use crate::error::ExperimentError;
use crate::replay::calls::{Felt, Part, play_together, renew};
use crate::rounds::check_stop;

/// The change that is tried.
#[derive(Clone, Copy, Debug)]
pub enum RecreateChange<'a> {
    /// A setting of the machine, a disk or a mount.
    Setting(&'a Applied),
    /// The I/O class of the program in the way. If processes of it are running, these and their descendants get the
    /// class too, because they would disturb the recreated stall.
    IoClass {
        /// The class: idle or best-effort.
        class: &'a str,
        /// The running processes.
        pids: &'a [u32],
    },
    /// A limit of the rate of the program in the way. Its calls are repeated in a process of their own, in a control
    /// group with the limit, and it has as little to write back as the limit allows.
    Limit {
        /// The limit.
        setting: &'a Setting,
        /// The command that calls [`crate::play_apart`]. A file name follows it.
        command: &'a [OsString],
        /// Whether its calls are in a control group of their own also without the limit. Some schedulers share a disk
        /// between groups, so the group alone makes a difference.
        is_grouped: bool,
    },
}

/// How a scene is played.
#[derive(Clone, Copy, Debug)]
pub struct RecreateOptions<'a> {
    /// A folder on the scene's file system, in which fonio makes a folder of its own.
    pub folder: &'a Path,
    /// The largest number of pairs.
    pub pairs: usize,
    /// The running processes of the program in the way. They and their descendants are stopped during the trial, because
    /// they would disturb the recreated stall.
    pub paused: &'a [u32],
    /// The seed of the order of the runs in each pair.
    pub seed: u64,
    /// A flag that a signal handler sets to end the trial as soon as possible.
    pub stop: &'a AtomicBool,
}

/// Progress of a trial.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecreateProgress<'a> {
    /// The stall was recreated once, without the change.
    First(&'a RecreatedRun),
    /// A pair is complete: its runs without and with the change.
    Pair(&'a RecreatedRun, &'a RecreatedRun),
}

/// One run of a scene.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecreatedRun {
    /// What the delayed program felt.
    pub victim: Felt,
    /// What the program in the way did.
    pub culprit: Option<Felt>,
}

impl RecreatedRun {
    /// Returns the share of the scene that the delayed program spent in its calls, summed over its threads.
    pub fn blocked(&self, span: Duration) -> f64 {
        self.victim.in_calls.as_secs_f64() / span.as_secs_f64()
    }

    /// Returns the rate of the program in the way in bytes per second.
    pub fn culprit_rate(&self) -> Option<f64> {
        let culprit = self.culprit.filter(|culprit| culprit.took > Duration::ZERO)?;
        Some(culprit.bytes.0 as f64 / culprit.took.as_secs_f64())
    }
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recreated {
    /// What the delayed program felt in the recording.
    pub recorded: Felt,
    /// The length of the scene.
    pub span: Duration,
    /// The first run, without the change.
    pub first: RecreatedRun,
    /// The runs without and with the change. Empty if the stall did not come back.
    pub pairs: Vec<(RecreatedRun, RecreatedRun)>,
    /// The comparison of the times that the delayed program spent in its calls.
    pub paired: Paired,
    /// The comparison of its longest calls.
    pub longest: Paired,
}

/// A stall came back if the calls took at least this share of the recorded time, or if the longest call took at least
/// the second share of the recorded longest one. The chosen part of the recording is its worst one, and another time is
/// rarely as bad.
const LIKE_RECORDED: f64 = 0.3;
const LIKE_LONGEST: f64 = 0.5;

impl Recreated {
    /// Returns whether the stall came back in the first run, without the change.
    pub fn is_like_recorded(&self) -> bool {
        is_like(&self.first, &self.recorded)
    }

    /// Returns whether the change is shown to help: the delayed program spent less time in its calls, or its longest
    /// calls were shorter, and neither became longer.
    pub fn helps(&self) -> bool {
        let answers = [self.paired.answer, self.longest.answer];
        answers.contains(&PairedAnswer::Lower) && !answers.contains(&PairedAnswer::Higher)
    }

    /// Returns the medians of a figure without and with the change; `None` without pairs.
    pub fn medians(&self, figure: impl Fn(&RecreatedRun) -> Option<f64>) -> Option<(f64, f64)> {
        let median = |values: Option<Vec<f64>>| {
            let mut values = values.filter(|values| !values.is_empty())?;
            values.sort_by(f64::total_cmp);
            Some(f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]))
        };
        let without = median(self.pairs.iter().map(|(without, _)| figure(without)).collect())?;
        Some((without, median(self.pairs.iter().map(|(_, with)| figure(with)).collect())?))
    }
}

fn is_like(run: &RecreatedRun, recorded: &Felt) -> bool {
    let felt = &run.victim;
    felt.in_calls.as_secs_f64() >= LIKE_RECORDED * recorded.in_calls.as_secs_f64()
        || felt.longest.as_secs_f64() >= LIKE_LONGEST * recorded.longest.as_secs_f64()
}

/// Recreates a scene once as it was and then in pairs with and without the change, in random order, until the
/// comparison is clear or all pairs are done. If the stall does not come back, there are no pairs.
///
/// All data are written back before each run. Afterwards, the setting is as before, and fonio's files are removed,
/// also after an error or a signal; after `kill -9`, the next start of fonio does both.
pub fn recreate(
    scene: &Scene,
    change: RecreateChange<'_>,
    options: &RecreateOptions<'_>,
    progress: &mut dyn FnMut(RecreateProgress<'_>),
) -> Result<Recreated, ExperimentError> {
    let _name = TrialName::take();
    let state = Ledger::default_dir();
    let _only = match change {
        RecreateChange::Setting(setting) => {
            let only = OnlyChanger::begin(&state, &setting.target)?;
            setting.expect_old()?;
            Some(only)
        }
        RecreateChange::IoClass { .. } | RecreateChange::Limit { .. } => None,
    };
    let mut ledger = Ledger::open(&state)?;
    let _paused = (!options.paused.is_empty()).then(|| pause(options.paused)).transpose()?;
    let stage = options.folder.join(format!(".fonio-recreate-{}", std::process::id()));
    let entry = ledger.begin(Step::Tree { path: stage.clone() })?;
    fs::create_dir(&stage).map_err(ExperimentError::system("make", &stage))?;
    write_back_all(&stage)?;
    let mut stage = Stage { scene, change, folder: &stage, ledger: &mut ledger, stop: options.stop };
    let played = stage.play(options, progress);
    let removed = ledger.undo(entry);
    let closed = ledger.close();
    let recreated = played?;
    removed?;
    closed?;
    Ok(recreated)
}

/// Writes all data of a folder's file system back.
fn write_back_all(folder: &Path) -> Result<(), ExperimentError> {
    let synced = fs::File::open(folder).and_then(|folder| Ok(syncfs(folder)?));
    synced.map_err(ExperimentError::system("sync", folder))
}

struct Stage<'a> {
    scene: &'a Scene,
    change: RecreateChange<'a>,
    folder: &'a Path,
    ledger: &'a mut Ledger,
    stop: &'a AtomicBool,
}

/// A run ends at this multiple of the scene's length, if the delayed program has not finished by then.
const AT_MOST: u32 = 3;

impl Stage<'_> {
    fn play(
        &mut self,
        options: &RecreateOptions<'_>,
        progress: &mut dyn FnMut(RecreateProgress<'_>),
    ) -> Result<Recreated, ExperimentError> {
        let first = self.run(false)?;
        progress(RecreateProgress::First(&first));
        let mut pairs: Vec<(RecreatedRun, RecreatedRun)> = Vec::new();
        let span = self.scene.span;
        let compared = |pairs: &[(RecreatedRun, RecreatedRun)]| {
            let of = |figure: &dyn Fn(&RecreatedRun) -> f64| {
                let values = pairs.iter().map(|(without, with)| (figure(without), figure(with)));
                compare_one_of(2, &values.collect::<Vec<_>>())
            };
            (of(&|run| run.blocked(span)), of(&|run| run.victim.longest.as_secs_f64()))
        };
        let (mut paired, mut longest) = compared(&pairs);
        if is_like(&first, &self.scene.recorded) {
            let is_clear = |one: &Paired, other: &Paired| {
                one.answer.is_claimed()
                    || other.answer.is_claimed()
                    || (one.answer.is_final() && other.answer.is_final())
            };
            while pairs.len() < options.pairs && !(pairs.len() >= PAIRS_MIN && is_clear(&paired, &longest)) {
                let number = pairs.len() as u64;
                let is_first = Random::new(seed_for(options.seed, number)).below(2) == 1;
                let mut runs = [RecreatedRun::default(); 2];
                for with_change in [is_first, !is_first] {
                    runs[usize::from(with_change)] = self.run(with_change)?;
                }
                progress(RecreateProgress::Pair(&runs[0], &runs[1]));
                pairs.push((runs[0], runs[1]));
                (paired, longest) = compared(&pairs);
            }
        }
        Ok(Recreated { recorded: self.scene.recorded, span, first, pairs, paired, longest })
    }

    fn run(&mut self, with_change: bool) -> Result<RecreatedRun, ExperimentError> {
        check_stop(self.stop)?;
        let mut folders = Vec::new();
        for (number, sequence) in self.scene.parts.iter().enumerate() {
            let folder = self.folder.join(format!("part-{number}"));
            if !folder.exists() {
                fs::create_dir(&folder).map_err(ExperimentError::system("make", &folder))?;
            }
            renew(sequence, &folder).map_err(ExperimentError::system("write", &folder))?;
            folders.push(folder);
        }
        let (entries, class) = match self.change {
            _ if !with_change => (Vec::new(), None),
            RecreateChange::Setting(setting) => (vec![setting.borrow(self.ledger)?], None),
            RecreateChange::IoClass { class, pids } => {
                (borrow_io_class(pids, class, self.ledger)?, Some(class))
            }
            RecreateChange::Limit { .. } => (Vec::new(), None),
        };
        let parts: Vec<Part<'_>> = (self.scene.parts.iter().zip(&folders).enumerate())
            .map(|(number, (sequence, folder))| Part {
                sequence,
                folder,
                io_class: class.filter(|_| number > 0),
            })
            .collect();
        let played = match self.change {
            RecreateChange::Limit { setting, command, is_grouped } => {
                let group = match with_change {
                    true => Group::Limited(setting),
                    false if is_grouped => Group::Unlimited(setting),
                    false => Group::None,
                };
                self.play_apart(&parts, group, command)?
            }
            _ => self.play_with_write_back(&parts),
        };
        entries.into_iter().try_for_each(|entry| self.ledger.undo(entry))?;
        let felt = played.map_err(ExperimentError::system("repeat the calls in", self.folder))?;
        check_stop(self.stop)?;
        // The next run must not wait for this run's data.
        write_back_all(self.folder)?;
        Ok(RecreatedRun { victim: felt[0], culprit: felt.get(1).copied() })
    }

    /// Plays the part of the delayed program here, and that of the program in the way in a process of its own.
    fn play_apart(
        &mut self,
        parts: &[Part<'_>],
        group: Group<'_>,
        command: &[OsString],
    ) -> Result<io::Result<Vec<Felt>>, ExperimentError> {
        let within = self.scene.span * AT_MOST;
        let bursts = match group.limit() {
            Some(rate) => written_back::limited(&self.scene.written_back, rate, self.scene.span),
            None => self.scene.written_back.clone(),
        };
        let apart = Apart {
            sequence: parts.get(1).map(|part| part.sequence.clone()).unwrap_or_default(),
            folder: parts.get(1).map_or(self.folder, |part| part.folder).to_owned(),
            bursts,
            within,
        };
        let file = self.folder.join("apart.json");
        fs::write(&file, serde_json::to_vec(&apart).expect("the calls are JSON"))
            .map_err(ExperimentError::system("write", &file))?;
        let mut helper = Helper::start(command, &file, group, self.ledger)?;
        let stop = self.stop;
        let mut play = || {
            helper.go()?;
            play_together(&parts[..1], within, stop)
        };
        let felt = play();
        let of_culprit = helper.end();
        Ok(felt.and_then(|mut felt| {
            felt.push(of_culprit?);
            Ok(felt)
        }))
    }

    /// Plays the parts, and the write-back of the program in the way.
    fn play_with_write_back(&self, parts: &[Part<'_>]) -> io::Result<Vec<Felt>> {
        let bursts = &self.scene.written_back[..];
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let write_back = scope.spawn(|| written_back::play(bursts, self.folder, &is_over));
            let felt = play_together(parts, self.scene.span * AT_MOST, self.stop);
            is_over.store(true, Ordering::Relaxed);
            write_back.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            felt
        })
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{ByteCount, DeviceId, FileFlags, Nanos};
    use fonio_sim::engine::Begins;

    use super::super::written_back::Burst;
    use super::*;
    use crate::replay::calls::{Act, Before, Call, Sequence};

    /// A thread that writes and syncs a file this many times, once a millisecond.
    fn part(times: usize) -> Sequence {
        let call = |act| Call {
            begins: Begins::AfterEnd(Nanos(1_000_000)),
            act,
            file: 0,
            flags: FileFlags::NONE,
            signal: None,
        };
        let calls = [Act::Write { offset: 0, bytes: 4096 }, Act::Sync { data_only: true }];
        let calls = std::iter::repeat_n(calls, times).flatten().map(call).collect();
        Sequence {
            files: vec![Before {
                is_there: true,
                bytes: 8192,
                chunks: crate::replay::Chunks::of_bytes(0, 1),
                end: 8192,
                ..Before::default()
            }],
            threads: vec![calls],
            ..Sequence::default()
        }
    }

    fn scene(recorded: Felt) -> Scene {
        Scene {
            begins: Duration::ZERO,
            span: Duration::from_millis(200),
            bytes: ByteCount(1 << 20),
            recorded,
            filesystem: DeviceId::default(),
            parts: vec![part(20), part(100_000)],
            written_back: vec![Burst { at: Duration::from_millis(5), bytes: ByteCount(1 << 20) }],
        }
    }

    const IDLE: RecreateChange<'static> = RecreateChange::IoClass { class: "idle", pids: &[] };

    #[test]
    fn a_scene_is_played_in_pairs_and_leaves_nothing() {
        let dir = tempfile::tempdir().expect("dir");
        let stop = AtomicBool::new(false);
        let options = RecreateOptions { folder: dir.path(), paused: &[], pairs: 2, seed: 7, stop: &stop };
        let mut told = Vec::new();
        let found = recreate(&scene(Felt::default()), IDLE, &options, &mut |progress| match progress {
            RecreateProgress::First(run) => told.push(run.victim.calls),
            RecreateProgress::Pair(without, with) => told.extend([without.victim.calls, with.victim.calls]),
        })
        .expect("it is played");
        assert_eq!((found.pairs.len(), found.paired.pairs, told), (2, 2, vec![40; 5]));
        let culprit = found.first.culprit.expect("there is one");
        assert!(
            culprit.calls > 0 && culprit.calls < 200_000,
            "it ends with the delayed program: {culprit:?}"
        );
        assert!(found.medians(|run| run.culprit_rate()).is_some());
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn without_the_stall_nothing_is_compared() {
        let dir = tempfile::tempdir().expect("dir");
        let stop = AtomicBool::new(false);
        let options = RecreateOptions { folder: dir.path(), paused: &[], pairs: 2, seed: 7, stop: &stop };
        let hour = Duration::from_secs(3600);
        let recorded = Felt { in_calls: hour, longest: hour, ..Felt::default() };
        let found = recreate(&scene(recorded), IDLE, &options, &mut |_| {}).expect("it is played");
        assert!(!found.is_like_recorded() && found.pairs.is_empty());
    }

    #[test]
    fn a_signal_ends_the_trial_without_a_trace() {
        let dir = tempfile::tempdir().expect("dir");
        let stop = AtomicBool::new(false);
        let options = RecreateOptions { folder: dir.path(), paused: &[], pairs: 8, seed: 7, stop: &stop };
        let error =
            recreate(&scene(Felt::default()), IDLE, &options, &mut |_| stop.store(true, Ordering::Relaxed))
                .expect_err("it was stopped");
        assert!(matches!(error, ExperimentError::Interrupted), "{error}");
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 0);
    }
}
