//! The form of a rule: conditions on figures, and sentences into which values are filled.

use fonio_core::Relation;
use serde::Deserialize;

use super::finding::{Finding, Severity};
use super::remedy::RemedyKind;
use crate::figures::facts::Facts;

/// Name of a figure: the share of requests to disks that are known to be rotating. Advice for flash does not
/// apply to rotating disks.
const ROTATING: &str = "devices.rotating_share";
/// Name of a figure: the share of requests to loop devices, whose medium is unknown.
const LOOP: &str = "devices.loop_share";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub(super) id: String,
    pub(super) severity: Severity,
    /// For the document: the title, the explanation and an example of a mechanism.
    #[serde(default)]
    #[cfg_attr(not(test), expect(dead_code, reason = "for the document"))]
    pub(super) title: String,
    #[serde(default)]
    #[cfg_attr(not(test), expect(dead_code, reason = "for the document"))]
    pub(super) about: String,
    #[serde(default)]
    #[cfg_attr(not(test), expect(dead_code, reason = "for the document"))]
    pub(super) example: String,
    /// Whether the rule judges requests. If the recording has the waits of threads, requests for which no
    /// program waited are no reason for advice.
    #[serde(default)]
    pub(super) is_about_requests: bool,
    /// The mechanisms that say the same; if one of them is the diagnosis, the rule is left out.
    #[serde(default)]
    pub(super) restated_by: Vec<String>,
    /// The figure that ranks findings of the same severity.
    #[serde(default)]
    pub(super) impact: Option<String>,
    pub(super) when: Vec<Condition>,
    #[serde(default)]
    pub(super) any: Vec<Condition>,
    /// Conditions that contradict the rule.
    #[serde(default)]
    pub(super) unless: Vec<Condition>,
    pub(super) sentence: String,
    pub(super) evidence: Vec<String>,
    pub(super) consequence: String,
    pub(super) fixes: Vec<Fix>,
    /// Fixes that are added unless most requests went to rotating disks or to loop devices.
    #[serde(default)]
    pub(super) flash_fixes: Vec<Fix>,
    source: String,
    /// Reason for the thresholds; shown as part of the source if the rule is ours.
    pub(super) threshold: String,
}

/// A remedy of a rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fix {
    pub(super) kind: RemedyKind,
    #[serde(default)]
    pub(super) when: Vec<Condition>,
    pub(super) text: String,
}

/// A condition of a rule, such as `figure >= 0.15`.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Condition {
    pub(super) figure: String,
    pub(super) relation: Relation,
    pub(super) value: f64,
}

impl TryFrom<String> for Condition {
    type Error = String;

    fn try_from(text: String) -> Result<Condition, String> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let &[figure, relation, value] = parts.as_slice() else {
            return Err(format!("the condition {text:?} does not have the form `figure relation value`"));
        };
        let known = Relation::at_start(relation).filter(|(_, sign)| *sign == relation);
        let (relation, _) = known.ok_or_else(|| format!("{relation:?} is not a relation such as < or >="))?;
        let value = value.replace('_', "");
        let value = value.parse().map_err(|_| format!("{value:?} is not a number"))?;
        Ok(Condition { figure: figure.to_owned(), relation, value })
    }
}

impl Condition {
    /// Returns whether this is the condition that the figures can be trusted.
    pub(super) fn is_valid(&self) -> bool {
        self.figure == "validity.ok" && self.value > 0.0
    }

    pub(super) fn holds(&self, facts: &Facts) -> bool {
        facts.value(&self.figure).is_some_and(|value| self.relation.holds(value, self.value))
    }
}

pub(super) fn fires(when: &[Condition], any: &[Condition], facts: &Facts) -> bool {
    when.iter().all(|condition| condition.holds(facts))
        && (any.is_empty() || any.iter().any(|condition| condition.holds(facts)))
}

/// Inserts the values into a sentence; returns `None` if the sentence needs an unknown value.
pub(super) fn fill(template: &str, facts: &Facts) -> Option<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '[']) {
        text.push_str(&rest[..at]);
        let close = if rest[at..].starts_with('{') { '}' } else { ']' };
        let end = at + rest[at..].find(close)?;
        let inner = &rest[at + 1..end];
        match close {
            '}' => text.push_str(facts.text(inner)?),
            _ => text.push_str(&fill(inner, facts).unwrap_or_default()),
        }
        rest = &rest[end + 1..];
    }
    text.push_str(rest);
    Some(text)
}

/// Returns the fonio command in the text of a fix, unless the fix depends on a fact that was not recorded.
fn command(fix: &str) -> Option<String> {
    if fix.starts_with("If ") {
        return None;
    }
    let (_, rest) = fix.split_once("`fonio fix ")?;
    let (words, _) = rest.split_once('`')?;
    words.starts_with("apply ").then(|| format!("fonio fix {words}"))
}

/// Returns the finding of a rule that fires. If `judges` is false, rules that judge figures do not fire.
pub(super) fn finding(rule: Rule, facts: &Facts, judges: bool) -> Option<Finding> {
    let needs_valid_figures = rule.when.iter().any(Condition::is_valid);
    let is_contradicted = rule.unless.iter().any(|condition| condition.holds(facts));
    if !fires(&rule.when, &rule.any, facts) || is_contradicted || (needs_valid_figures && !judges) {
        return None;
    }
    let few = |name: &str| facts.value(name).is_none_or(|share| share < 0.5);
    let flash_fixes = rule.flash_fixes.into_iter().filter(|_| few(ROTATING) && few(LOOP));
    let fixes = rule.fixes.into_iter().chain(flash_fixes).filter(|fix| fires(&fix.when, &[], facts));
    let (fix_kinds, fixes): (Vec<RemedyKind>, Vec<String>) =
        fixes.filter_map(|fix| Some((fix.kind, fill(&fix.text, facts)?))).unzip();
    let ours = rule.source.contains("ours") || rule.threshold.contains("ours");
    let source = if ours { format!("{}; threshold: {}", rule.source, rule.threshold) } else { rule.source };
    Some(Finding {
        id: rule.id,
        rank: 0,
        severity: rule.severity,
        sentence: fill(&rule.sentence, facts)?,
        evidence: (rule.evidence.iter())
            .filter_map(|name| facts.figures.get(name).filter(|figure| figure.value.is_some()).cloned())
            .collect(),
        consequence: fill(&rule.consequence, facts)?,
        command: fixes.iter().find_map(|fix| command(fix)),
        fixes,
        fix_kinds,
        source,
    })
}
