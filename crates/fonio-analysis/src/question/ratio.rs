//! Ratios, rates, and lists that grow on demand.

/// `part / whole`; `None` if `whole` is 0.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The rate of `count` events in `span_ns`, per second.
pub(crate) fn per_second(count: u64, span_ns: u64) -> Option<f64> {
    (span_ns > 0).then(|| count as f64 * 1e9 / span_ns as f64)
}

/// The element of a list that grows on demand.
#[inline]
pub(crate) fn at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if index >= list.len() {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}
