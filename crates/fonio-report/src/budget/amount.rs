//! An amount as people state it: a number and a unit.

use std::fmt;

use fonio_core::{Quantity, QuantityError, Unit};

/// A number with the unit that it was stated in.
#[derive(Clone, Debug, PartialEq)]
pub struct Amount {
    /// As it was written.
    pub text: String,
    quantity: Quantity,
}

impl Amount {
    /// Reads `20ms`, `4 KiB`, `1.5 MB/s`, `12%`, `3`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Amount, QuantityError> {
        Ok(Amount { text: text.trim().to_owned(), quantity: text.parse()? })
    }

    /// The value to compare a figure of `unit` with; `None` where they count different things. A duration needs a unit;
    /// the others may go without.
    pub fn in_unit(&self, unit: Unit) -> Option<f64> {
        let value = self.quantity.value;
        match (self.quantity.unit, unit) {
            (None, Unit::Ns | Unit::S) => None,
            // People state degrees.
            (None, Unit::Millicelsius) => Some(value * 1000.0),
            (None, _) => Some(value),
            (Some(Unit::Ns), Unit::S) => Some(value / 1e9),
            // "10 flushes" may be said of a ratio and "2x" of a plain number.
            (Some(Unit::Ratio), Unit::Number | Unit::Share) => Some(value),
            (Some(Unit::Share), Unit::Ratio | Unit::Number) => Some(value),
            (Some(stated), unit) => (stated == unit).then_some(value),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
