//! What can be wrong with a profile.

use thiserror::Error;

/// A profile that cannot be used. Every variant names the profile and, where there is one, the key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is not TOML.
    #[error("{profile}: not TOML")]
    Toml {
        /// The profile's name or file.
        profile: String,
        /// What the parser says, with line and column.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A key that no profile has.
    #[error("{profile}: there is no key `{key}`{}", nearest.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    UnknownKey {
        /// The profile's name or file.
        profile: String,
        /// The key as it stands there.
        key: String,
        /// A key with a similar name.
        nearest: Option<String>,
    },
    /// A key that a device of this kind cannot do without.
    #[error("{profile}: `{key}` is missing: {meaning}")]
    Missing {
        /// The profile's name or file.
        profile: String,
        /// The key.
        key: &'static str,
        /// What it means.
        meaning: &'static str,
    },
    /// A value of the wrong form.
    #[error("{profile}: `{key}` is `{value}`, but {wanted}")]
    Form {
        /// The profile's name or file.
        profile: String,
        /// The key.
        key: String,
        /// What stands there.
        value: String,
        /// What should stand there.
        wanted: String,
    },
    /// A value outside its range.
    #[error("{profile}: `{key}` is {value}, but must lie between {min} and {max}")]
    Range {
        /// The profile's name or file.
        profile: String,
        /// The key.
        key: &'static str,
        /// What stands there.
        value: String,
        /// The least that makes sense.
        min: String,
        /// The most that makes sense.
        max: String,
    },
    /// Values that do not go together.
    #[error("{profile}: {what}")]
    Contradiction {
        /// The profile's name or file.
        profile: String,
        /// Which values, and why not.
        what: String,
    },
}
