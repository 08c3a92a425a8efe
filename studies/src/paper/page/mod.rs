//! Converts papers into a document: for each, a chart of our numbers over the published ones, and a table of all rows.

use fonio_core::Unit;
use fonio_report::Document;
use fonio_report::document::{
    Axis, Cell, Chart, Column, Mark, Plot, Role, Section, Series, Table, Tone, Verdict,
};
use serde::Deserialize;

/// A table or figure of a study, as `cargo studies paper --json` prints it.
#[derive(Deserialize)]
pub struct Paper {
    id: String,
    title: String,
    counts: Counts,
    commands: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct Counts {
    agree: u64,
    differ: u64,
    cannot: u64,
    used_in_fit: u64,
}

#[derive(Deserialize)]
struct Row {
    what: String,
    #[serde(flatten)]
    said: Said,
    used_in_fit: bool,
    verdict: Outcome,
    why: String,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Said {
    Number { published: f64, ours: Option<f64>, unit: String, decimals: usize, note: String },
    Statement { published: String, ours: String },
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Agrees,
    Differs,
    Cannot,
}

/// The page.
pub fn document(papers: &[Paper]) -> Document {
    let all = papers.iter().map(|paper| paper.counts).fold(Counts::default(), |sum, one| Counts {
        agree: sum.agree + one.agree,
        differ: sum.differ + one.differ,
        cannot: sum.cannot + one.cannot,
        used_in_fit: sum.used_in_fit + one.used_in_fit,
    });
    Document {
        title: "The studies' tables and figures, ours beside theirs".into(),
        verdict: Verdict {
            tone: Tone::Plain,
            sentence: of(all),
            reasons: vec![
                "A row that was used in a fit is shown and not counted: that it agrees proves nothing."
                    .into(),
                "Where the two differ, or nothing can be shown here, the row says why.".into(),
            ],
        },
        sections: papers.iter().map(section).collect(),
        ..Document::default()
    }
}

fn of(counts: Counts) -> String {
    let Counts { agree, differ, cannot, used_in_fit } = counts;
    format!(
        "Of what no fit used, {agree} agree, {differ} differ, {cannot} cannot be had here; {used_in_fit} were used in a fit."
    )
}

fn section(paper: &Paper) -> Section {
    Section {
        id: paper.id.clone(),
        question: format!("{}: {}", paper.id, paper.title),
        answer: of(paper.counts),
        figures: figure(paper).into_iter().collect(),
        tables: vec![table(&paper.rows)],
        notes: paper.commands.iter().map(|command| format!("Measured by `{command}`.")).collect(),
        hints: Vec::new(),
    }
}

/// Our number over the published one, if both are numbers and the ratio is meaningful.
fn ratio(row: &Row) -> Option<f64> {
    match row.said {
        Said::Number { published, ours: Some(ours), .. } if published > 0.0 && ours > 0.0 => {
            Some(ours / published)
        }
        _ => None,
    }
}

/// A line for each number, from where it would agree to its value.
fn figure(paper: &Paper) -> Option<Chart> {
    let rows: Vec<(&Row, f64)> = paper.rows.iter().filter_map(|row| Some((row, ratio(row)?))).collect();
    if rows.is_empty() {
        return None;
    }
    let kinds =
        [("agrees", Role::Category(2)), ("differs", Role::Category(1)), ("used in a fit", Role::Rest)];
    let mut series = kinds.map(|(name, role)| Series { name: name.into(), role, ..Series::default() });
    for (at, (row, ratio)) in rows.iter().enumerate() {
        let kind = match (row.used_in_fit, row.verdict) {
            (true, _) => 2,
            (false, Outcome::Agrees) => 0,
            (false, Outcome::Differs | Outcome::Cannot) => 1,
        };
        let series = &mut series[kind];
        series.x.push(*ratio);
        series.y.push(at as f64);
        series.low.push(ratio.min(1.0));
        series.high.push(ratio.max(1.0));
    }
    // Powers of two, like the ticks of the axis.
    let (mut low, mut high) = (0.5, 2.0);
    for (_, ratio) in &rows {
        while *ratio < low {
            low /= 2.0;
        }
        while *ratio > high {
            high *= 2.0;
        }
    }
    Some(Chart {
        id: format!("{}-ratios", paper.id),
        title: "Ours over the published number".into(),
        caption: "The dashed line is the published number; left of it ours is smaller.".into(),
        plot: Plot::Interval,
        x: Axis { bounds: Some((low, high)), ..Axis::log("Ours over published", Unit::Ratio) },
        y: Axis::categories("What", rows.iter().map(|(row, _)| row.what.clone()).collect()),
        z: None,
        series: series.into_iter().filter(|series| !series.x.is_empty()).collect(),
        marks: vec![Mark::AtX { x: 1.0, label: String::new() }],
    })
}

fn table(rows: &[Row]) -> Table {
    let cells = |row: &Row| {
        let (published, ours) = said(&row.said);
        let (tone, verdict) = match (row.verdict, row.used_in_fit) {
            (Outcome::Agrees, false) => (Tone::Good, "agrees"),
            (Outcome::Agrees, true) => (Tone::Plain, "used in a fit"),
            (Outcome::Differs, false) => (Tone::Bad, "differs"),
            (Outcome::Differs, true) => (Tone::Notice, "used in a fit, differs"),
            (Outcome::Cannot, _) => (Tone::Plain, "cannot be had"),
        };
        vec![
            Cell::Text(row.what.clone()),
            published,
            ours,
            Cell::known(ratio(row), Unit::Ratio),
            Cell::Judgement(tone, verdict.into()),
            Cell::Text(row.why.clone()),
        ]
    };
    Table {
        caption: "Every row".into(),
        columns: vec![
            Column::new("What"),
            Column::new("Published"),
            Column::new("Ours"),
            Column::noted("Ratio", "Ours over the published number."),
            Column::noted(
                "Verdict",
                "Where our number was made from the published one, agreement proves nothing: used in a fit.",
            ),
            Column::new("Why").or_drop(),
        ],
        rows: rows.iter().map(cells).collect(),
        ..Table::default()
    }
}

/// The published number or statement, and ours.
fn said(said: &Said) -> (Cell, Cell) {
    match said {
        Said::Number { published, ours, unit, decimals, note } => {
            let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
            let ours =
                ours.map_or(Cell::Unknown, |ours| Cell::Text(format!("{ours:.decimals$}\u{a0}{unit}{note}")));
            (Cell::Text(format!("{}\u{a0}{unit}", as_published(*published, *decimals))), ours)
        }
        Said::Statement { published, ours } => (Cell::Text(published.clone()), Cell::Text(ours.clone())),
    }
}

/// A number with as many digits as were published.
fn as_published(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests;
