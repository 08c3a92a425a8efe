//! Units in a write buffer that wait for the rest of their data.

/// Data are gathered in pieces of this size; a smaller write counts as one.
const PIECE_BYTES: u64 = 4096;

/// Units of which only a part has come, the one untouched for longest first.
#[derive(Debug)]
pub(super) struct Gather {
    units: Vec<(u64, u64)>,
    units_max: usize,
    complete: u64,
}

impl Gather {
    pub(super) fn new(units_max: u32, unit_bytes: u64) -> Gather {
        let pieces = unit_bytes.div_ceil(PIECE_BYTES).min(64);
        Gather { units: Vec::new(), units_max: units_max as usize, complete: u64::MAX >> (64 - pieces) }
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
        for piece in from / PIECE_BYTES..to.div_ceil(PIECE_BYTES) {
            pieces |= 1 << piece.min(63);
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
