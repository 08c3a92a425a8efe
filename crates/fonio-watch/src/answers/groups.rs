//! Groups stalls by cause: who was blocked, by whose requests, and how.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fonio_core::quantity::Unit;
use fonio_core::{BlockedIn, Op};
use fonio_record::observer::Party;
use serde::Serialize;

use super::names::{party_name, stall_operation};
use crate::summary::{Stall, UnixSeconds, Why};
use crate::times;

/// Stalls with the same cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StallGroup {
    /// The party that was blocked.
    pub party: Party,
    /// The kind of the cause.
    pub cause: CauseKind,
    /// The party whose requests were in the way, if it is known and is not the blocked party.
    pub culprit: Option<Party>,
    /// The kind of most of the requests that were in the way.
    pub culprit_op: Option<Op>,
    /// The operations in which the party was blocked, most frequent first, as in the recording.
    pub operations: Vec<BlockedIn>,
    /// The file for which most of these stalls were.
    pub file: Option<String>,
    /// The device of most of these stalls.
    pub device: Option<String>,
    /// The number of stalls.
    pub stalls: u64,
    /// The sum of their durations.
    pub total_ms: u64,
    /// The longest duration.
    pub longest_ms: u64,
    /// The begin of the first of these stalls.
    pub first: UnixSeconds,
    /// The begin of the last of these stalls.
    pub last: UnixSeconds,
    /// The file name of the kept stall of the longest of these stalls that was kept.
    pub kept: Option<String>,
    /// A sentence on the group.
    pub sentence: String,
}

/// The kind of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// The requests of another party were in the way.
    Behind,
    /// The device took long for one request.
    SlowRequest,
    /// The party's own requests filled the time, and it waited for a sync or for the journal.
    OwnSyncs,
    /// The party's own requests filled the time.
    OwnRequests,
    /// The devices were idle: a lock, a network file system, or a disk that is not watched.
    NoRequest,
    /// The cause is unknown.
    Unknown,
}

/// The blocked party, the kind of the cause, and the party in the way.
type Cause<'a> = (&'a Party, CauseKind, Option<&'a Party>);

/// Groups stalls by cause, the group with the longest total time first. Of two groups with the same total time, the
/// one with the earlier first stall comes first.
pub fn groups(stalls: &[Stall]) -> Vec<StallGroup> {
    let mut sorted: Vec<&Stall> = stalls.iter().collect();
    sorted.sort_by_key(|stall| (stall.began, Reverse(stall.lasted_ms)));
    let mut by_cause: Vec<(Cause<'_>, Vec<&Stall>)> = Vec::new();
    for stall in sorted {
        let cause = (&stall.party, kind(stall), culprit(stall));
        match by_cause.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, same)) => same.push(stall),
            None => by_cause.push((cause, vec![stall])),
        }
    }
    let mut groups: Vec<StallGroup> = by_cause.into_iter().map(|(cause, same)| group(cause, &same)).collect();
    groups.sort_by_key(|group| (Reverse(group.total_ms), group.first));
    groups
}

fn kind(stall: &Stall) -> CauseKind {
    match &stall.why {
        Why::Unknown => CauseKind::Unknown,
        Why::NoRequest => CauseKind::NoRequest,
        // A slow request of another party is in the way like any other request.
        Why::OneRequest { party: Some(party), op, .. } if *party != stall.party && *op != Op::Flush => {
            CauseKind::Behind
        }
        Why::OneRequest { .. } => CauseKind::SlowRequest,
        Why::Behind { .. } => CauseKind::Behind,
        Why::Own { .. } if matches!(stall.blocked_in, BlockedIn::Fsync | BlockedIn::Journal) => {
            CauseKind::OwnSyncs
        }
        Why::Own { .. } => CauseKind::OwnRequests,
    }
}

