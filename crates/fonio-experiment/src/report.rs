//! Turns a series of runs into a report: a sentence on the result, the run times with intervals, and the
//! report on the first setup's first run.

use fonio_analysis::Answer;
use fonio_analysis::compare::interval::{RUNS_MIN, Side, rounds_needed};
use fonio_core::Unit;
use fonio_core::statistics::sample::mean;
use fonio_report::Document;
use fonio_report::document::{
    Axis, Cell, Chart, Column, Fact, Plot, Role, Section, Series as Curve, Table, Tone, Verdict,
};

use crate::background::{BackgroundFigures, OwnFigures};
use crate::held::Held;
use crate::matrix::SEPARATOR;
use crate::proof::transactions::Joinable;
use crate::rounds::{KNOWN_WITHIN, ROUNDS_MAX, RunTimes, Timed};
use crate::series::{ResponseFigures, RunFigures, Series, VariationResult};
use crate::thread_times;

/// Returns the report on `series`. `explained` is the report on the recording of the first run. The sections
/// of `explained` come after the sections on the series.
pub fn document(series: &Series, explained: Option<Document>) -> Document {
    let name = series.variations.first().map_or("", |first| first.name.as_str());
    let mut verdict = verdict(series);
    let mut explained = explained.unwrap_or_default();
    if !explained.verdict.sentence.is_empty() {
        if let Some(run) = series.variations.first().and_then(|variation| variation.runs.first()) {
            explained.facts.iter_mut().for_each(|fact| tell_length(fact, run.wall_s));
        }
        verdict.reasons.push(format!("Recorded on {name}: {}", explained.verdict.sentence));
        verdict.reasons.extend(explained.verdict.reasons);
    }
    Document {
        title: format!("{} on {name}", series.workload),
        subtitle: amount(series),
        verdict,
        facts: explained.facts,
        opening: vec![section(series)],
        findings: explained.findings,
        sections: explained.sections,
        terms: explained.terms,
        provenance: [
            vec![Fact::new("Seed", Cell::count(series.seed, Unit::Number))],
            packages(series).into_iter().collect(),
            explained.provenance,
        ]
        .concat(),
        next: Vec::new(),
    }
}

/// Returns the packages of an app, with the versions that ran.
fn packages(series: &Series) -> Option<Fact> {
    (!series.packages.is_empty()).then(|| Fact::new("Packages", Cell::Name(series.packages.join(", "))))
}

/// A recording of a run is as long as the run if the two differ by at most this factor.
const AS_LONG: f64 = 1.05;

/// Replaces the length of a recording by that of the first run. The recording begins before the work and ends after
/// it; if it is much longer, the fact has both lengths.
fn tell_length(fact: &mut Fact, run_s: f64) {
    let Cell::Number(recorded_s, Unit::S) = fact.value else { return };
    if fact.label != "Recorded" {
        return;
    }
    if recorded_s <= run_s * AS_LONG {
        *fact =
            Fact::new("First run", Cell::Number(run_s, Unit::S)).note("the figures below are of this run");
    } else {
        let took = Unit::S.format(run_s);
        fact.note = format!("the first run, which took {took}, and the time around it");
    }
}

/// Returns the share of the workload's full amount that each run executed, and the number of runs.
fn amount(series: &Series) -> String {
    let runs = series.variations.iter().map(|variation| variation.runs.len()).max().unwrap_or(0);
    let repeated = if runs == 1 { "run once".to_owned() } else { format!("run {runs} times each") };
    let amount = if series.scale == 1.0 {
        repeated
    } else {
        format!("{} of the full amount of work, {repeated}", Unit::Share.format(series.scale))
    };
    let mut runs = series.variations.iter().flat_map(|variation| &variation.runs);
    let background =
        runs.find_map(|run| Some(format!(", with {} in the background", run.background.as_ref()?.workload)));
    let held = series.variations.iter().flat_map(|variation| &variation.runs).filter_map(|run| run.processor);
    format!(
        "{amount}{}{}{}",
        background.unwrap_or_default(),
        series.conditions.told(),
        Held::told(held).unwrap_or_default()
    )
}

fn verdict(series: &Series) -> Verdict {
    let (tone, sentence) = shown(series);
    let invalid = series.variations.iter().filter(|variation| variation.runs.iter().any(|run| !run.valid));
    let reasons = invalid
        .map(|variation| {
            format!("A measurement of {} is not valid. Do not draw conclusions from it.", variation.name)
        })
        // Leave out a sentence that is already part of the first sentence.
        .chain(on_each_place(series).into_iter().filter(|told| !sentence.contains(told)))
        .chain(in_background(series))
        .chain((tone == Tone::Plain).then(|| more_rounds(series)).flatten())
        .chain(series.notes.iter().cloned())
        .collect();
    Verdict { tone, sentence, reasons }
}

