//! The verdict in parts: who waits, in what, for which file, behind whom, why, and what helps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::remedy::RemedyKind;

/// The verdict in parts, for programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// Whether storage held a program up. This includes bulk work, if the verdict is that only bulk work waited.
    pub is_storage: bool,
    /// The name of the program that was held up; absent if no program was held up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Its systemd unit or container, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The operation in which it was blocked longest, as in the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The file for which it waited at least half of the time, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The name of the device for which it waited, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The program whose requests were in the way, if its share of the request time is at least three tenths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<String>,
    /// Its systemd unit or container, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit_unit: Option<String>,
    /// The name of the mechanism, such as `commit-per-change`; absent if none fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<String>,
    /// The remedies for the mechanism.
    pub remedies: Vec<Remedy>,
}

/// A remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// What the remedy changes.
    pub kind: RemedyKind,
    /// The advice, with commands of fonio in backquotes.
    pub text: String,
}
