//! A published number or statement beside ours, and when the two agree.

use serde::Serialize;

/// A line of a paper.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) published: String,
    pub(super) ours: String,
    /// Our number was made from this one, so that agreement proves nothing.
    pub(super) used_in_fit: bool,
    pub(super) verdict: Verdict,
    /// Where it differs or cannot be had: why.
    pub(super) why: String,
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
    fn shown(self, value: f64) -> String {
        format!("{value:.*} {}", self.decimals, self.unit)
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
        Row {
            what: what.into(),
            published: self.shown(published),
            ours: self.shown(ours),
            used_in_fit,
            verdict: Verdict::of(agrees),
            why: if agrees { String::new() } else { why.to_owned() },
        }
    }
}

impl Row {
    /// The row of a statement that holds or not.
    pub(super) fn statement(
        what: impl Into<String>,
        published: impl Into<String>,
        ours: impl Into<String>,
        holds: bool,
        why: &str,
    ) -> Row {
        Row {
            what: what.into(),
            published: published.into(),
            ours: ours.into(),
            used_in_fit: false,
            verdict: Verdict::of(holds),
            why: if holds { String::new() } else { why.to_owned() },
        }
    }

    /// The row of what this machine cannot show.
    pub(super) fn cannot(
        what: impl Into<String>,
        published: impl Into<String>,
        ours: impl Into<String>,
        why: &str,
    ) -> Row {
        Row {
            what: what.into(),
            published: published.into(),
            ours: ours.into(),
            used_in_fit: false,
            verdict: Verdict::Cannot,
            why: why.to_owned(),
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
        let quantity = Quantity { unit: "MB", decimals: 1, tolerance: Tolerance { factor: 1.5, floor: 0.0 } };
        let row = quantity.row("a", 2.0, 2.04, true, "because");
        assert_eq!((row.published.as_str(), row.ours.as_str(), row.why.as_str()), ("2.0 MB", "2.0 MB", ""));
        assert_eq!(row.verdict, Verdict::Agrees);
        let row = quantity.row("a", 2.0, 4.0, false, "because");
        assert_eq!((row.verdict, row.why.as_str()), (Verdict::Differs, "because"));
    }
}
