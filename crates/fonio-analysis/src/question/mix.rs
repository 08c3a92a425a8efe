//! Pseudorandom numbers that are the same on every machine, for samples that do not depend on the order of
//! rows.

use fonio_core::Random;

/// The first random number of the seed `number`. Different seeds give different numbers.
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    Random::new(number).next_u64()
}
