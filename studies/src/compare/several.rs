//! Measures how often `fonio compare` claims a difference between five recordings from before and five from
//! after, on three devices of this machine, with and without other load.
//!
//! Equal pairs record the same job on both sides. In planted pairs, the requests of the other side take 20 %
//! longer: the card has a profile with longer times. The other devices cannot be slowed down, so there the
//! job has as many, larger requests, whose sizes are chosen by fio's clock before the recordings. The
//! recordings of both sides alternate, so that a drift of the machine affects both sides.
//!
//! `fonio fix prove` judges the run times of alternating runs. The runs of a pair are judged in the same way, so
//! the study also measures how often `fonio fix prove` is wrong.
//!
//! Finished pairs are kept in files, so an interrupted run can be continued. A pair is recorded again for
//! another build of fonio or another length of the recordings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use fonio_analysis::compare::interval::compare_rounds;
use fonio_analysis::{Answer, Comparison};
use fonio_core::Better;
use fonio_host::Ledger;
use fonio_report::Document;
use fonio_report::json::ComparisonReport;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use xtask::results::{Cell, StudyResult};
use xtask::tools;

use super::device::{Kind, Room, Sides};
use super::job::{self, Job, SLOW};
use crate::{asked, emulated, process};

/// The default number of pairs of each kind, for each device and load. With both loads, each device has 16 equal
/// and 16 planted pairs.
pub const PAIRS: u32 = 8;
/// The default length of a recording, in seconds.
pub const SECONDS: u32 = 2;
/// Number of recordings per side.
const RECORDINGS: u32 = 5;
/// The size of the tmpfs for the recordings and the disk in memory.
const MEMORY_BYTES: u64 = 2 << 30;
const TOOLS: &[tools::Tool] = &[("stress-ng", "stress-ng", "the other load"), ("fio", "fio", "the job")];
/// The load of the processors while stress-ng runs, in percent.
const LOAD: &str = "60";

/// Compares `pairs` equal and `pairs` planted pairs on each device, with and without other load.
pub fn run(kinds: &[Kind], pairs: u32, seconds: u32) -> Result<()> {
    let fonio = emulated::fonio()?;
    tools::ensure(&[TOOLS])?;
    process::outlive_signals()?;
    Ledger::recover(&Ledger::default_dir())?;
    let disk = process::scratch("compare")?;
    // The recordings are in memory, so that writing them does not use the measured disk.
    let mut ledger = Ledger::open(&Ledger::default_dir())?;
    let (memory, _) = fonio_host::mount_tmpfs(&mut ledger, MEMORY_BYTES)?;
    let program: String =
        Sha256::digest(fs::read(&fonio)?).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let kept = Kept(process::scratch(&format!("compare-several/{program}-{seconds}s"))?);
    let room = Room { fonio: &fonio, disk: &disk, memory: &memory };
    println!(
        "fio: 1 thread, random, synchronous, 80 % reads, about {seconds} s for each recording; {RECORDINGS} recordings per side\n"
    );
    let result = measure(kinds, room, pairs, seconds, &kept);
    ledger.close()?;
    result?.keep(kinds.len() == Kind::ALL.len() && pairs >= PAIRS && seconds >= SECONDS)?;
    Ok(())
}

