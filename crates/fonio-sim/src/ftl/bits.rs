//! Sets of units with one bit per unit. Each block begins at a new word.

use std::marker::PhantomData;

use super::address::{Number, Offset};

/// A set of units, indexed by block (`B`, logical or erase block) and offset.
#[derive(Clone, Debug)]
pub(crate) struct BlockBits<B> {
    words: Vec<u64>,
    words_per_block: usize,
    block: PhantomData<B>,
}

impl<B: Number> BlockBits<B> {
    pub(crate) fn new(blocks: u32, units_per_block: u32) -> BlockBits<B> {
        let words_per_block = units_per_block.div_ceil(64) as usize;
        let words = vec![0; words_per_block * blocks as usize];
        BlockBits { words, words_per_block, block: PhantomData }
    }

    fn word(&self, block: B, offset: Offset) -> usize {
        block.to_raw() as usize * self.words_per_block + offset.0 as usize / 64
    }

    pub(crate) fn contains(&self, block: B, offset: Offset) -> bool {
        self.words[self.word(block, offset)] >> (offset.0 % 64) & 1 == 1
    }

    pub(crate) fn insert(&mut self, block: B, offset: Offset) {
        let word = self.word(block, offset);
        self.words[word] |= 1 << (offset.0 % 64);
    }

    pub(crate) fn remove(&mut self, block: B, offset: Offset) {
        let word = self.word(block, offset);
        self.words[word] &= !(1 << (offset.0 % 64));
    }

    pub(crate) fn of_block(&self, block: B) -> &[u64] {
        let start = block.to_raw() as usize * self.words_per_block;
        &self.words[start..start + self.words_per_block]
    }

    pub(crate) fn of_block_mut(&mut self, block: B) -> &mut [u64] {
        let start = block.to_raw() as usize * self.words_per_block;
        &mut self.words[start..start + self.words_per_block]
    }

    /// Returns the word that contains the bit of `offset`, with the bits before `offset` cleared.
    pub(crate) fn word_from(&self, block: B, offset: Offset) -> u64 {
        self.words[self.word(block, offset)] & (u64::MAX << (offset.0 % 64))
    }

    /// Removes the offsets `word_start + n` for every set bit `n` of `bits`. `word_start` is a multiple of
    /// 64.
    pub(crate) fn clear_bits(&mut self, block: B, word_start: Offset, bits: u64) {
        let word = self.word(block, word_start);
        self.words[word] &= !bits;
    }

    /// Inserts `count` offsets from `offset` on, at most 64.
    pub(crate) fn insert_range(&mut self, block: B, offset: Offset, count: u32) {
        if count == 0 {
            return;
        }
        let bits = u64::MAX >> (64 - count);
        let (word, shift) = (self.word(block, offset), offset.0 % 64);
        self.words[word] |= bits << shift;
        if shift + count > 64 {
            self.words[word + 1] |= bits >> (64 - shift);
        }
    }
}

/// Returns the highest offset in the set plus one; 0 if the set is empty.
pub(crate) fn end_of(words: &[u64]) -> Offset {
    let last = words.iter().rposition(|word| *word != 0);
    Offset(last.map_or(0, |at| at as u32 * 64 + 64 - words[at].leading_zeros()))
}

/// Returns how many offsets that are at least `from` are in the set.
pub(crate) fn count_from(words: &[u64], from: Offset) -> u32 {
    let first = from.0 as usize / 64;
    words
        .iter()
        .enumerate()
        .skip(first)
        .map(|(at, word)| if at == first { word & (u64::MAX << (from.0 % 64)) } else { *word }.count_ones())
        .sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::ftl::EraseBlock;

    proptest! {
        #[test]
        fn it_is_a_set(units in prop::collection::vec((0u32..3, 0u32..100), 0..200), from in 0u32..100) {
            let mut bits = BlockBits::new(3, 100);
            let mut set = BTreeSet::new();
            for (block, offset) in units {
                let (block, offset) = (EraseBlock(block), Offset(offset));
                if set.insert((block, offset)) { bits.insert(block, offset) } else {
                    set.remove(&(block, offset));
                    bits.remove(block, offset);
                }
            }
            let from = Offset(from);
            let word_start = Offset(from.0 / 64 * 64);
            for block in (0..3).map(EraseBlock) {
                let of: Vec<Offset> = set.iter().filter(|(b, _)| *b == block).map(|(_, offset)| *offset).collect();
                prop_assert_eq!(end_of(bits.of_block(block)), of.last().map_or(Offset(0), |offset| offset.plus(1)));
                let later: Vec<Offset> = of.iter().copied().filter(|offset| *offset >= from).collect();
                prop_assert_eq!(count_from(bits.of_block(block), from), later.len() as u32);
                let word = bits.word_from(block, from);
                let in_word = later.iter().filter(|offset| offset.0 / 64 == from.0 / 64).count() as u32;
                prop_assert_eq!(word.count_ones(), in_word);
                bits.clear_bits(block, word_start, word);
                let left = of.len() as u32 - in_word;
                prop_assert_eq!(count_from(bits.of_block(block), Offset(0)), left);
                let count = word.count_ones().min(100 - from.0);
                bits.insert_range(block, from, count);
                for offset in 0..count {
                    prop_assert!(bits.contains(block, from.plus(offset)));
                }
            }
        }
    }
}
