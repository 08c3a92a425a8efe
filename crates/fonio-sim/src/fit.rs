//! Fits numbers of a profile until the model reproduces published or measured values.
//!
//! Each target names one profile key that the fit may change. In each round, every key moves by one step of
//! the secant method, until all targets are met. Every key affects all results, but each result depends
//! mostly on its own key.

use fonio_core::Nanos;

use crate::measure::{Gives, Protocol};
use crate::profile::{Profile, ProfileError, Source, schema};

/// A value that the model must reproduce.
#[derive(Clone, Debug)]
pub struct Target {
    /// The profile's key that the fit may change.
    pub key: &'static str,
    /// The protocol that measures the value.
    pub protocol: Protocol,
    /// The number that the model must reproduce.
    pub wanted: f64,
    /// The name of the published number, for `to` in the profile.
    pub to: String,
}

/// The fit's result for a target.
#[derive(Clone, Debug)]
pub struct Met {
    /// The target's name.
    pub to: String,
    /// The value that the model must reproduce.
    pub wanted: f64,
    /// The value that the model gives.
    pub given: f64,
}

impl Met {
    /// Returns the relative error of the model's value.
    pub fn error(&self) -> f64 {
        (self.given / self.wanted - 1.0).abs()
    }
}

/// A target is met if the relative error is at most this number. Published numbers have two or three
/// digits.
const ERROR_MAX: f64 = 1e-4;

/// The maximum number of rounds. The cards need about five rounds. Without a maximum, a fit to an unreachable
/// target would never end.
const ROUNDS_MAX: u32 = 40;

/// Changes the targets' keys until the model gives the wanted values or the maximum number of rounds is
/// reached. Returns the profile and the result for each target. Fails if a key is unknown or not in the
/// profile, or no device can be made from the profile.
pub fn fit(profile: &Profile, targets: &[Target]) -> Result<(Profile, Vec<Met>), ProfileError> {
    let mut fitted = profile.clone();
    for _ in 0..ROUNDS_MAX {
        let mut worst = 0.0f64;
        for target in targets {
            worst = worst.max(step(&mut fitted, target)?);
        }
        if worst <= ERROR_MAX {
            break;
        }
    }
    let met = targets
        .iter()
        .map(|target| {
            let given = target.protocol.run(&fitted)?;
            Ok(Met { to: target.to.clone(), wanted: target.wanted, given })
        })
        .collect::<Result<_, ProfileError>>()?;
    Ok((fitted, met))
}

/// Moves one key by one step, and returns the relative error before the step.
fn step(profile: &mut Profile, target: &Target) -> Result<f64, ProfileError> {
    let key = schema::find(target.key);
    let now = profile.number(target.key).unwrap_or(key.map_or(0, |key| key.min));
    let set = |profile: &mut Profile, number| profile.set(target.key, number, Source::Fitted, &target.to);
    set(profile, now)?;
    // Fit times instead of rates: times add up and rates do not, so the slope of the time is nearly
    // constant.
    let cost = |number: f64| match target.protocol.gives {
        Gives::Throughput | Gives::Iops | Gives::Speedup(_) => 1.0 / number,
        _ => number,
    };
    let wanted = cost(target.wanted);
    let here = cost(target.protocol.run(profile)?);
    let error = (wanted / here - 1.0).abs();
    if error <= ERROR_MAX {
        return Ok(error);
    }
    let key = key.expect("the key exists, because it was set before");
    let probe = (now + (now / 50).max(Nanos(1_000).0)).min(key.max);
    set(profile, probe)?;
    let there = cost(target.protocol.run(profile)?);
    let slope = (there - here) / (probe - now).max(1) as f64;
    let next = if slope == 0.0 { now as f64 } else { now as f64 + (wanted - here) / slope };
    // Far from the target, the slope is not reliable.
    let floor = now as f64 / 2.0;
    let ceiling = (now as f64 * 2.0).max(200_000.0);
    let lowest = if floor < 2_000.0 { 0.0 } else { floor };
    let next = next.clamp(lowest, ceiling).clamp(key.min as f64, key.max as f64);
    set(profile, next as u64)?;
    Ok(error)
}