fn measure(kinds: &[Kind], room: Room<'_>, pairs: u32, seconds: u32, kept: &Kept) -> Result<StudyResult> {
    let columns = [
        "device and other load",
        "pairs of each kind",
        "equal: called better or worse",
        "planted: called worse",
        "planted: called better",
        "equal: fix prove claims a difference",
        "planted: fix prove calls it slower",
        "planted: run time",
        "planted: read service time",
    ];
    let title = "claims of `fonio compare` and `fonio fix prove` on five recordings per side";
    let command = format!("cargo studies compare --several --pairs {pairs}");
    let mut result = StudyResult::begin("compare-several", title, &command, &columns)?;
    result.rounds = Some(u64::from(RECORDINGS));
    let loads = [(false, "none"), (true, "stress-ng")];
    let mut all = loads.map(|_| Tally::default());
    for kind in kinds {
        let (jobs, planted) = kept.or_make(kind.name(), || jobs(*kind, room, seconds))?;
        eprintln!("{}: {planted}", kind.words());
        let mut remarks = vec![format!("{}: {planted}", kind.words())];
        for ((with_load, words), all) in loads.into_iter().zip(&mut all) {
            let name = |pair: u32, kind_of: &str| format!("{}-{words}-{kind_of}-{pair}", kind.name());
            let is_kept = |pair| ["equal", "planted"].iter().all(|of| kept.has(&name(pair, of)));
            let is_finished = (0..pairs).all(is_kept);
            let load = (with_load && !is_finished).then(Load::start).transpose()?;
            let (tally, claims) = measure_device(*kind, room, jobs, pairs, &|pair, of, make| {
                kept.or_make(&name(pair, of), make)
            })?;
            drop(load);
            result.row(format!("{}, {words}", kind.words()), tally.cells());
            remarks.extend(claims.into_iter().map(|claim| format!("Other load: {words}, {claim}.")));
            all.add(tally);
        }
        if !result.remark.is_empty() {
            result.remark.push(' ');
        }
        result.remark.push_str(&remarks.join(" "));
    }
    if kinds.len() > 1 {
        for ((_, words), all) in loads.into_iter().zip(&all) {
            result.row(format!("all devices, {words}"), all.cells());
        }
    }
    Ok(result)
}

/// Returns the outcome of a pair, given its number and its kind. Calls the function if the outcome is not kept.
type OfPair<'a> = &'a dyn Fn(u32, &str, &dyn Fn() -> Result<Outcome>) -> Result<Outcome>;

/// Returns the counts for one device, and the claims on equal pairs.
fn measure_device(
    kind: Kind,
    room: Room<'_>,
    [job, slower]: [Job; 2],
    pairs: u32,
    of_pair: OfPair<'_>,
) -> Result<(Tally, Vec<String>)> {
    let mut tally = Tally::default();
    let mut claims = Vec::new();
    for pair in 0..pairs {
        for is_planted in [false, true] {
            let (slow, other) = if is_planted { (SLOW, slower) } else { (1.0, job) };
            let seed = 2 * pair + u32::from(is_planted);
            let name = if is_planted { "planted" } else { "equal" };
            let outcome = of_pair(pair, name, &|| {
                Ok(Outcome::of(&compare_pair(kind, room, slow, [job, other], seed)?))
            })?;
            let Outcome { called, said, run_times, proved, .. } = &outcome;
            eprintln!("  {name} pair {} ({}): {said}", pair + 1, called.words());
            eprintln!("    run times in seconds: {run_times}; fix prove: {proved:?}");
            if !is_planted && !called.figures.is_empty() {
                claims.push(format!("equal pair {}: {}", pair + 1, called.figures.join(", ")));
            }
            if !is_planted && is_claim(*proved) {
                claims.push(format!("equal pair {}: claim of fix prove", pair + 1));
            }
            tally.count(is_planted, &outcome);
        }
    }
    Ok((tally, claims))
}

/// The folder of what is already measured.
struct Kept(PathBuf);

impl Kept {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name).with_extension("json")
    }

    fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Reads a kept value. If it is not kept, makes and keeps it.
    fn or_make<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let path = self.path(name);
        if path.exists() {
            let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            return serde_json::from_slice(&text)
                .with_context(|| format!("{} is damaged; remove it", path.display()));
        }
        let made = make()?;
        // A kept file is complete, also after an interruption.
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_string_pretty(&made)?)
            .and_then(|()| fs::rename(&new, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(made)
    }
}

