//! Implements the rules of [`Lives`](super::Lives) literally, without an index.

use super::{Generation, Told};
use crate::units::Timestamp;

/// The facts about one number, in no order.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    pub ends: Vec<Timestamp>,
    pub sightings: Vec<(Timestamp, Generation)>,
    pub gaps: Vec<(Timestamp, Timestamp)>,
}

impl Oracle {
    pub(super) fn at(&self, at: Timestamp) -> Option<Told> {
        // Rule 2.
        for (first, generation) in self.sightings.iter().filter(|(first, _)| *first <= at) {
            for (last, _) in self.sightings.iter().filter(|(last, same)| *last >= at && same == generation) {
                let mut between = self.sightings.iter().filter(|(seen, _)| first <= seen && seen <= last);
                if between.all(|(_, seen)| seen == generation) {
                    return Some(Told::By(*generation));
                }
            }
        }
        // Rule 5.
        if self.gaps.iter().any(|(after, until)| *after < at && at <= *until) {
            return None;
        }
        // Rule 1.
        let cuts = self.ends.iter().copied().chain(self.gaps.iter().flat_map(|gap| [gap.0, gap.1]));
        let cuts: Vec<Timestamp> = cuts.collect();
        let after = cuts.iter().copied().filter(|cut| *cut < at).max().unwrap_or_default();
        let until = cuts.iter().copied().filter(|cut| *cut >= at).min().unwrap_or(Timestamp::MAX);
        let piece = self.sightings.iter().filter(|(seen, _)| after < *seen && *seen <= until);
        let before = piece.clone().filter(|(seen, _)| *seen <= at).max_by_key(|(seen, _)| *seen);
        let next = piece.filter(|(seen, _)| *seen >= at).min_by_key(|(seen, _)| *seen);
        match (before, next) {
            // Rule 3.
            (Some(_), Some(_)) => None,
            (Some((_, generation)), None) | (None, Some((_, generation))) => Some(Told::By(*generation)),
            // Rule 4.
            (None, None) => Some(Told::After(after)),
        }
    }
}
