//! Shows the progress of a series of measurements and of other work (`fonio_system::progress`).

use std::time::Instant;

use fonio_experiment::Measurement;
pub use fonio_system::progress::{Done, Progress, rounded};
use fonio_system::say;

/// The progress of a series of measurements. The remaining time is extrapolated from earlier measurements.
pub struct Estimate {
    began: Instant,
    done: usize,
    shown: Progress,
}

impl Estimate {
    pub fn new() -> Estimate {
        Estimate { began: Instant::now(), done: 0, shown: Progress::phase("Preparing the first run") }
    }

    /// Announces `measurement` with the description `what`.
    pub fn announce<S>(&mut self, measurement: &Measurement<'_, S>, what: &str) {
        let all = measurement.measurements;
        let (at, left) = self.next(all);
        say!("[{at}/{all}] round {}: {what}{left} …", measurement.round);
        self.shown.set(format!("[{at}/{all}] {what}"), Done::Steps(at as u64 - 1, all as u64));
    }

    /// Returns the number of the next measurement out of `count`, and the remaining time: `, about 4 min
    /// left`.
    fn next(&mut self, count: usize) -> (usize, String) {
        let left = match self.done {
            0 => String::new(),
            done => {
                let each = self.began.elapsed().as_secs_f64() / done as f64;
                format!(", about {} left", rounded(each * count.saturating_sub(done) as f64))
            }
        };
        self.done += 1;
        (self.done, left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_known_after_the_first_measurement() {
        let mut estimate = Estimate::new();
        assert_eq!(estimate.next(3), (1, String::new()));
        assert!(estimate.next(3).1.ends_with(" left"));
    }
}