/// Returns the job of equal pairs, the slower job, and a sentence about both. Chosen without other load, so
/// that both loads have the same jobs.
fn jobs(kind: Kind, room: Room<'_>, seconds: u32) -> Result<([Job; 2], String)> {
    let sides = Sides::make(kind, room, 1.0, 0)?;
    let folder = &sides.folders[0];
    job::prepare(folder)?;
    // The recorder slows fast devices down, so the length is measured with a recorder.
    let short = Job::short(kind.request_bytes(), folder)?;
    let out = room.memory.join("recording");
    record(room.fonio, folder, short, 0, &out)?;
    let report = asked::report(room.fonio, &out)?;
    let took_ns = report["analysis"]["run_time_ns"].as_f64().context("the recording has no run time")?;
    let requests = short.requests as f64 * f64::from(seconds) * 1e9 / took_ns;
    let job = Job { requests: requests as u64, ..short };
    if kind == Kind::Card {
        let said = format!("{} requests; the slower card has {SLOW} times the times.", job.requests);
        return Ok(([job, job], said));
    }
    let (slower, ratios) = job.slower(folder)?;
    let kib = slower.bytes.map(|bytes| bytes >> 10);
    let base = kind.request_bytes() >> 10;
    let said = format!(
        "{} requests; reads of {} KiB take {:.2} times and writes of {} KiB {:.2} times as long as those of {base} KiB.",
        job.requests, kib[0], ratios[0], kib[1], ratios[1]
    );
    Ok(([job, slower], said))
}

/// Records both sides alternately, and compares them.
fn compare_pair(kind: Kind, room: Room<'_>, slow: f64, jobs: [Job; 2], seed: u32) -> Result<Comparison> {
    let sides = Sides::make(kind, room, slow, u64::from(seed))?;
    for folder in &sides.folders[..if kind == Kind::Card { 2 } else { 1 }] {
        job::prepare(folder)?;
    }
    // The first run on a new device is slower than later runs.
    for (job, folder) in jobs.iter().zip(&sides.folders) {
        job.warm_up(folder)?;
    }
    let mut recordings: [Vec<PathBuf>; 2] = Default::default();
    for round in 0..RECORDINGS {
        for side in 0..2 {
            let out = room.memory.join(format!("recording-{side}-{round}"));
            record(room.fonio, &sides.folders[side], jobs[side], RECORDINGS * seed + round, &out)?;
            recordings[side].push(out);
        }
    }
    drop(sides);
    let [before, after] = &recordings;
    let mut words = vec!["compare".as_ref(), "--before".as_ref()];
    words.extend(before.iter().map(|path| path.as_os_str()));
    words.push("--after".as_ref());
    words.extend(after.iter().map(|path| path.as_os_str()));
    let report: ComparisonReport = asked::answer(room.fonio, &words)?;
    for recording in recordings.iter().flatten() {
        fs::remove_dir_all(recording).with_context(|| format!("cannot remove {}", recording.display()))?;
    }
    Ok(report.comparison)
}

fn record(fonio: &Path, folder: &Path, job: Job, seed: u32, out: &Path) -> Result<()> {
    let mut recorder = process::bound_to_this(fonio);
    recorder.args(["record", "--overwrite", "--output"]).arg(out).arg("--path").arg(folder);
    job.add_to(recorder.args(["--", "fio"]), folder, seed);
    let recorded = recorder.stdin(Stdio::null()).output().context("cannot start fonio record")?;
    process::check_signals()?;
    let said = String::from_utf8_lossy(&recorded.stderr);
    ensure!(recorded.status.success(), "{} failed: {said}", process::shown(&recorder));
    Ok(())
}

/// Returns the run times of all recordings, in the order in which they were made.
fn run_times(comparison: &Comparison) -> String {
    let row = comparison.rows.iter().find(|row| row.figure == "run_time");
    let Some([before, after]) = row.and_then(|row| row.runs.first_chunk()) else { return "unknown".into() };
    let pairs = before.iter().zip(after).flat_map(|(before, after)| [before, after]);
    let text = |ns: &Option<f64>| ns.map_or("unknown".into(), |ns| format!("{:.2}", ns / 1e9));
    pairs.map(text).collect::<Vec<_>>().join(" ")
}

