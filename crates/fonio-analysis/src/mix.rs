//! Numbers that look random, the same on every machine: for samples that do not depend on the order of rows.

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection, so that different numbers never become the same.
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
