//! Checks budgets, which are the user's limits for figures.
//!
//! The budget `latency.writes.service.p99<=20ms` compares a figure with an amount. [`Analysis::figures`]
//! lists all names. Parts of a name can be omitted if the rest is unique, such as `sizes.reads.p50`, but not
//! `latency.p99.writes`. A path in the report's JSON, such as `latency.groups[writes].service_ns.p99`, can
//! replace the name.
//!
//! [`Analysis::figures`]: fonio_analysis::Analysis::figures

mod amount;
mod figures;

use fonio_analysis::Figure;
use thiserror::Error;

pub use amount::Amount;

use fonio_core::{QuantityError, Relation, Unit};

/// A budget: a figure and the threshold for its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// The figure's name in the user's budget.
    pub path: String,
    /// The relation that the figure must satisfy.
    pub relation: Relation,
    /// The threshold for the figure.
    pub limit: Amount,
}

/// The result of checking a figure against its budget.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Whether the figure satisfies the budget.
    pub passed: bool,
    /// The complete name of the figure.
    pub path: String,
    /// The budget as the user wrote it, without spaces: `FIGURE<=LIMIT`.
    pub budget: String,
    /// The unit of the figure.
    pub unit: Unit,
    /// The value of the figure in this unit (nanoseconds, bytes, a share of 1, …).
    pub actual: f64,
    /// The threshold in this unit.
    pub limit: f64,
    /// The result of the check in one sentence.
    pub sentence: String,
}

/// An error in parsing or checking a budget.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// The budget contains no relation such as `<=`.
    #[error("{text:?} is not a budget: write FIGURE<=LIMIT, with one of <, <=, >, >=, ==")]
    NoRelation {
        /// The budget as the user wrote it.
        text: String,
    },
    /// The threshold is not a number with a known unit.
    #[error(transparent)]
    BadAmount(#[from] QuantityError),
    /// No figure has the name in the budget.
    #[error("the report has no figure {path:?}{}", near_words(near))]
    UnknownPath {
        /// The name in the budget.
        path: String,
        /// Names of figures that are similar.
        near: Vec<String>,
    },
    /// The name in the budget fits several figures equally well.
    #[error("{path:?} could be several figures: {}", candidates.join(", "))]
    Ambiguous {
        /// The name in the budget.
        path: String,
        /// The names of the figures that fit.
        candidates: Vec<String>,
    },
    /// The figure and the threshold have different units.
    #[error("{path} is {}; {limit} cannot be compared with it", unit_words(*unit))]
    WrongUnit {
        /// The name of the figure.
        path: String,
        /// The unit of the figure.
        unit: Unit,
        /// The threshold as the user wrote it.
        limit: String,
    },
    /// The recording does not show the figure, so fonio does not know whether the budget is met.
    #[error("{path} is unknown in this recording")]
    NotKnown {
        /// The name of the figure.
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
        Unit::Ns | Unit::Ms | Unit::S => "a duration, such as 20ms",
        Unit::Bytes => "a number of bytes",
        Unit::BytesPerS | Unit::MbPerS => "a rate in bytes per second",
        Unit::Count => "a count",
        Unit::PerS => "a rate per second",
        Unit::Share | Unit::Percent => "a share, such as 20%",
        Unit::Ratio => "a ratio",
        Unit::Millicelsius => "a temperature",
        Unit::Number => "a plain number",
    }
}

impl Budget {
    /// Parses `FIGURE<=LIMIT`. Fails with [`BudgetError::NoRelation`] or [`BudgetError::BadAmount`].
    pub fn parse(text: &str) -> Result<Budget, BudgetError> {
        let none = || BudgetError::NoRelation { text: text.to_owned() };
        let (at, relation, sign) = find_relation(text).ok_or_else(none)?;
        let path = text[..at].trim();
        if path.is_empty() {
            return Err(none());
        }
        let limit = Amount::parse(&text[at + sign.len()..])?;
        Ok(Budget { path: path.to_owned(), relation, limit })
    }

    /// Compares the figure that the budget names with the threshold. Fails with [`BudgetError`] if the figure
    /// is unknown, ambiguous, of another unit, or not in the recording.
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
        let budget = format!("{}{}{}", self.path, self.relation, self.limit.text);
        let path = figure.name.clone();
        Ok(Outcome { passed, path, budget, unit: figure.unit, actual, limit, sentence })
    }
}

/// Returns the offset, the relation and the sign of the first relation outside brackets. Inside brackets, a
/// process name can contain the same characters: `a<b`.
fn find_relation(text: &str) -> Option<(usize, Relation, &'static str)> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '<' | '>' | '=' if depth == 0 => {
                return Relation::at_start(&text[at..]).map(|(relation, sign)| (at, relation, sign));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
