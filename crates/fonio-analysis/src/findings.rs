//! So what: ranked sentences, made by rules that are data (`findings.toml`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Figure;

/// How much a finding matters; the greater comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Costs something.
    Low,
    /// Costs a user something they may notice.
    Medium,
    /// Costs a user something they notice.
    High,
    /// The figures must not be relied on, or data is at risk.
    Critical,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The rule's stable name in kebab-case.
    pub id: String,
    /// Its place: 1 is the most important.
    pub rank: u32,
    /// How much it matters.
    pub severity: Severity,
    /// What was found, with figures.
    pub sentence: String,
    /// The figures it rests on.
    pub evidence: Vec<Figure>,
    /// What that means for whoever uses the machine.
    pub consequence: String,
    /// What can be done.
    pub fixes: Vec<String>,
    /// Where the rule comes from: a paper's section, or `ours`.
    pub source: String,
}

pub(crate) fn judge(_analysis: &crate::Analysis) -> (String, Vec<Finding>) {
    (String::new(), Vec::new())
}