fn culprit(stall: &Stall) -> Option<&Party> {
    match &stall.why {
        Why::Behind { party, .. } | Why::OneRequest { party: Some(party), .. }
            if kind(stall) == CauseKind::Behind =>
        {
            Some(party)
        }
        _ => None,
    }
}

/// Returns the kind of the requests of another party that were in the way.
fn op_in_the_way(stall: &Stall) -> Option<Op> {
    culprit(stall)?;
    match stall.why {
        Why::Behind { op, .. } | Why::OneRequest { op, .. } => Some(op),
        _ => None,
    }
}

fn group((party, cause, culprit): Cause<'_>, stalls: &[&Stall]) -> StallGroup {
    let by_length = |stall: &&&Stall| (stall.lasted_ms, Reverse(stall.began));
    let longest = stalls.iter().max_by_key(by_length).expect("a group has a stall");
    let kept = stalls.iter().filter(|stall| stall.kept.is_some()).max_by_key(by_length);
    let operations = most_frequent(stalls.iter().map(|stall| stall.blocked_in.name()));
    let operations = operations
        .iter()
        .filter_map(|name| {
            stalls.iter().map(|stall| stall.blocked_in).find(|blocked| blocked.name() == *name)
        })
        .collect();
    let first_of = |values: Vec<String>| values.into_iter().next();
    let mut group = StallGroup {
        party: party.clone(),
        cause,
        culprit: culprit.cloned(),
        culprit_op: most_frequent(stalls.iter().filter_map(|stall| op_in_the_way(stall))).into_iter().next(),
        operations,
        file: first_of(most_frequent(stalls.iter().filter_map(|stall| stall.file.clone()))),
        device: first_of(most_frequent(stalls.iter().filter_map(|stall| stall.device.clone()))),
        stalls: stalls.len() as u64,
        total_ms: stalls.iter().map(|stall| stall.lasted_ms).sum(),
        longest_ms: longest.lasted_ms,
        first: stalls.iter().map(|stall| stall.began).min().unwrap_or_default(),
        last: stalls.iter().map(|stall| stall.began).max().unwrap_or_default(),
        kept: kept.and_then(|stall| stall.kept.clone()),
        sentence: String::new(),
    };
    group.sentence = sentence(&group, longest);
    group
}

/// Returns the values, the most frequent one first; equally frequent ones in their own order.
fn most_frequent<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let mut counts: Vec<(T, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts.into_iter().map(|(value, _)| value).collect()
}

fn sentence(group: &StallGroup, longest: &Stall) -> String {
    let seconds = |ms: u64| Unit::S.format(ms as f64 / 1000.0);
    let who = party_name(&group.party);
    let device = group.device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default();
    let file = group.file.as_ref().map(|file| format!(", mostly for {file}")).unwrap_or_default();
    let why = match group.cause {
        CauseKind::Behind => {
            let by = group.culprit.as_ref().map_or_else(|| "another program".to_owned(), party_name);
            format!("behind the requests of {by}{device}")
        }
        CauseKind::SlowRequest => format!("because the device{device} took long for single requests"),
        CauseKind::OwnSyncs => format!("in its own syncs{device}{file}"),
        CauseKind::OwnRequests => {
            format!("for its own requests{device}{file}, in {}", stall_operation(longest))
        }
        CauseKind::NoRequest => {
            "while no watched disk worked: a lock, a network file system, or a disk that is not watched"
                .to_owned()
        }
        CauseKind::Unknown => format!("in {}{device}, for an unknown reason", stall_operation(longest)),
    };
    let count = match group.stalls {
        1 => format!("once, for {}, at {}", seconds(group.longest_ms), times::shown(group.first)),
        count => format!(
            "{count} times, at most {}, {} in all, from {} to {}",
            seconds(group.longest_ms),
            seconds(group.total_ms),
            times::shown(group.first),
            times::shown(group.last)
        ),
    };
    format!("{who} was blocked {why}: {count}.")
}