/// Returns a sentence on the rounds that are needed to know every gain, if more than the measured ones are
/// needed. `None` also if there are too few rounds for an estimate.
fn more_rounds(series: &Series) -> Option<String> {
    let base = |variation: &VariationResult| {
        let name = variation.compared_with.as_deref()?;
        series.variations.iter().find(|base| base.name == name)
    };
    let times = |variation: &VariationResult| variation.runs.iter().map(Timed::wall_s).collect::<Vec<f64>>();
    let together = series.variations.iter().filter(|variation| variation.compared_with.is_some()).count();
    let needed = series.variations.iter().filter_map(|variation| {
        rounds_needed(&times(base(variation)?), &times(variation), KNOWN_WITHIN, together, ROUNDS_MAX)
    });
    let needed = needed.max()?;
    let measured = series.variations.iter().map(|variation| variation.runs.len()).max()?;
    let round_s: f64 = series.variations.iter().map(|variation| variation.times.wall_s).sum();
    (needed > measured).then(|| {
        format!(
            "The run times vary: about {needed} rounds are needed to know each gain to within 25 % (--runs {needed}, at \
             least {}).",
            Unit::S.format((needed as f64 * round_s).ceil())
        )
    })
}

fn shown(series: &Series) -> (Tone, String) {
    let Some((first, others)) = series.variations.split_first() else {
        return (Tone::Plain, "Nothing was run.".to_owned());
    };
    let took = format!("{} on {} took {}", series.workload, first.name, Unit::S.format(first.times.wall_s));
    // A gain from faster storage says nothing about file systems, schedulers and fixes.
    let within: Vec<_> = others.iter().filter(|variation| is_within_place(series, variation)).collect();
    let compared = if within.is_empty() { others.iter().collect() } else { within };
    let best = |safe: bool| {
        let possible = compared.iter().copied().filter(|variation| !safe || variation.safe);
        fastest_shown(possible)
    };
    let few = series.variations.iter().any(|variation| variation.runs.len() < RUNS_MIN);
    match (best(true), others.is_empty()) {
        (_, true) => (Tone::Plain, format!("{took}.")),
        _ if few => (
            Tone::Plain,
            format!("{took}; to show a difference, run each setup three times or more (--runs auto)."),
        ),
        (Some(variation), _) => (Tone::Notice, format!("{took}; {}.", faster_than_base(series, variation))),
        (None, _) if best(false).is_some() => (
            Tone::Notice,
            format!("{took}; the only fixes shown to be faster can lose or corrupt data at a power cut."),
        ),
        _ if others.iter().all(|variation| variation.power_cut.is_none()) => {
            let sides = with_sides(series, compared.iter().copied());
            (Tone::Plain, format!("{took}; no other setup was shown to be at least 5 % faster{sides}."))
        }
        _ => {
            let sides = with_sides(series, compared.iter().copied());
            (Tone::Plain, format!("{took}; no tested fix was shown to be at least 5 % faster{sides}."))
        }
    }
}

/// Returns a sentence for each storage that has several setups; empty if fewer than two storages have several
/// setups.
fn on_each_place(series: &Series) -> Vec<String> {
    let mut bases: Vec<&VariationResult> = Vec::new();
    for variation in &series.variations {
        if bases.iter().all(|base| base.place != variation.place) {
            bases.push(variation);
        }
    }
    let is_compared = |variation: &VariationResult| is_within_place(series, variation);
    if bases.len() < 2 || !series.variations.iter().any(is_compared) {
        return Vec::new();
    }
    let on_place = |base: &&VariationResult| {
        let there = series.variations.iter().filter(|variation| variation.place == base.place);
        match fastest_shown(there.filter(|variation| variation.safe && is_compared(variation))) {
            Some(variation) => format!("{}.", faster_than_base(series, variation)),
            None => format!("On {}, no setup was shown to be faster than {}.", base.place, base.name),
        }
    };
    bases.iter().map(on_place).collect()
}

fn is_within_place(series: &Series, variation: &VariationResult) -> bool {
    let base = series.variations.iter().find(|base| variation.compared_with.as_ref() == Some(&base.name));
    base.is_some_and(|base| base.place == variation.place)
}

fn fastest_shown<'a>(setups: impl Iterator<Item = &'a VariationResult>) -> Option<&'a VariationResult> {
    setups
        .filter(|variation| answer(variation) == Answer::Lower)
        .max_by(|a, b| a.times.speedup.unwrap_or(0.0).total_cmp(&b.times.speedup.unwrap_or(0.0)))
}

