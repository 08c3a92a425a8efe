//! Implements `fonio ci`: counts the calls of a command, and compares them with a baseline.

mod block;

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use fonio_analysis::counts::Counts;
use fonio_analysis::counts::approximate::{Approximate, ApproximatelyCompared, CountRange, Difference};
use fonio_analysis::counts::baseline::{Baseline, Judgement, Measured, Work};
use fonio_analysis::counts::names::{Places, TEMPORARY};
use fonio_core::meta::{LOST_CALLS, MAPPED_WRITES, SHOWS_STATEMENTS, UNSEEN_RINGS};
use fonio_core::{CollectedRows, Diagnostic, Unit};
use fonio_record::{CommandOutput, Progress, RecordOptions, RecordSummary, StopReason, record_by_ptrace};
use fonio_recording::{Recording, Tables};
use fonio_report::budget::{Budget, BudgetError};
use fonio_report::costs::{self, Costs};
use fonio_report::{Document, render_markdown};
use fonio_system::command::Failure;
use fonio_system::say;
use serde::Serialize;

use crate::cli::Colour;
use crate::cli::ci::Ci;
use crate::cli::per::{Per, PerCount};
use crate::exit::{Exit, NotShown};
use crate::{output, work};
use block::Recorder;

/// The default tolerance for block writes and flushes, as a share. In 12 to 20 equal runs each of five suites on ext4, on a
/// busy machine, the counts differed by at most 13 %, apart from the few requests that no comparison counts.
const TOLERANCE: f64 = 0.2;
/// What cannot be counted on processors on which the tracer sees no statements.
const NO_STATEMENTS: &str = "SQL statements (they need an x86-64 processor, or root and BPF)";

