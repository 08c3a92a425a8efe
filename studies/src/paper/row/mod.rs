//! A row of a comparison: a published number or statement, our result, and whether the two agree.
//!
//! A row's standing is computed here, from a [`Measured`] value. A paper supplies the two values, the kind of
//! ours and the kind of comparison; it cannot set a verdict, and it cannot score a row that this file does not
//! score. The rules:
//!
//! - A missing value cannot be compared.
//! - A value that follows from our configuration (`by construction`), or that a published number influenced
//!   (`known`), is shown and not scored.
//! - A bound without an upper end, such as "more than 4 times", is shown and not scored, because any large
//!   value is within it. A bound of a ratio without a lower end is the same bound, of the inverse ratio.
//! - An effect (a gain, a slowdown) needs [`RUNS_MIN`] runs. It agrees only if it is within the tolerance and
//!   its distance from "no effect" exceeds its spread. It differs only if it is outside the tolerance by more
//!   than its spread. Otherwise, it is not shown.
//! - Of a total and its two parts, at most two values are scored, because the third value follows from the
//!   other two. If the total is not scored, only one part is.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use serde::Serialize;
use xtask::results::{self, Cell};

use super::measured::{Kind, Measured, Origin};
use super::standing::{Standing, Unscored, Verdict};

/// The minimum number of runs to show an effect.
pub(super) const RUNS_MIN: usize = 5;

#[derive(Debug, Serialize)]
pub(super) struct Row {
    what: String,
    #[serde(flatten)]
    pub(super) said: Said,
    #[serde(flatten)]
    standing: Standing,
    /// How many of the published numbers of this table or figure the row compares; 0 for a statement in words.
    numbers: u32,
    /// The reason why our result differs or is missing.
    why: String,
    /// Our measured value in each run.
    #[serde(skip)]
    runs: Vec<Option<f64>>,
}

/// The published value and our value.
#[derive(Debug, Serialize)]
#[serde(tag = "form", rename_all = "snake_case")]
pub(super) enum Said {
    /// Two numbers of the same unit.
    Number {
        published: f64,
        /// Our number; `None` if it was not measured.
        ours: Option<f64>,
        unit: &'static str,
        /// The number of decimals with which both numbers are shown.
        decimals: usize,
        /// A note on our number: its devices, the spread of its runs, or a different count.
        note: String,
    },
    /// A published statement and our result, both in words.
    Statement { published: String, ours: String },
}

/// The maximum difference between two numbers that agree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    /// The maximum ratio of the larger number to the smaller number for agreement.
    pub(super) factor: f64,
    /// The numbers also agree if their difference is at most this value. This matters for published numbers
    /// that are rounded or near 0.
    pub(super) floor: f64,
}

impl Tolerance {
    /// Returns the range of values that agree with `published`.
    fn around(self, published: f64) -> RangeInclusive<f64> {
        let low = (published / self.factor).min(published - self.floor);
        low..=(published * self.factor).max(published + self.floor)
    }
}

/// A quantity with its unit, its decimals and its tolerance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantity {
    unit: &'static str,
    decimals: usize,
    tolerance: Tolerance,
}

/// The columns of a result file with rows.
pub(super) const COLUMNS: [&str; 8] = ["", "published", "ours", "each run", KIND, VERDICT, NUMBERS, "why"];
pub(super) const KIND: &str = "kind";
pub(super) const VERDICT: &str = "verdict";
/// How many of the published numbers of the table or figure a row compares.
pub(super) const NUMBERS: &str = "published numbers";

/// One of three numbers: a total and its two parts.
pub(super) struct Part<'a> {
    pub(super) quantity: Quantity,
    pub(super) what: String,
    pub(super) published: f64,
    pub(super) ours: &'a Measured,
    pub(super) why: &'a str,
}

impl Quantity {
    pub(super) const fn new(unit: &'static str, decimals: usize, factor: f64, floor: f64) -> Self {
        Quantity { unit, decimals, tolerance: Tolerance { factor, floor } }
    }

