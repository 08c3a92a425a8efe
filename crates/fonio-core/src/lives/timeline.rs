//! Stores the facts about one number: when its lives ended, and which generations it had.

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::{Gaps, Generation, Told};
use crate::units::Timestamp;

/// Consecutive sightings of one generation.
#[derive(Clone, Copy, Debug)]
struct Sighted {
    first: Timestamp,
    last: Timestamp,
    generation: Generation,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    /// The times at which lives ended, in order and without duplicates.
    ends: Vec<Timestamp>,
    /// The runs of sightings, in order and without overlaps.
    sighted: Vec<Sighted>,
    /// The first known sighting of each generation.
    firsts: FxHashMap<Generation, Timestamp>,
    pub(super) gaps: Gaps,
}

impl Timeline {
    pub(super) const EMPTY: Timeline = Timeline {
        ends: Vec::new(),
        sighted: Vec::new(),
        firsts: FxHashMap::with_hasher(FxBuildHasher),
        gaps: Gaps(Vec::new()),
    };

    /// Returns the number of stored facts.
    pub(super) fn len(&self) -> usize {
        self.ends.len() + self.sighted.len() + self.gaps.0.len()
    }

    /// Adds an end. Returns by how many facts the timeline became longer.
    pub(super) fn ended(&mut self, at: Timestamp) -> isize {
        let place = self.ends.partition_point(|end| *end < at);
        if self.ends.get(place) == Some(&at) {
            return 0;
        }
        self.ends.insert(place, at);
        1
    }

    /// Adds a sighting. Returns by how many facts the timeline became longer.
    pub(super) fn is(&mut self, at: Timestamp, generation: Generation) -> isize {
        let first = self.firsts.entry(generation).or_insert(at);
        *first = (*first).min(at);
        let before = self.sighted.len();
        let place = self.sighted.partition_point(|sighted| sighted.last < at);
        let is_same = |sighted: Option<&Sighted>| sighted.is_some_and(|it| it.generation == generation);
        let next = self.sighted.get(place).copied();
        if let Some(next) = next.filter(|next| next.first <= at) {
            if next.generation != generation {
                // Only the first and last times of a run are certainly sightings.
                let runs = [(next.first, next.first), (at, at), (next.last, next.last)];
                let generations = [next.generation, generation, next.generation];
                let runs = runs.into_iter().zip(generations);
                let runs = runs.map(|((first, last), generation)| Sighted { first, last, generation });
                self.sighted.splice(place..=place, runs);
            }
        } else if is_same(next.as_ref()) {
            self.sighted[place].first = at;
        } else if is_same(place.checked_sub(1).and_then(|before| self.sighted.get(before))) {
            self.sighted[place - 1].last = at;
        } else {
            self.sighted.insert(place, Sighted { first: at, last: at, generation });
        }
        self.sighted.len() as isize - before as isize
    }

    /// Replaces the older half of the ends or sightings by a gap. Returns by how many facts the timeline
    /// became longer, or shorter if negative.
    pub(super) fn forget(&mut self) -> isize {
        let before = self.len();
        let until = if self.ends.len() >= self.sighted.len() {
            self.ends.get(self.ends.len() / 2).copied()
        } else {
            self.sighted.get(self.sighted.len() / 2).map(|sighted| sighted.last)
        };
        let until = until.or_else(|| self.gaps.edges().last()).unwrap_or_default();
        self.ends.drain(..self.ends.partition_point(|end| *end <= until));
        self.sighted.drain(..self.sighted.partition_point(|sighted| sighted.last <= until));
        self.firsts.retain(|_, first| *first > until);
        self.gaps.add(Timestamp(0), until);
        self.len() as isize - before as isize
    }

    /// Returns what identifies the life at the time `at`; `None` if the life is unknown. `gaps` are the gaps
    /// of all numbers.
    pub(super) fn at(&self, at: Timestamp, gaps: &Gaps) -> Option<Told> {
        let next = self.sighted.partition_point(|sighted| sighted.last < at);
        let before = next.checked_sub(1).map(|before| self.sighted[before]);
        let next = self.sighted.get(next).copied();
        if let Some(seen) = next
            && (seen.first <= at || before.is_some_and(|before| before.generation == seen.generation))
        {
            return Some(self.told(&seen));
        }
        if gaps.contain(at) || self.gaps.contain(at) {
            return None;
        }
        let (after, until) = self.cuts(at, gaps);
        let before = before.filter(|seen| seen.last > after);
        let next = next.filter(|seen| seen.first <= until);
        match (before, next) {
            (Some(_), Some(_)) => None,
            (Some(seen), None) | (None, Some(seen)) => Some(self.told(&seen)),
            (None, None) => Some(Told::After(after)),
        }
    }

    fn told(&self, seen: &Sighted) -> Told {
        let first = self.firsts.get(&seen.generation);
        match first.is_some_and(|first| *first < seen.first) {
            true => Told::Again(seen.generation, seen.first),
            false => Told::By(seen.generation),
        }
    }

    /// Returns the last cut before `at`, and the first cut at or after `at`.
    fn cuts(&self, at: Timestamp, gaps: &Gaps) -> (Timestamp, Timestamp) {
        let next = self.ends.partition_point(|end| *end < at);
        let before = next.checked_sub(1).map_or(Timestamp(0), |before| self.ends[before]);
        let next = self.ends.get(next).copied().unwrap_or(Timestamp::MAX);
        let (of_all, own) = (gaps.edges_around(at), self.gaps.edges_around(at));
        (before.max(of_all.0).max(own.0), next.min(of_all.1).min(own.1))
    }

    /// Adds the times at which a piece of this number can end.
    pub(super) fn piece_ends(&self, ends: &mut Vec<Timestamp>) {
        ends.extend(&self.ends);
        ends.extend(self.gaps.edges());
        // A sighting can lie in a gap, or next to a sighting of another generation.
        let edges =
            self.sighted.iter().flat_map(|seen| [Timestamp(seen.first.0.saturating_sub(1)), seen.last]);
        ends.extend(edges);
    }
}
