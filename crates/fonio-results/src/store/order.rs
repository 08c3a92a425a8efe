//! Computes confidence intervals of quantiles by order statistics, and of shares by Wilson's method.

/// The normal distribution's 97.5 % quantile.
const Z: f64 = 1.959_963_984_540_054;

/// Maximum number of values for which intervals are exact. For more values, the normal distribution
/// approximates the binomial distribution.
const EXACT_MAX: u64 = 200;

/// Returns the rank (from 1) of the `share` quantile. This is the smallest rank such that at least this share
/// of the values have this rank or a lower one.
pub fn nearest_rank(count: u64, share: f64) -> u64 {
    // Due to rounding, a product such as 0.05 * 20 can be slightly above 1.
    ((count as f64 * share - 1e-9).ceil() as u64).clamp(1, count.max(1))
}

/// Returns two ranks (from 1) that enclose the `share` quantile with a probability of at least 95 %, for any
/// distribution. Returns `None` if there are too few values for this probability.
pub fn interval(count: u64, share: f64) -> Option<(u64, u64)> {
    if count <= EXACT_MAX {
        return exact(count, share);
    }
    let (n, middle) = (count as f64, count as f64 * share);
    let half = Z * (n * share * (1.0 - share)).sqrt();
    // Extend the interval by half a rank at each end as continuity correction, and round it outwards to full
    // ranks.
    let low = (middle - half - 0.5).floor();
    let high = (middle + half + 0.5).ceil() + 1.0;
    (low >= 1.0 && high <= n).then_some((low as u64, high as u64))
}

/// Computes the exact interval. The quantile lies between the ranks `low` and `high` if at least `low` and
/// fewer than `high` values are below the quantile. The number of values below the quantile has a binomial
/// distribution.
fn exact(count: u64, share: f64) -> Option<(u64, u64)> {
    let n = i32::try_from(count).ok()?;
    let mut term = (1.0 - share).powi(n);
    let mut below = 0.0;
    let (mut low, mut high) = (None, None);
    for k in 0..=n {
        // `below` is the probability that fewer than k values are below the quantile.
        if below <= 0.025 {
            low = Some(k);
        }
        if high.is_none() && below >= 0.975 {
            high = Some(k);
        }
        below += term;
        term *= f64::from(n - k) / f64::from(k + 1) * share / (1.0 - share);
    }
    match (low, high) {
        (Some(low), Some(high)) if low >= 1 => Some((low as u64, high as u64)),
        _ => None,
    }
}

/// Returns Wilson's 95 % interval of a share, given `hits` of `count` observations; `count` must not be 0.
pub fn wilson(hits: u64, count: u64) -> (f64, f64) {
    assert!(count > 0 && hits <= count, "{hits} of {count}");
    let (n, share) = (count as f64, hits as f64 / count as f64);
    let centre = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    (((centre - half) / scale).max(0.0), ((centre + half) / scale).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_published_tables() {
        // Intervals of the median (Conover, Practical Nonparametric Statistics): for 10 values, the 95 %
        // interval is from the 2nd to the 9th value.
        for (count, expected) in
            [(5, None), (6, Some((1, 6))), (10, Some((2, 9))), (20, Some((6, 15))), (100, Some((40, 61)))]
        {
            assert_eq!(interval(count, 0.5), expected, "{count}");
        }
    }

    #[test]
    fn the_approximation_joins_the_exact_ranks() {
        for share in [0.05, 0.25, 0.5, 0.75, 0.95] {
            let (exact_low, exact_high) = exact(EXACT_MAX, share).expect("200 are enough");
            let (low, high) = interval(EXACT_MAX + 1, share).expect("201 are enough");
            assert!(low.abs_diff(exact_low) <= 2 && high.abs_diff(exact_high) <= 2, "{share}: {low} {high}");
        }
    }

    #[test]
    fn intervals_contain_the_quantile_as_often_as_they_say() {
        // The values are uniform, so the quantile equals the share. The test makes 2000 draws from a fixed
        // sequence.
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        for (count, share) in [(30, 0.5), (150, 0.95), (500, 0.25)] {
            let (low, high) = interval(count, share).expect("enough values");
            let hits = (0..2000)
                .filter(|_| {
                    let mut values: Vec<f64> = (0..count).map(|_| uniform()).collect();
                    values.sort_by(f64::total_cmp);
                    values[low as usize - 1] <= share && share <= values[high as usize - 1]
                })
                .count();
            assert!((1880..2000).contains(&hits), "{count} {share}: {hits} of 2000");
        }
    }

    #[test]
    fn wilson_is_the_textbooks() {
        // Newcombe 1998, table 1: the interval for 81 of 263 is 0.2553 to 0.3662, and for 0 of 20 it is 0 to
        // 0.1611.
        let (low, high) = wilson(81, 263);
        assert!((low - 0.2553).abs() < 1e-4 && (high - 0.3662).abs() < 1e-4, "{low} {high}");
        let (low, high) = wilson(0, 20);
        assert!(low == 0.0 && (high - 0.1611).abs() < 1e-4, "{high}");
    }
}
