//! Sets of units, a bit each, laid out so that every erase block begins at a word of its own.

/// A set of units by erase block and place in it.
#[derive(Clone, Debug)]
pub(crate) struct BlockBits {
    words: Vec<u64>,
    words_per_block: usize,
}

impl BlockBits {
    pub(crate) fn new(blocks: u32, units_per_block: u32) -> BlockBits {
        let words_per_block = units_per_block.div_ceil(64) as usize;
        BlockBits { words: vec![0; words_per_block * blocks as usize], words_per_block }
    }

    fn word(&self, block: u32, place: u32) -> usize {
        block as usize * self.words_per_block + place as usize / 64
    }

    pub(crate) fn contains(&self, block: u32, place: u32) -> bool {
        self.words[self.word(block, place)] >> (place % 64) & 1 == 1
    }

    pub(crate) fn insert(&mut self, block: u32, place: u32) {
        let word = self.word(block, place);
        self.words[word] |= 1 << (place % 64);
    }

    pub(crate) fn remove(&mut self, block: u32, place: u32) {
        let word = self.word(block, place);
        self.words[word] &= !(1 << (place % 64));
    }

    pub(crate) fn of_block(&self, block: u32) -> &[u64] {
        let start = block as usize * self.words_per_block;
        &self.words[start..start + self.words_per_block]
    }

    pub(crate) fn of_block_mut(&mut self, block: u32) -> &mut [u64] {
        let start = block as usize * self.words_per_block;
        &mut self.words[start..start + self.words_per_block]
    }

    /// The first place from `place` on that is in the set.
    pub(crate) fn next_from(&self, block: u32, place: u32) -> Option<u32> {
        let words = self.of_block(block);
        let mut at = place as usize / 64;
        let mut word = words.get(at)? & (u64::MAX << (place % 64));
        loop {
            if word != 0 {
                return Some(at as u32 * 64 + word.trailing_zeros());
            }
            at += 1;
            word = *words.get(at)?;
        }
    }
}

/// One more than the highest place in the set; 0 where it is empty.
pub(crate) fn end_of(words: &[u64]) -> u32 {
    words.iter().rposition(|word| *word != 0).map_or(0, |at| at as u32 * 64 + 64 - words[at].leading_zeros())
}

/// How many places from `from` on are in the set.
pub(crate) fn count_from(words: &[u64], from: u32) -> u32 {
    let first = from as usize / 64;
    words
        .iter()
        .enumerate()
        .skip(first)
        .map(|(at, word)| if at == first { word & (u64::MAX << (from % 64)) } else { *word }.count_ones())
        .sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(places in prop::collection::vec((0u32..3, 0u32..100), 0..200), from in 0u32..100) {
            let mut bits = BlockBits::new(3, 100);
            let mut set = BTreeSet::new();
            for (block, place) in places {
                if set.insert((block, place)) { bits.insert(block, place) } else {
                    set.remove(&(block, place));
                    bits.remove(block, place);
                }
            }
            for block in 0..3 {
                let of: Vec<u32> = set.iter().filter(|(b, _)| *b == block).map(|(_, place)| *place).collect();
                prop_assert_eq!(end_of(bits.of_block(block)), of.last().map_or(0, |place| place + 1));
                let later: Vec<u32> = of.iter().copied().filter(|place| *place >= from).collect();
                prop_assert_eq!(count_from(bits.of_block(block), from), later.len() as u32);
                prop_assert_eq!(bits.next_from(block, from), later.first().copied());
                prop_assert!(of.iter().all(|place| bits.contains(block, *place)));
            }
        }
    }
}