/// Runs the command, compares its counts with the baseline, and prints the result.
pub fn run(arguments: &Ci, colour: Colour) -> Result<Exit> {
    let budgets: Vec<Budget> =
        arguments.budget.iter().map(|text| Ok(Budget::parse(text)?)).collect::<Result<_>>()?;
    let baseline = if arguments.update { None } else { read_baseline(&arguments.baseline)? };
    let runs = arguments.runs.unwrap_or(if arguments.update { 2 } else { 1 });
    let recorder = Recorder::new();
    let (mut measured, mut on_disk, mut limits) = (Vec::new(), Vec::new(), Vec::new());
    for run in 1..=runs {
        match one_run(arguments, recorder.as_ref(), run == runs)? {
            Ok(counted) => {
                limits = counted.limits;
                measured.push((counted.counts, counted.work));
                on_disk.push(counted.on_disk);
            }
            Err(failed) => return Ok(failed),
        }
    }
    let mut measured = Measured::of(measured)?;
    let in_baseline = baseline.as_ref().and_then(|baseline| baseline.approximate.as_ref());
    let tolerance = arguments.tolerance.or(in_baseline.map(|found| found.tolerance)).unwrap_or(TOLERANCE);
    let uncounted = match on_disk.into_iter().collect::<Result<Vec<_>, String>>() {
        Ok(on_disk) => {
            limits.extend(on_disk.last().and_then(|run| run.note.clone()));
            let counts: Vec<_> = on_disk.iter().map(|run| run.counts).collect();
            measured.approximate = Approximate::of(&counts, tolerance);
            None
        }
        Err(why) => Some(why),
    };
    limits.extend(uncounted.as_ref().map(|why| format!("block writes and flushes: {why}")));
    let judgement = match &baseline {
        Some(baseline) => Some(
            measured
                .against(baseline)
                .with_context(|| format!("{} does not fit this run", arguments.baseline.display()))?,
        ),
        None => None,
    };
    let approximate = baseline.as_ref().map(|baseline| measured.approximately_against(baseline));
    let approximate = approximate.unwrap_or_default();
    let budgets: Vec<(bool, String)> = budgets
        .iter()
        .map(|budget| match costs::block_count(&budget.path, &measured) {
            Some(count) => check_block(budget, count, &measured, &approximate, uncounted.as_deref()),
            None => check(budget, &measured),
        })
        .collect::<Result<_>>()?;
    let title = arguments.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let costs = Costs {
        title: format!("Storage cost of `{}`", fonio_core::shortened(&title, TITLE_MAX)),
        measured: &measured,
        compared: baseline.as_ref().zip(judgement.as_ref()),
        approximate: &approximate,
        budgets: &budgets,
        limits: &limits,
    };
    let document = Document::from_costs(&costs);
    if arguments.json {
        output::json(&result(&costs))?;
    } else {
        output::show_on_terminal(&document, colour)?;
    }
    if let Some(path) = &arguments.comment {
        let mut text = Vec::new();
        render_markdown(&document, &mut text)?;
        fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    if arguments.update {
        write_baseline(&arguments.baseline, &measured.baseline())?;
    } else if baseline.is_none() {
        say!(
            "There is no baseline {}: write it with `fonio ci --update -- …`, and add it to the repository",
            arguments.baseline.display()
        );
    }
    let is_grown = judgement.is_some_and(|judgement| !judgement.grown.is_empty());
    let is_broken = budgets.iter().any(|(is_kept, _)| !is_kept);
    Ok(if is_grown || is_broken {
        Exit::LimitBroken
    } else if baseline.is_none() && !arguments.update && budgets.is_empty() {
        Exit::NotValid
    } else {
        Exit::Fine
    })
}

/// The codes of diagnostics that name calls or statements which were not counted in this run.
const LIMITS: [&str; 3] = [UNSEEN_RINGS, MAPPED_WRITES, "no-statements"];

/// Maximum length of the command in the title.
const TITLE_MAX: usize = 60;

/// The counts of one run.
struct Counted {
    counts: Counts,
    work: Option<Work>,
    /// Block writes and flushes, or why they were not counted.
    on_disk: block::Counted,
    limits: Vec<String>,
}

/// Runs the command once. Returns an exit code if the command failed or was interrupted.
fn one_run(
    arguments: &Ci,
    recorder: Result<&Recorder, &String>,
    is_last: bool,
) -> Result<Result<Counted, Exit>> {
    let temporary = tempfile::tempdir().context("cannot create a temporary directory for the recording")?;
    let kept = arguments.out.as_ref().filter(|_| is_last);
    let mut options = RecordOptions::new(kept.cloned().unwrap_or_else(|| temporary.path().join("recording")));
    options.overwrite = arguments.overwrite;
    options.command = Some(arguments.command.clone());
    options.sync_changed = recorder.is_ok();
    if arguments.json {
        options.setting.output = CommandOutput::ToError;
    }
    let run = || match &arguments.per {
        Some(Per { count: PerCount::Lines(text), .. }) => recorded_with_lines(options, text, arguments.json),
        _ => Ok((recorded(&options)?, 0)),
    };
    let (outcome, requests) = match recorder {
        Ok(recorder) => recorder.during(&temporary.path().join("requests"), run),
        Err(why) => (run(), Err(why.clone())),
    };
    let (summary, lines) = outcome?;
    if summary.stopped_by != StopReason::CommandEnded {
        say!("The command was interrupted, so its counts are not complete.");
        return Ok(Err(Exit::NotValid));
    }
    if let Some(failure) = Failure::of(summary.command_exit, summary.command_signal) {
        say!("The command failed ({failure}), so its counts are not compared.");
        return Ok(Err(Exit::of_command(Some(failure))));
    }
    let recording = Recording::open(&summary.out)?;
    let counts = work::counts(&recording, places(&arguments.ignore))?;
    let mut rows = CollectedRows::default();
    recording.replay(&mut rows, Tables::DIAGNOSTICS)?;
    let diagnostics = rows.diagnostics;
    if let Some(lost) = diagnostics.iter().find(|found| found.code == LOST_CALLS) {
        return Err(NotShown(format!("the counts are not complete: {}", lost.message)).into());
    }
    let on_disk = match (recorder, requests) {
        (Ok(recorder), Ok(requests)) => recorder.count(&recording, summary.ended, &requests)?,
        (Err(why), _) => Err(why.clone()),
        (_, Err(why)) => Err(why),
    };
    let mut limits = Vec::new();
    if !recording.meta().source.shows.iter().any(|shown| shown == SHOWS_STATEMENTS) {
        limits.push(NO_STATEMENTS.to_owned());
    }
    let is_limit = |found: &&Diagnostic| LIMITS.contains(&found.code.as_str());
    limits.extend(diagnostics.iter().filter(is_limit).map(|found| found.message.clone()));
    let work = arguments
        .per
        .as_ref()
        .map(|per| Work { name: per.name.clone(), count: work::units(per, &counts).unwrap_or(lines) });
    Ok(Ok(Counted { counts, work, on_disk, limits }))
}

fn recorded(options: &RecordOptions) -> Result<RecordSummary> {
    Ok(record_by_ptrace(options, &mut |progress| {
        if let Progress::Note(note) = progress {
            say!("note: {note}");
        }
    })?)
}

/// Records the command, passes its standard output on, and counts the lines with this text.
fn recorded_with_lines(
    mut options: RecordOptions,
    text: &str,
    to_error: bool,
) -> Result<(RecordSummary, u64)> {
    let (reader, writer) = io::pipe().context("cannot create a pipe for the command's output")?;
    options.setting.stdout = Some(Arc::new(writer.into()));
    std::thread::scope(|scope| {
        let lines = scope.spawn(move || {
            if to_error { pass_on(reader, io::stderr(), text) } else { pass_on(reader, io::stdout(), text) }
        });
        let summary = recorded(&options);
        // The reader ends when no process has the other end.
        drop(options);
        let lines = lines.join().map_err(|_| anyhow::anyhow!("the command's output could not be read"))?;
        Ok((summary?, lines?))
    })
}

fn pass_on(from: io::PipeReader, mut to: impl Write, text: &str) -> io::Result<u64> {
    let (mut from, mut line, mut lines) = (BufReader::new(from), Vec::new(), 0);
    while from.read_until(b'\n', &mut line)? > 0 {
        lines += u64::from(line.windows(text.len()).any(|part| part == text.as_bytes()));
        // The command continues even if nobody reads its output.
        let _ = to.write_all(&line).and_then(|()| to.flush());
        line.clear();
    }
    Ok(lines)
}

/// The names of files in a baseline, which are the same in each clone of the repository.
fn places(ignored: &[String]) -> Places {
    let folder = |path: Option<std::path::PathBuf>, name| {
        let path = path.and_then(|path| path.canonicalize().ok())?;
        Some((path.to_str()?.to_owned(), name))
    };
    let folders = [
        folder(std::env::current_dir().ok(), "."),
        folder(Some(std::env::temp_dir()), TEMPORARY),
        folder(std::env::var_os("HOME").map(Into::into).filter(|home| *home != Path::new("/")), "~"),
    ];
    Places::new(folders.into_iter().flatten(), ignored.iter().map(String::as_str))
}

fn read_baseline(path: &Path) -> Result<Option<Baseline>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("{} cannot be read", path.display()))?,
    };
    let baseline = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a baseline of `fonio ci`", path.display()))?;
    Ok(Some(baseline))
}

