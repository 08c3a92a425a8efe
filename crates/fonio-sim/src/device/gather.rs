//! Units in a write buffer that wait for the rest of their data.

/// Data are gathered in pieces of at least this size; a smaller write counts as one.
const PIECE_BYTES_MIN: u64 = 4096;

/// Units of which only a part has come, the one untouched for longest first.
#[derive(Debug)]
pub(super) struct Gather {
    units: Vec<(u64, u64)>,
    units_max: usize,
    /// So large that a unit has at most 64.
    piece_bytes: u64,
    complete: u64,
}

impl Gather {
    pub(super) fn new(units_max: u32, unit_bytes: u64) -> Gather {
        let piece_bytes = unit_bytes.div_ceil(64).max(PIECE_BYTES_MIN);
        let complete = u64::MAX >> (64 - unit_bytes.div_ceil(piece_bytes));
        Gather { units: Vec::new(), units_max: units_max as usize, piece_bytes, complete }
    }

    /// Whether it takes anything.
    pub(super) fn takes(&self) -> bool {
        self.units_max > 0
    }

    pub(super) fn holds(&self, unit: u64) -> bool {
        self.units.iter().any(|(held, _)| *held == unit)
    }

    /// What must leave before `unit` can be added.
    pub(super) fn make_room(&mut self, unit: u64) -> Option<u64> {
        (self.units.len() >= self.units_max && !self.holds(unit)).then(|| self.units.remove(0).0)
    }

    /// Adds the bytes `from..to` of a unit; true where it is complete, and thereby gone from here.
    pub(super) fn add(&mut self, unit: u64, from: u64, to: u64) -> bool {
        let mut pieces = match self.units.iter().position(|(held, _)| *held == unit) {
            Some(at) => self.units.remove(at).1,
            None => 0,
        };
        for piece in from / self.piece_bytes..to.div_ceil(self.piece_bytes) {
            pieces |= 1 << piece;
        }
        let complete = pieces == self.complete;
        if !complete {
            self.units.push((unit, pieces));
        }
        complete
    }

    /// The unit was written as a whole, or is not needed any more.
    pub(super) fn forget(&mut self, unit: u64) {
        if self.units_max > 0 {
            self.units.retain(|(held, _)| *held != unit);
        }
    }

    pub(super) fn take_oldest(&mut self) -> Option<u64> {
        (!self.units.is_empty()).then(|| self.units.remove(0).0)
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
            writes in prop::collection::vec((0u64..4, 0u64..256, 1u64..64), 1..200),
        ) {
            let unit_bytes = unit_kib << 10;
            let piece = (unit_bytes / 64).max(4096);
            let pieces = unit_bytes / piece;
            let mut gather = Gather::new(8, unit_bytes);
            let mut naive = vec![BTreeSet::new(); 4];
            for (unit, start, length) in writes {
                let (start, end) = (start % pieces, (start % pieces + length).min(pieces));
                let of = &mut naive[unit as usize];
                of.extend(start..end);
                let complete = of.len() as u64 == pieces;
                prop_assert_eq!(gather.add(unit, start * piece, end * piece), complete);
                if complete {
                    of.clear();
                }
                prop_assert_eq!(gather.holds(unit), !naive[unit as usize].is_empty());
            }
        }
    }
}
