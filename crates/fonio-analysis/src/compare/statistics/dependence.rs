//! Estimates the variance of a sum over time slices that depend on each other.
//!
//! Latencies are correlated: a slow second often follows a slow second. If the slices are treated as
//! independent, intervals are several times too narrow. The dependence between slices is taken into account
//! in two steps:
//!
//! 1. Compute the number of independent segments in the series of slices. The integrated autocorrelation time
//!    (initial positive sequence: Geyer, *Practical Markov Chain Monte Carlo*, 1992) gives the number of
//!    slices per segment. If a few slices contain nearly all data, only these slices are counted.
//! 2. The long-run variance is the mean of the first squared cosine transforms (equal-weighted cosines:
//!    Müller 2004; Lazarus, Lewis, Stock, Watson, *HAR Inference*, 2018). Cosine transforms capture slow
//!    movements. With `B` cosines, the quotient follows Student's t with `B` degrees of freedom. Fewer
//!    cosines are used if there are few segments, or if few slices carry the variance (stalls).

/// Minimum number of independent segments from which a variance can be estimated.
pub(crate) const PIECES_MIN: f64 = 8.0;

/// Maximum number of cosine transforms. In a series of length `T`, 16 cosines cover frequencies up to `8 / T`
/// hertz. With 16 degrees of freedom, Student's t is close to the normal distribution. With more than 16
/// cosines, high-frequency noise would hide slow movements.
const COSINES_MAX: f64 = 16.0;

/// Number of cosine transforms per independent segment. At this frequency, the power of a first-order
/// autoregression has fallen to half.
const COSINES_PER_PIECE: f64 = 0.6;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) variance: f64,
    pub(crate) freedom: f64,
}

/// Returns the spread of the sum of `residuals`. The residuals must sum to 0. `weights` is the share of the
/// data in each slice. `memory` is the minimum number of slices per independent segment. Returns `None` if
/// the series has fewer than [`PIECES_MIN`] independent segments.
pub(crate) fn spread(residuals: &[f64], weights: &[f64], memory: f64) -> Option<Spread> {
    let count = residuals.len() as f64;
    let pieces =
        participation(weights.iter().copied()).min(count / autocorrelation_time(residuals).max(memory));
    if pieces < PIECES_MIN {
        return None;
    }
    // For normal noise, the participation is a third of the length, so the limit does not apply to noise. The
    // limit applies to a single stall.
    let carriers = 3.0 * participation(residuals.iter().map(|residual| residual * residual));
    let carriers = if carriers > 0.0 { carriers } else { pieces };
    let cosines = (COSINES_PER_PIECE * pieces.min(carriers)).floor().clamp(1.0, COSINES_MAX);
    let power: f64 = (1..=cosines as u32).map(|index| squared_cosine(residuals, index)).sum();
    Some(Spread { variance: count * power / cosines, freedom: cosines })
}

/// Returns Kish's effective sample size: `(Σv)² / Σv²`.
fn participation(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, squares) =
        values.fold((0.0, 0.0), |(sum, squares), value| (sum + value, squares + value * value));
    if squares > 0.0 { sum * sum / squares } else { 0.0 }
}

/// Returns the number of slices per independent segment, at least 1.
pub(crate) fn autocorrelation_time(residuals: &[f64]) -> f64 {
    let power: f64 = residuals.iter().map(|residual| residual * residual).sum();
    if power == 0.0 {
        return 1.0;
    }
    let correlation = |lag: usize| {
        let products = residuals.iter().zip(&residuals[lag.min(residuals.len())..]);
        products.map(|(now, later)| now * later).sum::<f64>() / power
    };
    let mut sum = 0.0;
    let mut lag = 0;
    // In theory, the sum of two neighbouring autocorrelations is positive. From the first sum that is not
    // positive, the autocorrelations are noise.
    while lag + 1 < residuals.len() {
        let pair = correlation(lag) + correlation(lag + 1);
        if pair <= 0.0 {
            break;
        }
        sum += pair;
        lag += 2;
    }
    (2.0 * sum - 1.0).max(1.0)
}