/// Returns a clause on the gain of a setup over the setup with which it is compared.
fn faster_than_base(series: &Series, variation: &VariationResult) -> String {
    format!(
        "{} is {} times as fast as {} ({})",
        label(series, &variation.name),
        gain(variation),
        label(series, variation.compared_with.as_deref().unwrap_or_default()),
        Unit::S.format(variation.times.wall_s)
    )
}

fn answer(variation: &VariationResult) -> Answer {
    variation.times.change.as_ref().map_or(Answer::Unknown, |change| change.answer)
}

/// Returns the direction of a difference that was shown, but may be smaller than 5 %.
fn side(variation: &VariationResult) -> Option<Side> {
    variation.times.change.as_ref()?.side()
}

/// Returns a clause that names the setups whose difference was shown, but may be smaller than 5 %.
fn with_sides<'a>(series: &Series, setups: impl Iterator<Item = &'a VariationResult>) -> String {
    let clause = |variation: &VariationResult| {
        let base = label(series, variation.compared_with.as_deref()?);
        let words = match side(variation)? {
            Side { is_little: true, is_higher: false } => "a little faster than",
            Side { is_little: true, is_higher: true } => "a little slower than",
            Side { is_little: false, is_higher: false } => "faster by an unclear amount than",
            Side { is_little: false, is_higher: true } => "slower by an unclear amount than",
        };
        let name = label(series, &variation.name);
        Some(format!("; {name} is {words} {base} ({} times as fast)", gain(variation)))
    };
    setups.filter_map(clause).collect()
}

fn gain(variation: &VariationResult) -> String {
    match faster(variation) {
        Some((low, point, high)) => format!("{point:.2} ({low:.2} to {high:.2})"),
        None => "unknown".to_owned(),
    }
}

/// Returns the lower end of the speedup's confidence interval, the speedup, and the upper end.
fn faster(variation: &VariationResult) -> Option<(f64, f64, f64)> {
    let change = variation.times.change.as_ref()?;
    Some((1.0 / change.high?, 1.0 / change.ratio?, 1.0 / change.low?))
}

/// The short name of the setup without a fix, if all others are this setup with a fix.
const WITHOUT: &str = "without a fix";

/// Returns short names of all setups, for sentences and tables. What all setups have in common is left out,
/// because the title names it: the storage, or the complete setup to which the others add a fix.
fn labels(series: &Series) -> Vec<&str> {
    let names: Vec<&str> = series.variations.iter().map(|variation| variation.name.as_str()).collect();
    let [first, others @ ..] = names.as_slice() else { return names };
    let first: &str = first;
    let fixes: Option<Vec<&str>> =
        others.iter().map(|name| name.strip_prefix(first)?.strip_prefix(", ")).collect();
    if let Some(fixes) = fixes.filter(|fixes| !fixes.is_empty()) {
        return [vec![WITHOUT], fixes].concat();
    }
    if let Some((common, _)) = first.rsplit_once(" (")
        && let Some(changed) = names
            .iter()
            .map(|name| name.strip_prefix(common)?.strip_prefix(" (")?.strip_suffix(')'))
            .collect::<Option<Vec<&str>>>()
    {
        return changed;
    }
    let place = first.split_once(SEPARATOR).map_or("", |(place, _)| place);
    let without_place: Option<Vec<&str>> =
        names.iter().map(|name| name.strip_prefix(place)?.strip_prefix(SEPARATOR)).collect();
    without_place.unwrap_or(names)
}

/// Returns the short name of a setup.
fn label<'a>(series: &'a Series, name: &'a str) -> &'a str {
    let at = series.variations.iter().position(|variation| variation.name == name);
    at.map_or(name, |at| labels(series)[at])
}

fn section(series: &Series) -> Section {
    let tried = series.variations.len() - usize::from(!series.variations.is_empty());
    let faster = series.variations.iter().filter(|variation| answer(variation) == Answer::Lower).count();
    let (question, said) = match tried {
        0 => (
            "How long did it take?",
            "Only one setup was run; to compare, add --fix or another --on, --fs or --scheduler.".to_owned(),
        ),
        _ => (
            "What would make it faster?",
            format!("{faster} of {tried} {} shown to be faster.", if faster == 1 { "was" } else { "were" }),
        ),
    };
    let mut notes: Vec<String> = series
        .variations
        .iter()
        .zip(labels(series))
        .filter_map(|(variation, label)| Some(format!("{label}: {}", variation.power_cut.as_ref()?)))
        .collect();
    let keeps = |(variation, label): (&VariationResult, &str)| {
        Some(format!("{label}, to keep it: {}", variation.keep.as_ref()?))
    };
    notes.extend(series.variations.iter().zip(labels(series)).filter_map(keeps));
    notes.extend(of_databases(series));
    notes.extend(series.joinable.as_ref().map(Joinable::sentence));
    notes.extend(ended_early(series));
    if !on_each_place(series).is_empty() {
        notes.push(
            "Setups on the same storage are compared with the first setup there. The first setup on any other \
             storage is compared with the very first setup."
                .into(),
        );
    }
    if tried > 0 {
        notes.push(
            "Each round runs every setup once, with the same seed. Speeds are compared within rounds. All intervals \
             together hold with 95 % confidence (Student's t on logarithms, Holm)."
                .into(),
        );
    }
    Section {
        id: "fixes".into(),
        question: question.into(),
        answer: said,
        figures: figure(series).into_iter().collect(),
        tables: std::iter::once(table(series))
            .chain(steps(series))
            .chain(responses(series))
            .chain(thread_times::table(series, &labels(series)))
            .chain(background(series))
            .collect(),
        notes,
        hints: Vec::new(),
    }
}

