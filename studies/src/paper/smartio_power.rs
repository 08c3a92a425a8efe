//! Reproduces Figure 14: power. The power is not measured, but estimated from measured shares of time and
//! published currents.
//!
//! The phone needs one current for its screen, a second current while its processor is awake, and a third
//! current while the processor executes instructions. A scheduler changes the processor time and the total
//! time. The published currents do not include the flash's current. The flash does the same work under each
//! scheduler.

use anyhow::{Context, Result};

use super::measured::Kind;
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::Runs;
use crate::applications::FORTY_APPS;

const TIMES: Quantity = Quantity::new("times", 2, 1.02, 0.0);

/// Currents in mA, from the power profile of the Galaxy S5 in the LineageOS project's
/// `android_device_samsung_klte-common`, commit 0d1f6afda254. Android's documentation describes the format of
/// power profiles (source.android.com/docs/core/power/values).
struct Profile {
    screen_on: f64,
    screen_full: f64,
    cpu_idle: f64,
    /// Current of a busy processor at its highest and its lowest speed.
    cpu_active: [f64; 2],
}

const S5: Profile = Profile { screen_on: 65.0, screen_full: 202.0, cpu_idle: 3.1, cpu_active: [348.0, 56.0] };

impl Profile {
    /// Returns the phone's mean current, with the screen at half brightness.
    fn current(&self, active_share: f64, cpu_active: f64) -> f64 {
        self.screen_on + self.screen_full / 2.0 + self.cpu_idle + active_share * cpu_active
    }
}

const WHY: &str = "in this estimate, a shorter run with the same work takes less energy but more power; the study does not say \
                   what took less";

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let found = runs.applications(&FORTY_APPS)?;
    let told = 1.0 - published.number("smartio.app_delay.power_mean")? / 100.0;
    let mut rows = Vec::new();
    for (at, (speed, cpu_active)) in ["highest", "lowest"].into_iter().zip(S5.cpu_active).enumerate() {
        let of =
            |name: &str, value: fn(f64, f64) -> f64| {
                let kernel =
                    found.of(name)?.kernel.as_ref().with_context(|| format!("the kernel has no {name}"))?;
                let currents = kernel.active_share.iter().map(|share| S5.current(*share, cpu_active));
                Ok::<_, anyhow::Error>(Kind::Model.runs(
                    currents.zip(&kernel.launches_s).map(|(current, seconds)| value(current, *seconds)),
                ))
            };
        let ratio = |value| Ok::<_, anyhow::Error>(of("smartio", value)?.over(&of("bfq", value)?));
        let power = ratio(|current, _| current)?;
        let what = format!("mean power, SmartIO over BFQ, estimated, the processor at its {speed} speed");
        // Both rows compare the same published number.
        rows.push(TIMES.effect(what, told, &power, WHY).of_numbers(u32::from(at == 0)));
        let energy = ratio(|current, seconds| current * seconds)?.value().context("a round has no value")?;
        rows.push(Row::ours_alone(
            Kind::Model,
            format!("energy of the launches, SmartIO over BFQ, the processor at its {speed} speed"),
            format!("{energy:.2} times"),
            "the study reports only the power",
        ));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_has_its_parts() {
        let profile =
            Profile { screen_on: 60.0, screen_full: 200.0, cpu_idle: 5.0, cpu_active: [300.0, 50.0] };
        assert_eq!(profile.current(0.0, 300.0), 165.0);
        assert_eq!(profile.current(0.5, 300.0), 315.0);
    }
}
