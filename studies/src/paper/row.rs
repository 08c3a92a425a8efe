//! A row of a comparison: a published number or statement, our result, and whether the two agree.
//!
//! A row's verdict is computed here, from a [`Measured`] value. A paper supplies the two values and the kind
//! of comparison; it cannot set a verdict. The rules:
//!
//! - A missing value cannot be compared.
//! - A value that a published number influenced is shown as used and is not scored.
//! - An effect (a gain, a slowdown) needs [`RUNS_MIN`] runs. It agrees only if it is within the tolerance and
//!   its distance from "no effect" exceeds its spread. It differs only if it is outside the tolerance by more
//!   than its spread.
//! - Of a total and its two parts, at most two values are scored, because the third value follows from the
//!   other two. If the total is used, only one part is scored.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use serde::Serialize;
use xtask::results::{self, Cell};

use super::measured::Measured;

/// The minimum number of runs to show an effect.
pub(super) const RUNS_MIN: usize = 3;

#[derive(Debug, Serialize)]
pub(super) struct Row {
    what: String,
    #[serde(flatten)]
    pub(super) said: Said,
    /// Whether a published number influenced our number. If so, agreement proves nothing.
    used_in_fit: bool,
    verdict: Verdict,
    /// The reason why our result differs or is missing.
    why: String,
    /// Our measured value in each run.
    #[serde(skip)]
    runs: Vec<Option<f64>>,
}

/// The published value and our value.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Agrees,
    Differs,
    Cannot,
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Differs => "differs",
            Verdict::Cannot => "cannot",
        }
    }
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
        Row::judged(what, self.said(published, ours.value()), ours, in_range(ours, &range), why)
    }

    /// Returns the row of an effect. An effect is a ratio, which is 1 if there is no effect.
    pub(super) fn effect(self, what: impl Into<String>, published: f64, ours: &Measured, why: &str) -> Row {
        let range = self.tolerance.around(published);
        let row = Row::judged(what, self.said(published, ours.value()), ours, effect(ours, &range), why);
        row.noted(spread_shown(ours, self.decimals))
    }

    /// Returns the rows of a total and of its two parts. The last part follows from the total and the first
    /// part, so it counts as used. If the total is used, only the first part is scored.
    pub(super) fn total_and_parts(total: Part<'_>, [first, last]: [Part<'_>; 2]) -> [Row; 3] {
        let row = |part: Part<'_>| part.quantity.row(part.what, part.published, part.ours, part.why);
        let last =
            Row { used_in_fit: true, ..row(last) }.because("follows from the total and the other part");
        [row(total), row(first), last]
    }

    /// Returns the row of a number that was not measured in this run.
    pub(super) fn cannot(self, what: impl Into<String>, published: f64, why: &str) -> Row {
        Row::new(what, self.said(published, None), false, Verdict::Cannot, why)
    }

    fn said(self, published: f64, ours: Option<f64>) -> Said {
        Said::Number { published, ours, unit: self.unit, decimals: self.decimals, note: String::new() }
    }
}

/// Returns whether a number lies within the range. `Err` contains the reason why this is unknown.
fn in_range(ours: &Measured, range: &RangeInclusive<f64>) -> Result<bool, String> {
    ours.value().map(|value| range.contains(&value)).ok_or_else(|| "it was not measured".to_owned())
}