/// Returns a sentence on the databases that each run got as fresh copies.
fn of_databases(series: &Series) -> Option<String> {
    let shown: Vec<String> = series.databases.iter().map(|path| path.display().to_string()).collect();
    (!shown.is_empty()).then(|| {
        format!(
            "Each run began with a fresh copy of {} on the same file system. The originals were not changed.",
            shown.join(", ")
        )
    })
}

fn usable(variation: &VariationResult) -> Option<u64> {
    variation.runs.first()?.usable_bytes
}

fn table(series: &Series) -> Table {
    // Setups with the same file system have the same usable space.
    let shows_usable = series.variations.windows(2).any(|pair| usable(&pair[0]) != usable(&pair[1]));
    let row = |(variation, label): (&VariationResult, &str)| {
        let mean_of = |value: fn(&RunFigures) -> f64| {
            let values: Vec<f64> = variation.runs.iter().map(value).collect();
            mean(&values).unwrap_or(f64::NAN)
        };
        let judgement = match answer(variation) {
            _ if variation.compared_with.is_none() => Cell::Unknown,
            Answer::Lower => Cell::Judgement(Tone::Good, "faster".into()),
            Answer::Higher => Cell::Judgement(Tone::Bad, "slower".into()),
            Answer::NoDifference | Answer::Unknown => {
                let words = side(variation).map(|side| side.words("faster", "slower"));
                Cell::Judgement(Tone::Plain, words.unwrap_or_else(|| "not shown".to_owned()))
            }
        };
        let gain = match (faster(variation), variation.times.speedup) {
            (Some((low, point, high)), _) => {
                Cell::Range { low, point: Some(point), high, unit: Unit::Ratio, change: false }
            }
            (None, Some(speedup)) => Cell::Number(speedup, Unit::Ratio),
            (None, None) => Cell::Unknown,
        };
        // A mean over only some of the runs would be mistaken for the mean over all runs.
        let busy: Option<Vec<f64>> = variation.runs.iter().map(|run| run.busy_share).collect();
        let mut cells = vec![
            Cell::Name(label.to_owned()),
            times(variation),
            gain,
            judgement,
            Cell::Number(mean_of(|run| run.requests as f64).round(), Unit::Count),
            Cell::Number(mean_of(|run| run.write_bytes as f64), Unit::Bytes),
            Cell::Number(mean_of(|run| run.flushes as f64).round(), Unit::Count),
            Cell::known(busy.and_then(|busy| mean(&busy)), Unit::Share),
        ];
        if shows_usable {
            cells.push(Cell::known(usable(variation).map(|bytes| bytes as f64), Unit::Bytes));
        }
        cells
    };
    let mut columns = vec![
        Column::new("Setup"),
        Column::noted("Run time", "Mean, shortest and longest run."),
        Column::noted(
            "Speed",
            "Run time without the fix over run time with it in the same round: geometric mean and interval.",
        ),
        Column::new("Answer"),
        Column::noted("Requests", "Requests to the devices under test, mean of the runs."),
        Column::new("Written").or_drop(),
        Column::new("Flushes").or_drop(),
        Column::noted("Busy", "Share of the run time with a request in flight.").or_drop(),
    ];
    if shows_usable {
        columns.push(Column::noted("Space", "Bytes for files on the empty file system.").or_drop());
    }
    Table {
        caption: "Run times".into(),
        columns,
        rows: series.variations.iter().zip(labels(series)).map(row).collect(),
        ..Table::default()
    }
}

