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

    /// The word that holds `place`, without what stands before it.
    pub(crate) fn word_from(&self, block: u32, place: u32) -> u64 {
        self.words[self.word(block, place)] & (u64::MAX << (place % 64))
    }

    /// Takes out the places `word_start + n` for every bit `n` of `bits`; `word_start` is a multiple of 64.
    pub(crate) fn clear_bits(&mut self, block: u32, word_start: u32, bits: u64) {
        let word = self.word(block, word_start);
        self.words[word] &= !bits;
    }

    /// Puts in `count` places from `place` on; at most 64.
    pub(crate) fn insert_range(&mut self, block: u32, place: u32, count: u32) {
        if count == 0 {
            return;
        }
        let bits = u64::MAX >> (64 - count);
        let (word, shift) = (self.word(block, place), place % 64);
        self.words[word] |= bits << shift;
        if shift + count > 64 {
            self.words[word + 1] |= bits >> (64 - shift);
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
                let word = bits.word_from(block, from);
                let in_word = later.iter().filter(|place| **place / 64 == from / 64).count() as u32;
                prop_assert_eq!(word.count_ones(), in_word);
                bits.clear_bits(block, from / 64 * 64, word);
                let left = of.len() as u32 - in_word;
                prop_assert_eq!(count_from(bits.of_block(block), 0), left);
                bits.insert_range(block, from, word.count_ones().min(100 - from));
                for place in from..from + word.count_ones().min(100 - from) {
                    prop_assert!(bits.contains(block, place));
                }
            }
        }
    }
}
