//! Converts papers into a document. For each paper, it has a chart of our numbers relative to the published
//! numbers, and a table of all rows.

use fonio_core::Unit;
use fonio_report::Document;
use fonio_report::document::{
    Axis, Cell, Chart, Column, Mark, Plot, Role, Section, Series, Table, Tone, Verdict,
};

use super::Outcome;
use super::counts::Counts;
use super::row::{Row, Said, as_published};
use super::standing::{Standing, Verdict as RowVerdict};

pub(super) fn document(papers: &[Outcome]) -> Document {
    let mut all = Counts::default();
    for paper in papers {
        all.add(&paper.counts);
    }
    let published = papers.iter().map(|paper| paper.published).sum();
    Document {
        title: "The studies' tables and figures, with our results".into(),
        verdict: Verdict {
            tone: Tone::Plain,
            sentence: all.headline(published),
            reasons: vec![
                "A number that follows from our configuration, or that the author of the workload or the model knew, is \
                 shown but not scored, because its agreement proves nothing."
                    .into(),
                "A bound without an upper end is not scored either: any large value is within it.".into(),
                "If the two numbers differ, or one is missing, the row says why.".into(),
            ],
        },
        sections: papers.iter().map(section).collect(),
        ..Document::default()
    }
}

fn section(paper: &Outcome) -> Section {
    Section {
        id: paper.id.to_owned(),
        question: format!("{}: {}", paper.id, paper.title),
        answer: paper.headline(),
        figures: figure(paper).into_iter().chain(paper.pictures.iter().cloned()).collect(),
        tables: vec![table(&paper.rows)],
        notes: paper.commands.iter().map(|command| format!("Measured by `{command}`.")).collect(),
        hints: Vec::new(),
    }
}

/// Returns a chart with a line for each number, from the ratio 1 (agreement) to the number's ratio.
fn figure(paper: &Outcome) -> Option<Chart> {
    let rows: Vec<(&Row, f64)> = paper.rows.iter().filter_map(|row| Some((row, row.ratio()?))).collect();
    if rows.is_empty() {
        return None;
    }
    let lines = [("agrees", Role::Category(2)), ("differs", Role::Category(1)), ("not scored", Role::Rest)];
    let mut series = lines.map(|(name, role)| Series { name: name.into(), role, ..Series::default() });
    for (at, (row, ratio)) in rows.iter().enumerate() {
        let Standing { unscored, verdict, .. } = row.standing();
        let line = match (unscored, verdict) {
            (None, RowVerdict::Agrees) => 0,
            (None, RowVerdict::Differs) => 1,
            _ => 2,
        };
        let series = &mut series[line];
        series.x.push(*ratio);
        series.y.push(at as f64);
        series.low.push(ratio.min(1.0));
        series.high.push(ratio.max(1.0));
    }
    // The axis ends at powers of two, because its labels are powers of two.
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
        title: "Our number over the published number".into(),
        caption: "The dashed line is the published number; left of it, our number is smaller.".into(),
        plot: Plot::Interval,
        x: Axis { bounds: Some((low, high)), ..Axis::log("Ours over published", Unit::Ratio) },
        y: Axis::categories("What", rows.iter().map(|(row, _)| row.what().to_owned()).collect()),
        z: None,
        series: series.into_iter().filter(|series| !series.x.is_empty()).collect(),
        marks: vec![Mark::AtX { x: 1.0, label: String::new() }],
    })
}

fn table(rows: &[Row]) -> Table {
    let cells = |row: &Row| {
        let (published, ours) = said(&row.said);
        let Standing { unscored, verdict, .. } = row.standing();
        let tone = match (verdict, unscored) {
            (RowVerdict::Agrees, None) => Tone::Good,
            (RowVerdict::Differs, None) => Tone::Bad,
            _ => Tone::Plain,
        };
        let (kind, verdict) = row.standing().words();
        vec![
            Cell::Text(row.what().to_owned()),
            published,
            ours,
            Cell::known(row.ratio(), Unit::Ratio),
            Cell::Text(kind),
            Cell::Judgement(tone, verdict),
            Cell::Text(row.why().to_owned()),
        ]
    };
    Table {
        caption: "Every row".into(),
        columns: vec![
            Column::new("What"),
            Column::new("Published"),
            Column::new("Ours"),
            Column::noted("Ratio", "Our number over the published number."),
            Column::noted(
                "Kind",
                "How our number came about: on a real program, an imitation or a model, or by construction.",
            ),
            Column::noted(
                "Verdict",
                "A row that is not scored is not counted, because its agreement proves nothing.",
            ),
            Column::new("Why").or_drop(),
        ],
        rows: rows.iter().map(cells).collect(),
        ..Table::default()
    }
}

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

#[cfg(test)]
mod tests;
