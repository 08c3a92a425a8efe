//! Errors in device profiles.

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
        /// The location of the syntax error.
        location: Location,
        /// The parser's message, with line and column.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// The profile has a key that does not exist.
    #[error("{location}: there is no key `{key}`{nearest}")]
    UnknownKey {
        /// The location of the key.
        location: Location,
        /// The unknown key as written.
        key: String,
        /// A suggestion of the most similar key, from [`fonio_core::nearest`].
        nearest: String,
    },
    /// A key that this kind of device needs is missing.
    #[error("{profile}: `{key}` is missing ({meaning}); add a line such as {example} to [{}]", key.split_once('.').map_or("", |(table, _)| table))]
    Missing {
        /// The profile's name or file.
        profile: String,
        /// The missing key.
        key: &'static str,
        /// The meaning of the key.
        meaning: &'static str,
        /// An example line with this key.
        example: String,
    },
    /// A value has the wrong form.
    #[error("{location}: `{key}`: {problem}; write {wanted}")]
    Form {
        /// The location of the value.
        location: Location,
        /// The key of the malformed value.
        key: String,
        /// What is wrong with the value.
        problem: String,
        /// The expected form of the value, with an example.
        wanted: String,
    },
    /// A value is outside its allowed range.
    #[error("{location}: `{}` is {}, but must be between {} and {}", key.path, key.quantity.show(*value),
        key.quantity.show(key.min), key.quantity.show(key.max))]
    Range {
        /// The location of the value.
        location: Location,
        /// The key, which includes the allowed range.
        key: &'static Key,
        /// The value, in the unit of its quantity.
        value: u64,
    },
    /// Values of the profile contradict each other.
    #[error("{profile}: {what}")]
    Contradiction {
        /// The profile's name or file.
        profile: String,
        /// The values and the contradiction.
        what: String,
    },
}

/// A location in a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The profile's name or file.
    pub profile: String,
    /// The line number, counted from 1; `None` if the value was not read from text.
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
