//! Finds the sums of a stratum, for each request.

use rustc_hash::FxHashMap;

use super::{Pair, Stratum};

/// Number of strata that are found without the hash map.
const RECENT: usize = 128;

/// The strata of one op in a slice of time.
#[derive(Debug, Default)]
pub(super) struct Strata {
    /// Each stratum with its sums, in the order in which the strata were found.
    pub(super) pairs: Vec<(Stratum, Pair)>,
    places: FxHashMap<Stratum, u32>,
    /// The places in `pairs` of strata that were looked up lately, by a few bits of a stratum's product. Most
    /// requests are in one of a few dozen strata.
    recent: Vec<u32>,
}

impl Strata {
    /// Returns the sums of a stratum.
    #[inline]
    pub(super) fn at(&mut self, stratum: Stratum) -> &mut Pair {
        let slot = (stratum.0.wrapping_mul(0x9e37_79b1) >> 16) as usize % RECENT;
        let recent = self.recent.get(slot).map_or(0, |place| *place as usize);
        let place = match self.pairs.get(recent) {
            Some((known, _)) if *known == stratum => recent,
            _ => self.find(stratum, slot),
        };
        &mut self.pairs[place].1
    }

    #[inline(never)]
    fn find(&mut self, stratum: Stratum, slot: usize) -> usize {
        let place = *self.places.entry(stratum).or_insert_with(|| {
            self.pairs.push((stratum, Pair::default()));
            self.pairs.len() as u32 - 1
        });
        self.recent.resize(RECENT, 0);
        self.recent[slot] = place;
        place as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_a_map(strata in prop::collection::vec(0u32..600, 0..500)) {
            let (mut found, mut map) = (Strata::default(), BTreeMap::new());
            for stratum in strata {
                found.at(Stratum(stratum)).count[0] += 1;
                *map.entry(Stratum(stratum)).or_insert(0) += 1;
            }
            let counts: BTreeMap<Stratum, u64> =
                found.pairs.iter().map(|(stratum, pair)| (*stratum, pair.count[0])).collect();
            prop_assert_eq!(counts.len(), found.pairs.len());
            prop_assert_eq!(counts, map);
        }
    }
}
