//! Says for a group of stalls what had changed before it began, which fix is ready, and which command explains it.

use std::path::Path;

use fonio_core::Op;
use fonio_experiment::Candidate;
use fonio_record::observer::PartyKind;
use fonio_watch::Folders;
use fonio_watch::answers::{self, CauseKind, StallGroup};

use super::changes;
use crate::commands::fix::followed;

/// A cause is new if no such stall happened for this long before.
const QUIET_S: i64 = 6 * 3600;

/// Returns the lines below the sentence of a group.
///
/// Changes are named only if the watch ran for hours before without such a stall. Otherwise, nothing shows that the
/// first listed stall was the first one. `watched_from` is when the watch began.
pub(super) fn lines(group: &StallGroup, watched_from: Option<i64>, folders: &Folders) -> Vec<String> {
    let has_begun = watched_from.is_some_and(|from| group.first >= from + QUIET_S);
    let mut lines: Vec<String> =
        has_begun.then(|| changes::before(group.first)).flatten().into_iter().collect();
    match kept_since(group) {
        Some(fix) => lines.push(format!("Kept since then: {fix}")),
        None => lines.extend(fix(group)),
    }
    if let Some(path) = group.kept.as_ref().and_then(|name| folders.find_kept(name)) {
        lines.push(format!("Explained by: sudo fonio report {}", path.display()));
    }
    lines
}

/// Returns a line with the command that fixes a group of stalls, or tries a fix; `None` if no fix is known for its
/// cause, if the fix is in force, or if this machine cannot have it.
pub(super) fn fix(group: &StallGroup) -> Option<String> {
    match group.cause {
        CauseKind::Behind if kept_since(group).is_some() => None,
        CauseKind::Behind => behind(group),
        CauseKind::OwnSyncs => {
            let file = group.file.as_deref()?;
            let database = file.strip_suffix("-journal").unwrap_or(file);
            let ready = Ready::of("wal-full", database)?;
            Some(format!("Fix: sudo fonio fix apply {}", ready.words))
        }
        CauseKind::SlowRequest | CauseKind::OwnRequests | CauseKind::NoRequest | CauseKind::Unknown => None,
    }
}

/// Returns the fix that slows down the service in the way, if it was kept after the last stall of the group.
fn kept_since(group: &StallGroup) -> Option<String> {
    let culprit = group.culprit.as_ref().filter(|culprit| culprit.kind == PartyKind::Unit)?;
    let entries = followed::kept().into_iter().filter(|entry| entry.at > group.last);
    let mut fixes = entries.map(|entry| entry.fix);
    fixes.find(|fix| answers::slowed_unit(fix) == Some(culprit.name.as_str()))
}

/// Lets a service wait for others if the disk's scheduler heeds that. Without a scheduler, one is tried. The watch does
/// not know whether others wait for the service, as they do for a server of databases.
///
/// Most writes in the way are write-back by the kernel, on which the class of the service has no effect.
fn behind(group: &StallGroup) -> Option<String> {
    let culprit = group.culprit.as_ref()?;
    if group.culprit_op == Some(Op::Write) {
        let unit = match group.party.kind {
            PartyKind::Unit if group.party.name.ends_with(".service") => format!(" {}", group.party.name),
            _ => String::new(),
        };
        return Some(format!("Find a fix while it stalls, and try it: sudo fonio cure{unit}"));
    }
    let is_service = culprit.kind == PartyKind::Unit && culprit.name.ends_with(".service");
    if let Some(ready) = Ready::of("io-class=idle", &culprit.name).filter(|_| is_service) {
        return Some(format!(
            "Fix, if {} is a copy or a backup for which nobody waits: sudo fonio fix apply {} --keep",
            culprit.name, ready.words
        ));
    }
    let device = format!("/dev/{}", group.device.as_deref()?);
    let without = |name: &&str| Ready::of(name, &device).filter(|ready| ready.now == "none");
    let ready = ["mq-deadline", "bfq"].iter().find_map(without)?;
    Some(format!("Try: sudo fonio fix trial {}", ready.words))
}

/// A fix that can be applied here and is not in force.
struct Ready {
    /// The fix and its target, for a command.
    words: String,
    /// The value that the fix replaces.
    now: String,
}

impl Ready {
    fn of(fix: &str, target: &str) -> Option<Ready> {
        let setting = Candidate::parse(fix).ok()?.setting()?;
        let planned = setting.plan(Path::new(target)).ok().filter(|planned| planned.is_new())?;
        Some(Ready { words: format!("{fix} {}", shlex::try_quote(target).ok()?), now: planned.old })
    }
}

#[cfg(test)]
mod tests {
    use fonio_record::observer::Party;

    use super::*;

    fn group(cause: CauseKind, culprit: Option<&str>, file: Option<&str>) -> StallGroup {
        let party = |name: &str| Party { name: name.to_owned(), kind: PartyKind::Unit };
        StallGroup {
            party: party("notes.service"),
            cause,
            culprit: culprit.map(party),
            culprit_op: culprit.map(|_| Op::Read),
            operations: Vec::new(),
            file: file.map(str::to_owned),
            device: Some("no-such-disk".to_owned()),
            stalls: 3,
            total_ms: 3000,
            longest_ms: 1000,
            first: 0,
            last: 10,
            kept: None,
            sentence: String::new(),
        }
    }

    #[test]
    fn a_fix_is_ready_only_for_its_cause_and_where_it_can_be_had() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("notes.db");
        let database = rusqlite::Connection::open(&path).expect("a database");
        database.execute_batch("PRAGMA journal_mode=DELETE; CREATE TABLE t(x)").expect("a table");
        let journal = format!("{}-journal", path.display());
        let of = |cause| fix(&group(cause, Some("backup.service"), Some(&journal)));
        assert_eq!(
            of(CauseKind::OwnSyncs),
            Some(format!("Fix: sudo fonio fix apply wal-full {}", path.display()))
        );
        for other in
            [CauseKind::OwnRequests, CauseKind::SlowRequest, CauseKind::NoRequest, CauseKind::Unknown]
        {
            assert_eq!(of(other), None);
        }
        assert_eq!(of(CauseKind::Behind), None, "the disk does not exist");
        let written_back = StallGroup {
            culprit_op: Some(Op::Write),
            ..group(CauseKind::Behind, Some("backup.service"), None)
        };
        assert_eq!(
            fix(&written_back).as_deref(),
            Some("Find a fix while it stalls, and try it: sudo fonio cure notes.service")
        );
        database.execute_batch("PRAGMA journal_mode=WAL").expect("a write-ahead log");
        assert_eq!(of(CauseKind::OwnSyncs), None, "the fix is in force");
        let text = dir.path().join("notes.txt");
        std::fs::write(&text, "x").expect("a file");
        assert_eq!(fix(&group(CauseKind::OwnSyncs, None, text.to_str())), None, "not a database");
    }
}
