//! Computes figures from the values of a cell's starts.

use super::cell::Values;
use super::points;

/// Returns, for each start, the ratio of the response time with concurrent I/O to the response time without
/// it.
pub(super) fn slowdowns(values: &Values, beside: &str, alone: &str) -> Option<Vec<f64>> {
    let pairs = values.get(beside)?.iter().zip(values.get(alone)?);
    Some(pairs.map(|(beside, alone)| beside / alone).collect())
}

/// Returns the minimum, the median and the maximum of [`slowdowns`].
pub(super) fn slowdown(values: &Values, beside: &str, alone: &str) -> Option<[f64; 3]> {
    points(&slowdowns(values, beside, alone)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowdowns_are_of_the_same_start() {
        let values: Values =
            [("beside".to_owned(), vec![2.0, 30.0]), ("alone".to_owned(), vec![1.0, 10.0])].into();
        assert_eq!(slowdown(&values, "beside", "alone"), Some([2.0, 2.5, 3.0]));
    }
}
