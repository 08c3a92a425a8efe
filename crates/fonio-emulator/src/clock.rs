//! The model's clock beside the wall's.

use std::time::{Duration, Instant};

use fonio_core::{Nanos, Timestamp};

/// Turns instants of the wall's clock into the model's and back. A dilation of 3 lets three seconds pass for one of
/// the model's.
#[derive(Clone, Debug)]
pub(crate) struct ModelClock {
    wall: Instant,
    model: Timestamp,
    dilate: f64,
    /// The latest instant given to the model, which must not see time run backwards.
    last: Timestamp,
}

impl ModelClock {
    /// # Panics
    ///
    /// Where `dilate` is not at least 1.
    pub(crate) fn start(dilate: f64) -> ModelClock {
        assert!(dilate >= 1.0 && dilate.is_finite(), "a dilation is at least 1");
        ModelClock { wall: Instant::now(), model: Timestamp(0), dilate, last: Timestamp(0) }
    }

    /// The model's time at `wall`, or the last one given where that was later.
    pub(crate) fn model_at(&mut self, wall: Instant) -> Timestamp {
        let passed = wall.saturating_duration_since(self.wall).as_nanos() as f64 / self.dilate;
        self.last = self.last.max(self.model + Nanos(passed as u64));
        self.last
    }

    /// When the wall's clock shows the model's time `at`.
    pub(crate) fn wall_at(&self, at: Timestamp) -> Instant {
        let ahead = at.0.saturating_sub(self.model.0) as f64 * self.dilate;
        self.wall + Duration::from_nanos(ahead as u64)
    }

    /// Moves the model's clock so that it shows at least `model` now: what was queued up to then is done.
    pub(crate) fn skip_to(&mut self, model: Timestamp) {
        let now = Instant::now();
        let shown = self.model_at(now);
        self.wall = now;
        self.model = shown.max(model);
        self.last = self.model;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dilated_clock_runs_slower_and_back_again() {
        let mut clock = ModelClock::start(4.0);
        let wall = clock.wall + Duration::from_micros(400);
        assert_eq!(clock.model_at(wall), Timestamp(100_000));
        assert_eq!(clock.wall_at(Timestamp(100_000)), wall);
        assert_eq!(clock.model_at(wall - Duration::from_micros(1)), Timestamp(100_000), "never backwards");
    }

    #[test]
    fn skipping_leaves_no_queue_behind() {
        let mut clock = ModelClock::start(1.0);
        clock.skip_to(Timestamp(5_000_000_000));
        let now = Instant::now();
        assert!(clock.model_at(now) >= Timestamp(5_000_000_000));
        assert!(clock.wall_at(Timestamp(5_000_000_000)) <= now);
    }
}
