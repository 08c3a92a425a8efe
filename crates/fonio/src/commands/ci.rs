//! Implements `fonio ci`: counts the calls of a command, and compares them with a baseline.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use fonio_analysis::counts::Counts;
use fonio_analysis::counts::baseline::{Baseline, Judgement, Measured, Work};
use fonio_analysis::counts::names::{Places, TEMPORARY};
use fonio_core::meta::{LOST_CALLS, MAPPED_WRITES, SHOWS_STATEMENTS, UNSEEN_RINGS};
use fonio_core::{CollectedRows, Diagnostic};
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

/// What `fonio ci` cannot count, in any run.
const NEEDS_BPF: &str = "requests and flushes of the device (they need root and BPF: `fonio record --calls`)";
/// What cannot be counted on processors on which the tracer sees no statements.
const NO_STATEMENTS: &str = "SQL statements (they need an x86-64 processor, or root and BPF)";

/// Runs the command, compares its counts with the baseline, and prints the result.
pub fn run(arguments: &Ci, colour: Colour) -> Result<Exit> {
    let budgets: Vec<Budget> =
        arguments.budget.iter().map(|text| Ok(Budget::parse(text)?)).collect::<Result<_>>()?;
    let baseline = if arguments.update { None } else { read_baseline(&arguments.baseline)? };
    let runs = arguments.runs.unwrap_or(if arguments.update { 2 } else { 1 });
    let mut measured = Vec::new();
    let mut limits = Vec::new();
    for run in 1..=runs {
        match one_run(arguments, run == runs)? {
            Ok(counted) => {
                limits = counted.limits;
                measured.push((counted.counts, counted.work));
            }
            Err(failed) => return Ok(failed),
        }
    }
    let measured = Measured::of(measured)?;
    let judgement = match &baseline {
        Some(baseline) => Some(
            measured
                .against(baseline)
                .with_context(|| format!("{} does not fit this run", arguments.baseline.display()))?,
        ),
        None => None,
    };
    let budgets = check(&budgets, &measured)?;
    let title = arguments.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let costs = Costs {
        title: format!("Storage cost of `{}`", fonio_core::shortened(&title, TITLE_MAX)),
        measured: &measured,
        compared: baseline.as_ref().zip(judgement.as_ref()),
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
    limits: Vec<String>,
}

/// Runs the command once. Returns an exit code if the command failed or was interrupted.
fn one_run(arguments: &Ci, is_last: bool) -> Result<Result<Counted, Exit>> {
    let temporary = tempfile::tempdir().context("cannot create a temporary directory for the recording")?;
    let kept = arguments.out.as_ref().filter(|_| is_last);
    let mut options = RecordOptions::new(kept.cloned().unwrap_or_else(|| temporary.path().join("recording")));
    options.overwrite = arguments.overwrite;
    options.command = Some(arguments.command.clone());
    if arguments.json {
        options.setting.output = CommandOutput::ToError;
    }
    let (summary, lines) = match &arguments.per {
        Some(Per { count: PerCount::Lines(text), .. }) => recorded_with_lines(options, text, arguments.json)?,
        _ => (recorded(&options)?, 0),
    };
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
    let mut limits = vec![NEEDS_BPF.to_owned()];
    if !recording.meta().source.shows.iter().any(|shown| shown == SHOWS_STATEMENTS) {
        limits.push(NO_STATEMENTS.to_owned());
    }
    let is_limit = |found: &&Diagnostic| LIMITS.contains(&found.code.as_str());
    limits.extend(diagnostics.iter().filter(is_limit).map(|found| found.message.clone()));
    let work = arguments
        .per
        .as_ref()
        .map(|per| Work { name: per.name.clone(), count: work::units(per, &counts).unwrap_or(lines) });
    Ok(Ok(Counted { counts, work, limits }))
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

/// Checks budgets. Returns for each whether it is kept, and a sentence.
fn check(budgets: &[Budget], measured: &Measured) -> Result<Vec<(bool, String)>> {
    let figures = costs::figures(measured);
    let check = |budget: &Budget| match budget.evaluate(&figures) {
        Ok(outcome) => Ok((outcome.passed, outcome.sentence)),
        // A cost that did not occur has no count.
        Err(BudgetError::UnknownPath { .. }) if costs::is_count(&budget.path) => {
            let zero = [costs::zero(&budget.path)];
            let outcome = budget.evaluate(&zero)?;
            Ok((outcome.passed, outcome.sentence))
        }
        Err(error) => Err(error.into()),
    };
    budgets.iter().map(check).collect()
}

/// The result as JSON.
#[derive(Serialize)]
struct CiResult<'a> {
    verdict: String,
    work: Option<&'a Work>,
    counts: &'a std::collections::BTreeMap<String, u64>,
    varying: &'a std::collections::BTreeSet<String>,
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
    CiResult {
        verdict: Document::from_costs(costs).verdict.sentence,
        work: costs.measured.work.as_ref(),
        counts: &costs.measured.counts.values,
        varying: &costs.measured.varying,
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