/// Judges the run times of a pair as `fonio fix prove` does: each round has one run of both sides.
fn prove(comparison: &Comparison) -> Answer {
    let row = comparison.rows.iter().find(|row| row.figure == "run_time");
    let Some([before, after]) = row.and_then(|row| row.runs.first_chunk()) else { return Answer::Unknown };
    let known = |side: &[Option<f64>]| side.iter().copied().collect::<Option<Vec<f64>>>();
    let (Some(before), Some(after)) = (known(before), known(after)) else { return Answer::Unknown };
    compare_rounds(&[(&before, &after)])[0].answer
}

fn is_claim(answer: Answer) -> bool {
    matches!(answer, Answer::Lower | Answer::Higher)
}

/// The result of one pair.
#[derive(Serialize, Deserialize)]
struct Outcome {
    called: Called,
    /// The sentences of the comparison.
    said: String,
    run_times: String,
    /// The claim of `fonio fix prove` about the run time of the other side.
    proved: Answer,
    /// The ratios of run time and of the mean service time of reads.
    ratios: [Option<f64>; 2],
}

impl Outcome {
    fn of(comparison: &Comparison) -> Outcome {
        let said = Document::from_comparison(comparison).verdict;
        let ratio = |figure| {
            let row = comparison.rows.iter().find(|row| row.figure == figure);
            row.and_then(|row| row.changes[0].ratio)
        };
        Outcome {
            called: Called::by(comparison),
            said: [&[said.sentence][..], &said.reasons].concat().join(" "),
            run_times: run_times(comparison),
            proved: prove(comparison),
            ratios: ["run_time", "latency.reads.service.mean"].map(ratio),
        }
    }
}

/// What a comparison claims about the other side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Called {
    better: bool,
    worse: bool,
    /// The figures that are called better or worse.
    figures: Vec<String>,
}

impl Called {
    /// Takes the figures that fonio calls better or worse: run time, time blocked on storage, and response
    /// times. If one of the recordings is not a valid measurement, fonio claims nothing.
    fn by(comparison: &Comparison) -> Called {
        let mut called = Called::default();
        if !comparison.is_judged() || comparison.sides.iter().any(|side| !side.invalid.is_empty()) {
            return called;
        }
        for row in &comparison.rows {
            let is_lower = match row.changes[0].answer {
                Answer::Lower => true,
                Answer::Higher => false,
                Answer::NoDifference | Answer::Unknown => continue,
            };
            let Some(better) = row.better else { continue };
            let is_better = is_lower == (better == Better::Lower);
            called.better |= is_better;
            called.worse |= !is_better;
            called.figures.push(row.figure.clone());
        }
        called
    }

    fn words(&self) -> &'static str {
        match (self.better, self.worse) {
            (false, false) => "no claim",
            (true, false) => "called better",
            (false, true) => "called worse",
            (true, true) => "called better and worse",
        }
    }
}

/// The counts for one device.
#[derive(Default)]
struct Tally {
    pairs: u32,
    equal_called: u32,
    planted_worse: u32,
    planted_better: u32,
    equal_proved: u32,
    planted_slower: u32,
    /// The ratios of planted pairs: run time, and mean service time of reads.
    ratios: [Vec<Option<f64>>; 2],
}

impl Tally {
    fn count(&mut self, is_planted: bool, Outcome { called, proved, ratios: of_pair, .. }: &Outcome) {
        if !is_planted {
            self.pairs += 1;
            self.equal_called += u32::from(called.better || called.worse);
            self.equal_proved += u32::from(is_claim(*proved));
            return;
        }
        self.planted_slower += u32::from(*proved == Answer::Higher);
        self.planted_worse += u32::from(called.worse && !called.better);
        self.planted_better += u32::from(called.better);
        for (ratios, ratio) in self.ratios.iter_mut().zip(of_pair) {
            ratios.push(*ratio);
        }
    }

    fn add(&mut self, other: Tally) {
        self.pairs += other.pairs;
        self.equal_called += other.equal_called;
        self.planted_worse += other.planted_worse;
        self.planted_better += other.planted_better;
        self.equal_proved += other.equal_proved;
        self.planted_slower += other.planted_slower;
        for (ratios, more) in self.ratios.iter_mut().zip(other.ratios) {
            ratios.extend(more);
        }
    }

