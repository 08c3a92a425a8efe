//! Scores and their bins.
//!
//! A score orders the values of a figure from best to worst. If higher values are better, the score is the
//! negated value; otherwise, it is the value itself. Values with the same exponent and the same first 8 bits
//! of the mantissa are in the same bin. The width of a bin is at most 0.4 % of the value. Bins are numbered
//! in the order of scores. This needs no logarithm, so all machines compute the same bins.

use fonio_core::Better;

/// The number of mantissa bits that are ignored for the bin: 52 - 8.
const SHIFT: u32 = 44;

/// Converts a figure's values to scores and bins. The conversion depends on whether higher or lower values
/// are better.
pub trait Scored {
    /// Returns the score of a value, which must be finite and not negative.
    fn score(self, value: f64) -> f64;
    /// Returns the value that has this score.
    fn value(self, score: f64) -> f64;
    /// Returns the bin of a value.
    fn bin(self, value: f64) -> i64;
    /// Returns the smallest value of a bin, and the smallest value above the bin.
    fn edges(self, bin: i64) -> (f64, f64);
    /// Returns the best and the worst score in a bin, both inclusive.
    fn scores(self, bin: i64) -> (f64, f64);
}

impl Scored for Better {
    fn score(self, value: f64) -> f64 {
        assert!(value.is_finite() && value >= 0.0, "{value} is not a valid value of a figure");
        match self {
            // Replace -0.0 by 0.0, because databases and bins would treat -0.0 differently.
            Better::Higher if value > 0.0 => -value,
            _ => value + 0.0,
        }
    }

    fn value(self, score: f64) -> f64 {
        score.abs()
    }

    fn bin(self, value: f64) -> i64 {
        let number = i64::try_from(value.abs().to_bits() >> SHIFT).expect("20 bits");
        match self {
            Better::Higher => -number,
            Better::Lower => number,
        }
    }

    fn edges(self, bin: i64) -> (f64, f64) {
        let number = bin.unsigned_abs();
        (f64::from_bits(number << SHIFT), f64::from_bits((number + 1) << SHIFT))
    }

    fn scores(self, bin: i64) -> (f64, f64) {
        let (low, above) = self.edges(bin);
        let high = f64::from_bits(above.to_bits() - 1);
        match self {
            Better::Higher => (self.score(high), self.score(low)),
            Better::Lower => (low, high),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bins_and_scores_have_one_order(a in 0.0f64..1e15, b in 0.0f64..1e15, higher: bool) {
            let better = if higher { Better::Higher } else { Better::Lower };
            if better.score(a) < better.score(b) {
                prop_assert!(better.bin(a) <= better.bin(b));
            }
            prop_assert_eq!(better.value(better.score(a)), a);
            let (low, above) = better.edges(better.bin(a));
            prop_assert!(low <= a && a < above);
            prop_assert!(above - low <= low.max(f64::MIN_POSITIVE) * 0.004);
            let (best, worst) = better.scores(better.bin(a));
            prop_assert!(best <= better.score(a) && better.score(a) <= worst);
        }
    }

    #[test]
    fn zero_has_a_bin() {
        for better in [Better::Higher, Better::Lower] {
            assert_eq!(better.bin(0.0), 0);
            assert!(better.score(0.0).is_sign_positive());
            assert!(better.scores(0).0 <= 0.0 && better.scores(0).1 >= 0.0);
        }
    }
}
