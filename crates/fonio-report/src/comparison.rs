//! A comparison as a document: what differs, by how much, and what was not shown to differ.

use fonio_analysis::Comparison;
use fonio_analysis::compare::ComparisonRow;
use fonio_analysis::{Answer, Difference};

use crate::document::{
    Axis, Cell, Column, Document, Fact, Figure, Mark, Plot, Role, Section, Series, Table, Tone, Verdict,
};
use crate::number::Unit;
use crate::questions::figure_unit;

pub fn document(comparison: &Comparison) -> Document {
    let Some((first, others)) = comparison.names.split_first() else {
        return Document { title: "Nothing to compare".into(), ..Document::default() };
    };
    Document {
        title: comparison.names.join(" and "),
        subtitle: format!("compared with {first}"),
        verdict: verdict(comparison, others),
        sections: others.iter().enumerate().map(|(at, name)| section(comparison, at, first, name)).collect(),
        provenance: vec![Fact::new("Intervals", Cell::Text(comparison.method.clone()))],
        ..Document::default()
    }
}

/// Whether a difference is for the better, where that can be said.
fn better(row: &ComparisonRow, difference: &Difference) -> Option<bool> {
    let lower = match difference.answer {
        Answer::Lower => true,
        Answer::Higher => false,
        Answer::NoDifference | Answer::Unknown => return None,
    };
    row.less_is_better.map(|less_is_better| lower == less_is_better)
}

fn verdict(comparison: &Comparison, others: &[String]) -> Verdict {
    let mut sentences = Vec::new();
    let (mut any_worse, mut any_better) = (false, false);
    for (at, name) in others.iter().enumerate() {
        let rows: Vec<(&ComparisonRow, &Difference)> =
            comparison.rows.iter().filter_map(|row| Some((row, row.differences.get(at)?))).collect();
        let named = |wanted: bool| -> Vec<&str> {
            let hits = rows.iter().filter(|(row, difference)| better(row, difference) == Some(wanted));
            hits.map(|(row, _)| row.label.as_str()).collect()
        };
        let (gains, losses) = (named(true), named(false));
        any_better |= !gains.is_empty();
        any_worse |= !losses.is_empty();
        // The labels have commas of their own, so that only one of them is named.
        let part = |what: &str, labels: &[&str]| match labels {
            [] => None,
            [one] => Some(format!("{what} in {one}")),
            [first, rest @ ..] => Some(format!("{what} in {first}, and in {} more", rest.len())),
        };
        let said: Vec<String> =
            [part("better", &gains), part("worse", &losses)].into_iter().flatten().collect();
        sentences.push(if said.is_empty() {
            format!("{name} against {}: no difference for better or worse was shown.", comparison.names[0])
        } else {
            format!("{name} against {}: {}.", comparison.names[0], said.join("; "))
        });
    }
    let tone = match (any_better, any_worse) {
        (true, false) => Tone::Good,
        (false, true) => Tone::Bad,
        (true, true) => Tone::Notice,
        (false, false) => Tone::Plain,
    };
    let mut sentences = sentences.into_iter();
    let sentence = sentences.next().unwrap_or_else(|| "There is nothing to compare with.".to_owned());
    let mut reasons: Vec<String> = sentences.collect();
    for (name, valid) in comparison.names.iter().zip(&comparison.valid) {
        if !valid {
            reasons.push(format!(
                "The measurement of {name} does not hold; nothing should be concluded from it."
            ));
        }
    }
    Verdict { tone, sentence, reasons }
}

fn section(comparison: &Comparison, at: usize, first: &str, name: &str) -> Section {
    let rows: Vec<(&ComparisonRow, &Difference)> =
        comparison.rows.iter().filter_map(|row| Some((row, row.differences.get(at)?))).collect();
    let differ =
        rows.iter().filter(|(_, difference)| matches!(difference.answer, Answer::Lower | Answer::Higher));
    let same = rows.iter().filter(|(_, difference)| difference.answer == Answer::NoDifference);
    Section {
        id: format!("against-{}", at + 1),
        question: format!("How does {name} differ from {first}?"),
        answer: match (differ.count(), same.count(), rows.len()) {
            (0, _, _) => "No difference was shown in any figure.".to_owned(),
            (differ, _, all) if differ == all => format!("All {all} figures differ."),
            (differ, same, all) => {
                format!("{differ} of {all} figures differ; for {same} no difference was shown.")
            }
        },
        figures: intervals(&rows, at).into_iter().collect(),
        tables: vec![table(&rows, at, first, name)],
        hints: Vec::new(),
        notes: vec![
            "\"No difference\" means that the interval of the difference holds zero: none was shown, which is not the \
             same as none."
                .into(),
        ],
    }
}

