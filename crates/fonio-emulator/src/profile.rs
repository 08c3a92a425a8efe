//! Finding a profile: a shipped one by its name, any other by its file.

use std::fs;
use std::path::Path;

use fonio_core::ByteCount;
use fonio_sim::device::Device;
use fonio_sim::profile::Profile;

use crate::EmulatorError;

/// The profile of this name or in this file.
///
/// # Errors
///
/// [`EmulatorError::Profile`] where there is neither, or the file is no profile.
pub fn load(name: &str) -> Result<Profile, EmulatorError> {
    if let Some(profile) = Profile::shipped(name) {
        return Ok(profile);
    }
    let refused = |reason: String| EmulatorError::Profile { profile: name.to_owned(), reason };
    let text = fs::read_to_string(Path::new(name)).map_err(|error| {
        refused(format!("neither a shipped profile nor a file that can be read: {error}"))
    })?;
    Profile::parse(name, &text).map_err(|error| refused(error.to_string()))
}

/// A device of this profile.
///
/// # Errors
///
/// [`EmulatorError::Profile`], also where the model cannot have this capacity.
pub fn device(name: &str, capacity: ByteCount, seed: u64) -> Result<Box<dyn Device>, EmulatorError> {
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
            error.to_string().starts_with("no-such-card: neither a shipped profile nor a file"),
            "{error}"
        );
    }
}
