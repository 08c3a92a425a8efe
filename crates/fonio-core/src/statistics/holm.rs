//! Implements Holm's procedure with weights, for intervals (Holm, *A Simple Sequentially Rejective Multiple
//! Test Procedure*, 1979).
//!
//! Each figure is tested at its share of the error level. Figures that differ are removed, and the remaining
//! figures get the shares of the removed figures. The procedure repeats until no remaining figure differs.
//! The probability that at least one claim is false is at most the error level, regardless of which figures
//! truly differ.

/// Tests several figures together at the error level `level`; `weights` has the weight of each figure.
/// `claims(figure, level)` returns whether the figure differs at a level, and must be monotonic in the level.
/// Returns the last level at which each figure was tested.
pub fn levels(level: f64, weights: &[f64], mut claims: impl FnMut(usize, f64) -> bool) -> Vec<f64> {
    let mut open: Vec<usize> = (0..weights.len()).collect();
    let mut levels = vec![level; weights.len()];
    loop {
        let sum: f64 = open.iter().map(|figure| weights[*figure]).sum();
        for figure in &open {
            levels[*figure] = level * weights[*figure] / sum;
        }
        let before = open.len();
        open.retain(|figure| !claims(*figure, levels[*figure]));
        if open.len() == before || open.is_empty() {
            return levels;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_by_hand() {
        // Test p values with equal weights: the levels are 0.05/3, 0.05/2 and 0.05.
        let of = |p: [f64; 3]| levels(0.05, &[1.0; 3], |figure, level| p[figure] <= level);
        let claimed = |p: [f64; 3]| of(p).iter().zip(p).filter(|(level, p)| p <= *level).count();
        assert_eq!(claimed([0.01, 0.02, 0.04]), 3);
        assert_eq!(claimed([0.01, 0.03, 0.03]), 1);
        assert_eq!(claimed([0.02, 0.02, 0.02]), 0);
        assert_eq!(of([0.9; 3]), [0.05 / 3.0; 3]);
        // A figure with a weight of 8 of 10 is tested at four fifths of the level.
        assert!((levels(0.05, &[8.0, 1.0, 1.0], |_, _| false)[0] - 0.04).abs() < 1e-12);
        assert!(levels(0.05, &[], |_, _| true).is_empty());
    }
}
