//! An amount as people state it: a number and a unit.

use std::fmt;

use super::BudgetError;
use crate::number::Unit;

/// A number with the dimension of the unit it was stated in.
#[derive(Clone, Debug, PartialEq)]
pub struct Amount {
    /// As it was written.
    pub text: String,
    /// The value in the dimension's base: nanoseconds, bytes, a share of 1.
    value: f64,
    dimension: Option<Unit>,
}

/// Each unit with its dimension and its size in the dimension's base. kB is 1000, KiB is 1024.
const UNITS: [(&str, Unit, f64); 24] = [
    ("ns", Unit::Nanos, 1.0),
    ("us", Unit::Nanos, 1e3),
    ("µs", Unit::Nanos, 1e3),
    ("ms", Unit::Nanos, 1e6),
    ("s", Unit::Nanos, 1e9),
    ("min", Unit::Nanos, 60e9),
    ("h", Unit::Nanos, 3600e9),
    ("B", Unit::Bytes, 1.0),
    ("kB", Unit::Bytes, 1e3),
    ("KB", Unit::Bytes, 1e3),
    ("MB", Unit::Bytes, 1e6),
    ("GB", Unit::Bytes, 1e9),
    ("TB", Unit::Bytes, 1e12),
    ("KiB", Unit::Bytes, 1024.0),
    ("MiB", Unit::Bytes, 1_048_576.0),
    ("GiB", Unit::Bytes, 1_073_741_824.0),
    ("TiB", Unit::Bytes, 1_099_511_627_776.0),
    ("%", Unit::Share, 0.01),
    ("/s", Unit::PerSecond, 1.0),
    ("/min", Unit::PerSecond, 1.0 / 60.0),
    ("x", Unit::Times, 1.0),
    ("×", Unit::Times, 1.0),
    ("°C", Unit::Celsius, 1.0),
    ("C", Unit::Celsius, 1.0),
];

impl Amount {
    /// Reads `20ms`, `4 KiB`, `1.5 MB/s`, `12%`, `3`.
    ///
    /// # Errors
    /// [`BudgetError::BadAmount`].
    pub fn parse(text: &str) -> Result<Amount, BudgetError> {
        let text = text.trim();
        let bad = || BudgetError::BadAmount { text: text.to_owned() };
        let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_');
        let mut end = text.find(|c| !digits(c)).unwrap_or(text.len());
        // An exponent, if digits follow: `1e6`.
        if text[end..].starts_with(['e', 'E']) {
            let tail = &text[end + 1..];
            let length = tail.find(|c| !digits(c)).unwrap_or(tail.len());
            if length > 0 {
                end += 1 + length;
            }
        }
        let number: f64 = text[..end].replace('_', "").parse().map_err(|_| bad())?;
        if !number.is_finite() {
            return Err(bad());
        }
        let unit = text[end..].trim();
        let amount = |value, dimension| Ok(Amount { text: text.to_owned(), value, dimension });
        if unit.is_empty() {
            return amount(number, None);
        }
        if let Some((_, dimension, size)) = UNITS.iter().find(|(name, ..)| *name == unit) {
            return amount(number * size, Some(*dimension));
        }
        let bytes = unit.strip_suffix("/s").and_then(|unit| UNITS.iter().find(|(name, ..)| *name == unit));
        match bytes {
            Some((_, Unit::Bytes, size)) => amount(number * size, Some(Unit::BytesPerSecond)),
            _ => Err(bad()),
        }
    }

    /// The value to compare a figure of `unit` with; `None` where the dimensions differ. A duration needs a unit; the
    /// others may go without.
    pub fn in_unit(&self, unit: Unit) -> Option<f64> {
        match (self.dimension, unit) {
            (None, Unit::Nanos | Unit::Seconds) => None,
            (None, _) => Some(self.value),
            (Some(Unit::Nanos), Unit::Seconds) => Some(self.value / 1e9),
            // "10 flushes" may be said of a ratio and "2x" of a plain number.
            (Some(Unit::Times), Unit::Plain | Unit::Share) => Some(self.value),
            (Some(Unit::Share), Unit::Times | Unit::Plain) => Some(self.value),
            (Some(dimension), unit) => (dimension == unit).then_some(self.value),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