/// Returns a table with the steps of an app; `None` for a workload.
fn steps(series: &Series) -> Option<Table> {
    let mut rows = Vec::new();
    for (variation, label) in series.variations.iter().zip(labels(series)) {
        for (at, step) in variation.runs.first()?.steps.iter().enumerate() {
            let took: Vec<f64> =
                variation.runs.iter().filter_map(|run| Some(run.steps.get(at)?.took_s)).collect();
            let took_s = mean(&took)?;
            let (shortest, longest) =
                took.iter().fold((took_s, took_s), |(low, high), s| (low.min(*s), high.max(*s)));
            rows.push(vec![
                Cell::Name(label.to_owned()),
                Cell::Name(step.name.clone()),
                spread(took.len(), (shortest, took_s, longest)),
                step.units.map_or(Cell::Unknown, |units| Cell::count(units, Unit::Count)),
                step.unit.as_ref().map_or(Cell::Unknown, |unit| Cell::Name(unit.clone())),
                Cell::known(step.units.map(|units| units as f64 / took_s), Unit::PerS),
            ]);
        }
    }
    (!rows.is_empty()).then(|| Table {
        caption: "Steps".into(),
        columns: vec![
            Column::new("Setup"),
            Column::new("Step"),
            Column::noted("Time", "Mean, shortest and longest run."),
            Column::noted("Units", "Units of work in each run."),
            Column::new("Unit").or_drop(),
            Column::noted("Rate", "Units divided by the mean time."),
        ],
        rows,
        ..Table::default()
    })
}

/// Returns a table of the times of answers that the commands of an app measured; `None` if they measured none.
fn responses(series: &Series) -> Option<Table> {
    let mut rows = Vec::new();
    for (variation, label) in series.variations.iter().zip(labels(series)) {
        for (at, step) in variation.runs.first()?.steps.iter().enumerate() {
            for first in &step.responses {
                let of_runs: Vec<&ResponseFigures> = variation
                    .runs
                    .iter()
                    .filter_map(|run| {
                        run.steps.get(at)?.responses.iter().find(|found| found.kind == first.kind)
                    })
                    .collect();
                let over_runs = |value: fn(&ResponseFigures) -> f64| {
                    let values: Vec<f64> = of_runs.iter().map(|found| value(found)).collect();
                    let (low, high) =
                        values.iter().fold((first_of(&values), first_of(&values)), |(low, high), value| {
                            (low.min(*value), high.max(*value))
                        });
                    spread(values.len(), (low, mean(&values).unwrap_or(f64::NAN), high))
                };
                let longest = of_runs.iter().map(|found| found.longest_s).max_by(f64::total_cmp);
                rows.push(vec![
                    Cell::Name(label.to_owned()),
                    Cell::Name(first.kind.clone()),
                    Cell::count(first.count, Unit::Count),
                    over_runs(|found| found.median_s),
                    over_runs(|found| found.p99_s),
                    Cell::known(longest, Unit::S),
                ]);
            }
        }
    }
    (!rows.is_empty()).then(|| Table {
        caption: "Answers".into(),
        columns: vec![
            Column::new("Setup"),
            Column::new("Answer"),
            Column::noted("Count", "Answers in each run."),
            Column::noted("Median", "Mean, smallest and largest median of the runs."),
            Column::noted(
                "99 %",
                "The time that 99 % of a run's answers do not exceed: mean, smallest and largest.",
            ),
            Column::noted("Longest", "The longest answer of all runs."),
        ],
        rows,
        ..Table::default()
    })
}

fn first_of(values: &[f64]) -> f64 {
    values.first().copied().unwrap_or(f64::NAN)
}

/// A background that ran for less time is not compared with its definition.
const COMPARED_FROM_S: f64 = 60.0;

/// Returns a sentence on what the workload in the background wrote; `None` if the measured one ran alone.
fn in_background(series: &Series) -> Option<String> {
    let runs = || series.variations.iter().flat_map(|variation| &variation.runs);
    let others: Vec<&BackgroundFigures> = runs().filter_map(|run| run.background.as_ref()).collect();
    let first = others.first()?;
    let ran_s: f64 = others.iter().map(|other| other.ran_s).sum();
    let bytes: u64 = others.iter().map(|other| other.own.write_bytes).sum();
    let not_its = format!("Its own waits do not count for the verdict on {}.", series.workload);
    // Some writers write every few minutes: in a shorter time, a rate would depend on chance.
    if ran_s < COMPARED_FROM_S {
        let (name, ran, bytes) = (&first.workload, Unit::S.format(ran_s), Unit::Bytes.format(bytes as f64));
        return Some(format!(
            "{name} ran in the background for {ran}, and caused {bytes} of writes to the device. {not_its}"
        ));
    }
    let per_minute = |sum: u64| (ran_s > 0.0).then(|| sum as f64 / ran_s * 60.0);
    let written = per_minute(bytes)?;
    let transactions = per_minute(others.iter().map(|other| other.transactions).sum())?;
    let files = per_minute(others.iter().map(|other| other.file_bytes).sum())?;
    let of = |rate: f64, defined: Option<f64>, text: &dyn Fn(f64) -> String| {
        let defined = defined.map(|defined| format!(" (defined: {})", text(defined))).unwrap_or_default();
        (rate > 0.0).then(|| format!("{}{defined}", text(rate)))
    };
    let defined = first.defined_per_min;
    let transactions = of(transactions, defined.map(|(rate, _)| rate), &|rate| format!("{rate:.1}"));
    let files = of(files, defined.map(|(_, rate)| rate), &|rate| Unit::Bytes.format(rate));
    let did = [
        transactions.map(|rate| format!("committed {rate} transactions of SQLite")),
        files.map(|rate| format!("wrote {rate} to other files")),
    ];
    let did: Vec<String> = did.into_iter().flatten().collect();
    let did = if did.is_empty() { String::new() } else { format!("; it {}", did.join(" and ")) };
    Some(format!(
        "{} ran in the background. In a minute, it caused {} of writes to the device{did}. {not_its}",
        first.workload,
        Unit::Bytes.format(written),
    ))
}