fn write_baseline(path: &Path, baseline: &Baseline) -> Result<()> {
    let text = serde_json::to_string_pretty(baseline)? + "\n";
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    say!("Wrote {} counts to {}.", baseline.counts.len(), path.display());
    Ok(())
}

/// Checks a budget for counts that repeat exactly. Returns whether it is kept, and a sentence.
fn check(budget: &Budget, measured: &Measured) -> Result<(bool, String)> {
    match budget.evaluate(&costs::figures(measured)) {
        Ok(outcome) => Ok((outcome.passed, outcome.sentence)),
        // A cost that did not occur has no count.
        Err(BudgetError::UnknownPath { .. }) if costs::is_count(&budget.path) => {
            let zero = [costs::zero(&budget.path)];
            let outcome = budget.evaluate(&zero)?;
            Ok((outcome.passed, outcome.sentence))
        }
        Err(error) => Err(error.into()),
    }
}

/// Checks a budget for block writes or flushes. A limit with a share is relative to the baseline; a difference within the
/// tolerance keeps it.
fn check_block(
    budget: &Budget,
    count: &str,
    measured: &Measured,
    compared: &[ApproximatelyCompared],
    uncounted: Option<&str>,
) -> Result<(bool, String)> {
    let unknown = |why: &str| NotShown(format!("the budget for {} cannot be checked: {why}", budget.path));
    if let Some(why) = uncounted {
        return Err(unknown(&format!("block writes and flushes are not counted: {why}")).into());
    }
    if budget.limit.in_unit(Unit::Share).is_none() {
        let outcome = budget.evaluate(&costs::block_figures(measured, None))?;
        return Ok((outcome.passed, outcome.sentence));
    }
    let Some(found) = compared.iter().find(|compared| compared.name == count) else {
        let why = "the baseline has no block writes and flushes; write it with `fonio ci --update` where they are counted";
        return Err(unknown(why).into());
    };
    let outcome = budget.evaluate(&costs::block_figures(measured, Some(compared)))?;
    let is_within = found.difference == Difference::Within;
    let but = if is_within && !outcome.passed { ", but within the tolerance" } else { "" };
    Ok((outcome.passed || is_within, format!("{} of the baseline{but}", outcome.sentence)))
}

