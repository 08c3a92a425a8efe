//! Findings: ranked sentences that explain the figures, from the rules in `findings.toml`.

use serde::Deserialize;

use super::facts::facts;
use super::finding::{Finding, Severity};
use super::mechanisms::{diagnose, diagnosis};
use super::rule::{Condition, Rule, fill, finding, fires};
use super::victim::ONLY_BULK_WORK;
use crate::analyser::questions::Analysis;
use crate::figures::facts::Facts;

/// Figures that replace measured waits if the recording has none, and the sentence that explains this.
const INFERRED: [&str; 2] = ["inferred.waited", "storage.problem"];
const NO_WAITS: &str = "This is inferred from requests: the recording does not show which threads waited.";

/// Figures that are too low if waits of some threads are missing, and the sentence that explains this.
const WAITED: [&str; 2] = ["storage.problem", "blocked.problem"];
const NO_WAITS_FOR_THREADS: &str = "The recording was made without BPF: it does not show waits for other threads of a program, nor for asynchronous I/O.";

/// The verdict's remark on a trace of the scheduler.
const ONLY_STATE_D: &str = "The trace shows only waits in state D (uninterruptible sleep): waits for other threads and for asynchronous I/O can be missing.";

/// The verdict's remark on waits that were sampled.
const SAMPLED: &str = "This is sampled from /proc, without requests: times are estimates, and bulk work such as a copy looks like any other program.";

/// The verdicts on a foreign trace that is too short, has too few requests, or has no requests by its nature.
const TOO_LITTLE: [&str; 6] =
    ["too-little", "scheduler-too-short", "histogram-only", "totals-only", "slow-calls", "no-slow-calls"];

