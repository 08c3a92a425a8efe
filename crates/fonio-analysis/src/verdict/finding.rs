//! A finding: a sentence about one or more figures, with its consequence and fixes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::remedy::RemedyKind;
use crate::figures::Figure;

/// The severity of a finding; more severe findings come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For information.
    #[default]
    Note,
    /// The finding has a cost.
    Low,
    /// The finding has a cost that users may notice.
    Medium,
    /// The finding has a cost that users notice.
    High,
    /// The figures cannot be trusted, or data is at risk.
    Critical,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The rule's stable name in kebab-case.
    pub id: String,
    /// The finding's rank: 1 is the most important.
    pub rank: u32,
    /// Its severity.
    pub severity: Severity,
    /// The fact with its figures.
    pub sentence: String,
    /// The figures on which the finding is based.
    pub evidence: Vec<Figure>,
    /// The consequence for the users of the machine.
    pub consequence: String,
    /// Possible fixes. Commands of fonio are in backquotes.
    pub fixes: Vec<String>,
    /// The kind of each fix.
    #[serde(default)]
    pub fix_kinds: Vec<RemedyKind>,
    /// The first fonio command among the fixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The source of the rule: a paper's section, or `ours`.
    pub source: String,
}
