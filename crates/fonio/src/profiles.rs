//! Keeps the fitted profiles of this machine's disks, so that later commands have a model of them.

use std::path::PathBuf;

use anyhow::{Context, Result};
use fonio_sim::profile::Profile;
use fonio_system::{TrustedFolder, state};

/// The folder of the profiles, in the folder that survives a reboot.
const FOLDER: &str = "profiles";
/// The name of an emulated device's model is this, and its profile.
const EMULATED: &str = "emulated ";

/// Returns the profile of a disk with this model: of one of fonio's emulated devices its shipped profile, otherwise the
/// file of a fitted one; `None` if there is none.
pub fn of_model(model: &str) -> Option<PathBuf> {
    if let Some(shipped) = model.strip_prefix(EMULATED) {
        return Profile::shipped(shipped).map(|_| PathBuf::from(shipped));
    }
    let folder = TrustedFolder::open(&state::lasting_folder()?.join(FOLDER)).ok()??;
    let name = file_name(model);
    folder.open_file(&name).ok()??;
    Some(folder.path().join(name))
}

/// Returns the name of a profile for a sentence.
pub fn shown(profile: &str) -> &str {
    let file = profile.rsplit_once('/').map_or(profile, |(_, file)| file);
    file.strip_suffix(".toml").unwrap_or(file)
}

/// Keeps the fitted profile of the disks with this model.
pub fn keep(model: &str, profile: &Profile) -> Result<PathBuf> {
    let place = state::lasting_folder().context("the state folder would not survive a reboot")?.join(FOLDER);
    let folder = TrustedFolder::make(&place)?;
    let name = file_name(model);
    folder.replace(&name, profile.to_toml().as_bytes())?;
    Ok(place.join(name))
}

/// Returns the file name for a model, which comes from the disk and may contain any character.
fn file_name(model: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    let name: String = model.trim().chars().take(64).map(plain).collect();
    format!("{name}.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_names_a_file_in_the_folder() {
        for (model, expected) in
            [("SD32G", "SD32G.toml"), ("ATA ../x y", "ATA----x-y.toml"), ("..", "--.toml"), ("", ".toml")]
        {
            assert_eq!(file_name(model), expected);
        }
        assert_eq!(shown("/var/lib/fonio/profiles/SD32G.toml"), "SD32G");
        assert_eq!(shown("sd_a1"), "sd_a1");
    }

    #[test]
    fn an_emulated_device_has_the_profile_that_it_is_made_from() {
        assert_eq!(of_model("emulated sd_a1"), Some(PathBuf::from("sd_a1")));
        assert_eq!(of_model("emulated no-such-card"), None);
    }
}
