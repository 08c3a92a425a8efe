//! Budgets: limits that the user states for figures.
//!
//! `latency.writes.service.p99<=20ms` names a figure and compares it with an amount. [`Analysis::figures`] lists every
//! name. A name may leave out parts as long as it means one figure: `latency.p99.writes` does not, `sizes.reads.p50` does;
//! paths of the report's JSON are understood too (`latency.groups[writes].service_ns.p99`).
//!
//! [`Analysis::figures`]: fonio_analysis::Analysis::figures

mod amount;
mod figures;

use std::fmt;

use fonio_analysis::Figure;
use thiserror::Error;

pub use amount::Amount;

use fonio_core::{QuantityError, Unit};

/// A threshold for one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// The figure as the user named it.
    pub path: String,
    /// How the figure must stand to the threshold.
    pub relation: Relation,
    /// The threshold.
    pub limit: Amount,
}

/// How a figure must stand to its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
}

/// What a budget says about an analysis.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Whether the figure keeps to the threshold.
    pub passed: bool,
    /// The figure's full path.
    pub path: String,
    /// The figure, in the unit of its name (nanoseconds, bytes, a share of 1, …).
    pub actual: f64,
    /// The outcome in a sentence.
    pub sentence: String,
}

/// Why a budget cannot be read or held against an analysis.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// There is no relation between two sides.
    #[error("{text:?} is not a budget: write FIGURE<=LIMIT, with one of <, <=, >, >=, ==")]
    NoRelation {
        /// What was given.
        text: String,
    },
    /// The threshold is not a number with a known unit.
    #[error(transparent)]
    BadAmount(#[from] QuantityError),
    /// No figure has that path.
    #[error("the report has no figure {path:?}{}", near_words(near))]
    UnknownPath {
        /// What was asked for.
        path: String,
        /// Paths that look like it.
        near: Vec<String>,
    },
    /// Several figures fit equally well.
    #[error("{path:?} could be several figures: {}", candidates.join(", "))]
    Ambiguous {
        /// What was asked for.
        path: String,
        /// What it could mean.
        candidates: Vec<String>,
    },
    /// The figure's unit and the threshold's do not fit.
    #[error("{path} is {}; {limit} cannot be compared with it", unit_words(*unit))]
    WrongUnit {
        /// The figure.
        path: String,
        /// What it is counted in.
        unit: Unit,
        /// The threshold as it was written.
        limit: String,
    },
    /// The recording does not show the figure: neither kept nor broken.
    #[error("{path} is unknown in this recording")]
    NotKnown {
        /// The figure.
        path: String,
    },
}

fn near_words(near: &[String]) -> String {
    if near.is_empty() {
        return "; `fonio report --figures` lists them all".to_owned();
    }
    format!("; did you mean {}?", near.join(" or "))
}

fn unit_words(unit: Unit) -> &'static str {
    match unit {
        Unit::Ns | Unit::S => "a duration",
        Unit::Bytes => "a number of bytes",
        Unit::BytesPerS => "a rate in bytes per second",
        Unit::Count => "a count",
        Unit::PerS => "a rate per second",
        Unit::Share => "a share",
        Unit::Ratio => "a ratio",
        Unit::Millicelsius => "a temperature",
        Unit::Number => "a plain number",
    }
}

impl Relation {
    fn holds(self, actual: f64, limit: f64) -> bool {
        match self {
            Relation::Below => actual < limit,
            Relation::AtMost => actual <= limit,
            Relation::Above => actual > limit,
            Relation::AtLeast => actual >= limit,
            Relation::Equal => actual == limit,
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Relation::Below => "<",
            Relation::AtMost => "<=",
            Relation::Above => ">",
            Relation::AtLeast => ">=",
            Relation::Equal => "==",
        })
    }
}

impl Budget {
    /// Reads `FIGURE<=LIMIT`.
    ///
    /// # Errors
    /// [`BudgetError::NoRelation`], [`BudgetError::BadAmount`].
    pub fn parse(text: &str) -> Result<Budget, BudgetError> {
        let (at, length, relation) =
            find_relation(text).ok_or_else(|| BudgetError::NoRelation { text: text.to_owned() })?;
        let path = text[..at].trim();
        if path.is_empty() {
            return Err(BudgetError::NoRelation { text: text.to_owned() });
        }
        let limit = Amount::parse(&text[at + length..])?;
        Ok(Budget { path: path.to_owned(), relation, limit })
    }

    /// Compares the figure that the budget names with its limit.
    ///
    /// # Errors
    /// [`BudgetError`]: no or no single such figure, one of another unit, or one that the recording does not show.
    pub fn evaluate(&self, figures: &[Figure]) -> Result<Outcome, BudgetError> {
        let figure = figures::resolve(figures, &self.path, &self.limit)?;
        let limit = self.limit.in_unit(figure.unit).ok_or_else(|| BudgetError::WrongUnit {
            path: figure.name.clone(),
            unit: figure.unit,
            limit: self.limit.text.clone(),
        })?;
        let actual = figure.value.ok_or_else(|| BudgetError::NotKnown { path: figure.name.clone() })?;
        let passed = self.relation.holds(actual, limit);
        let sentence = format!(
            "{} is {}, {} the budget of {} {}",
            figure.name,
            figure.text,
            if passed { "within" } else { "outside" },
            self.relation,
            figure.unit.format(limit)
        );
        Ok(Outcome { passed, path: figure.name.clone(), actual, sentence })
    }
}

/// The first relation outside brackets: a process may be called `a<b`.
fn find_relation(text: &str) -> Option<(usize, usize, Relation)> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '<' | '>' | '=' if depth == 0 => {
                let doubled = text[at + 1..].starts_with('=');
                return match (c, doubled) {
                    ('<', true) => Some((at, 2, Relation::AtMost)),
                    ('<', false) => Some((at, 1, Relation::Below)),
                    ('>', true) => Some((at, 2, Relation::AtLeast)),
                    ('>', false) => Some((at, 1, Relation::Above)),
                    (_, true) => Some((at, 2, Relation::Equal)),
                    (_, false) => None,
                };
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
