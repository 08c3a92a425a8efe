//! Reports block writes and flushes, which repeat only approximately.

use fonio_analysis::Figure;
use fonio_analysis::counts::approximate::{
    Approximate, ApproximatelyCompared, BLOCK_FLUSHES, BLOCK_WRITES, BLOCK_WRITTEN_BYTES, CountRange,
    Difference,
};
use fonio_core::{Better, Unit};

use crate::document::{Cell, Column, Section, Table};

/// The counts, in the order of the table.
const NAMES: [&str; 3] = [BLOCK_WRITES, BLOCK_WRITTEN_BYTES, BLOCK_FLUSHES];

/// What is counted, for the provenance.
pub(super) const COUNTED: &str = "requests of the disks, after merging, that the command or its files caused: writes until \
                                  a sync that fonio makes after the command, flushes until the command's end";

fn unit(name: &str, is_per_unit: bool) -> Unit {
    match name {
        BLOCK_WRITTEN_BYTES => Unit::Bytes,
        _ if is_per_unit => Unit::Number,
        _ => Unit::Count,
    }
}

/// Returns the relation to the baseline in words.
fn words(difference: Difference) -> &'static str {
    match difference {
        Difference::Within => "within the tolerance",
        Difference::More => "more than the tolerance",
        Difference::Less => "less, by more than the tolerance",
    }
}

/// Returns the section with the counts of each run, or of each unit of work if there is one.
pub(super) fn section(
    approximate: &Approximate,
    compared: &[ApproximatelyCompared],
    work: Option<(&str, u64, u64)>,
) -> Section {
    let (was_units, is_units) = work.map_or((1, 1), |(_, was, is)| (was, is));
    let cell = |range: &CountRange, units: u64, unit: Unit| {
        let (low, high) = (range.least as f64 / units as f64, range.most as f64 / units as f64);
        let text = if low < high {
            Cell::Range { low, point: None, high, unit, change: false }.text()
        } else {
            unit.format(low)
        };
        Cell::Text(format!("about {text}"))
    };
    let row = |name: &&str| {
        let range = approximate.counts.get(*name)?;
        let unit = unit(name, work.is_some());
        let mut row = vec![Cell::Name((*name).to_owned())];
        if !compared.is_empty() {
            let compared = compared.iter().find(|compared| compared.name == *name);
            row.push(compared.map_or(Cell::Unknown, |compared| cell(&compared.was, was_units, unit)));
            row.push(cell(range, is_units, unit));
            row.push(compared.map_or(Cell::Unknown, |one| Cell::Text(words(one.difference).to_owned())));
        } else {
            row.push(cell(range, is_units, unit));
        }
        Some(row)
    };
    let labels: &[&str] =
        if compared.is_empty() { &["Count", "Now"] } else { &["Count", "Was", "Now", "Change"] };
    let column = |label: &&str| Column { label: (*label).to_owned(), ..Column::default() };
    let tolerance = Unit::Share.format(approximate.tolerance);
    let per = work.map_or(String::new(), |(name, ..)| format!(" per {name}"));
    let far = compared.iter().filter(|one| one.difference != Difference::Within).count();
    let answer = match (compared.is_empty(), far) {
        (true, _) => {
            format!("These counts repeat only approximately: compare them with a tolerance of {tolerance}.")
        }
        (false, 0) => format!("All are within the tolerance of {tolerance} of the baseline."),
        (false, far) => format!(
            "{far} of {} differ from the baseline by more than the tolerance of {tolerance}; only a budget can make this fail.",
            compared.len()
        ),
    };
    Section {
        id: "block".into(),
        question: "What reaches the disk?".into(),
        answer,
        tables: vec![Table {
            caption: format!("Block writes and flushes{per}, about (± {tolerance})"),
            columns: labels.iter().map(column).collect(),
            rows: NAMES.iter().filter_map(row).collect(),
            ..Table::default()
        }],
        ..Section::default()
    }
}

/// Returns the counts as figures for budgets: the counts themselves, the counts per unit of work such as
/// `order.block_writes`, and, for budgets with a share as their limit, the ratios to the baseline. A figure without a
/// value is not known.
pub(super) fn figures(
    approximate: Option<&Approximate>,
    work: Option<(&str, u64)>,
    compared: Option<&[ApproximatelyCompared]>,
) -> Vec<Figure> {
    let mut figures = Vec::new();
    for name in NAMES {
        let middle = approximate.and_then(|approximate| Some(approximate.counts.get(name)?.middle()));
        let ratio = compared.map(|compared| {
            let found = compared.iter().find(|compared| compared.name == name);
            found.map(|compared| compared.ratio).filter(|ratio| ratio.is_finite())
        });
        let mut put = |name: String, unit: Unit, value: Option<f64>| {
            let (unit, value) = ratio.map_or((unit, value), |ratio| (Unit::Share, ratio));
            figures.push(Figure::new(name.clone(), name, unit, Some(Better::Lower), value));
        };
        put(name.to_owned(), unit(name, false), middle);
        if let Some((work, units)) = work {
            let per = middle.map(|middle| middle / units as f64);
            put(format!("{work}.{}", name.replace('.', "_")), unit(name, true), per);
        }
    }
    figures
}

/// Returns the name of the count that a figure shows; `None` for figures of other counts.
pub(super) fn count_of(figure: &str, work: Option<&str>) -> Option<&'static str> {
    let is_it = |name: &&str| {
        figure == *name || work.is_some_and(|work| figure == format!("{work}.{}", name.replace('.', "_")))
    };
    NAMES.into_iter().find(is_it)
}
