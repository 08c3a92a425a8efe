//! A published number or statement beside ours, and when the two agree.

use std::fmt::Write as _;

use serde::Serialize;

/// A line of a paper.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) what: String,
    #[serde(flatten)]
    pub(super) said: Said,
    /// Our number was made from this one, so that agreement proves nothing.
    pub(super) used_in_fit: bool,
    pub(super) verdict: Verdict,
    /// Where it differs or cannot be had: why.
    pub(super) why: String,
}

/// What the study says, and what came out here.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Said {
    /// Of the same unit.
    Number {
        published: f64,
        /// `None` where it was not measured.
        ours: Option<f64>,
        unit: &'static str,
        /// How many are worth showing.
        decimals: usize,
        /// What belongs to ours: of which devices it is, or what it is by another way of counting.
        note: String,
    },
    /// In words.
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

    pub(super) fn of(agrees: bool) -> Verdict {
        if agrees { Verdict::Agrees } else { Verdict::Differs }
    }
}

/// How far two numbers may be apart and still agree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    /// The larger over the smaller, at most.
    pub(super) factor: f64,
    /// Or a difference of no more than this, where the published number is rounded or near nothing.
    pub(super) floor: f64,
}

impl Tolerance {
    /// Whether `ours` agrees with `published`.
    pub(super) fn holds(self, published: f64, ours: f64) -> bool {
        let (small, large) = if published < ours { (published, ours) } else { (ours, published) };
        large - small <= self.floor || (small > 0.0 && large / small <= self.factor)
    }
}

/// What is compared, in which unit and with how many decimals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantity {
    pub(super) unit: &'static str,
    pub(super) decimals: usize,
    pub(super) tolerance: Tolerance,
}

impl Quantity {
    pub(super) const fn new(unit: &'static str, decimals: usize, factor: f64, floor: f64) -> Self {
        Quantity { unit, decimals, tolerance: Tolerance { factor, floor } }
    }

    /// The row of a number. `why` is said only where the two differ.
    pub(super) fn row(
        self,
        what: impl Into<String>,
        published: f64,
        ours: f64,
        used_in_fit: bool,
        why: &str,
    ) -> Row {
        let agrees = self.tolerance.holds(published, ours);
        Row { used_in_fit, ..self.judged(what, published, ours, agrees, why) }
    }

    /// The row of a number with a rule of its own for when the two agree.
    pub(super) fn judged(
        self,
        what: impl Into<String>,
        published: f64,
        ours: f64,
        agrees: bool,
        why: &str,
    ) -> Row {
        Row::new(what, self.said(published, Some(ours)), Verdict::of(agrees), why)
    }

    /// The row of a number that was not measured.
    pub(super) fn cannot(self, what: impl Into<String>, published: f64, why: &str) -> Row {
        Row::new(what, self.said(published, None), Verdict::Cannot, why)
    }

    fn said(self, published: f64, ours: Option<f64>) -> Said {
        Said::Number { published, ours, unit: self.unit, decimals: self.decimals, note: String::new() }
    }
}

impl Row {
    /// `why` is dropped where the two agree.
    fn new(what: impl Into<String>, said: Said, verdict: Verdict, why: &str) -> Row {
        let why = if verdict == Verdict::Agrees { "" } else { why };
        Row { what: what.into(), said, used_in_fit: false, verdict, why: why.to_owned() }
    }

    /// The row of a statement that holds or not.
    pub(super) fn statement(
        what: impl Into<String>,
        published: impl Into<String>,
        ours: impl Into<String>,
        holds: bool,
        why: &str,
    ) -> Row {
        let said = Said::Statement { published: published.into(), ours: ours.into() };
        Row::new(what, said, Verdict::of(holds), why)
    }

    /// The row of what this machine cannot show.
    pub(super) fn cannot(
        what: impl Into<String>,
        published: impl Into<String>,
        ours: impl Into<String>,
        why: &str,
    ) -> Row {
        let said = Said::Statement { published: published.into(), ours: ours.into() };
        Row::new(what, said, Verdict::Cannot, why)
    }

    /// The same with something that belongs to our number.
    pub(super) fn noted(mut self, text: impl Into<String>) -> Row {
        if let Said::Number { note, .. } = &mut self.said {
            *note = text.into();
        }
        self
    }

    /// The same, used in a fit or not.
    pub(super) fn fitted(self, used_in_fit: bool) -> Row {
        Row { used_in_fit, ..self }
    }

    /// The same with something to say whether the two agree or not.
    pub(super) fn why(self, why: impl Into<String>) -> Row {
        Row { why: why.into(), ..self }
    }
}

impl Said {
    /// As tables show it.
    pub(super) fn published(&self) -> String {
        match self {
            Said::Number { published, unit, decimals, .. } => {
                let text = format!("{published:.decimals$}");
                // It was published with as many digits as it has.
                let text =
                    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
                format!("{text} {unit}")
            }
            Said::Statement { published, .. } => published.clone(),
        }
    }

    /// Ours over the published number, where both are above nothing.
    pub(super) fn ratio(&self) -> Option<f64> {
        match *self {
            Said::Number { published, ours: Some(ours), .. } if published > 0.0 && ours > 0.0 => {
                Some(ours / published)
            }
            _ => None,
        }
    }

    /// As tables show it.
    pub(super) fn ours(&self) -> String {
        match self {
            Said::Number { ours: None, .. } => "-".to_owned(),
            Said::Number { ours: Some(ours), unit, decimals, note, .. } => {
                let mut text = format!("{ours:.decimals$} {unit}");
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

    #[test]
    fn tolerances() {
        let tolerance = Tolerance { factor: 1.5, floor: 0.1 };
        for (published, ours, agrees) in [
            (10.0, 15.0, true),
            (10.0, 15.1, false),
            (15.0, 10.0, true),
            (15.1, 10.0, false),
            (0.0, 0.1, true),
            (0.0, 0.2, false),
            (0.05, 0.15, true),
            (10.0, 0.0, false),
            (10.0, f64::NAN, false),
        ] {
            assert_eq!(tolerance.holds(published, ours), agrees, "{published} and {ours}");
        }
    }

    #[test]
    fn a_reason_is_given_only_where_it_is_needed() {
        let quantity = Quantity::new("MB", 1, 1.5, 0.0);
        let row = quantity.row("a", 2.0, 2.04, true, "because").noted("of two");
        assert_eq!((row.said.published().as_str(), row.said.ours().as_str()), ("2 MB", "2.0 MB (of two)"));
        assert_eq!((row.verdict, row.why.as_str()), (Verdict::Agrees, ""));
        let row = quantity.row("a", 2.0, 4.0, false, "because");
        assert_eq!((row.verdict, row.why.as_str()), (Verdict::Differs, "because"));
    }

    #[test]
    fn numbers_stay_numbers_in_json() {
        let number = serde_json::to_value(Quantity::new("MB", 1, 1.5, 0.0).cannot("a", 20.0, "no")).unwrap();
        let expected = serde_json::json!({
            "what": "a", "kind": "number", "published": 20.0, "ours": null, "unit": "MB", "decimals": 1, "note": "",
            "used_in_fit": false, "verdict": "cannot", "why": "no",
        });
        assert_eq!(number, expected);
        let statement = serde_json::to_value(Row::statement("a", "few", "many", false, "no")).unwrap();
        assert_eq!((&statement["kind"], &statement["ours"]), (&"statement".into(), &"many".into()));
    }
}