/// A background does at least this share of its work in a run, or its progress is not shown. Backgrounds that
/// imitate a living system have work for a day.
const DONE_FROM: f64 = 0.01;

/// Returns a table with separate figures for the measured and the concurrent workload; `None` if the measured
/// workload ran alone.
fn background(series: &Series) -> Option<Table> {
    let row = |label: &str, name: &str, done: Option<f64>, (own, lengths_s): (Vec<OwnFigures>, Vec<f64>)| {
        let mean_of = |value: fn(&OwnFigures) -> u64| {
            let values: Vec<f64> = own.iter().map(|own| value(own) as f64).collect();
            mean(&values).unwrap_or(f64::NAN)
        };
        let blocked: Option<Vec<f64>> = own.iter().map(|own| own.blocked_s).collect();
        let longest = own.iter().filter_map(|own| own.longest_wait_s).max_by(f64::total_cmp);
        let length_s: f64 = lengths_s.iter().sum();
        let written: u64 = own.iter().map(|own| own.write_bytes).sum();
        let per_minute = (length_s > 0.0).then(|| written as f64 / length_s * 60.0);
        vec![
            Cell::Name(label.to_owned()),
            Cell::Name(name.to_owned()),
            Cell::known(done, Unit::Share),
            Cell::Number(mean_of(|own| own.requests).round(), Unit::Count),
            Cell::Number(mean_of(|own| own.read_bytes), Unit::Bytes),
            Cell::Number(mean_of(|own| own.write_bytes), Unit::Bytes),
            Cell::known(per_minute, Unit::Bytes),
            Cell::known(blocked.and_then(|blocked| mean(&blocked)), Unit::S),
            Cell::known(longest, Unit::S),
        ]
    };
    let mut rows = Vec::new();
    for (variation, label) in series.variations.iter().zip(labels(series)) {
        let own: Vec<OwnFigures> = variation.runs.iter().filter_map(|run| run.own).collect();
        let others: Vec<&BackgroundFigures> =
            variation.runs.iter().filter_map(|run| run.background.as_ref()).collect();
        let Some(first) = others.first() else { continue };
        let done: Vec<f64> = others.iter().map(|other| other.done_share).collect();
        let lengths_s = variation.runs.iter().map(Timed::wall_s).collect();
        rows.push(row(label, &series.workload, None, (own, lengths_s)));
        let done = mean(&done).filter(|done| *done >= DONE_FROM);
        let of_others = others.iter().map(|other| (other.own, other.ran_s)).unzip();
        rows.push(row(label, &format!("{} (background)", first.workload), done, of_others));
    }
    (!rows.is_empty()).then(|| Table {
        caption: "The measured workload, and the one in the background".into(),
        columns: vec![
            Column::new("Setup"),
            Column::new("Workload"),
            Column::noted("Done", "Share completed by the workload in the background, mean of the runs.")
                .or_drop(),
            Column::noted("Requests", "Requests that the workload caused, mean of the runs."),
            Column::new("Read").or_drop(),
            Column::new("Written"),
            Column::noted("A minute", "Bytes written, divided by the time that the workload ran."),
            Column::noted("Blocked", "Time blocked on storage, summed over all threads, mean of the runs."),
            Column::noted("Longest", "The longest wait of all runs."),
        ],
        rows,
        ..Table::default()
    })
}

/// Returns a note if the concurrent workload ended before the measured workload.
fn ended_early(series: &Series) -> Option<String> {
    let runs = || series.variations.iter().flat_map(|variation| &variation.runs);
    let early = runs().filter_map(|run| run.background.as_ref()).filter(|background| background.ended_early);
    let first = early.clone().next()?;
    Some(format!(
        "{} ended before {} in {} of {} runs, so the rest of these runs had no concurrent workload. Lengthen the workload with --background-scale.",
        first.workload,
        series.workload,
        early.count(),
        runs().count()
    ))
}

