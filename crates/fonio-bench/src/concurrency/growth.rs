//! Finds the number of concurrent requests beyond which throughput no longer grows.
//!
//! The result is the smallest number of requests whose throughput is within [`TOLERANCE`] of the best
//! throughput. The means of a few runs do not show this number directly: on a plateau, the best of ten noisy
//! means is always above the other nine. So a number of requests is rejected only if a larger number was
//! *shown* to be faster by more than the tolerance.
//!
//! A bootstrap gives the bounds of the confidence interval. Each rate is divided by the mean of its round,
//! which removes slowdowns between rounds. The error of a run is its difference from the mean of all runs
//! with the same number of requests. The errors for all numbers of requests form one pool, because five runs
//! are too few to estimate a spread. Each resample draws its errors from this pool.

use fonio_core::Random;
use fonio_core::statistics::sample::mean;

/// A number of requests is enough if its throughput is at most this share below the best throughput. This is
/// our choice: a smaller gain does not justify requests that wait for each other in the device.
pub const TOLERANCE: f64 = 0.02;

/// Maximum error probability of each bound, so the interval has 95 % confidence.
const TAIL: f64 = 0.025;

const RESAMPLES: usize = 2000;

const SEED: u64 = 0x0c0c;

/// The numbers of requests found, as indices into the list of numbers that were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enough {
    /// The smallest number of requests that is enough: no other number was shown to raise the throughput by
    /// more than [`TOLERANCE`]. This number is also the lower end of the interval.
    pub at: usize,
    /// The upper end of the interval; `None` if there is only one round, because the spread is unknown.
    pub high: Option<usize>,
}

/// Finds the smallest number of concurrent requests that reaches nearly the best throughput. `rates`
/// contains, for each number of requests in ascending order, the throughput in each round. Returns `None` if
/// `rates` is empty or has no rounds. Panics if the numbers of requests were measured in different numbers of
/// rounds.
pub fn enough(rates: &[Vec<f64>]) -> Option<Enough> {
    let rounds = rates.first()?.len();
    assert!(rates.iter().all(|of_number| of_number.len() == rounds), "every round measures every number");
    if rounds == 0 {
        return None;
    }
    let of_round = |round: usize| mean(&rates.iter().map(|of_number| of_number[round]).collect::<Vec<f64>>());
    let rounds_mean = (0..rounds).map(of_round).collect::<Option<Vec<f64>>>()?;
    let relative = |of_number: &Vec<f64>| -> Vec<f64> {
        of_number.iter().zip(&rounds_mean).map(|(rate, mean)| rate / mean).collect()
    };
    let relative: Vec<Vec<f64>> = rates.iter().map(relative).collect();
    let means = relative.iter().map(|of_number| mean(of_number)).collect::<Option<Vec<f64>>>()?;
    if rounds == 1 || means.len() == 1 {
        return Some(Enough { at: first_within(&means, 0.0), high: (rounds > 1).then_some(0) });
    }
    let errors = errors(&relative, &means);
    let mut random = Random::new(SEED);
    let (mut margins, mut highs) = (Vec::new(), Vec::new());
    for resample in 0..RESAMPLES {
        let mut draw = || errors[random.below(errors.len() as u64) as usize];
        let mut factor = |_| 1.0 + (0..rounds).map(|_| draw()).sum::<f64>() / rounds as f64;
        let factors: Vec<f64> = means.iter().map(&mut factor).collect();
        // All numbers of requests share one pool of errors, so each resample compares the best number with
        // another number.
        margins.push(greatest(&factors) / factors[resample % factors.len()] - 1.0);
        let drawn: Vec<f64> = means.iter().zip(&factors).map(|(mean, factor)| mean * factor).collect();
        highs.push(first_within(&drawn, 0.0));
    }
    margins.sort_by(f64::total_cmp);
    highs.sort_unstable();
    let upper = ((1.0 - TAIL) * (RESAMPLES - 1) as f64).round() as usize;
    let at = first_within(&means, margins[upper]);
    Some(Enough { at, high: Some(highs[upper].max(at)) })
}

/// Returns the index of the first rate that is close to the greatest rate: within [`TOLERANCE`], combined
/// with the relative `margin`.
fn first_within(rates: &[f64], margin: f64) -> usize {
    let best = greatest(rates);
    let is_within = |rate: &f64| best * (1.0 - TOLERANCE) <= rate * (1.0 + margin);
    rates.iter().position(is_within).unwrap_or(0)
}

fn greatest(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
}

