//! The errors of profiles.

use std::fmt;

use thiserror::Error;

use super::schema::Key;

/// A profile that cannot be used. Every variant names the profile and, if there is one, the key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is not TOML.
    #[error("{location}: not TOML")]
    Toml {
        /// The place at which the text stops being TOML.
        location: Location,
        /// The parser's message, with line and column.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A key that no profile has.
    #[error("{location}: there is no key `{key}`{nearest}")]
    UnknownKey {
        /// The place of the key.
        location: Location,
        /// The key as it is written there.
        key: String,
        /// [`fonio_core::nearest`] of all keys.
        nearest: String,
    },
    /// A key that a device of this kind needs.
    #[error("{profile}: `{key}` is missing ({meaning}); add a line such as {example} to [{}]", key.split_once('.').map_or("", |(table, _)| table))]
    Missing {
        /// The profile's name or file.
        profile: String,
        /// The key.
        key: &'static str,
        /// The meaning of the key.
        meaning: &'static str,
        /// How the key is written.
        example: String,
    },
    /// A value of the wrong form.
    #[error("{location}: `{key}`: {problem}; write {wanted}")]
    Form {
        /// The place of the value.
        location: Location,
        /// The key.
        key: String,
        /// The mistake.
        problem: String,
        /// The right form, with an example.
        wanted: String,
    },
    /// A value outside its range.
    #[error("{location}: `{}` is {}, but must be between {} and {}", key.path, key.quantity.show(*value),
        key.quantity.show(key.min), key.quantity.show(key.max))]
    Range {
        /// The place of the value.
        location: Location,
        /// The key.
        key: &'static Key,
        /// The value, in the unit of its quantity.
        value: u64,
    },
    /// Values that contradict each other.
    #[error("{profile}: {what}")]
    Contradiction {
        /// The profile's name or file.
        profile: String,
        /// The values, and the reason.
        what: String,
    },
}

/// A location in a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The profile's name or file.
    pub profile: String,
    /// The line, counted from one; absent if the value does not come from a text.
    pub line: Option<usize>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}", self.profile),
            None => f.write_str(&self.profile),
        }
    }
}
