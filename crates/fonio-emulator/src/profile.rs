//! Loads a device by its name: a shipped profile by its name, another profile by its file, or a combination
//! of two devices.
//!
//! | name | device |
//! |---|---|
//! | `ridata` | the shipped profile |
//! | `./my-card.toml` | the profile in this file |
//! | `raid0:internal_2010+ridata` | both, striped in units of 4 KiB, each with half of the capacity |
//! | `buffered:pcm+ridata` | the first device, with its own capacity, is a write buffer for the second |

use std::path::Path;

use fonio_core::ByteCount;
use fonio_sim::device::Device;
use fonio_sim::device::buffered::Buffered;
use fonio_sim::device::raid0::{Raid0, STRIPE};
use fonio_sim::profile::{Profile, SHIPPED};
use fonio_system::regular;

use crate::error::EmulatorError;

/// Maximum number of bytes of a profile. The longest shipped profile has some 10 KiB.
const PROFILE_BYTES_MAX: u64 = 1 << 20;

/// Loads the shipped profile with this name, or the profile in the file at this path. Fails with
/// [`EmulatorError::Profile`] if no profile has this name or the file is invalid.
pub fn load(name: &str) -> Result<Profile, EmulatorError> {
    if let Some(profile) = Profile::shipped(name) {
        return Ok(profile);
    }
    let refused = |reason: String| EmulatorError::Profile { profile: name.to_owned(), reason };
    let text = regular::read_text(Path::new(name), PROFILE_BYTES_MAX).map_err(|error| {
        let nearest = fonio_core::nearest(name, SHIPPED.iter().map(|(name, _)| *name));
        refused(format!("neither a shipped profile nor a readable file ({error}){nearest}"))
    })?;
    Profile::parse(name, &text).map_err(|error| refused(error.to_string()))
}

/// Creates the device model with this name. Fails with [`EmulatorError::Profile`] if the profile is missing
/// or invalid, or does not support this capacity.
pub fn device(name: &str, capacity: ByteCount, seed: u64) -> Result<Box<dyn Device>, EmulatorError> {
    let refused = |reason: String| EmulatorError::Profile { profile: name.to_owned(), reason };
    let two = |names: &'_ str| {
        names
            .split_once('+')
            .map(|(one, other)| (one.to_owned(), other.to_owned()))
            .ok_or_else(|| refused("write two devices, separated by +".to_owned()))
    };
    if let Some(names) = name.strip_prefix("raid0:") {
        let (one, other) = two(names)?;
        let half = ByteCount(capacity.0 / 2 / STRIPE.0 * STRIPE.0);
        return Ok(Box::new(Raid0::new(
            vec![one_of(&one, half, seed)?, one_of(&other, half, seed)?],
            STRIPE,
        )));
    }
    if let Some(names) = name.strip_prefix("buffered:") {
        let (fast, slow) = two(names)?;
        let fast_profile = load(&fast)?;
        let buffer = fast_profile.device(None, seed).map_err(|error| refused(error.to_string()))?;
        if buffer.limits().volatile_cache {
            return Err(refused(format!(
                "{fast} loses its data at a power cut, so it cannot be a write buffer of {slow}"
            )));
        }
        return Ok(Box::new(Buffered::new(buffer, one_of(&slow, capacity, seed)?)));
    }
    one_of(name, capacity, seed)
}

fn one_of(name: &str, capacity: ByteCount, seed: u64) -> Result<Box<dyn Device>, EmulatorError> {
    load(name)?
        .device(Some(capacity), seed)
        .map_err(|error| EmulatorError::Profile { profile: name.to_owned(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_by_name_or_file() {
        assert_eq!(load("kingston").expect("shipped").name(), "kingston");
        let error = load("no-such-card").map(drop).expect_err("there is none");
        assert!(
            error.to_string().starts_with("no-such-card: neither a shipped profile nor a readable file"),
            "{error}"
        );
    }

    #[test]
    fn two_devices_as_one() {
        let size = ByteCount(64 << 20);
        let of = |name: &str| device(name, size, 1).map(|device| device.limits().capacity);
        assert_eq!(of("raid0:internal_2010+ridata").expect("both are shipped"), size);
        assert_eq!(of("buffered:pcm+ridata").expect("both are shipped"), size);
        for (name, reason) in [
            ("raid0:ridata", "write two devices, separated by +"),
            ("buffered:pcm+no-such-card", "neither a shipped profile nor a readable file"),
            ("buffered:nvme+ridata", "nvme loses its data at a power cut"),
        ] {
            let error = device(name, size, 1).map(drop).expect_err(name);
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