const RULES: &str = include_str!("../findings.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    rule: Vec<Rule>,
    verdict: Vec<Verdict>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdict {
    id: String,
    severity: Severity,
    when: Vec<Condition>,
    #[serde(default)]
    any: Vec<Condition>,
    sentence: String,
}

fn rules() -> Rules {
    toml::from_str(RULES).expect("a test parses the embedded rules")
}

pub(crate) fn judge(analysis: &mut Analysis) {
    let rules = rules();
    let facts = facts(analysis);
    let mut fired = rules.verdict.iter().filter(|verdict| fires(&verdict.when, &verdict.any, &facts));
    let (verdict, sentence) = fired
        .find_map(|verdict| Some((verdict, fill(&verdict.sentence, &facts)?)))
        .expect("the last verdict applies without conditions");
    let is_inferred = verdict.when.iter().any(|condition| INFERRED.contains(&condition.figure.as_str()));
    // The recording of a launch contains the waits of the launch's threads, which get a separate verdict.
    let has_waits = analysis.blocked.is_some() || analysis.launch.is_some();
    let is_low = |condition: &Condition| {
        WAITED.contains(&condition.figure.as_str()) && condition.relation.holds(0.0, condition.value)
    };
    let is_sampled = analysis.blocked.as_ref().is_some_and(|blocked| blocked.is_sampled);
    let is_partial = analysis.blocked.as_ref().is_some_and(|blocked| blocked.is_partial);
    analysis.verdict = if is_inferred && !has_waits {
        format!("{sentence} {NO_WAITS}")
    } else if is_sampled {
        format!("{sentence} {SAMPLED}")
    } else if is_partial && verdict.when.iter().any(is_low) {
        let remark = if analysis.uninterruptible.is_some() { ONLY_STATE_D } else { NO_WAITS_FOR_THREADS };
        format!("{sentence} {remark}")
    } else {
        sentence
    };
    let has_all_waits = analysis.blocked.is_some();
    analysis.verdict_id.clone_from(&verdict.id);
    analysis.verdict_severity = verdict.severity;
    // Without a verdict, only the rules that do not judge figures apply.
    let judges = !TOO_LITTLE.contains(&verdict.id.as_str());
    // The facts about a copy are added only if the verdict is about the copy.
    let again = (analysis.verdict_id == ONLY_BULK_WORK).then(|| self::facts(analysis));
    let diagnoses = has_all_waits && judges && analysis.validity.ok;
    let cause = diagnoses.then(|| diagnose(again.as_ref().unwrap_or(&facts))).flatten();
    // Requests alone are no reason for advice if the recording shows which programs waited.
    let rules = rules.rule.into_iter().filter(|rule| !(rule.is_about_requests && has_all_waits));
    let restates = |rule: &Rule| cause.as_ref().is_some_and(|cause| rule.restated_by.contains(&cause.id));
    analysis.findings = findings(rules.filter(|rule| !restates(rule)), &facts, judges);
    if diagnoses {
        analysis.diagnosis = Some(diagnosis(analysis, cause.as_ref()));
        analysis.findings.splice(0..0, cause);
        // Doubts about the measurement come first.
        analysis.findings.sort_by_key(|finding| finding.severity < Severity::Critical);
        for (place, finding) in analysis.findings.iter_mut().enumerate() {
            finding.rank = place as u32 + 1;
        }
    }
}

fn findings(rules: impl IntoIterator<Item = Rule>, facts: &Facts, judges: bool) -> Vec<Finding> {
    let mut ranked = Vec::new();
    for rule in rules {
        let impact = rule.impact.as_ref().and_then(|name| facts.value(name)).unwrap_or(0.0);
        ranked.extend(finding(rule, facts, judges).map(|finding| (impact, finding)));
    }
    // The sort is stable: equal findings stay in the order of the rules.
    ranked.sort_by(|(impact, a), (other, b)| b.severity.cmp(&a.severity).then(other.total_cmp(impact)));
    let number =
        |(place, (_, finding)): (usize, (f64, Finding))| Finding { rank: place as u32 + 1, ..finding };
    ranked.into_iter().enumerate().map(number).collect()
}

#[cfg(test)]
mod loads;

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::LazyLock;

    use super::super::mechanisms::mechanisms;
    use super::*;
    use crate::figures::Figure;
    use fonio_core::Unit;

    /// For one rule or verdict: figures with which the rule fires, and figures with which it does not.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Fixture {
        fires: BTreeMap<String, f64>,
        silent: BTreeMap<String, f64>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct Fixtures {
        rule: BTreeMap<String, Fixture>,
        verdict: BTreeMap<String, Fixture>,
        pub(super) load: Vec<super::loads::Load>,
    }

    pub(super) fn fixtures() -> Fixtures {
        toml::from_str(include_str!("../findings_fixtures.toml")).unwrap()
    }

    /// Names that occur in sentences but are not names of figures.
    static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let figures = crate::verdict::facts::tests::figures_of_everything();
        let mechanisms = mechanisms();
        let texts = mechanisms.iter().flat_map(|rule| {
            [&rule.sentence, &rule.consequence].into_iter().chain(rule.fixes.iter().map(|fix| &fix.text))
        });
        let texts = texts.map(|text| -> &'static str { text.clone().leak() }).chain([RULES]);
        let names = texts.flat_map(|text| text.split('{').skip(1).filter_map(|rest| rest.split('}').next()));
        names.filter(|name| !figures.contains(*name)).collect()
    });

    fn facts_of(figures: &BTreeMap<String, f64>) -> Facts {
        Facts {
            figures: figures
                .iter()
                .map(|(name, value)| (name.clone(), Figure::new(name, name, Unit::Ratio, None, Some(*value))))
                .collect(),
            words: WORDS.iter().map(|name| ((*name).to_owned(), format!("<{name}>"))).collect(),
        }
    }

    /// Returns the rules and the mechanisms.
    fn every_rule() -> Vec<Rule> {
        rules().rule.into_iter().chain(mechanisms()).collect()
    }

    #[test]
    fn every_rule_fires_and_keeps_silent() {
        let fixtures = fixtures();
        let ids: BTreeSet<String> = every_rule().into_iter().map(|rule| rule.id).collect();
        assert_eq!(
            ids,
            fixtures.rule.keys().cloned().collect(),
            "each rule has a fixture, and each fixture has a rule"
        );
        for (id, fixture) in &fixtures.rule {
            let fired =
                |figures| findings(every_rule(), &facts_of(figures), true).into_iter().find(|f| f.id == *id);
            let finding = fired(&fixture.fires).unwrap_or_else(|| panic!("{id} does not fire"));
            assert!(!finding.sentence.contains(['{', '[', ']', '}']), "{}", finding.sentence);
            assert!(finding.sentence.ends_with('.') && finding.consequence.ends_with('.'), "{finding:?}");
            assert!(!finding.evidence.is_empty() && !finding.fixes.is_empty(), "{finding:?}");
            assert!(fired(&fixture.silent).is_none(), "the rule {id} fires for its silent fixture");
        }
    }

    #[test]
    fn every_verdict_is_reached_and_left() {
        let fixtures = fixtures();
        let rules = rules();
        let ids: Vec<&String> = rules.verdict.iter().map(|verdict| &verdict.id).collect();
        assert_eq!(ids.iter().copied().collect::<BTreeSet<_>>(), fixtures.verdict.keys().collect());
        let reached = |figures: &BTreeMap<String, f64>| {
            let facts = facts_of(figures);
            let fired = |verdict: &&Verdict| {
                fires(&verdict.when, &verdict.any, &facts) && fill(&verdict.sentence, &facts).is_some()
            };
            rules.verdict.iter().find(fired).map(|verdict| verdict.id.clone()).unwrap()
        };
        for id in ids {
            let fixture = &fixtures.verdict[id];
            assert_eq!(reached(&fixture.fires), *id);
            assert_ne!(reached(&fixture.silent), *id);
        }
    }

    /// A misspelt figure would never match, and no other test would notice.
    #[test]
    fn rules_name_figures_that_exist() {
        let rules = Rules { rule: every_rule(), ..rules() };
        let known = crate::verdict::facts::tests::names_of_everything();
        let mut named: Vec<&String> = Vec::new();
        for rule in &rules.rule {
            let fixes = rule.fixes.iter().chain(&rule.flash_fixes).flat_map(|fix| &fix.when);
            let conditions = rule.when.iter().chain(&rule.any).chain(&rule.unless).chain(fixes);
            named.extend(conditions.map(|condition| &condition.figure));
            named.extend(rule.evidence.iter().chain(&rule.impact));
        }
        for verdict in &rules.verdict {
            named.extend(verdict.when.iter().chain(&verdict.any).map(|condition| &condition.figure));
        }
        for name in named {
            assert!(known.contains(name), "no analysis has the figure {name}");
        }
        // The values of these fixes depend on the machine.
        let offered = [
            "read_scheduler",
            "writers_class",
            "commit",
            "database",
            "unit_class",
            "unit_weight",
            "access_times",
            "trim",
            "swap",
            "transactions",
            "wal_sync",
            "program.larger-transactions",
            "program.lower-durability",
            "program.sync-less",
            "program.bigger-cache",
            "program.look",
        ];
        let is_offered = |name: &str| name.strip_prefix("fix.").is_some_and(|fix| offered.contains(&fix));
        // These words exist only for a known mount, a FUSE server, the reader of a write-ahead log, or a
        // command.
        let special = [
            "victim.mount",
            "victim.server",
            "fix.victim_noatime",
            "wal.log",
            "wal.reader",
            "wal.reader_pid",
            "victim.wal_log",
            "victim.wal_reader",
            "other.child.program",
            "other.peer.program",
            "other.timer.program",
        ];
        let is_known = |name: &str| known.contains(name) || is_offered(name) || special.contains(&name);
        let fixes = rules
            .rule
            .iter()
            .flat_map(|rule| rule.fixes.iter().chain(&rule.flash_fixes))
            .map(|fix| &fix.text);
        for sentence in rules
            .rule
            .iter()
            .map(|r| &r.sentence)
            .chain(rules.verdict.iter().map(|v| &v.sentence))
            .chain(fixes)
        {
            for part in sentence.split('{').skip(1) {
                let name = part.split('}').next().unwrap();
                assert!(is_known(name), "a sentence names the figure {name}, which no analysis has");
            }
        }
    }

    #[test]
    fn unknown_parts_are_left_out() {
        let facts = facts_of(&BTreeMap::from([("a".to_owned(), 2.0)]));
        assert_eq!(fill("It is {a}[, or {b}][, at {a}].", &facts).as_deref(), Some("It is 2×, at 2×."));
        assert_eq!(fill("It is {b}.", &facts), None);
    }

    #[test]
    fn severity_then_impact_then_order() {
        let figures = [
            ("validity.ok", 1.0),
            ("outstanding.waited", 0.5),
            ("inferred.waited", 0.5),
            ("storage.problem", 1.0),
            ("outstanding.write_sync", 0.4),
            ("outstanding.write_sync_of_waited", 0.8),
            ("span.duration", 1e9),
            ("wait.write_sync.mean", 1e6),
            ("validity.errors", 1.0),
            ("totals.requests", 9.0),
        ];
        let facts = facts_of(&figures.map(|(name, value)| (name.to_owned(), value)).into());
        let found: Vec<(u32, String)> = findings(rules().rule, &facts, true)
            .into_iter()
            .map(|finding| (finding.rank, finding.id))
            .collect();
        let expected = [(1, "io-errors"), (2, "storage-heavy"), (3, "sync-writes-dominate")];
        assert_eq!(found, expected.map(|(rank, id)| (rank, id.to_owned())));
    }
}