#[cfg(test)]
mod tests {
    use fonio_core::ByteCount;
    use fonio_record::observer::PartyKind;

    use super::*;

    fn unit(name: &str) -> Party {
        Party { name: name.to_owned(), kind: PartyKind::Unit }
    }

    fn stall(began: i64, lasted_ms: u64, party: &str, blocked_in: BlockedIn, why: Why) -> Stall {
        Stall {
            began,
            lasted_ms,
            goes_on: false,
            party: unit(party),
            thread: String::new(),
            blocked_in,
            file: Some(format!("/var/lib/{party}/db")),
            device: Some("mmcblk0".into()),
            others: Vec::new(),
            why,
            kept: (lasted_ms == 2000).then(|| "2s.stall".to_owned()),
        }
    }

    fn behind(name: &str) -> Why {
        Why::Behind { party: unit(name), op: Op::Write, bytes: ByteCount(1 << 20), share_thousandths: 900 }
    }

    #[test]
    fn stalls_with_one_cause_are_one_group() {
        let own = || Why::Own { op: Op::Write, bytes: ByteCount(4096), requests: 3 };
        let one = |party: &str, op| Why::OneRequest {
            op,
            bytes: ByteCount(4096),
            took_ms: 1500,
            party: Some(unit(party)),
        };
        let stalls = [
            stall(50, 3000, "notes", BlockedIn::Fsync, behind("backup")),
            stall(10, 2000, "notes", BlockedIn::Fsync, behind("backup")),
            stall(20, 1000, "notes", BlockedIn::Read, one("backup", Op::Write)),
            stall(30, 1500, "notes", BlockedIn::Fsync, own()),
            stall(31, 1500, "notes", BlockedIn::Read, own()),
            stall(40, 1500, "mail", BlockedIn::Fsync, behind("backup")),
            stall(60, 9000, "mail", BlockedIn::Fsync, one("mail", Op::Write)),
            stall(70, 1000, "mail", BlockedIn::Read, Why::NoRequest),
            stall(80, 1000, "mail", BlockedIn::Read, Why::Unknown),
        ];
        let found: Vec<_> = groups(&stalls)
            .into_iter()
            .map(|group| {
                let culprit = group.culprit.map(|party| party.name);
                (
                    group.party.name,
                    group.cause,
                    culprit,
                    group.stalls,
                    group.total_ms,
                    group.first,
                    group.last,
                )
            })
            .collect();
        let row = |party: &str, cause, culprit: Option<&str>, stalls, total, first, last| {
            (party.to_owned(), cause, culprit.map(str::to_owned), stalls, total, first, last)
        };
        assert_eq!(
            found,
            [
                row("mail", CauseKind::SlowRequest, None, 1, 9000, 60, 60),
                row("notes", CauseKind::Behind, Some("backup"), 3, 6000, 10, 50),
                row("notes", CauseKind::OwnSyncs, None, 1, 1500, 30, 30),
                row("notes", CauseKind::OwnRequests, None, 1, 1500, 31, 31),
                row("mail", CauseKind::Behind, Some("backup"), 1, 1500, 40, 40),
                row("mail", CauseKind::NoRequest, None, 1, 1000, 70, 70),
                row("mail", CauseKind::Unknown, None, 1, 1000, 80, 80),
            ]
        );
        let mut of_notes = groups(&stalls).into_iter().filter(|group| group.stalls == 3);
        let of_notes = of_notes.next().expect("one group has three stalls");
        assert_eq!(of_notes.kept.as_deref(), Some("2s.stall"), "the longest one was not kept");
        assert_eq!(of_notes.operations, [BlockedIn::Fsync, BlockedIn::Read]);
        let (from, to) = (times::shown(10), times::shown(50));
        assert_eq!(
            of_notes.sentence,
            format!(
                "notes was blocked behind the requests of backup on mmcblk0: 3 times, at most 3 s, 6 s in all, from {from} to {to}."
            )
        );
    }
}
