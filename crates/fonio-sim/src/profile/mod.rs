//! Device profiles: a device as a TOML file that states the origin of every number.
//!
//! ```toml
//! about = "what it is, in a line"
//!
//! [flash]
//! t_program = { value = "1.95 ms", source = "fitted", to = "kim-t3 phone ridata seq_write" }
//! t_erase = { value = "2.5 ms", source = "assumed" }
//! ```
//!
//! Times, sizes and rates are spelled as [`fonio_core::quantity`] reads them. `docs/devices.md` explains the keys,
//! [`schema::KEYS`] lists them.

mod build;
mod error;
pub mod schema;
mod shipped;
mod text;

use std::collections::BTreeMap;

pub use error::{Location, ProfileError};
pub use shipped::SHIPPED;

use crate::device::{Device, Limits};
use fonio_core::ByteCount;
use schema::{Key, Quantity};

/// The origin of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A publication, a specification or a data sheet states it; `to` names the source.
    Published,
    /// A fit solved for it, so that the model gives the published or measured number that `to` names.
    Fitted,
    /// Its author knew the published number that `to` names, and chose this one among plausible values.
    Chosen,
    /// It was measured on a device of this kind; `to` says how.
    Measured,
    /// It is plausible, but has no source. `to` may say why.
    Assumed,
}

impl Source {
    /// All of them.
    pub const ALL: [Source; 5] =
        [Source::Published, Source::Fitted, Source::Chosen, Source::Measured, Source::Assumed];

    /// Its name in profiles.
    pub fn name(self) -> &'static str {
        match self {
            Source::Published => "published",
            Source::Fitted => "fitted",
            Source::Chosen => "chosen",
            Source::Measured => "measured",
            Source::Assumed => "assumed",
        }
    }
}

/// A device, as numbers with their sources.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    name: String,
    about: String,
    entries: BTreeMap<&'static str, Entry>,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    value: Value,
    source: Source,
    to: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(u64),
    Word(&'static str),
}

/// The origin of one number of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Table and name of the key, with a dot between.
    pub key: &'static str,
    /// The value with its unit.
    pub value: String,
    /// The kind of origin.
    pub source: Source,
    /// The publication, the number it was fitted to or chosen for, the way it was measured, or why it was assumed. May
    /// be empty.
    pub to: String,
}

impl Profile {
    /// Reads a profile. `name` is its name in errors: a name or a file.
    ///
    /// # Errors
    ///
    /// If the text is not TOML, a key is unknown, missing or of the wrong form, or values are out of range or
    /// contradict each other.
    pub fn parse(name: &str, toml_text: &str) -> Result<Profile, ProfileError> {
        let profile = text::parse(name, toml_text)?;
        build::check(&profile)?;
        Ok(profile)
    }

    /// The shipped profile of this name, one of [`SHIPPED`].
    pub fn shipped(name: &str) -> Option<Profile> {
        let text = shipped::text(name)?;
        // A test parses every one of them.
        Some(Profile::parse(name, text).expect("a shipped profile is in order"))
    }

    /// The name of the profile.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A description in one line.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Builds the device, with another capacity than the profile's if one is given.
    ///
    /// The same seed gives the same device. The seed decides the order in which erase blocks are used. A page-mapped
    /// device with fewer than 128 superblocks gets smaller erase blocks; all other numbers stay.
    ///
    /// # Errors
    ///
    /// If the capacity is too large for the model or is not a multiple of the sector size.
    pub fn device(&self, capacity: Option<ByteCount>, seed: u64) -> Result<Box<dyn Device>, ProfileError> {
        build::device(self, capacity, seed)
    }

    /// The limits of the device.
    ///
    /// # Errors
    ///
    /// If the capacity is not a multiple of the sector size.
    pub fn limits(&self, capacity: Option<ByteCount>) -> Result<Limits, ProfileError> {
        build::limits(self, capacity)
    }

    /// The origin of every number, in the order of [`schema::KEYS`].
    pub fn provenance(&self) -> Vec<Provenance> {
        self.in_order()
            .map(|(key, entry)| Provenance {
                key: key.path,
                value: entry.value.show(key.quantity),
                source: entry.source,
                to: entry.to.clone(),
            })
            .collect()
    }

    /// The profile as [`Profile::parse`] reads it.
    pub fn to_toml(&self) -> String {
        text::write(self)
    }

    /// The number of a key, in the unit of its [`Quantity`]; `None` if the profile does not have the key.
    pub fn number(&self, key: &str) -> Option<u64> {
        match self.entries.get(key)?.value {
            Value::Number(number) => Some(number),
            Value::Word(_) => None,
        }
    }

    /// The word of a key; `None` if the profile does not have it.
    pub fn word(&self, key: &str) -> Option<&'static str> {
        match self.entries.get(key)?.value {
            Value::Word(word) => Some(word),
            Value::Number(_) => None,
        }
    }

    /// Gives a key another number, in the unit of its [`Quantity`].
    ///
    /// # Errors
    ///
    /// If no key has this name, if the key takes no number, or if the number is out of the key's range.
    pub fn set(&mut self, key: &str, number: u64, source: Source, to: &str) -> Result<(), ProfileError> {
        let location = Location { profile: self.name.clone(), line: None };
        let Some(known) = schema::find(key) else {
            return Err(ProfileError::UnknownKey {
                location,
                key: key.to_owned(),
                nearest: schema::nearest(key),
            });
        };
        text::check_range(&location, known, number)?;
        let entry = Entry { value: Value::Number(number), source, to: to.to_owned() };
        self.entries.insert(known.path, entry);
        Ok(())
    }

    /// Gives the profile another name and line.
    pub fn rename(&mut self, name: &str, about: &str) {
        (self.name, self.about) = (name.to_owned(), about.to_owned());
    }

    fn in_order(&self) -> impl Iterator<Item = (&'static Key, &Entry)> {
        schema::KEYS.iter().filter_map(|key| Some((key, self.entries.get(key.path)?)))
    }
}

impl Value {
    fn show(&self, quantity: Quantity) -> String {
        match self {
            Value::Number(number) => quantity.show(*number),
            Value::Word(word) => (*word).to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
