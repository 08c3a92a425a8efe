//! Diagnoses: why a program waited for storage, or what else took its time.
//!
//! Each mechanism is a file in `mechanisms/`: a rule with its evidence, with the conditions that contradict
//! it, and with its remedies. The diagnosis is the first mechanism whose evidence holds, so more specific
//! mechanisms come first in the table.

use super::diagnosis::{Diagnosis, Remedy};
use super::finding::Finding;
use super::rule::{Rule, finding};
use super::victim::Victim;
use crate::analyser::questions::Analysis;
use crate::figures::facts::Facts;

/// The mechanisms, in the order in which they are tried.
const MECHANISMS: &[&str] = &[
    include_str!("mechanisms/swap.toml"),
    include_str!("mechanisms/whole-fs-sync.toml"),
    include_str!("mechanisms/fuse-server.toml"),
    include_str!("mechanisms/device-slow-request.toml"),
    include_str!("mechanisms/inline-discard.toml"),
    include_str!("mechanisms/fs-transaction.toml"),
    include_str!("mechanisms/fs-checkpoint.toml"),
    include_str!("mechanisms/fs-log.toml"),
    include_str!("mechanisms/lazy-init.toml"),
    include_str!("mechanisms/access-times.toml"),
    include_str!("mechanisms/behind-dirty-limit.toml"),
    include_str!("mechanisms/device-heat.toml"),
    include_str!("mechanisms/device-cache-full.toml"),
    include_str!("mechanisms/bulk-work.toml"),
    include_str!("mechanisms/behind-queue.toml"),
    include_str!("mechanisms/behind-earlier-writes.toml"),
    include_str!("mechanisms/group-limit-evicts.toml"),
    include_str!("mechanisms/working-set-evicted.toml"),
    include_str!("mechanisms/encryption.toml"),
    include_str!("mechanisms/device-power-state.toml"),
    include_str!("mechanisms/behind-journal-commit.toml"),
    include_str!("mechanisms/wal-held-by-reader.toml"),
    include_str!("mechanisms/commit-per-change.toml"),
    include_str!("mechanisms/many-small-files.toml"),
    include_str!("mechanisms/small-random-reads.toml"),
    include_str!("mechanisms/cold-read.toml"),
    include_str!("mechanisms/write-through.toml"),
    include_str!("mechanisms/unknown-mechanism.toml"),
    include_str!("mechanisms/lock.toml"),
    include_str!("mechanisms/cpu-quota.toml"),
    include_str!("mechanisms/cpu.toml"),
    include_str!("mechanisms/child.toml"),
    include_str!("mechanisms/network.toml"),
    include_str!("mechanisms/sleep.toml"),
    include_str!("mechanisms/meter-lies.toml"),
];

/// Returns the first mechanism whose evidence holds, as a finding.
pub(super) fn diagnose(facts: &Facts) -> Option<Finding> {
    mechanisms().into_iter().find_map(|mechanism| finding(mechanism, facts, true))
}

pub(super) fn mechanisms() -> Vec<Rule> {
    MECHANISMS
        .iter()
        .map(|text| toml::from_str(text).expect("a test parses the embedded mechanisms"))
        .collect()
}

/// Returns the verdict in parts. `cause` is the finding of the mechanism.
pub(super) fn diagnosis(analysis: &Analysis, cause: Option<&Finding>) -> Diagnosis {
    let victim = Victim::of(analysis);
    let victim = victim.as_ref();
    let owned = |text: &str| text.to_owned();
    let remedies = cause.map(|cause| {
        let all = cause.fix_kinds.iter().zip(&cause.fixes);
        all.map(|(kind, text)| Remedy { kind: *kind, text: text.clone() }).collect()
    });
    let device = victim.and_then(|victim| analysis.devices.get(victim.device? as usize));
    let culprit = victim.and_then(Victim::culprit);
    Diagnosis {
        is_storage: victim.is_some(),
        program: victim.map(|victim| owned(victim.program)),
        unit: victim.and_then(|victim| victim.unit.map(owned)),
        operation: victim.and_then(|victim| victim.operations.first().map(|(operation, _)| owned(operation))),
        file: victim.and_then(|victim| victim.file.map(owned)),
        device: device.map(|device| owned(device.shown())),
        culprit: culprit.map(|culprit| culprit.process.clone()),
        culprit_unit: culprit.and_then(|culprit| culprit.unit.clone()),
        mechanism: cause.map(|cause| cause.id.clone()),
        remedies: remedies.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the section of `docs/verdict.md` about the mechanisms is up to date; `UPDATE_EXPECT=1 cargo
    /// test` writes it.
    #[test]
    fn each_mechanism_has_a_section_in_the_document() {
        const BEGIN: &str = "<!-- mechanisms -->\n";
        const END: &str = "<!-- end of mechanisms -->\n";
        let mut text = String::new();
        for mechanism in mechanisms() {
            let Rule { id, title, about, example, threshold, fixes, .. } = mechanism;
            assert!(!title.is_empty() && !about.is_empty() && !example.is_empty(), "{id} lacks a text");
            let kinds: Vec<String> = fixes
                .iter()
                .map(|fix| serde_json::to_value(fix.kind).unwrap().as_str().unwrap().to_owned())
                .collect();
            let mut kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
            kinds.dedup();
            text += &format!(
                "### {title}\n\n`{id}`. {about} Condition: {threshold}. Remedies: {}.\n\n> {example}\n\n",
                kinds.join(", ")
            );
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verdict.md");
        let document = std::fs::read_to_string(path).unwrap();
        let (before, rest) = document.split_once(BEGIN).expect("the document marks the mechanisms");
        let (_, after) = rest.split_once(END).expect("the document marks the end of the mechanisms");
        expect_test::expect_file!["../../../../docs/verdict.md"]
            .assert_eq(&format!("{before}{BEGIN}\n{text}{END}{after}"));
    }
}
