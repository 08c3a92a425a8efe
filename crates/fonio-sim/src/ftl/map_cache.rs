//! The part of a page map that a small controller holds in RAM; the rest is in flash and has to be fetched (DFTL: Gupta,
//! Kim, Urgaonkar 2009).
//!
//! The map is cut into pieces that each map the same amount of data. A level keeps the pieces used last; what it does not
//! hold costs its miss time. Two levels give two drops of throughput over the range that is written.

use super::NONE;

/// One level: a number of pieces, the least recently used of which makes room.
#[derive(Clone, Debug)]
pub struct MapLevel {
    pieces_max: usize,
    held: usize,
    /// For each piece its neighbours in the order of use; `NONE` at the ends.
    newer: Vec<u32>,
    older: Vec<u32>,
    is_held: Vec<bool>,
    newest: u32,
    oldest: u32,
}

impl MapLevel {
    /// An empty level that will hold `pieces_max` of `pieces` pieces.
    ///
    /// # Panics
    ///
    /// Where it can hold none.
    pub fn new(pieces: usize, pieces_max: usize) -> MapLevel {
        assert!(pieces_max > 0, "a level holds a piece");
        MapLevel {
            pieces_max,
            held: 0,
            newer: vec![NONE; pieces],
            older: vec![NONE; pieces],
            is_held: vec![false; pieces],
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Uses a piece; false where it had to be fetched.
    pub fn touch(&mut self, piece: usize) -> bool {
        let hit = self.is_held[piece];
        if hit {
            if self.newest == piece as u32 {
                return true;
            }
            self.unlink(piece);
        } else if self.held == self.pieces_max {
            let oldest = self.oldest as usize;
            self.unlink(oldest);
            self.is_held[oldest] = false;
        } else {
            self.held += 1;
        }
        self.is_held[piece] = true;
        self.newer[piece] = NONE;
        self.older[piece] = self.newest;
        match self.newest {
            NONE => self.oldest = piece as u32,
            newest => self.newer[newest as usize] = piece as u32,
        }
        self.newest = piece as u32;
        hit
    }

    fn unlink(&mut self, piece: usize) {
        let (newer, older) = (self.newer[piece], self.older[piece]);
        match newer {
            NONE => self.newest = older,
            newer => self.older[newer as usize] = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.newer[older as usize] = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_was_used_last(uses in prop::collection::vec(0usize..12, 0..300), size in 1usize..8) {
            let mut level = MapLevel::new(12, size);
            let mut order: Vec<usize> = Vec::new();
            for piece in uses {
                let naive = order.iter().rev().take(size).any(|held| *held == piece);
                order.retain(|held| *held != piece);
                order.push(piece);
                prop_assert_eq!(level.touch(piece), naive);
            }
        }
    }
}