fn times(variation: &VariationResult) -> Cell {
    let RunTimes { wall_s, wall_s_min, wall_s_max, .. } = variation.times;
    spread(variation.runs.len(), (wall_s_min, wall_s, wall_s_max))
}

/// Returns a cell with the shortest, the mean and the longest time in seconds.
fn spread(runs: usize, (low, mean, high): (f64, f64, f64)) -> Cell {
    if runs < 2 {
        return Cell::Number(mean, Unit::S);
    }
    Cell::Range { low, point: Some(mean), high, unit: Unit::S, change: false }
}

fn figure(series: &Series) -> Option<Chart> {
    if series.variations.len() < 2 {
        return None;
    }
    let kinds = [("as it is", Role::All), ("safe", Role::After), ("can lose data", Role::Flush)];
    let mut curves = kinds.map(|(name, role)| Curve { name: name.into(), role, ..Curve::default() });
    for (at, variation) in series.variations.iter().enumerate() {
        let curve = match (&variation.power_cut, variation.safe) {
            (None, _) => &mut curves[0],
            (Some(_), true) => &mut curves[1],
            (Some(_), false) => &mut curves[2],
        };
        curve.x.push(variation.times.wall_s);
        curve.y.push(at as f64);
        curve.low.push(variation.times.wall_s_min);
        curve.high.push(variation.times.wall_s_max);
    }
    Some(Chart {
        id: "run-times".into(),
        title: "Run time: mean, shortest and longest run".into(),
        caption: "Shorter is better.".into(),
        plot: Plot::Interval,
        x: Axis::linear("Run time", Unit::S),
        y: Axis::categories("Setup", labels(series).into_iter().map(str::to_owned).collect()),
        z: None,
        series: curves.into_iter().filter(|curve| !curve.x.is_empty()).collect(),
        marks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use fonio_analysis::compare::interval::compare_rounds;
    use fonio_core::statistics::sample::Spread;
    use fonio_report::{TerminalStyle, render_terminal};

    use super::*;
    use crate::setup::Conditions;

    const BASE: [f64; 3] = [10.0, 10.1, 9.9];

    fn result(name: &str, safe: bool, times: &[f64]) -> VariationResult {
        let is_base = name == "card";
        let change = compare_rounds(&[(&BASE[..times.len()], times)]).remove(0);
        let run = |wall_s: &f64| RunFigures {
            wall_s: *wall_s,
            requests: 120,
            write_bytes: 3 << 20,
            flushes: 7,
            busy_share: Some(0.5),
            valid: true,
            ..RunFigures::default()
        };
        let Spread { mean, min, max, .. } = Spread::of(times).expect("it ran");
        VariationResult {
            name: name.to_owned(),
            place: "card".to_owned(),
            compared_with: (!is_base).then(|| "card".to_owned()),
            power_cut: (!is_base).then(|| "A power cut can lose data.".to_owned()),
            safe,
            keep: None,
            times: RunTimes {
                wall_s: mean,
                wall_s_min: min,
                wall_s_max: max,
                speedup: if is_base { None } else { change.ratio.map(|ratio| 1.0 / ratio) },
                change: (!is_base).then_some(change),
            },
            runs: times.iter().map(run).collect(),
        }
    }

    fn series(others: Vec<VariationResult>) -> Series {
        let mut variations = vec![result("card", true, &BASE)];
        variations.extend(others);
        Series {
            workload: "web".to_owned(),
            scale: 0.1,
            seed: 1,
            conditions: Conditions {
                cpu_share: None,
                processor: None,
                memory_bytes: None,
                dilate: 1.0,
                full: None,
            },
            variations,
            packages: Vec::new(),
            databases: Vec::new(),
            joinable: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn verdicts() {
        let of = |others| shown(&series(others)).1;
        assert_eq!(of(vec![]), "web on card took 10 s.");
        let (fast, unsafe_fast) = ([5.0, 5.1, 4.9], [2.0, 2.1, 1.9]);
        assert_eq!(
            of(vec![result("a", true, &fast), result("b", false, &unsafe_fast)]),
            "web on card took 10 s; a is 2.00 (1.95 to 2.05) times as fast as card (5 s)."
        );
        assert_eq!(
            of(vec![result("b", false, &unsafe_fast)]),
            "web on card took 10 s; the only fixes shown to be faster can lose or corrupt data at a power cut."
        );
        assert_eq!(
            of(vec![result("c", true, &BASE)]),
            "web on card took 10 s; no tested fix was shown to be at least 5 % faster."
        );
        assert_eq!(
            of(vec![VariationResult {
                power_cut: None,
                place: "disk".to_owned(),
                ..result("disk", true, &BASE)
            }]),
            "web on card took 10 s; no other setup was shown to be at least 5 % faster."
        );
        assert!(of(vec![result("c", true, &[5.0])]).contains("(--runs auto)"));
        // The intervals exclude 1, but not a difference of less than 5 %.
        let times = |factor: f64| BASE.map(|time| time * factor);
        let mut slower = times(1.03);
        slower[0] *= 1.001;
        assert_eq!(
            of(vec![result("d", true, &slower), result("e", true, &times(1.0))]),
            "web on card took 10 s; no tested fix was shown to be at least 5 % faster; d is a little slower than \
             card (0.97 (0.97 to 0.97) times as fast)."
        );
        let rows =
            table(&series(vec![result("d", true, &slower), result("e", true, &[9.9, 10.1, 10.0])])).rows;
        let answers: Vec<&Cell> = rows.iter().map(|row| &row[3]).collect();
        assert_eq!(
            answers,
            [
                &Cell::Unknown,
                &Cell::Judgement(Tone::Plain, "a little slower".into()),
                &Cell::Judgement(Tone::Plain, "not shown".into())
            ]
        );
    }

    #[test]
    fn the_rounds_that_are_missing_are_told() {
        let of = |others| verdict(&series(others)).reasons;
        // The gain is known well enough, or shown.
        assert_eq!(of(vec![result("c", true, &BASE)]), Vec::<String>::new());
        assert_eq!(of(vec![result("a", true, &[5.0, 5.1, 4.9])]), Vec::<String>::new());
        assert_eq!(
            of(vec![result("b", true, &[5.0, 9.0, 14.0])]),
            [
                "The run times vary: about 96 rounds are needed to know each gain to within 25 % (--runs 96, at least \
                 30 min 57 s)."
            ]
        );
    }

    #[test]
    fn a_faster_place_does_not_hide_what_is_faster_on_it() {
        let on_disk = |name: &str, base: &str, times: &[f64]| VariationResult {
            place: "disk".to_owned(),
            compared_with: Some(base.to_owned()),
            ..result(name, true, times)
        };
        // In this test, the disk is ten times as fast as the card, and the fix doubles the card's speed.
        let disk = on_disk("disk", "card", &[1.0, 1.01, 0.99]);
        let slower = on_disk("disk, a", "disk", &[11.0, 11.1, 10.9]);
        let series = series(vec![result("card, a", true, &[5.0, 5.1, 4.9]), disk, slower]);
        let verdict = verdict(&series);
        assert_eq!(
            verdict.sentence,
            "web on card took 10 s; card, a is 2.00 (1.95 to 2.05) times as fast as card (5 s)."
        );
        assert_eq!(verdict.reasons, ["On disk, no setup was shown to be faster than disk."]);
    }

    #[test]
    fn labels_leave_out_what_all_setups_have() {
        for (names, expected) in [
            (&["card", "card, wal"][..], &[WITHOUT, "wal"][..]),
            (&["/srv/app (before)", "/srv/app (after)"], &["before", "after"]),
            (&["card", "card, wal", "disk"], &["card", "card, wal", "disk"]),
            (&["card"], &["card"]),
            (&["card with ext4", "card with ext4, wal", "card with xfs"], &["ext4", "ext4, wal", "xfs"]),
            (&["a with none", "b with none"], &["a with none", "b with none"]),
            (&["card with a hole", "disk"], &["card with a hole", "disk"]),
            (&[], &[]),
        ] {
            let variations = names.iter().map(|name| result(name, true, &BASE)).collect();
            assert_eq!(labels(&Series { variations, ..series(Vec::new()) }), expected);
        }
    }

    #[test]
    fn a_report_has_one_length_of_the_first_run() {
        let fact_of = |recorded_s: f64| {
            let mut explained = Document {
                facts: vec![Fact::new("Recorded", Cell::Number(recorded_s, Unit::S))],
                ..Document::default()
            };
            explained.verdict.sentence = "Storage is not the problem.".to_owned();
            let fact = document(&series(Vec::new()), Some(explained)).facts.remove(0);
            format!("{} {} ({})", fact.label, fact.value.text(), fact.note)
        };
        assert_eq!(fact_of(10.2), "First run 10 s (the figures below are of this run)");
        assert_eq!(fact_of(11.0), "Recorded 11 s (the first run, which took 10 s, and the time around it)");
    }

    #[test]
    fn the_table_and_what_a_power_cut_loses() {
        let document = document(&series(vec![result("wal", true, &[5.0, 5.1, 4.9])]), None);
        let mut text = Vec::new();
        render_terminal(&document, TerminalStyle::PLAIN, &mut text).expect("memory takes it");
        expect_test::expect_file!["../tests/golden/series.txt"].assert_eq(&String::from_utf8_lossy(&text));
    }
}
