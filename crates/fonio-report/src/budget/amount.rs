//! Parses an amount in user input: a number and a unit.

use fonio_core::{Quantity, QuantityError, Unit};

/// A number with its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Amount {
    /// The amount as the user wrote it.
    pub text: String,
    quantity: Quantity,
}

impl Amount {
    /// Parses `20ms`, `4 KiB`, `1.5 MB/s`, `12%`, `3`. Returns an error message.
    pub fn parse(text: &str) -> Result<Amount, QuantityError> {
        Ok(Amount { text: text.trim().to_owned(), quantity: text.parse()? })
    }

    /// Returns the amount converted to `unit`; `None` if the units measure different quantities. A duration and
    /// a share must have a unit, because 1 can be all or a hundredth; other amounts can omit it.
    pub fn in_unit(&self, unit: Unit) -> Option<f64> {
        let value = self.quantity.value;
        match (self.quantity.unit, unit) {
            (None, Unit::Ns | Unit::Ms | Unit::S | Unit::Share | Unit::Percent) => None,
            // Users write temperatures in degrees.
            (None, Unit::Millicelsius) => Some(value * 1000.0),
            (None, _) => Some(value),
            (Some(Unit::Ns), Unit::S) => Some(value / 1e9),
            // "10 flushes" is accepted for a ratio, and "2x" for a plain number.
            (Some(Unit::Ratio), Unit::Number | Unit::Share) => Some(value),
            (Some(Unit::Share), Unit::Ratio | Unit::Number) => Some(value),
            (Some(stated), unit) => (stated == unit).then_some(value),
        }
    }
}
