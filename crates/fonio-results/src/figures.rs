//! Selects the figures that the service ranks from StoreBench's catalogue. All other figures appear only on a
//! result's page, because each ranked figure needs a database row per result.

use std::sync::LazyLock;

use fonio_core::{Better, Figure, Unit};
use fonio_storebench_document::figures as catalogue;

/// The ranked figures in the order in which pages show them. First come the study's four bandwidths, the sum
/// of these bandwidths, and the study's response times. Then comes one figure for each other part of a run.
const NAMES: [&str; 18] = [
    "bandwidth.total",
    "bandwidth.seq_read",
    "bandwidth.seq_write",
    "bandwidth.rand_read",
    "bandwidth.rand_write",
    "response.seq_read.4k.mean",
    "response.seq_write.4k.mean",
    "response.rand_read.4k.mean",
    "response.rand_write.4k.mean",
    "response.rand_read.4k.p99",
    "response.rand_write.4k.p99",
    "sync.write.4k.p50",
    "slowdown.rand_read.1x1",
    "slowdown.rand_read.4x4",
    "sustained.last",
    "launch.cold.total",
    "launch.warm.total",
    "cpu.iowait",
];

/// The figure that the ranking page shows by default.
pub const FIRST: &str = NAMES[0];

/// A figure for which results are ranked.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The figure's name in the catalogue of StoreBench.
    pub name: String,
    /// The label that pages show.
    pub label: String,
    /// The unit of the figure.
    pub unit: Unit,
    /// Whether higher or lower values are better.
    pub better: Better,
}

static RANKED: LazyLock<Vec<Ranked>> = LazyLock::new(|| {
    let rank = |name: &&str| {
        let figure = catalogue::find(name).unwrap_or_else(|| panic!("the catalogue has no {name}"));
        let better =
            figure.better.unwrap_or_else(|| panic!("{name} has no direction, so it cannot be ranked"));
        let Figure { name, label, unit, .. } = figure.figure;
        Ranked { name, label, unit, better }
    };
    NAMES.iter().map(rank).collect()
});

/// Returns the ranked figures.
pub fn ranked() -> &'static [Ranked] {
    &RANKED
}

/// Returns the index of the figure with this name in [`ranked`].
pub fn find(name: &str) -> Option<usize> {
    NAMES.iter().position(|ranked| *ranked == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ranked_figure_is_in_the_catalogue_and_has_a_direction() {
        assert_eq!(ranked().len(), NAMES.len());
        assert_eq!(find(FIRST), Some(0));
        assert_eq!(find("bandwidth"), None);
    }
}