fn value(row: &ComparisonRow, at: usize) -> Cell {
    let (unit, divided) = figure_unit(row.unit);
    Cell::known(row.values.get(at).copied().flatten().map(|value| value / divided), unit)
}

fn table(rows: &[(&ComparisonRow, &Difference)], at: usize, first: &str, name: &str) -> Table {
    let line = |(row, difference): &(&ComparisonRow, &Difference)| {
        let (unit, divided) = figure_unit(row.unit);
        let interval = match (difference.low, difference.high) {
            (Some(low), Some(high)) => {
                Cell::Range { low: low / divided, point: None, high: high / divided, unit, change: true }
            }
            _ => Cell::Unknown,
        };
        let relative =
            difference.relative.map_or(Cell::Unknown, |relative| Cell::Change(relative, Unit::Share));
        vec![
            Cell::words(row.label.as_str()),
            value(row, 0),
            value(row, at + 1),
            relative,
            interval,
            answer(row, difference),
        ]
    };
    Table {
        caption: "Figures".into(),
        columns: vec![
            Column::new("Figure"),
            Column::new(first),
            Column::new(name),
            Column::new("Change"),
            Column::noted("95 % interval", "Where the true difference lies, with 95 % confidence."),
            Column::new("Answer"),
        ],
        rows: rows.iter().map(line).collect(),
        ..Table::default()
    }
}

fn answer(row: &ComparisonRow, difference: &Difference) -> Cell {
    let word = match difference.answer {
        Answer::Lower => "lower",
        Answer::Higher => "higher",
        Answer::NoDifference => "no difference",
        Answer::Unknown => return Cell::Unknown,
    };
    match better(row, difference) {
        Some(true) => Cell::Judgement(Tone::Good, format!("{word}, better")),
        Some(false) => Cell::Judgement(Tone::Bad, format!("{word}, worse")),
        None => Cell::Judgement(Tone::Plain, word.to_owned()),
    }
}

/// The intervals as shares of the first recording's value, so that all of them fit one axis.
fn intervals(rows: &[(&ComparisonRow, &Difference)], at: usize) -> Option<Figure> {
    let mut names = Vec::new();
    let kinds = [
        ("better", Role::Discard),
        ("worse", Role::Flush),
        ("differs", Role::All),
        ("no difference", Role::Rest),
    ];
    let mut series = kinds.map(|(name, role)| Series { name: name.into(), role, ..Series::default() });
    for (row, difference) in rows {
        let base = row.values.first().copied().flatten().filter(|base| *base > 0.0);
        let (Some(base), Some(low), Some(high)) = (base, difference.low, difference.high) else { continue };
        let series = &mut series[match better(row, difference) {
            Some(true) => 0,
            Some(false) => 1,
            None if difference.answer == Answer::NoDifference => 3,
            None => 2,
        }];
        series.x.push(difference.difference.map_or(f64::NAN, |difference| difference / base));
        series.y.push(names.len() as f64);
        series.low.push(low / base);
        series.high.push(high / base);
        names.push(row.label.clone());
    }
    let series: Vec<Series> = series.into_iter().filter(|series| !series.x.is_empty()).collect();
    if series.is_empty() {
        return None;
    }
    Some(Figure {
        id: format!("intervals-{}", at + 1),
        title: "Change, with its 95 % interval".into(),
        caption: "An interval that crosses zero shows no difference.".into(),
        plot: Plot::Interval,
        x: Axis::linear("Change", Unit::Share),
        y: Axis::categories("Figure", names),
        z: None,
        series,
        marks: vec![Mark::AtX { x: 0.0, label: "no change".into() }],
    })
}
