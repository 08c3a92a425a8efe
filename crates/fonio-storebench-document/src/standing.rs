//! Determines the standing of a result among other results, from the empirical distribution of a figure.

use std::sync::OnceLock;

use fonio_core::Better;

use crate::document::{Document, Origin};
use crate::figures;
use crate::models;

/// The rank of a value among the values of other results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Percentage of the other values that are worse. Each equal value counts half.
    pub better_than_percent: f64,
    /// The number of other values with which the value was compared.
    pub others: usize,
}

/// Ranks `value` among `others`; `None` if `others` is empty.
pub fn among(value: f64, better: Better, others: &[f64]) -> Option<Standing> {
    if others.is_empty() {
        return None;
    }
    let worse = others.iter().filter(|other| better.is_better(value, **other)).count();
    let equal = others.iter().filter(|other| **other == value).count();
    let better_than_percent = 100.0 * (worse as f64 + equal as f64 / 2.0) / others.len() as f64;
    Some(Standing { better_than_percent, others: others.len() })
}

/// Ranks a figure of `document` among the shipped results of models. If the document describes a model, this
/// model's result is left out.
pub fn among_models(document: &Document, figure: &str) -> Option<Standing> {
    among_models_at(document, figure, document.value(figure)?.value)
}

/// Does the same as [`among_models`], but ranks `value` instead of the document's value.
pub(crate) fn among_models_at(document: &Document, figure: &str, value: f64) -> Option<Standing> {
    static SHIPPED: OnceLock<Vec<Document>> = OnceLock::new();
    let better = figures::find(figure)?.better?;
    let shipped = SHIPPED.get_or_init(models::shipped);
    let is_itself =
        |model: &Document| document.origin != Origin::Measured && model.device.model == document.device.model;
    let others: Vec<f64> = shipped
        .iter()
        .filter(|model| !is_itself(model))
        .filter_map(|model| Some(model.value(figure)?.value))
        .collect();
    among(value, better, &others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_best_is_better_than_all() {
        let percent = |value, better| {
            among(value, better, &[1.0, 2.0, 3.0, 4.0]).map(|found| found.better_than_percent)
        };
        assert_eq!(percent(5.0, Better::Higher), Some(100.0));
        assert_eq!(percent(5.0, Better::Lower), Some(0.0));
        assert_eq!(percent(2.0, Better::Higher), Some(37.5));
        assert_eq!(percent(2.0, Better::Lower), Some(62.5));
        assert_eq!(among(1.0, Better::Higher, &[]), None);
    }

    proptest! {
        #[test]
        fn directions_add_up(value in 0u8..20, others in prop::collection::vec(0u8..20, 1..30)) {
            let others: Vec<f64> = others.into_iter().map(f64::from).collect();
            let of = |better| among(f64::from(value), better, &others).map(|found| found.better_than_percent);
            let sum = of(Better::Higher).zip(of(Better::Lower)).map(|(high, low)| high + low);
            prop_assert!(sum.is_some_and(|sum| (sum - 100.0).abs() < 1e-9));
        }
    }
}
