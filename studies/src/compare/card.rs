//! The profile of the emulated card of the recorded cases, and slower variants of it.

use anyhow::{Context, Result};
use fonio_sim::profile::{Profile, Source};

/// The name of the shipped profile.
pub const PROFILE: &str = "galaxy_s3_emmc";

/// Returns the device profile with its times multiplied and its rates divided by `factor`.
pub fn slower(factor: f64) -> Result<Profile> {
    let mut profile = Profile::shipped(PROFILE).context("fonio does not ship the profile")?;
    for key in [
        "interface.read_command",
        "interface.write_command",
        "interface.flush_command",
        "interface.read_rate",
        "interface.write_rate",
        "flash.t_read",
        "flash.t_program",
        "flash.t_erase",
    ] {
        let number = profile.number(key).with_context(|| format!("{PROFILE} has no {key}"))? as f64;
        let changed = if key.ends_with("_rate") { number / factor } else { number * factor };
        profile.set(key, changed.round() as u64, Source::Assumed, "made slower for this comparison")?;
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slower_profile_has_longer_times_and_lower_rates() {
        let read = |factor: f64, key: &str| slower(factor).unwrap().number(key).unwrap();
        assert_eq!(read(2.0, "flash.t_erase"), 7_600_000);
        assert_eq!(read(2.0, "interface.write_rate"), 52_000_000);
        assert_eq!(read(1.0, "interface.flush_command"), 200_000);
    }
}
