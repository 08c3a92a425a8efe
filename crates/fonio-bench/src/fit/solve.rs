//! Adjusts times and rates of a profile until its model reproduces the measured numbers.

use fonio_sim::profile::{Profile, ProfileError, Source};

use super::Observation;

/// A number of a profile that the fit adjusts. A rate is adjusted as the time per MiB, because times can be
/// added but rates cannot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knob {
    pub(super) key: &'static str,
    is_rate: bool,
    /// Lower bound of the knob in microseconds (per MiB for a rate); `high` is the upper bound.
    low: f64,
    high: f64,
    /// The observation that depends most on this knob; `None` if no single observation determines the knob.
    target: Option<usize>,
}

impl Knob {
    pub(super) fn time(key: &'static str, low: f64, high: f64, target: Option<usize>) -> Knob {
        Knob { key, is_rate: false, low, high, target }
    }

    pub(super) fn rate(key: &'static str, target: Option<usize>) -> Knob {
        // These bounds allow rates from 100 kB/s to 100 GB/s.
        Knob { key, is_rate: true, low: 10.0, high: 1e7, target }
    }

    /// Returns the knob's value in microseconds.
    pub(super) fn get(&self, profile: &Profile) -> f64 {
        let number = profile.number(self.key).unwrap_or(0) as f64;
        if self.is_rate { MIB * 1e6 / number.max(1.0) } else { number / 1e3 }
    }

    fn set(&self, profile: &mut Profile, micros: f64) -> Result<(), ProfileError> {
        let micros = micros.clamp(self.low, self.high);
        let number = if self.is_rate { MIB * 1e6 / micros } else { micros * 1e3 };
        profile.set(self.key, number as u64, Source::Fitted, "a benchmark of the device")
    }

    pub(super) fn show(&self, micros: f64) -> String {
        if self.is_rate { format!("{:.2} MB/s", MIB / micros) } else { format!("{micros:.0} µs") }
    }
}

const MIB: f64 = 1_048_576.0;

/// Number of rounds over all knobs to find the rough solution. The knobs affect each other's targets, but
/// each target depends mostly on one knob.
const ROUNDS: u32 = 4;

/// Adjusts each knob in turn to its target with the secant method.
pub(super) fn by_targets(
    mut profile: Profile,
    knobs: &[Knob],
    observations: &[Observation],
) -> Result<Profile, ProfileError> {
    for _ in 0..ROUNDS {
        for knob in knobs {
            let Some(target) = knob.target else { continue };
            let observation = &observations[target];
            let here = observation.modelled(&profile)?;
            let now = knob.get(&profile);
            let probe = if now * 1.05 > knob.high { now * 0.95 } else { now * 1.05 + 1.0 };
            knob.set(&mut profile, probe)?;
            let slope = (observation.modelled(&profile)? - here) / (probe - now);
            // A knob without effect keeps its value; the knob may have an effect in another structure.
            let next = if slope > 1e-9 { now + (observation.micros - here) / slope } else { now };
            knob.set(&mut profile, next)?;
        }
    }
    Ok(profile)
}

/// Step sizes of the descent, relative to a knob's value.
pub(super) const THOROUGH: &[f64] = &[0.3, 0.1, 0.03, 0.01];

/// Step sizes for resamples, whose descent starts near the solution.
pub(super) const NEARBY: &[f64] = &[0.05, 0.015];

/// Maximum number of descent rounds per step size, while the loss decreases.
const DESCENT_ROUNDS: u32 = 6;

/// Minimum step of a knob in microseconds, so that even a knob with the value zero can change.
const STEP_MIN_US: f64 = 2.0;

/// Minimises the [`loss`] over all observations, one knob at a time.
pub(super) fn by_descent(
    mut profile: Profile,
    knobs: &[Knob],
    observations: &[Observation],
    steps: &[f64],
) -> Result<(f64, Profile), ProfileError> {
    let mut least = loss(&profile, observations)?;
    for step in steps {
        for _ in 0..DESCENT_ROUNDS {
            let before = least;
            for knob in knobs {
                let now = knob.get(&profile);
                let by = (now * step).max(STEP_MIN_US);
                for next in [now + by, now - by] {
                    let mut tried = profile.clone();
                    knob.set(&mut tried, next)?;
                    let found = loss(&tried, observations)?;
                    if found < least {
                        (least, profile) = (found, tried);
                        break;
                    }
                }
            }
            if least > before * 0.98 {
                break;
            }
        }
    }
    Ok((least, profile))
}

/// Returns the mean relative difference between modelled and measured times. Each deviation is relative to
/// the smaller value, so half and double count equally. The deviations are not squared, so a disturbed run
/// does not outweigh the other runs.
pub(super) fn loss(profile: &Profile, observations: &[Observation]) -> Result<f64, ProfileError> {
    let mut sum = 0.0;
    for observation in observations {
        let given = observation.modelled(profile)?;
        sum += (given - observation.micros).abs() / given.min(observation.micros);
    }
    Ok(sum / observations.len() as f64)
}