/// Returns the errors of all runs, each relative to the mean of the runs with the same number of requests.
/// Subtracting the means makes the errors too small; a factor makes up for this.
fn errors(relative: &[Vec<f64>], means: &[f64]) -> Vec<f64> {
    let (numbers, rounds) = (means.len() as f64, relative[0].len() as f64);
    let lost = (rounds / (rounds - 1.0) * numbers / (numbers - 1.0)).sqrt();
    let of_number =
        |(rates, mean): (&Vec<f64>, &f64)| rates.iter().map(|rate| (rate / mean - 1.0) * lost).collect();
    relative.iter().zip(means).flat_map::<Vec<f64>, _>(of_number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Throughput with 1, 2, 3, 4, 6, 8, 12, 16, 24 and 32 concurrent requests relative to one request, and
    /// the number of requests that is enough.
    const CURVES: [(&str, [f64; 10], usize); 7] = [
        ("flat", [1.0; 10], 0),
        ("falls", [1.0, 0.8, 0.7, 0.7, 0.7, 0.6, 0.6, 0.6, 0.5, 0.5], 0),
        ("two", [1.0, 1.45, 1.45, 1.45, 1.45, 1.45, 1.45, 1.45, 1.45, 1.45], 1),
        ("four, then falls", [1.0, 1.3, 1.5, 1.7, 1.6, 1.5, 1.4, 1.4, 1.4, 1.4], 3),
        ("eight", [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 8.0, 8.0, 8.0, 8.0], 5),
        ("slow end", [1.0, 1.9, 2.7, 3.4, 4.0, 4.2, 4.32, 4.38, 4.42, 4.44], 7),
        ("never", [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0], 9),
    ];

    /// Returns a nearly normal number with a standard deviation of 1: a sum of twelve uniform numbers.
    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0
    }

    fn measured(curve: &[f64; 10], rounds: usize, spread: f64, random: &mut Random) -> Vec<Vec<f64>> {
        // The device slows down by a fifth from the first to the last round.
        let drift = |round: usize| 1.0 - 0.2 * round as f64 / rounds as f64;
        let rate = |level: &f64, round: usize, random: &mut Random| {
            level * drift(round) * (1.0 + spread * normal(random)).max(0.1)
        };
        curve.iter().map(|level| (0..rounds).map(|round| rate(level, round, random)).collect()).collect()
    }

    #[test]
    fn without_errors_the_smallest_number_within_the_tolerance_is_found() {
        for (name, curve, expected) in CURVES {
            let found = enough(&measured(&curve, 5, 0.0, &mut Random::new(1))).expect("rounds");
            assert_eq!(found, Enough { at: expected, high: Some(expected) }, "{name}");
            let once = enough(&measured(&curve, 1, 0.0, &mut Random::new(1))).expect("a round");
            assert_eq!(once, Enough { at: expected, high: None }, "{name}");
        }
        assert_eq!(enough(&[]), None);
        assert_eq!(enough(&[Vec::new(), Vec::new()]), None);
        assert_eq!(enough(&[vec![1.0, 2.0]]), Some(Enough { at: 0, high: Some(0) }));
    }

    /// The number of requests found exceeds the true number in at most 5 of 100 measurements, even if all
    /// numbers of requests give the same throughput. The interval contains the true number of requests with
    /// the stated probability.
    #[test]
    fn intervals_hold_the_number_and_equal_numbers_do_not_differ() {
        const MEASUREMENTS: u64 = 60;
        for (name, curve, expected) in CURVES {
            for (rounds, spread) in [(3, 0.01), (5, 0.003), (5, 0.03), (10, 0.1)] {
                let (mut too_large, mut missed, mut exact) = (0, 0, 0);
                for seed in 0..MEASUREMENTS {
                    let rates = measured(&curve, rounds, spread, &mut Random::new(seed));
                    let Enough { at, high } = enough(&rates).expect("rounds");
                    too_large += u64::from(at > expected);
                    missed += u64::from(at > expected || high.expect("several rounds") < expected);
                    exact += u64::from(at == expected);
                }
                if spread <= 0.01 && name != "slow end" {
                    assert!(
                        exact >= MEASUREMENTS * 9 / 10,
                        "{name}, {rounds} rounds, spread {spread}: only {exact} numbers are exact"
                    );
                }
                // A binomial count with these probabilities exceeds the bound once in ten thousand cases.
                assert!(too_large <= 7, "{name}, {rounds} rounds, spread {spread}: {too_large} too large");
                assert!(missed <= 10, "{name}, {rounds} rounds, spread {spread}: {missed} missed");
            }
        }
    }
}
