//! Partly written units in a write buffer.

use crate::ftl::LogicalUnit;

/// Minimum size of a segment. The written parts of a unit are recorded by segment; a write smaller than a
/// segment counts as a complete segment.
const PIECE_BYTES_MIN: u64 = 4096;

/// Partly written units, least recently written first.
#[derive(Debug)]
pub(super) struct Gather {
    units: Vec<Part>,
    units_max: usize,
    /// The size of a segment; a unit has at most 64 segments.
    piece_bytes: u64,
    /// A bit mask with all segments of a unit.
    all_pieces: u64,
}

/// The part of a unit that has been written.
#[derive(Debug)]
struct Part {
    unit: LogicalUnit,
    /// The written segments of the unit, one bit per segment.
    pieces: u64,
}

impl Gather {
    pub(super) fn new(units_max: u32, unit_bytes: u64) -> Gather {
        let piece_bytes = unit_bytes.div_ceil(64).max(PIECE_BYTES_MIN);
        let all_pieces = u64::MAX >> (64 - unit_bytes.div_ceil(piece_bytes));
        Gather { units: Vec::new(), units_max: units_max as usize, piece_bytes, all_pieces }
    }

    /// Returns whether the buffer gathers units at all.
    pub(super) fn is_used(&self) -> bool {
        self.units_max > 0
    }

    pub(super) fn holds(&self, unit: LogicalUnit) -> bool {
        self.position(unit).is_some()
    }

    fn position(&self, unit: LogicalUnit) -> Option<usize> {
        self.units.iter().position(|part| part.unit == unit)
    }

    /// If another unit must leave before `unit` can be added, removes and returns that unit.
    pub(super) fn make_room(&mut self, unit: LogicalUnit) -> Option<LogicalUnit> {
        (self.units.len() >= self.units_max && !self.holds(unit)).then(|| self.units.remove(0).unit)
    }

    /// Adds the bytes `from..to` of a unit. If the unit is then complete, removes the unit and returns true.
    pub(super) fn add(&mut self, unit: LogicalUnit, from: u64, to: u64) -> bool {
        let mut pieces = self.position(unit).map_or(0, |at| self.units.remove(at).pieces);
        for piece in from / self.piece_bytes..to.div_ceil(self.piece_bytes) {
            pieces |= 1 << piece;
        }
        let complete = pieces == self.all_pieces;
        if !complete {
            self.units.push(Part { unit, pieces });
        }
        complete
    }

    /// Drops a unit that was completely overwritten or discarded.
    pub(super) fn forget(&mut self, unit: LogicalUnit) {
        if self.units_max > 0 {
            self.units.retain(|part| part.unit != unit);
        }
    }

    pub(super) fn take_oldest(&mut self) -> Option<LogicalUnit> {
        (!self.units.is_empty()).then(|| self.units.remove(0).unit)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_unit_is_complete_when_all_of_it_has_come(
            unit_kib in prop::sample::select(vec![4u64, 16, 24, 256, 1024]),
            writes in prop::collection::vec((0u32..4, 0u64..256, 1u64..64), 1..200),
        ) {
            let unit_bytes = unit_kib << 10;
            let piece = (unit_bytes / 64).max(4096);
            let pieces = unit_bytes / piece;
            let mut gather = Gather::new(8, unit_bytes);
            let mut naive = vec![BTreeSet::new(); 4];
            for (unit, start, length) in writes {
                let (start, end) = (start % pieces, (start % pieces + length).min(pieces));
                let of = &mut naive[unit as usize];
                let unit = LogicalUnit(unit);
                of.extend(start..end);
                let complete = of.len() as u64 == pieces;
                prop_assert_eq!(gather.add(unit, start * piece, end * piece), complete);
                if complete {
                    of.clear();
                }
                prop_assert_eq!(gather.holds(unit), !naive[unit.0 as usize].is_empty());
            }
        }
    }
}
