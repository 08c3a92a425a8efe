//! Computes intervals of fitted numbers by repeating the fit on resamples of the measurement.
//!
//! A test with several runs is resampled by drawing from these runs. A test with one run is resampled by
//! adding a normally distributed multiple of the standard error of its response times.

use fonio_core::statistics::sample::median;
use fonio_sim::Random;
use fonio_sim::profile::Profile;
use serde::Serialize;

use super::solve::{self, Knob, NEARBY};
use super::{FitError, Observation};

/// The confidence interval of a fitted number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The number's key in the profile.
    pub key: &'static str,
    /// The fitted value, with its unit.
    pub value: String,
    /// The 5th percentile of the value over the resamples.
    pub low: String,
    /// The 95th percentile of the value over the resamples.
    pub high: String,
}

const SEED: u64 = 0x0f01;

pub(super) fn intervals(
    profile: &Profile,
    knobs: &[Knob],
    observations: &[Observation],
    resamples: u32,
    progress: &mut impl FnMut(&str),
) -> Result<Vec<Interval>, FitError> {
    if resamples == 0 {
        return Ok(Vec::new());
    }
    let mut random = Random::new(SEED);
    let mut found = vec![Vec::new(); knobs.len()];
    for number in 0..resamples {
        progress(&format!("resample {} of {resamples}", number + 1));
        let drawn: Vec<Observation> = observations.iter().map(|one| resample(one, &mut random)).collect();
        let (_, solved) = solve::by_descent(profile.clone(), knobs, &drawn, NEARBY)?;
        for (knob, values) in knobs.iter().zip(&mut found) {
            values.push(knob.get(&solved));
        }
    }
    Ok(knobs.iter().zip(found).map(|(knob, values)| interval(knob, profile, values)).collect())
}

fn interval(knob: &Knob, profile: &Profile, mut values: Vec<f64>) -> Interval {
    values.sort_by(f64::total_cmp);
    let at = |percent: usize| values[(values.len() - 1) * percent / 100];
    // A rate is fitted as a time, so the ends of the rate's interval are swapped.
    let (mut low, mut high) = (knob.show(at(5)), knob.show(at(95)));
    if knob.key.ends_with("_rate") {
        std::mem::swap(&mut low, &mut high);
    }
    Interval { key: knob.key, value: knob.show(knob.get(profile)), low, high }
}

fn resample(observation: &Observation, random: &mut Random) -> Observation {
    let runs = &observation.runs;
    let micros = match runs[..] {
        [(micros, error)] => (micros + error * normal(random)).max(micros / 10.0),
        _ => {
            let draw = |_| runs[random.below(runs.len() as u64) as usize].0;
            median(&(0..runs.len()).map(draw).collect::<Vec<f64>>()).unwrap_or(observation.micros)
        }
    };
    Observation { micros, ..observation.clone() }
}

/// A sum of twelve uniform numbers is close enough to normal, and equal on every platform.
fn normal(random: &mut Random) -> f64 {
    let even = |_| (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    (0..12).map(even).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use fonio_core::statistics::sample::Spread;

    use super::*;

    #[test]
    fn the_normal_numbers_are() {
        let mut random = Random::new(3);
        let values: Vec<f64> = (0..20_000).map(|_| normal(&mut random)).collect();
        let spread = Spread::of(&values).expect("there are some");
        assert!(spread.mean.abs() < 0.03 && (spread.sigma() - 1.0).abs() < 0.03, "{spread:?}");
    }
}
