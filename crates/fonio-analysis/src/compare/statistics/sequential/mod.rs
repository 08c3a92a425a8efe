//! A sequential test of paired values by betting on signs. The test may be evaluated after every pair.
//!
//! Each pair of measurements gives one value, the logarithm of their ratio. The order within each pair was
//! drawn at random. If the setting has no effect, the opposite order would have given the opposite sign.
//! Given the magnitude and all earlier values, both signs are therefore equally likely. This holds for heavy
//! tails, trends and autocorrelated loads, because the randomness comes from the draw and not from the load
//! (Fisher, *The Design of Experiments*, 1935, section 21).
//!
//! A gambler who stakes the share `t` of a capital on a sign then plays a fair game. Each bet multiplies the
//! capital by `1 + t` or `1 - t`. The probability that a capital that begins at 1 ever reaches `1 / level` is
//! at most `level` (Ville 1939). The test may therefore be evaluated after every pair, and stopped or
//! continued for any reason (Ramdas, Ruf, Larsson, Koolen, *Admissible anytime-valid sequential inference
//! must rely on nonnegative martingales*, 2020, section 5.1 on symmetric values; Waudby-Smith and Ramdas,
//! *Estimating means of bounded random variables by betting*, 2024, for the intervals). The stake is
//! `tanh(boldness × value / scale)`, where the scale is the mean magnitude so far. The stake depends only on
//! magnitudes, and even for an outlier it is at most the complete capital. Several gamblers with different
//! boldness share the capital; half of it bets on each sign.
//!
//! The interval contains every ratio that no gambler has refuted.

use fonio_core::statistics::sample::median;
use fonio_core::statistics::welch::Interval;

/// Boldness of each gambler, and the gambler's share of the capital. At a level of 5 percent, a bold gambler
/// needs only six pairs with the same sign, which is the minimum for any sign test. A careful gambler wins
/// with effects that are smaller than the variation. We chose the shares by simulation with normally
/// distributed values. For effects of 0.5 to 4 times the variation, the gamblers together need about 10
/// percent more pairs than the best single gambler.
const GAMBLERS: [(f64, f64); 3] = [(0.3, 0.15), (0.7, 0.2), (4.0, 0.65)];

/// Number of steps of the coarse search for an end of the interval.
const STEPS: u32 = 2048;

#[derive(Clone, Debug)]
pub(crate) struct Capital {
    /// Capital of each gambler relative to the initial share, for bets on positive and on negative signs.
    each: [(f64, f64); GAMBLERS.len()],
    magnitudes: f64,
    count: f64,
}

impl Capital {
    pub(crate) fn new() -> Capital {
        Capital { each: [(1.0, 1.0); GAMBLERS.len()], magnitudes: 0.0, count: 0.0 }
    }

    pub(crate) fn bet(&mut self, value: f64) {
        self.magnitudes += value.abs();
        self.count += 1.0;
        if value == 0.0 {
            return;
        }
        let scaled = value * self.count / self.magnitudes;
        for ((boldness, _), (up, down)) in GAMBLERS.iter().zip(&mut self.each) {
            let stake = libm::tanh(boldness * scaled);
            *up *= 1.0 + stake;
            *down *= 1.0 - stake;
        }
    }

    /// Returns the capital of all gamblers together, which was 1 at the start.
    pub(crate) fn total(&self) -> f64 {
        let shares = GAMBLERS.iter().zip(&self.each);
        shares.map(|((_, share), (up, down))| share * (up + down) / 2.0).sum()
    }
}

/// Returns the capital after bets that `centre` is not the centre of the values.
fn against(values: &[f64], centre: f64) -> f64 {
    let mut capital = Capital::new();
    values.iter().for_each(|value| capital.bet(value - centre));
    capital.total()
}

/// Returns the confidence interval of the centre of `values` at `level`. The intervals after the first,
/// second and all further values are simultaneously valid. The bound of an unbounded interval is infinite.
/// The estimate is the median of all pairwise averages (Hodges and Lehmann 1963).
///
/// # Panics
///
/// If there are no values, a value is not finite, or `level` is not between 0 and 1.
pub(crate) fn interval(values: &[f64], level: f64) -> Interval {
    assert!(!values.is_empty() && values.iter().all(|value| value.is_finite()), "values are numbers");
    assert!(level > 0.0 && level < 1.0, "the level is between 0 and 1");
    let pairs = (0..values.len()).flat_map(|at| (at..values.len()).map(move |other| (at, other)));
    let averages: Vec<f64> = pairs.map(|(at, other)| f64::midpoint(values[at], values[other])).collect();
    let value = median(&averages).expect("there are values");
    let is_refuted = |centre: f64| against(values, centre) >= 1.0 / level;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let spread = (most - least).max(f64::EPSILON * least.abs().max(most.abs()).max(1.0));
    // Far outside of all values, the capital no longer depends on the distance.
    let end = |outside: f64, opposite: f64, infinite: f64| {
        if !is_refuted(outside) {
            return infinite;
        }
        let at = |step: u32| outside + (opposite - outside) * f64::from(step) / f64::from(STEPS);
        // Search inwards for the outermost centre that is not refuted.
        let Some(first) = (1..=STEPS).find(|step| !is_refuted(at(*step))) else { return value };
        let (mut refuted, mut open) = (at(first - 1), at(first));
        for _ in 0..30 {
            let half = refuted + (open - refuted) / 2.0;
            if is_refuted(half) { refuted = half } else { open = half }
        }
        open
    };
    let (below, above) = (least - spread, most + spread);
    let low = end(below, above, f64::NEG_INFINITY).min(value);
    let high = end(above, below, f64::INFINITY).max(value);
    Interval { low, value, high }
}

/// Returns the number of values after which four of five normal series with this mean and standard deviation
/// show an effect. Returns `None` if more than `most` values are needed.
pub(crate) fn needed(mean: f64, deviation: f64, level: f64, most: usize) -> Option<usize> {
    /// Number of simulated series: enough for a result within 10 percent.
    const SERIES: u64 = 200;
    let mut found: Vec<usize> = (0..SERIES)
        .map(|series| {
            let mut random = fonio_core::Random::new(series);
            // The sum of twelve uniform numbers is nearly normal, with a variance of 1.
            let mut normal = || (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0;
            let mut capital = Capital::new();
            let is_shown = |_: &usize| {
                capital.bet(mean + deviation * normal());
                capital.total() >= 1.0 / level
            };
            (1..=most).find(is_shown).unwrap_or(usize::MAX)
        })
        .collect();
    found.sort_unstable();
    Some(found[SERIES as usize * 4 / 5 - 1]).filter(|count| *count != usize::MAX)
}

#[cfg(test)]
mod tests;
