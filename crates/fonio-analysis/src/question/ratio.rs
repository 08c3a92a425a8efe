//! Computes ratios and rates, and provides lists that grow on demand.

use fonio_core::{ByteCount, Nanos, Unit};

/// A value that can be divided: a count, or a number with a unit.
pub(crate) trait Amount {
    const UNIT: Unit;
    fn number(self) -> u64;
}

impl Amount for u64 {
    const UNIT: Unit = Unit::Count;
    fn number(self) -> u64 {
        self
    }
}

impl Amount for Nanos {
    const UNIT: Unit = Unit::Ns;
    fn number(self) -> u64 {
        self.0
    }
}

impl Amount for ByteCount {
    const UNIT: Unit = Unit::Bytes;
    fn number(self) -> u64 {
        self.0
    }
}

/// An amount that may be unknown.
pub(crate) trait Known {
    const UNIT: Unit;
    fn known(self) -> Option<u64>;
}

impl<A: Amount> Known for A {
    const UNIT: Unit = A::UNIT;
    fn known(self) -> Option<u64> {
        Some(self.number())
    }
}

impl<A: Amount> Known for Option<A> {
    const UNIT: Unit = A::UNIT;
    fn known(self) -> Option<u64> {
        self.map(A::number)
    }
}

/// Returns `part / whole`, or `None` if `whole` is 0.
pub(crate) fn ratio<A: Amount>(part: A, whole: A) -> Option<f64> {
    let (part, whole) = (part.number(), whole.number());
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Returns the rate of `count` events or bytes in `span`, per second.
pub(crate) fn per_second(count: impl Amount, span: Nanos) -> Option<f64> {
    (span.0 > 0).then(|| count.number() as f64 * 1e9 / span.0 as f64)
}

/// Returns the element at `index`; extends the list with default elements if it is too short.
#[inline]
pub(crate) fn at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if index >= list.len() {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}