fn squared_cosine(residuals: &[f64], index: u32) -> f64 {
    let count = residuals.len() as f64;
    let step = std::f64::consts::PI * f64::from(index) / count;
    let terms = residuals.iter().enumerate();
    let sum: f64 = terms.map(|(at, residual)| residual * libm::cos(step * (at as f64 + 0.5))).sum();
    2.0 / count * sum * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Generates uniformly distributed values between -1 and 1, whose variance is a third.
    fn noise(seed: u64, count: usize) -> Vec<f64> {
        let mut state = seed;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        };
        (0..count).map(|_| draw()).collect()
    }

    fn centred(mut values: Vec<f64>) -> Vec<f64> {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter_mut().for_each(|value| *value -= mean);
        values
    }

    /// Returns a series in which each value is `keep` times the previous value, plus noise.
    fn autoregression(seed: u64, count: usize, keep: f64) -> Vec<f64> {
        let mut last = 0.0;
        noise(seed, count)
            .into_iter()
            .map(|value| {
                last = keep * last + value;
                last
            })
            .collect()
    }

    /// Returns the mean estimated variance in many series, divided by the true variance of the sum of 100
    /// values.
    fn ratio(keep: f64) -> f64 {
        let truth = 100.0 / 3.0 / (1.0 - keep) / (1.0 - keep);
        let found: Vec<f64> = (0..400)
            .filter_map(|seed| spread(&centred(autoregression(seed * 7919 + 1, 100, keep)), &[1.0; 100], 1.0))
            .map(|spread| spread.variance)
            .collect();
        assert!(found.len() > 200, "only {} of 400 series have a known spread", found.len());
        found.iter().sum::<f64>() / found.len() as f64 / truth
    }

    #[test]
    fn independent_and_dependent_slices_have_their_variance() {
        let (independent, dependent) = (ratio(0.0), ratio(0.6));
        assert!((0.9..1.1).contains(&independent), "{independent}");
        // If slices were independent, this variance would be 0.4 * 0.4 / 0.64, which is a quarter.
        assert!((0.75..1.1).contains(&dependent), "{dependent}");
    }

    #[test]
    fn autocorrelation_times_by_hand() {
        // The correlations are 1, 0.25, -0.5 and -0.25. The first pair of correlations is added; the second
        // pair's sum is negative, which ends the summation.
        assert_eq!(autocorrelation_time(&[1.0, 1.0, -1.0, -1.0]), 1.5);
        // Alternating values cancel each other. The number of segments is capped at the number of slices.
        let alternating: Vec<f64> = (0..100).map(|at| if at % 2 == 0 { 1.0 } else { -1.0 }).collect();
        assert_eq!(autocorrelation_time(&alternating), 1.0);
    }

    #[test]
    fn few_pieces_say_nothing() {
        let slow = centred((0..100).map(|at| if at < 50 { 0.0 } else { 1.0 }).collect());
        assert_eq!(spread(&slow, &[1.0; 100], 1.0), None, "one step gives too few independent pieces");
        let burst = centred(noise(3, 100));
        let mut weights = [0.0; 100];
        weights[..5].fill(1.0);
        assert_eq!(spread(&burst, &weights, 1.0), None, "five slices with data");
        let mut stalls = vec![0.0; 100];
        stalls[40] = 1.0;
        let one_stall = spread(&centred(stalls), &[1.0; 100], 1.0).unwrap();
        assert_eq!(one_stall.freedom, 1.0, "the variance rests on a single stall");
        assert_eq!(spread(&[], &[], 1.0), None);
    }

    #[test]
    fn constant_data_have_no_variance() {
        let spread = spread(&[0.0; 20], &[1.0; 20], 1.0).unwrap();
        assert_eq!((spread.variance, spread.freedom), (0.0, 12.0), "of twenty pieces");
    }
}