    /// Returns the row of a number that is not an effect. `why` is shown if the two numbers differ.
    pub(super) fn row(self, what: impl Into<String>, published: f64, ours: &Measured, why: &str) -> Row {
        let range = self.tolerance.around(published);
        Row::judged(what, self.said(published, ours.value()), ours, &range, in_range(ours, &range), why)
    }

    /// Returns the row of an effect. An effect is a ratio: 1 means that nothing changed.
    pub(super) fn effect(self, what: impl Into<String>, published: f64, ours: &Measured, why: &str) -> Row {
        let range = self.tolerance.around(published);
        let row =
            Row::judged(what, self.said(published, ours.value()), ours, &range, effect(ours, &range), why);
        row.noted(spread_shown(ours, self.decimals))
    }

    /// Returns the rows of a total and of its two parts. The last part follows from the total and the first
    /// part. If the total is not scored, only the first part is.
    pub(super) fn total_and_parts(total: Part<'_>, [first, last]: [Part<'_>; 2]) -> [Row; 3] {
        let row = |part: Part<'_>| part.quantity.row(part.what, part.published, part.ours, part.why);
        [row(total), row(first), row(last).following()]
    }

    /// Returns the row of a number that was not measured in this run. `kind` is the way in which it would come
    /// about.
    pub(super) fn cannot(self, kind: Kind, what: impl Into<String>, published: f64, why: &str) -> Row {
        Row::unmeasured(what, self.said(published, None), kind, Verdict::Cannot, why)
    }

    fn said(self, published: f64, ours: Option<f64>) -> Said {
        Said::Number { published, ours, unit: self.unit, decimals: self.decimals, note: String::new() }
    }
}

