//! Finds the gaps in which events were lost, and the number of values that may be missing as a result.
//!
//! A lost event can be the completion of a known request, or the only event of an unknown request. Every lost
//! event therefore hides at most one latency. The hidden latencies may belong to the slowest requests of any
//! group. If any event was lost, known requests without a value are also counted as missing values, because
//! their completions may have been lost.

use fonio_core::{Meta, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::span::Span;

const PLACES_MAX: usize = 50;

/// A gap in which events were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostPlace {
    /// Processor whose buffer lost the events; absent if unknown.
    pub cpu: Option<u32>,
    /// Time of the last event before the gap, in nanoseconds since the span began.
    pub after_ns: Nanos,
    /// Time of the first event after the gap, in nanoseconds since the span began.
    pub before_ns: Nanos,
    /// The number of lost events; absent if only the gap is known.
    pub events: Option<u64>,
}

/// The number of values that may be missing from a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Nothing,
    UpTo(u64),
    Unknown,
}

impl Loss {
    /// Adds the number of requests whose value is missing.
    pub(crate) fn and(self, without: u64) -> Loss {
        match self {
            Loss::UpTo(events) => Loss::UpTo(events.saturating_add(without)),
            other => other,
        }
    }

    /// Returns the loss to use for a figure that a single lost event can change arbitrarily.
    pub(crate) fn beyond_bounds(self) -> Loss {
        if self == Loss::Nothing { self } else { Loss::Unknown }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct LostInSpan {
    pub(crate) events: u64,
    /// Gaps of unknown size, and the sum of their lengths.
    pub(crate) uncounted: u64,
    pub(crate) uncounted_time: Nanos,
    pub(crate) gaps: u64,
    /// The largest gaps, sorted by time.
    pub(crate) places: Vec<LostPlace>,
}

impl LostInSpan {
    pub(crate) fn of(meta: &Meta, span: &Span) -> LostInSpan {
        let lost = &meta.lost;
        let (began, ended) = (span.began_ns, span.began_ns + span.duration_ns);
        let located = lost.gaps_beyond == 0
            && lost.gaps.iter().map(|gap| gap.count.unwrap_or(0)).fold(0, u64::saturating_add) == lost.events;
        let inside = |at: &&fonio_core::LostEvents| at.after <= ended && at.before >= began;
        let gaps: Vec<_> = lost.gaps.iter().filter(inside).collect();
        let places = gaps.iter().map(|gap| LostPlace {
            cpu: gap.cpu,
            after_ns: gap.after.clamp(began, ended) - began,
            before_ns: gap.before.clamp(began, ended) - began,
            events: gap.count,
        });
        let mut places: Vec<LostPlace> = places.collect();
        let uncounted_time = places
            .iter()
            .filter(|place| place.events.is_none())
            .map(|place| place.before_ns - place.after_ns)
            .sum();
        // Gaps of unknown size come first.
        places.sort_by_key(|place| std::cmp::Reverse(place.events.unwrap_or(u64::MAX)));
        places.truncate(PLACES_MAX);
        places.sort_by_key(|place| (place.after_ns, place.before_ns, place.cpu));
        let known = gaps.iter().filter_map(|gap| gap.count).fold(0, u64::saturating_add);
        let unnumbered = gaps.iter().filter(|gap| gap.count.is_none()).count() as u64;
        LostInSpan {
            events: if located { known } else { lost.events },
            // If the events of a gap without a number were counted by other means, the gap is not uncounted.
            uncounted: if lost.gaps_beyond == 0 { lost.uncounted.min(unnumbered) } else { lost.uncounted },
            uncounted_time,
            gaps: gaps.len() as u64 + lost.gaps_beyond,
            places,
        }
    }

    /// Whether any event or gap is known to be lost.
    pub(crate) fn is_any(&self) -> bool {
        self.events > 0 || self.uncounted > 0
    }

    pub(crate) fn loss(&self) -> Loss {
        match (self.uncounted, self.events) {
            (0, 0) => Loss::Nothing,
            (0, events) => Loss::UpTo(events),
            _ => Loss::Unknown,
        }
    }
}
