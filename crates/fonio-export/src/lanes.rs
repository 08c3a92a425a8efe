//! Divides intervals among lanes.

/// Maximum number of lanes of each kind. Intervals beyond them are left out; on real devices, a few thousand requests are
/// in flight at most.
pub(crate) const LANES_MAX: usize = 4096;

/// Lanes on which no two intervals overlap.
#[derive(Default)]
pub(crate) struct Lanes {
    /// For each lane, the time from which it is free.
    free_from: Vec<u64>,
}

impl Lanes {
    /// Occupies the first lane that is free at `begin`, until `end`; also returns whether the lane is new.
    /// Returns `None` if there are too many lanes.
    pub fn take(&mut self, begin: u64, end: u64) -> Option<(u32, bool)> {
        let found = self.free_from.iter().position(|free| *free <= begin);
        let lane = found.unwrap_or(self.free_from.len());
        if lane == LANES_MAX {
            return None;
        }
        match found {
            Some(lane) => self.free_from[lane] = end,
            None => self.free_from.push(end),
        }
        Some((lane as u32, found.is_none()))
    }
}