/// The reason why runs do not tell whether a value lies within a range.
enum Unknown {
    Missing(&'static str),
    NotShown,
}

/// Returns whether a number lies within the range.
fn in_range(ours: &Measured, range: &RangeInclusive<f64>) -> Result<bool, Unknown> {
    ours.value().map(|value| range.contains(&value)).ok_or(Unknown::Missing("it was not measured"))
}

/// Returns whether an effect lies within `range`.
fn effect(ours: &Measured, range: &RangeInclusive<f64>) -> Result<bool, Unknown> {
    if ours.count() < RUNS_MIN {
        return Err(Unknown::NotShown);
    }
    let (Some(value), Some(spread)) = (ours.value(), ours.spread()) else {
        return Err(Unknown::Missing("not measured in every run"));
    };
    let shown = |apart: bool| if apart { Ok(()) } else { Err(Unknown::NotShown) };
    if range.contains(&value) {
        shown(beyond(value, 1.0) > spread)?;
        return Ok(true);
    }
    let edge = if value < *range.start() { *range.start() } else { *range.end() };
    shown(edge <= 0.0 || beyond(value, edge) > spread)?;
    Ok(false)
}

/// Returns the standing of a row by the rules for scoring. `range` contains the values that agree.
fn standing(origin: Origin, range: &RangeInclusive<f64>, verdict: Verdict) -> Standing {
    let unscored = if origin.kind() == Kind::Construction {
        Some(Unscored::Construction)
    } else if origin.is_known() {
        Some(Unscored::Known)
    } else if range.end().is_infinite() {
        Some(Unscored::OneBound)
    } else {
        None
    };
    Standing { kind: origin.kind(), unscored, verdict }
}

/// Returns the larger of two ratios divided by the smaller ratio.
fn beyond(one: f64, other: f64) -> f64 {
    if one > other { one / other } else { other / one }
}

pub(super) fn as_published(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn spread_shown(ours: &Measured, decimals: usize) -> String {
    match ours.ends() {
        Some((low, high)) if ours.count() > 1 => {
            format!("{low:.decimals$} to {high:.decimals$}, n = {}", ours.count())
        }
        _ => format!("n = {}", ours.count()),
    }
}

impl Row {
    fn unmeasured(what: impl Into<String>, said: Said, kind: Kind, verdict: Verdict, why: &str) -> Row {
        let numbers = u32::from(matches!(said, Said::Number { .. }));
        let standing = Standing { kind, unscored: None, verdict };
        Row { what: what.into(), said, standing, numbers, why: why.to_owned(), runs: Vec::new() }
    }

    /// Returns a row with its standing. `range` contains the values that agree with the published number or
    /// statement. `why` is dropped if our result and the published result agree.
    fn judged(
        what: impl Into<String>,
        said: Said,
        ours: &Measured,
        range: &RangeInclusive<f64>,
        verdict: Result<bool, Unknown>,
        why: &str,
    ) -> Row {
        let (verdict, why) = match verdict {
            Ok(true) => (Verdict::Agrees, String::new()),
            Ok(false) => (Verdict::Differs, why.to_owned()),
            Err(Unknown::NotShown) => (Verdict::NotShown, format!("not shown (n = {})", ours.count())),
            Err(Unknown::Missing(why)) => (Verdict::Cannot, why.to_owned()),
        };
        let row = Row::unmeasured(what, said, ours.origin().kind(), verdict, &why);
        Row { standing: standing(ours.origin(), range, verdict), runs: ours.each().to_vec(), ..row }
    }

    fn in_words(published: impl Into<String>, ours: impl Into<String>) -> Said {
        Said::Statement { published: published.into(), ours: ours.into() }
    }

    /// Returns the row of a statement that is true if a number lies within `range`. The number must not be an
    /// effect. `shown` formats the number.
    pub(super) fn within(
        what: impl Into<String>,
        published: impl Into<String>,
        shown: impl FnOnce(f64) -> String,
        (ours, range): (&Measured, RangeInclusive<f64>),
        why: &str,
    ) -> Row {
        let text = ours.value().map_or_else(|| "-".to_owned(), shown);
        Row::judged(what, Row::in_words(published, text), ours, &range, in_range(ours, &range), why)
    }

    /// Returns the row of a statement that is true if the ratio of an effect lies within `range`. A range that
    /// starts at 0 has no lower end.
    pub(super) fn effect(
        what: impl Into<String>,
        published: impl Into<String>,
        shown: impl FnOnce(f64) -> String,
        (ours, range): (&Measured, RangeInclusive<f64>),
        why: &str,
    ) -> Row {
        let text = ours.value().map_or_else(|| "-".to_owned(), shown);
        let text = format!("{text} ({})", spread_shown(ours, 2));
        let row = Row::judged(what, Row::in_words(published, text), ours, &range, effect(ours, &range), why);
        if *range.start() <= 0.0 { row.unscored(Unscored::OneBound) } else { row }
    }

    /// Returns the row of a statement that something has no effect. The statement is true if the ratio of every
    /// run differs from 1 by at most the factor `most`.
    pub(super) fn no_effect(
        what: impl Into<String>,
        published: impl Into<String>,
        shown: impl FnOnce(f64) -> String,
        (ours, most): (&Measured, f64),
        why: &str,
    ) -> Row {
        let text = ours.value().map_or_else(|| "-".to_owned(), shown);
        let text = format!("{text} ({})", spread_shown(ours, 2));
        let range = 1.0 / most..=most;
        let verdict = match ours.ends() {
            Some((low, high))
                if ours.count() >= RUNS_MIN && range.contains(&low) && range.contains(&high) =>
            {
                Ok(true)
            }
            _ => effect(ours, &range).and_then(|within| {
                // The median is within the range, but another run is not.
                if within { Err(Unknown::NotShown) } else { Ok(false) }
            }),
        };
        Row::judged(what, Row::in_words(published, text), ours, &range, verdict, why)
    }

    /// Returns the row of a result in words. It agrees if it equals the published words. `origin` is the origin
    /// of our words.
    pub(super) fn same(
        what: impl Into<String>,
        published: &str,
        ours: Option<&str>,
        origin: Origin,
        why: &str,
    ) -> Row {
        let agrees = ours.map(|ours| ours == published);
        let verdict = agrees.ok_or(Unknown::Missing("it was not measured"));
        let said = Row::in_words(published, ours.unwrap_or("-"));
        let measured = origin.kind().runs([None]).known(origin.is_known());
        Row { runs: Vec::new(), ..Row::judged(what, said, &measured, &(0.0..=1.0), verdict, why) }
    }

    /// Returns the row of a statement that was not measured in this run.
    pub(super) fn cannot(
        kind: Kind,
        what: impl Into<String>,
        published: impl Into<String>,
        why: &str,
    ) -> Row {
        Row::unmeasured(what, Row::in_words(published, "-"), kind, Verdict::Cannot, why)
    }

    /// Returns a row that contains only our number, which is not compared.
    pub(super) fn ours_alone(kind: Kind, what: impl Into<String>, ours: impl Into<String>, why: &str) -> Row {
        Row::unmeasured(what, Row::in_words("-", ours), kind, Verdict::NotPublished, why)
    }

    /// Sets the number of published numbers of this table or figure that the row compares: more than 1 for a
    /// sum, 0 for a number that another row compares too.
    pub(super) fn of_numbers(self, numbers: u32) -> Row {
        Row { numbers, ..self }
    }

    /// Marks the row as following from other rows.
    pub(super) fn following(self) -> Row {
        self.unscored(Unscored::Follows).because("follows from the total and the other parts")
    }

    /// Marks the row as not scored, unless it has another reason already.
    fn unscored(mut self, reason: Unscored) -> Row {
        self.standing.unscored = self.standing.unscored.or(Some(reason));
        self
    }

    pub(super) fn noted(mut self, text: impl Into<String>) -> Row {
        let text = text.into();
        if text.is_empty() {
            return self;
        }
        match &mut self.said {
            Said::Number { note, .. } if note.is_empty() => *note = text,
            Said::Number { note, .. } => {
                let _ = write!(note, ", {text}");
            }
            Said::Statement { ours, .. } => {
                let _ = write!(ours, "; {text}");
            }
        }
        self
    }

    /// Adds a remark to the row. The remark is always shown, before the reason for a difference.
    pub(super) fn because(mut self, text: impl Into<String>) -> Row {
        let text = text.into();
        if text.is_empty() {
            return self;
        }
        self.why = if self.why.is_empty() { text } else { format!("{text}; {}", self.why) };
        self
    }

    pub(super) fn what(&self) -> &str {
        &self.what
    }

    pub(super) fn standing(&self) -> Standing {
        self.standing
    }

    pub(super) fn numbers(&self) -> u32 {
        self.numbers
    }

    pub(super) fn why(&self) -> &str {
        &self.why
    }

    pub(super) fn published(&self) -> String {
        match &self.said {
            Said::Number { published, unit, decimals, .. } => {
                format!("{} {unit}", as_published(*published, *decimals))
            }
            Said::Statement { published, .. } => published.clone(),
        }
    }

    /// Returns the row for the result file, with cells for [`COLUMNS`].
    pub(super) fn kept(&self) -> results::Row {
        let (unit, decimals) = match self.said {
            Said::Number { unit, decimals, .. } => (unit, decimals),
            Said::Statement { .. } => ("", 2),
        };
        let (kind, verdict) = self.standing.words();
        let cells = vec![
            self.published().into(),
            self.ours().into(),
            Cell::rounds(self.runs.iter().copied(), unit, decimals),
            kind.into(),
            verdict.into(),
            Cell::count(self.numbers),
            self.why.as_str().into(),
        ];
        results::Row { name: self.what.clone(), cells }
    }

    /// Returns the ratio of our number to the published number, if both are above 0.
    pub(super) fn ratio(&self) -> Option<f64> {
        match self.said {
            Said::Number { published, ours: Some(ours), .. } if published > 0.0 && ours > 0.0 => {
                Some(ours / published)
            }
            _ => None,
        }
    }

    pub(super) fn ours(&self) -> String {
        match &self.said {
            Said::Number { ours, unit, decimals, note, .. } => {
                let mut text =
                    ours.map_or_else(|| "-".to_owned(), |ours| format!("{ours:.decimals$} {unit}"));
                if !note.is_empty() {
                    let _ = write!(text, " ({note})");
                }
                text
            }
            Said::Statement { ours, .. } => ours.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
