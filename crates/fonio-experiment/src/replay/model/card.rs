//! The devices of a replay in models: a profile with changed values, or an array of two profiles.

use fonio_core::ByteCount;
use fonio_sim::device::Device;
use fonio_sim::engine::Host;
use fonio_sim::profile::{Profile, Source};
use fonio_sim::simulation::Settings;
use serde::Serialize;

use crate::error::ExperimentError;

/// A value of a profile that a replay changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The key of the value, such as `ftl.spare`.
    pub key: String,
    /// The value, such as `7%`.
    pub value: String,
}

/// A device of a replay in models.
#[derive(Clone, Debug)]
pub(super) struct Card {
    /// The name of the profile, or of an array of two devices.
    pub name: String,
    pub changes: Vec<Change>,
    /// The changed profile; `None` for an array.
    profile: Option<Profile>,
}

impl Card {
    /// Returns every combination of names and changed values. Fails if a profile does not exist, or if a value does
    /// not fit its key.
    pub fn all(names: &[String], changes: &[(String, Vec<String>)]) -> Result<Vec<Card>, ExperimentError> {
        let mut cards = Vec::new();
        for name in names {
            let combined =
                changes.iter().fold(vec![Vec::new()], |before: Vec<Vec<Change>>, (key, values)| {
                    let with = |before: &Vec<Change>, value: &String| {
                        let change = Change { key: key.clone(), value: value.clone() };
                        before.iter().cloned().chain([change]).collect()
                    };
                    before
                        .iter()
                        .flat_map(|before| values.iter().map(move |value| with(before, value)))
                        .collect()
                });
            for changes in combined {
                cards.push(Card::of(name, changes)?);
            }
        }
        Ok(cards)
    }

    fn of(name: &str, changes: Vec<Change>) -> Result<Card, ExperimentError> {
        if name.contains(':') {
            if let Some(change) = changes.first() {
                return Err(ExperimentError::InModel(format!(
                    "{name} consists of several devices, so the value {} cannot be changed; write the changed profile \
                     into a file (`fonio device show`), and name this file in its place",
                    change.key
                )));
            }
            return Ok(Card { name: name.to_owned(), changes, profile: None });
        }
        let mut profile = fonio_emulator::profile::load(name)?;
        let refused = |error: fonio_sim::profile::ProfileError| ExperimentError::InModel(error.to_string());
        for Change { key, value } in &changes {
            profile.set_text(key, value, Source::Chosen, "changed for a replay").map_err(refused)?;
        }
        profile.check().map_err(refused)?;
        Ok(Card { name: name.to_owned(), changes, profile: Some(profile) })
    }

    /// Creates the device, which counts erasures if it is not an array.
    pub fn device(&self, size: ByteCount, seed: u64) -> Result<Box<dyn Device>, ExperimentError> {
        match &self.profile {
            None => Ok(fonio_emulator::profile::device(&self.name, size, seed)?),
            Some(profile) => profile.wearing_device(Some(size), seed).map_err(|error| {
                let reason = error.to_string();
                fonio_emulator::EmulatorError::Profile { profile: self.name.clone(), reason }.into()
            }),
        }
    }

    pub fn settings(&self, device: &dyn Device, scheduler: &str, host: Host) -> Settings {
        match &self.profile {
            None => Settings::named(&self.name, device, scheduler, host),
            Some(profile) => Settings::of(profile, device, scheduler, host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_a_card() {
        let names = ["ridata".to_owned(), "sd_a1".to_owned()];
        let change = |key: &str, values: [&str; 2]| (key.to_owned(), values.map(str::to_owned).to_vec());
        let changes =
            [change("flash.t_program", ["1 ms", "2 ms"]), change("flash.t_erase", ["3 ms", "4 ms"])];
        let found = Card::all(&names, &changes).expect("they are valid");
        let found: Vec<String> = found
            .iter()
            .map(|card| {
                let values: Vec<&str> = card.changes.iter().map(|change| change.value.as_str()).collect();
                format!("{} {}", card.name, values.join(" "))
            })
            .collect();
        assert_eq!(found.len(), 8);
        assert_eq!(found[..3], ["ridata 1 ms 3 ms", "ridata 1 ms 4 ms", "ridata 2 ms 3 ms"]);
        for (name, key, value, message) in [
            ("raid0:ridata+sd_a1", "flash.t_program", "1 ms", "consists of several devices"),
            ("ridata", "flash.tprogram", "1 ms", "the nearest name is `flash.t_program`"),
            ("ridata", "flash.t_program", "fast", "is not a time"),
            ("no-card", "flash.t_program", "1 ms", "neither a shipped profile"),
        ] {
            let changes = [(key.to_owned(), vec![value.to_owned()])];
            let error = Card::all(&[name.to_owned()], &changes).expect_err(name).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