/// The result as JSON.
#[derive(Serialize)]
struct CiResult<'a> {
    verdict: String,
    work: Option<&'a Work>,
    counts: &'a std::collections::BTreeMap<String, u64>,
    varying: &'a std::collections::BTreeSet<String>,
    approximate: Option<JsonApproximate<'a>>,
    grown: Vec<JsonChange<'a>>,
    shrunk: Vec<JsonChange<'a>>,
    new: Vec<JsonChange<'a>>,
    budgets: Vec<JsonBudget<'a>>,
    not_counted: &'a [String],
}

#[derive(Serialize)]
struct JsonChange<'a> {
    name: &'a str,
    was: Option<u64>,
    is: u64,
}

/// Block writes and flushes, with the tolerance of their comparison as a share.
#[derive(Serialize)]
struct JsonApproximate<'a> {
    tolerance: f64,
    counts: Vec<JsonRange<'a>>,
}

#[derive(Serialize)]
struct JsonRange<'a> {
    name: &'a str,
    was: Option<CountRange>,
    is: CountRange,
    difference: Option<Difference>,
}

#[derive(Serialize)]
struct JsonBudget<'a> {
    is_kept: bool,
    sentence: &'a str,
}

fn result<'a>(costs: &Costs<'a>) -> CiResult<'a> {
    let changes = |list: fn(&Judgement) -> &Vec<fonio_analysis::counts::baseline::Compared>| {
        let rows = costs.compared.map(|(_, judgement)| list(judgement).as_slice()).unwrap_or_default();
        rows.iter().map(|row| JsonChange { name: &row.name, was: row.was, is: row.is }).collect()
    };
    let range = |(name, is): (&'a String, &CountRange)| {
        let compared = costs.approximate.iter().find(|compared| compared.name == *name);
        let (was, difference) = (compared.map(|one| one.was), compared.map(|one| one.difference));
        JsonRange { name, was, is: *is, difference }
    };
    CiResult {
        verdict: Document::from_costs(costs).verdict.sentence,
        work: costs.measured.work.as_ref(),
        counts: &costs.measured.counts.values,
        varying: &costs.measured.varying,
        approximate: costs.measured.approximate.as_ref().map(|found| JsonApproximate {
            tolerance: found.tolerance,
            counts: found.counts.iter().map(range).collect(),
        }),
        grown: changes(|judgement| &judgement.grown),
        shrunk: changes(|judgement| &judgement.shrunk),
        new: changes(|judgement| &judgement.new),
        budgets: costs
            .budgets
            .iter()
            .map(|(is_kept, sentence)| JsonBudget { is_kept: *is_kept, sentence })
            .collect(),
        not_counted: costs.limits,
    }
}