/// Returns whether an effect lies within `range`. `Err` contains the reason why the runs do not show this.
fn effect(ours: &Measured, range: &RangeInclusive<f64>) -> Result<bool, String> {
    if ours.count() < RUNS_MIN {
        return Err(format!("not shown (n = {})", ours.count()));
    }
    let (Some(value), Some(spread)) = (ours.value(), ours.spread()) else {
        return Err("not measured in every run".to_owned());
    };
    let shown = |apart: bool| apart.then_some(()).ok_or_else(|| format!("not shown (n = {})", ours.count()));
    if range.contains(&value) {
        shown(beyond(value, 1.0) > spread)?;
        return Ok(true);
    }
    let edge = if value < *range.start() { *range.start() } else { *range.end() };
    shown(edge <= 0.0 || beyond(value, edge) > spread)?;
    Ok(false)
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
    fn new(what: impl Into<String>, said: Said, used_in_fit: bool, verdict: Verdict, why: &str) -> Row {
        Row { what: what.into(), said, used_in_fit, verdict, why: why.to_owned(), runs: Vec::new() }
    }

    /// Returns a row with its verdict. `why` is dropped if our result and the published result agree.
    fn judged(
        what: impl Into<String>,
        said: Said,
        ours: &Measured,
        verdict: Result<bool, String>,
        why: &str,
    ) -> Row {
        let row = match verdict {
            Ok(true) => Row::new(what, said, ours.is_used(), Verdict::Agrees, ""),
            Ok(false) => Row::new(what, said, ours.is_used(), Verdict::Differs, why),
            Err(unknown) => Row::new(what, said, ours.is_used(), Verdict::Cannot, &unknown),
        };
        Row { runs: ours.each().to_vec(), ..row }
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
        Row::judged(what, Row::in_words(published, text), ours, in_range(ours, &range), why)
    }

    /// Returns the row of a statement that is true if the ratio of an effect lies within `range`.
    pub(super) fn effect(
        what: impl Into<String>,
        published: impl Into<String>,
        shown: impl FnOnce(f64) -> String,
        (ours, range): (&Measured, RangeInclusive<f64>),
        why: &str,
    ) -> Row {
        let text = ours.value().map_or_else(|| "-".to_owned(), shown);
        let text = format!("{text} ({})", spread_shown(ours, 2));
        Row::judged(what, Row::in_words(published, text), ours, effect(ours, &range), why)
    }

    /// Returns the row of a statement that there is no effect. It is true if the ratio of every run differs
    /// from 1 by at most the factor `most`.
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
                if within { Err(format!("not shown (n = {})", ours.count())) } else { Ok(false) }
            }),
        };
        Row::judged(what, Row::in_words(published, text), ours, verdict, why)
    }

    /// Returns the row of a result in words. It agrees if it equals the published words. `used` says whether
    /// the published words were used in a fit or a choice.
    pub(super) fn same(
        what: impl Into<String>,
        published: &str,
        ours: Option<&str>,
        used: bool,
        why: &str,
    ) -> Row {
        let verdict = ours.map(|ours| ours == published).ok_or_else(|| "it was not measured".to_owned());
        let measured = Measured::runs([None]).shaped(used);
        Row::judged(what, Row::in_words(published, ours.unwrap_or("-")), &measured, verdict, why)
    }

    /// Returns the row of a statement that was not measured in this run.
    pub(super) fn cannot(what: impl Into<String>, published: impl Into<String>, why: &str) -> Row {
        Row::new(what, Row::in_words(published, "-"), false, Verdict::Cannot, why)
    }

    /// Returns a row that contains only our number, which is not compared.
    pub(super) fn ours_alone(what: impl Into<String>, ours: impl Into<String>, why: &str) -> Row {
        Row::new(what, Row::in_words("-", ours), false, Verdict::Cannot, why)
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

    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    pub(super) fn used_in_fit(&self) -> bool {
        self.used_in_fit
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

    pub(super) fn kept(&self) -> results::Row {
        let (unit, decimals) = match self.said {
            Said::Number { unit, decimals, .. } => (unit, decimals),
            Said::Statement { .. } => ("", 2),
        };
        let used = if self.used_in_fit { ", used in a fit" } else { "" };
        let cells = vec![
            self.published().into(),
            self.ours().into(),
            Cell::rounds(self.runs.iter().copied(), unit, decimals),
            format!("{}{used}", self.verdict.name()).into(),
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
mod tests {
    use super::*;

    const MB: Quantity = Quantity::new("MB", 1, 1.5, 0.1);
    const TIMES: Quantity = Quantity::new("times", 2, 1.5, 0.0);

    #[test]
    fn tolerances() {
        for (published, ours, verdict) in [
            (10.0, 15.0, Verdict::Agrees),
            (10.0, 15.1, Verdict::Differs),
            (15.0, 10.0, Verdict::Agrees),
            (15.1, 10.0, Verdict::Differs),
            (0.0, 0.1, Verdict::Agrees),
            (0.0, 0.2, Verdict::Differs),
            (0.05, 0.15, Verdict::Agrees),
            (10.0, 0.0, Verdict::Differs),
            (10.0, f64::NAN, Verdict::Cannot),
            (10.0, f64::INFINITY, Verdict::Cannot),
        ] {
            let row = MB.row("a", published, &Measured::once(ours), "");
            assert_eq!(row.verdict, verdict, "{published} and {ours}");
        }
    }

    #[test]
    fn a_missing_value_cannot_be_compared() {
        let missing = Measured::once(None);
        let row = MB.row("a", 1.0, &missing, "because");
        assert_eq!(
            (row.verdict, row.why(), row.ours().as_str()),
            (Verdict::Cannot, "it was not measured", "-")
        );
        let shown = |value: f64| value.to_string();
        assert_eq!(Row::within("a", "few", shown, (&missing, 0.0..=1.0), "").verdict, Verdict::Cannot);
        assert_eq!(Row::same("a", "flat", None, false, "").verdict, Verdict::Cannot);
        let one_of_three = Measured::runs([Some(2.0), None, Some(2.0)]);
        assert_eq!(TIMES.effect("a", 2.0, &one_of_three, "").verdict, Verdict::Cannot);
        assert_eq!(Row::no_effect("a", "none", shown, (&one_of_three, 3.0), "").verdict, Verdict::Cannot);
    }

    #[test]
    fn an_effect_needs_runs_and_must_exceed_its_spread() {
        use Verdict::{Agrees, Cannot, Differs};
        for (published, runs, verdict) in [
            (2.0, vec![2.0, 2.1], Cannot),
            (2.0, vec![2.0, 2.1, 2.2], Agrees),
            // The value is within the tolerance, but it does not differ from "no effect".
            (2.0, vec![0.9, 2.0, 2.2], Cannot),
            (1.2, vec![1.1, 1.2, 1.4], Cannot),
            (1.2, vec![1.18, 1.2, 1.22], Agrees),
            // The first value exceeds the tolerance by more than the spread; the second value exceeds it by
            // less.
            (2.0, vec![4.0, 4.2, 4.4], Differs),
            (2.0, vec![2.5, 3.1, 4.0], Cannot),
            // The effect is in the opposite direction.
            (2.0, vec![0.5, 0.5, 0.5], Differs),
            (0.5, vec![0.5, 0.5, 0.51], Agrees),
            // The runs show no effect, although an effect is published.
            (2.0, vec![0.99, 1.0, 1.01], Differs),
        ] {
            assert_eq!(
                TIMES.effect("a", published, &Measured::runs(runs.clone()), "").verdict,
                verdict,
                "{runs:?}"
            );
        }
        let row = TIMES.effect("a", 2.0, &Measured::runs([2.0, 2.1]), "because");
        assert_eq!(
            (row.why(), row.ours().as_str()),
            ("not shown (n = 2)", "2.05 times (2.00 to 2.10, n = 2)")
        );
    }

    #[test]
    fn effects_in_words() {
        use Verdict::{Agrees, Cannot, Differs};
        let verdict = |runs: [f64; 3]| {
            Row::effect(
                "a",
                "a gain",
                |gain| format!("{gain:.1}"),
                (&Measured::runs(runs), 1.2..=f64::INFINITY),
                "",
            )
            .verdict
        };
        assert_eq!(
            [verdict([2.0, 2.1, 2.2]), verdict([0.8, 0.9, 0.9]), verdict([1.0, 1.3, 2.0])],
            [Agrees, Differs, Cannot]
        );
        let verdict = |runs: &[f64]| {
            let runs = Measured::runs(runs.to_vec());
            Row::no_effect("a", "no gain", |gain| format!("{gain:.1}"), (&runs, 1.25), "").verdict
        };
        assert_eq!(verdict(&[0.95, 1.0, 1.1]), Agrees);
        assert_eq!(verdict(&[1.9, 2.0, 2.1]), Differs);
        assert_eq!(verdict(&[0.9, 1.1, 1.6]), Cannot);
        assert_eq!(verdict(&[1.0, 1.0]), Cannot);
    }

    #[test]
    fn what_a_published_number_shaped_is_used() {
        let (free, shaped) = (Measured::once(2.0), Measured::once(2.0).shaped(true));
        assert!(!MB.row("a", 2.0, &free, "").used_in_fit);
        assert!(MB.row("a", 2.0, &shaped, "").used_in_fit);
        assert!(MB.row("a", 1.0, &free.over(&shaped), "").used_in_fit, "a fitted denominator");
        let runs = Measured::runs([2.0; 3]);
        assert!(!TIMES.effect("a", 2.0, &runs, "").used_in_fit);
        assert!(TIMES.effect("a", 2.0, &runs.over(&Measured::runs([1.0; 3]).shaped(true)), "").used_in_fit);
        assert!(Row::within("a", "b", |value| value.to_string(), (&shaped, 0.0..=1.0), "").used_in_fit);
        assert!(Row::same("a", "flat", Some("flat"), true, "").used_in_fit);
    }

    #[test]
    fn of_a_total_and_its_parts_the_last_follows() {
        let scored = |total: Measured| {
            let ours = Measured::once(1.0);
            let part = |what: &str, ours| Part {
                quantity: MB,
                what: what.to_owned(),
                published: 1.0,
                ours,
                why: "",
            };
            Quantity::total_and_parts(part("total", &total), [part("first", &ours), part("last", &ours)])
                .map(|row| !row.used_in_fit)
        };
        assert_eq!(scored(Measured::once(2.0)), [true, true, false]);
        assert_eq!(scored(Measured::once(2.0).shaped(true)), [false, true, false]);
    }

    #[test]
    fn a_reason_is_given_only_where_it_is_needed() {
        let row = MB.row("a", 2.0, &Measured::once(2.04), "because").noted("of two");
        assert_eq!((row.published().as_str(), row.ours().as_str()), ("2 MB", "2.0 MB (of two)"));
        assert_eq!((row.verdict, row.why()), (Verdict::Agrees, ""));
        let row = MB.row("a", 2.0, &Measured::once(4.0), "because");
        assert_eq!((row.verdict, row.why()), (Verdict::Differs, "because"));
        assert_eq!(row.because("MB: 4").why(), "MB: 4; because");
    }

    #[test]
    fn numbers_stay_numbers_in_json() {
        let number = serde_json::to_value(MB.cannot("a", 20.0, "no")).unwrap();
        let expected = serde_json::json!({
            "what": "a", "kind": "number", "published": 20.0, "ours": null, "unit": "MB", "decimals": 1, "note": "",
            "used_in_fit": false, "verdict": "cannot", "why": "no",
        });
        assert_eq!(number, expected);
        let statement = serde_json::to_value(Row::same("a", "few", Some("many"), false, "no")).unwrap();
        assert_eq!((&statement["kind"], &statement["ours"]), (&"statement".into(), &"many".into()));
    }
}
