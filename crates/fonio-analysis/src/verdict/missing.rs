//! Removes the names of devices, files and folders that no longer exist from advice.

use crate::analyser::questions::Analysis;

/// The words before the target of a command of fonio in a text.
const COMMAND: &str = "`fonio fix apply ";
/// The placeholder for the target of a command: of a fix for a path, and of a fix for a device.
const PLACEHOLDER: [&str; 2] = ["DEVICE", "PATH"];

impl Analysis {
    /// Replaces the targets of commands for which `exists` returns false, such as files of a mount that is
    /// gone. A command without a target stays as it is. Call this only for a recording of this machine.
    pub fn replace_missing_targets(&mut self, exists: impl Fn(&str) -> bool) {
        for finding in &mut self.findings {
            for fix in &mut finding.fixes {
                replace(fix, &exists);
            }
            let target = finding.command.as_deref().and_then(|command| command.splitn(5, ' ').nth(4));
            if target.is_some_and(|target| is_path(target) && !exists(&unquoted(target))) {
                finding.command = None;
            }
        }
        for remedy in self.diagnosis.iter_mut().flat_map(|diagnosis| &mut diagnosis.remedies) {
            replace(&mut remedy.text, &exists);
        }
    }
}

fn replace(text: &mut String, exists: impl Fn(&str) -> bool) {
    let mut result = String::new();
    let mut rest = text.as_str();
    while let Some(begin) = rest.find(COMMAND) {
        let (before, command) = rest.split_at(begin + COMMAND.len());
        result.push_str(before);
        rest = command;
        let Some((words, after)) = command.split_once('`') else { break };
        let Some((fix, target)) = words.split_once(' ').filter(|(_, target)| is_path(target)) else {
            continue;
        };
        let path = unquoted(target);
        if !exists(&path) {
            let placeholder = PLACEHOLDER[usize::from(!path.starts_with("/dev/"))];
            result.push_str(&format!("{fix} {placeholder}` (the recorded one is not there now)"));
            rest = after;
        }
    }
    result.push_str(rest);
    *text = result;
}

fn is_path(target: &str) -> bool {
    target.starts_with('/') || target.starts_with("'/")
}

/// Removes the quotes of the shell.
fn unquoted(target: &str) -> String {
    match target.strip_prefix('\'').and_then(|target| target.strip_suffix('\'')) {
        Some(inner) => inner.replace("'\\''", "'"),
        None => target.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::diagnosis::{Diagnosis, Remedy};
    use crate::verdict::finding::Finding;
    use crate::verdict::remedy::RemedyKind;

    #[test]
    fn only_targets_that_exist_are_named() {
        let exists = |path: &str| ["/dev/sda", "/", "/data/it's here.db"].contains(&path);
        for (text, expected) in [
            ("Set it: `fonio fix apply bfq /dev/sda` (it has none now).", None),
            (
                "Set it: `fonio fix apply bfq /dev/loop700` (it has none now).",
                Some(
                    "Set it: `fonio fix apply bfq DEVICE` (the recorded one is not there now) (it has none now).",
                ),
            ),
            ("Once: `fonio fix apply wal-full '/data/it'\\''s here.db'`.", None),
            (
                "Once: `fonio fix apply wal-full '/mnt/a b.db'`.",
                Some("Once: `fonio fix apply wal-full PATH` (the recorded one is not there now)."),
            ),
            (
                "`fonio fix apply noatime /mnt/sd` or `fonio fix apply lazytime /`.",
                Some(
                    "`fonio fix apply noatime PATH` (the recorded one is not there now) or `fonio fix apply lazytime /`.",
                ),
            ),
            ("`fonio fix apply dirty-limit=32MiB`", None),
            ("`fonio fix apply io-class=idle backup.service`", None),
            ("`fonio fix apply ", None),
            ("Commit several changes in one transaction.", None),
        ] {
            let mut found = text.to_owned();
            replace(&mut found, exists);
            assert_eq!(found, expected.unwrap_or(text));
        }
    }

    #[test]
    fn a_command_without_its_target_is_not_offered() {
        let of = |command: &str| {
            let text = format!("Do it: `{command}`.");
            let finding = Finding {
                id: "a".to_owned(),
                rank: 1,
                severity: Default::default(),
                sentence: String::new(),
                evidence: Vec::new(),
                consequence: String::new(),
                fixes: vec![text.clone()],
                fix_kinds: vec![RemedyKind::Noatime],
                command: Some(command.to_owned()),
                source: String::new(),
            };
            let remedies = vec![Remedy { kind: RemedyKind::Noatime, text }];
            let mut analysis = Analysis {
                findings: vec![finding],
                diagnosis: Some(Diagnosis { remedies, ..Diagnosis::default() }),
                ..Analysis::default()
            };
            analysis.replace_missing_targets(|path| path == "/data");
            let (finding, diagnosis) = (&analysis.findings[0], analysis.diagnosis.expect("it is there"));
            assert_eq!(finding.fixes[0], diagnosis.remedies[0].text);
            (finding.command.clone(), finding.fixes[0].clone())
        };
        let (command, text) = of("fonio fix apply noatime /mnt/sd");
        assert_eq!(command, None);
        assert!(!text.contains("/mnt/sd"), "{text}");
        for kept in ["fonio fix apply noatime /data", "fonio fix apply swap-in-ram"] {
            assert_eq!(of(kept), (Some(kept.to_owned()), format!("Do it: `{kept}`.")));
        }
    }
}
