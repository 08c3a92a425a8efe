//! Converts between the wall clock and the model's clock.

use std::time::{Duration, Instant};

use fonio_core::{Nanos, Timestamp};

/// Relates the model's clock to the wall clock. With a dilation of 3, three seconds of wall time are one
/// second of model time.
#[derive(Clone, Debug)]
pub(crate) struct ModelClock {
    wall: Instant,
    model: Timestamp,
    dilate: f64,
    /// The last timestamp given to the model, whose time must not go backwards.
    last: Timestamp,
}

impl ModelClock {
    /// Panics if `dilate` is less than 1.
    pub(crate) fn start(dilate: f64) -> ModelClock {
        assert!(dilate >= 1.0 && dilate.is_finite(), "the dilation must be at least 1");
        ModelClock { wall: Instant::now(), model: Timestamp(0), dilate, last: Timestamp(0) }
    }

    /// Returns the model's time at `wall`, but not less than the last returned time.
    pub(crate) fn model_at(&mut self, wall: Instant) -> Timestamp {
        let passed = wall.saturating_duration_since(self.wall).as_nanos() as f64 / self.dilate;
        self.last = self.last.max(self.model + Nanos(passed as u64));
        self.last
    }

    /// Returns the wall time at which the model's clock shows `at`.
    pub(crate) fn wall_at(&self, at: Timestamp) -> Instant {
        let ahead = at.0.saturating_sub(self.model.0) as f64 * self.dilate;
        self.wall + Duration::from_nanos(ahead as u64)
    }

    /// Advances the model's clock to at least `model`, so all commands due by that time are complete.
    pub(crate) fn skip_to(&mut self, model: Timestamp) {
        let now = Instant::now();
        let shown = self.model_at(now);
        self.wall = now;
        self.model = shown.max(model);
        assert!(self.model >= self.last, "the model's time never goes backwards");
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
