//! Device profiles: TOML files that describe a device and state the origin of every number.
//!
//! ```toml
//! about = "what it is, in a line"
//!
//! [flash]
//! t_program = { value = "1.95 ms", source = "fitted", to = "kim-t3 phone ridata seq_write" }
//! t_erase = { value = "2.5 ms", source = "assumed" }
//! ```
//!
//! Times, sizes and rates use the syntax of [`fonio_core::quantity`]. `docs/devices.md` explains the keys,
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
use crate::ftl::{Ftl, Geometry, Unwatched, Wear};
use fonio_core::ByteCount;
use schema::{Key, Quantity};

/// Where a profile's number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The number is stated by the publication, specification or data sheet that `to` names.
    Published,
    /// The number was fitted, so that the model reproduces the published or measured number that `to` names.
    Fitted,
    /// The number was chosen among plausible values by an author who knew the published number that `to`
    /// names.
    Chosen,
    /// The number was measured on a device of this kind; `to` says how.
    Measured,
    /// The number is plausible, but has no source. `to` may give the reason.
    Assumed,
}

impl Source {
    /// All kinds of sources.
    pub const ALL: [Source; 5] =
        [Source::Published, Source::Fitted, Source::Chosen, Source::Measured, Source::Assumed];

    /// Returns the source's name in profiles.
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

/// A device profile: numbers with their sources.
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
    /// The key, as `table.name`.
    pub key: &'static str,
    /// The value with its unit.
    pub value: String,
    /// The kind of source of the number.
    pub source: Source,
    /// Depending on the source: the publication, the number to which the value was fitted or for which it
    /// was chosen, the method of measurement, or the reason for the assumption. The text may be empty.
    pub to: String,
}

impl Profile {
    /// Parses a profile. `name` is the profile name or file name for error messages. Fails if the text is not
    /// TOML, a key is unknown or missing, or values are malformed, out of range or contradictory.
    pub fn parse(name: &str, toml_text: &str) -> Result<Profile, ProfileError> {
        let profile = text::parse(name, toml_text)?;
        build::check(&profile)?;
        Ok(profile)
    }

    /// Returns the shipped profile of this name, one of [`SHIPPED`].
    pub fn shipped(name: &str) -> Option<Profile> {
        let text = shipped::text(name)?;
        // A test parses all shipped profiles.
        Some(Profile::parse(name, text).expect("shipped profiles are valid"))
    }

    /// Returns the name of the profile.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the profile's one-line description.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Builds the device with the given capacity or, if there is none, with the profile's capacity.
    ///
    /// The seed determines the order in which erase blocks are used, so the same seed gives the same device.
    /// If the capacity is reduced, a page-mapped device with fewer than 128 superblocks gets smaller erase
    /// blocks; all other numbers stay the same. Fails if the capacity is too large for the model or is not a
    /// multiple of the sector size.
    pub fn device(&self, capacity: Option<ByteCount>, seed: u64) -> Result<Box<dyn Device>, ProfileError> {
        build::device(self, capacity, seed, Unwatched)
    }

    /// Builds the device like [`device`](Profile::device). The device also counts the erasures of each erase
    /// block ([`Device::erase_counts`]).
    pub fn wearing_device(
        &self,
        capacity: Option<ByteCount>,
        seed: u64,
    ) -> Result<Box<dyn Device>, ProfileError> {
        build::device(self, capacity, seed, Wear::default())
    }

    /// Builds the device with another translation layer in place of the profile's. `make` gets the geometry of
    /// the flash, and must return a layer with this geometry. Fails like [`device`](Profile::device), and if the
    /// device has no flash.
    pub fn device_with<F: Ftl + 'static>(
        &self,
        capacity: Option<ByteCount>,
        make: impl FnOnce(Geometry) -> F,
    ) -> Result<Box<dyn Device>, ProfileError> {
        build::device_with(self, capacity, make)
    }

    /// Returns the error that building the device would return, if any.
    pub fn check(&self) -> Result<(), ProfileError> {
        build::check(self)
    }

    /// Returns the limits of the device. Fails if the capacity is not a multiple of the sector size.
    pub fn limits(&self, capacity: Option<ByteCount>) -> Result<Limits, ProfileError> {
        build::limits(self, capacity)
    }

    /// Returns the origin of every value, in the order of [`schema::KEYS`].
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

    /// Formats the profile as TOML for [`Profile::parse`].
    pub fn to_toml(&self) -> String {
        text::write(self)
    }

    /// Returns the number of a key, in the unit of its [`Quantity`]; `None` if the profile does not have the
    /// key.
    pub fn number(&self, key: &str) -> Option<u64> {
        match self.entries.get(key)?.value {
            Value::Number(number) => Some(number),
            Value::Word(_) => None,
        }
    }

    /// Returns the word of a key; `None` if the profile does not have the key.
    pub fn word(&self, key: &str) -> Option<&'static str> {
        match self.entries.get(key)?.value {
            Value::Word(word) => Some(word),
            Value::Number(_) => None,
        }
    }

    /// Returns the exact value of a key as text for [`set_text`](Profile::set_text); `None` if the profile does
    /// not have the key.
    pub fn text(&self, key: &str) -> Option<String> {
        let known = schema::find(key)?;
        Some(match self.entries.get(key)?.value {
            Value::Number(number) => known.quantity.written(number),
            Value::Word(word) => word.to_owned(),
        })
    }

    /// Sets the value of a key from text, such as `5 us`, `16 KiB`, `4` or `page_map`. Fails if the key is unknown,
    /// or if the value is malformed or out of the key's range. Values that contradict each other are an error of
    /// [`check`](Profile::check).
    pub fn set_text(&mut self, key: &str, value: &str, source: Source, to: &str) -> Result<(), ProfileError> {
        let known = self.known(key)?;
        let value = text::parse_value(&self.location(), known, value)?;
        self.entries.insert(known.path, Entry { value, source, to: to.to_owned() });
        Ok(())
    }

    /// Removes a key. Returns whether the profile had the key. Fails if the key is unknown.
    pub fn remove(&mut self, key: &str) -> Result<bool, ProfileError> {
        let known = self.known(key)?;
        Ok(self.entries.remove(known.path).is_some())
    }

    /// Creates a profile without values.
    pub fn empty(name: &str, about: &str) -> Profile {
        Profile { name: name.to_owned(), about: about.to_owned(), entries: BTreeMap::new() }
    }

    /// Returns the keys that the profile has, in the order of [`schema::KEYS`].
    pub fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.in_order().map(|(key, _)| key)
    }

    fn location(&self) -> Location {
        Location { profile: self.name.clone(), line: None }
    }

    fn known(&self, key: &str) -> Result<&'static Key, ProfileError> {
        schema::find(key).ok_or_else(|| ProfileError::UnknownKey {
            location: self.location(),
            key: key.to_owned(),
            nearest: schema::nearest(key),
        })
    }

    /// Sets the number of a key, in the unit of its [`Quantity`]. Fails if the key is unknown or is not
    /// numeric, or if the number is out of the key's range.
    pub fn set(&mut self, key: &str, number: u64, source: Source, to: &str) -> Result<(), ProfileError> {
        let known = self.known(key)?;
        text::check_range(&self.location(), known, number)?;
        let entry = Entry { value: Value::Number(number), source, to: to.to_owned() };
        self.entries.insert(known.path, entry);
        Ok(())
    }

    /// Sets the profile's name and description.
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
