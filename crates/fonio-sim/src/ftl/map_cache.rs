//! The part of a page map that a small controller keeps in RAM. The rest of the map is in flash and is
//! fetched on demand (DFTL: Gupta, Kim, Urgaonkar 2009).
//!
//! The map is split into segments that cover equal amounts of data. A level keeps the most recently used
//! segments; access to any other segment costs the level's miss time. With two levels, throughput drops at
//! two ranges as the range of random writes grows.

use super::address::{Number, Table};

/// A segment of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece(pub u32);

impl Piece {
    /// Returns the segment with this number. Panics if the number does not fit into 32 bits.
    pub(crate) fn new(number: u64) -> Piece {
        Piece(u32::try_from(number).expect("a map has fewer than 2³² segments"))
    }
}

impl Number for Piece {
    fn to_raw(self) -> u32 {
        self.0
    }
    fn from_raw(raw: u32) -> Piece {
        Piece(raw)
    }
}

/// One level of the cached map: a fixed number of segments. A new segment replaces the least recently used
/// segment.
#[derive(Clone, Debug)]
pub struct MapLevel {
    held_max: u32,
    held: u32,
    /// For each cached segment, the segment that was used next after it; `None` for the most recently used
    /// segment.
    newer: Table<Piece, Option<Piece>>,
    /// For each cached segment, the segment that was used last before it; `None` for the least recently used
    /// segment.
    older: Table<Piece, Option<Piece>>,
    is_held: Vec<bool>,
    newest: Option<Piece>,
    oldest: Option<Piece>,
}

impl MapLevel {
    /// Makes an empty level that can hold `held_max` of the map's `pieces` segments. Panics if `held_max` is
    /// 0.
    pub fn new(pieces: u32, held_max: u32) -> MapLevel {
        assert!(held_max > 0, "a level holds at least one segment");
        MapLevel {
            held_max,
            held: 0,
            newer: Table::zeroed(pieces),
            older: Table::zeroed(pieces),
            is_held: vec![false; pieces as usize],
            newest: None,
            oldest: None,
        }
    }

    /// Uses a segment of the map. Returns false if the segment had to be fetched.
    pub fn touch(&mut self, piece: Piece) -> bool {
        let hit = self.is_held[piece.0 as usize];
        if hit {
            if self.newest == Some(piece) {
                return true;
            }
            self.unlink(piece);
        } else if self.held == self.held_max {
            let oldest = self.oldest.expect("a full level holds at least one segment");
            self.unlink(oldest);
            self.is_held[oldest.0 as usize] = false;
        } else {
            self.held += 1;
        }
        self.is_held[piece.0 as usize] = true;
        self.newer.set(piece, None);
        self.older.set(piece, self.newest);
        match self.newest {
            None => self.oldest = Some(piece),
            Some(newest) => self.newer.set(newest, Some(piece)),
        }
        self.newest = Some(piece);
        hit
    }

    fn unlink(&mut self, piece: Piece) {
        let (newer, older) = (self.newer.get(piece), self.older.get(piece));
        match newer {
            None => self.newest = older,
            Some(newer) => self.older.set(newer, older),
        }
        match older {
            None => self.oldest = newer,
            Some(older) => self.newer.set(older, newer),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_was_used_last(uses in prop::collection::vec(0u32..12, 0..300), size in 1u32..8) {
            let mut level = MapLevel::new(12, size);
            let mut order: Vec<u32> = Vec::new();
            for piece in uses {
                let naive = order.iter().rev().take(size as usize).any(|held| *held == piece);
                order.retain(|held| *held != piece);
                order.push(piece);
                prop_assert_eq!(level.touch(Piece(piece)), naive);
            }
        }
    }
}
