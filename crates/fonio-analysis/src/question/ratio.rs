//! Computes ratios and rates, and provides lists that grow on demand.

use fonio_core::{ByteCount, Nanos};

/// A value that can be divided: a count, or a number with a unit.
pub(crate) trait Amount {
    fn number(self) -> u64;
}

impl Amount for u64 {
    fn number(self) -> u64 {
        self
    }
}

impl Amount for Nanos {
    fn number(self) -> u64 {
        self.0
    }
}

impl Amount for ByteCount {
    fn number(self) -> u64 {
        self.0
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