    fn cells(&self) -> Vec<Cell> {
        let counts = [
            self.pairs,
            self.equal_called,
            self.planted_worse,
            self.planted_better,
            self.equal_proved,
            self.planted_slower,
        ];
        let mut cells: Vec<Cell> = counts.map(Cell::count).into();
        cells.extend(self.ratios.iter().map(|ratios| Cell::rounds(ratios.iter().copied(), "×", 2)));
        cells
    }
}

/// A running stress-ng. It is stopped when this value is dropped or this process ends.
struct Load(Child);

impl Load {
    fn start() -> Result<Load> {
        let mut command = process::bound_to_this(Path::new("stress-ng"));
        command.args(["--quiet", "--cpu", "0", "--cpu-load", LOAD]);
        let started = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Ok(Load(started.context("cannot start stress-ng")?))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // stress-ng ends its workers if it gets SIGTERM.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use fonio_analysis::{Change, ComparisonRow, Side};

    use super::*;

    fn comparison(answers: &[(&str, Option<Better>, Answer)]) -> Comparison {
        let row = |(figure, better, answer): &(&str, Option<Better>, Answer)| ComparisonRow {
            figure: (*figure).to_owned(),
            unit: fonio_core::Unit::Ns,
            label: (*figure).to_owned(),
            better: *better,
            felt: false,
            values: Vec::new(),
            texts: Vec::new(),
            runs: Vec::new(),
            changes: vec![Change {
                ratio: Some(1.2),
                low: None,
                high: None,
                confidence: None,
                answer: *answer,
                unknown: None,
            }],
        };
        let recordings = vec![String::new(); 5];
        let side = Side { recordings, ..Side::default() };
        Comparison {
            sides: vec![side.clone(), side],
            rows: answers.iter().map(row).collect(),
            ..Comparison::default()
        }
    }

    #[test]
    fn only_figures_with_a_better_direction_are_called_better_or_worse() {
        let found = comparison(&[
            ("run_time", Some(Better::Lower), Answer::Higher),
            ("latency.reads.service.mean", None, Answer::Lower),
            ("latency.reads.response.p50", Some(Better::Lower), Answer::NoDifference),
        ]);
        let called = Called { worse: true, better: false, figures: vec!["run_time".to_owned()] };
        assert_eq!(Called::by(&found), called);
        let mut tally = Tally::default();
        tally.count(false, &Outcome::of(&found));
        tally.count(true, &Outcome::of(&found));
        assert_eq!(
            (tally.pairs, tally.equal_called, tally.planted_worse, tally.planted_better),
            (1, 1, 1, 0)
        );
        assert_eq!(tally.ratios[0], [Some(1.2)]);
    }

    #[test]
    fn fix_prove_judges_run_times_by_rounds() {
        let mut found = comparison(&[("run_time", Some(Better::Lower), Answer::NoDifference)]);
        let rounds = [2.0, 2.1, 2.0, 2.2, 2.1].map(|s| s * 1e9);
        for (factor, expected) in [(1.2, Answer::Higher), (1.0, Answer::NoDifference), (0.8, Answer::Lower)] {
            let side = |factor: f64| rounds.map(|ns| Some(ns * factor)).to_vec();
            found.rows[0].runs = vec![side(1.0), side(factor)];
            assert_eq!(prove(&found), expected, "{factor}");
        }
        found.rows[0].runs[1][2] = None;
        assert_eq!(prove(&found), Answer::Unknown);
    }

    #[test]
    fn nothing_is_claimed_from_invalid_or_single_recordings() {
        let found = comparison(&[("run_time", Some(Better::Lower), Answer::Higher)]);
        let mut invalid = found.clone();
        invalid.sides[1].invalid.push("recording".to_owned());
        let mut single = found;
        single.sides[0].recordings.truncate(1);
        assert_eq!(Called::by(&invalid), Called::default());
        assert_eq!(Called::by(&single), Called::default());
    }
}
