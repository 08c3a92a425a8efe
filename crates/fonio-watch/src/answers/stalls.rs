//! Answers which stalls happened: the blocked party, its operation, and the reason.

use fonio_core::Op;
use fonio_core::quantity::Unit;
use fonio_record::observer::Party;
use serde::Serialize;

use super::groups::{StallGroup, groups};
use super::names::{party_name, stall_operation};
use super::unwatched::{UnwatchedDisk, unwatched};
use crate::rings::History;
use crate::summary::{Event, Stall, Summary, UnixSeconds, Why};
use crate::times;

/// The stalls of a watch's history since a given time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StallsAnswer {
    /// The answer in one sentence.
    pub verdict: String,
    /// Whether at least one stall happened.
    pub is_problem: bool,
    /// Start of the period for which stalls were requested.
    pub since: UnixSeconds,
    /// Start of the first span since `since` in which the watch was running; `None` if nothing was watched.
    pub watched_from: Option<UnixSeconds>,
    /// Number of seconds since `since` in which the watch was running.
    pub watched_s: u64,
    /// The stalls that the history still lists, grouped by cause; the group with the longest total time first.
    pub groups: Vec<StallGroup>,
    /// Stalls that the history still lists, longest first.
    pub stalls: Vec<ToldStall>,
    /// Number of all stalls since `since`, including stalls that the history no longer lists.
    pub stalls_in_all: u64,
    /// Waits on disks that are not watched, most time first.
    pub unwatched: Vec<UnwatchedDisk>,
    /// Remarks for the user on the answer, each in one sentence.
    pub notes: Vec<String>,
}

/// A stall with a sentence that describes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToldStall {
    /// Start time of the stall, in UTC.
    pub began_utc: String,
    /// A sentence with the blocked party, its operation, the duration and the reason.
    pub sentence: String,
    /// The stall as machine-readable data.
    #[serde(flatten)]
    pub stall: Stall,
}

/// Returns the stalls in the history since `since`.
pub fn stalls(history: &History, since: UnixSeconds) -> StallsAnswer {
    let sum = history.sum_since(since);
    let mut stalls: Vec<Stall> = sum.stalls.iter().filter(|stall| stall.began >= since).cloned().collect();
    // If the clock was set back, longer spans can contain the same stalls as shorter spans.
    stalls.sort_by(|a, b| b.lasted_ms.cmp(&a.lasted_ms).then(a.began.cmp(&b.began)));
    stalls.dedup();
    let in_all = sum.stalls_in_all.max(stalls.len() as u64);
    let watched = Unit::S.format(sum.watched_s as f64);
    let verdict = match (stalls.first(), sum.watched_s) {
        (None, 0) => format!("Nothing was watched since {}.", times::shown(since)),
        (None, _) if in_all == 0 => {
            format!("Nothing stalled since {} (watched for {watched}).", times::shown(since))
        }
        (None, _) => {
            format!("{in_all} stalls since {}; none of them is still listed.", times::shown(since))
        }
        (Some(worst), _) => {
            let the_worst = if in_all == 1 { "" } else { "The longest: " };
            let count = if in_all == 1 { "1 stall".to_owned() } else { format!("{in_all} stalls") };
            format!(
                "{count} since {} (watched for {watched}). {the_worst}{}",
                times::shown(since),
                capital(&sentence_of(worst, &sum), the_worst.is_empty())
            )
        }
    };
    let told = |stall: Stall| ToldStall {
        began_utc: times::rfc3339(stall.began),
        sentence: sentence_of(&stall, &sum),
        stall,
    };
    StallsAnswer {
        verdict,
        is_problem: in_all > 0,
        since,
        watched_from: (sum.watched_s > 0).then_some(sum.began),
        watched_s: sum.watched_s,
        notes: notes(&sum, history.damaged),
        unwatched: unwatched(&sum),
        groups: groups(&stalls),
        stalls: stalls.into_iter().map(told).collect(),
        stalls_in_all: in_all,
    }
}

/// Returns the sentence on a stall, which also says if its disk was not watched.
fn sentence_of(stall: &Stall, sum: &Summary) -> String {
    let is_watched = |name: &String| sum.devices.iter().any(|watched| watched.name == *name);
    let unwatched = stall.device.as_ref().filter(|name| !is_watched(name));
    let device = unwatched.map(|name| format!("{name}, which is not watched"));
    stall_sentence(&Stall { device: device.or_else(|| stall.device.clone()), ..stall.clone() })
}

fn capital(sentence: &str, begins: bool) -> String {
    let mut letters = sentence.chars();
    match letters.next().filter(|_| begins) {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => sentence.to_owned(),
    }
}

/// Returns a sentence with the blocked party, its operation, the duration and the reason.
pub fn stall_sentence(stall: &Stall) -> String {
    let lasted = Unit::S.format(stall.lasted_ms as f64 / 1000.0);
    let still = if stall.goes_on { " and longer" } else { "" };
    let thread = match stall.thread.as_str() {
        "" => String::new(),
        thread if thread == stall.party.name => String::new(),
        thread => format!(" (thread {thread})"),
    };
    let file = stall.file.as_ref().map(|file| format!(" of {file}")).unwrap_or_default();
    let device = stall.device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default();
    format!(
        "at {}, {}{thread} was blocked for {lasted}{still} in {}{file}{device}{}.{}",
        times::shown(stall.began),
        party_name(&stall.party),
        stall_operation(stall),
        stall_reason(stall).map(|reason| format!("; {reason}")).unwrap_or_default(),
        others(&stall.others)
    )
}

/// Returns the reason for the stall; `None` if it is unknown.
pub fn stall_reason(stall: &Stall) -> Option<String> {
    let bytes = |bytes: fonio_core::ByteCount| Unit::Bytes.format(bytes.0 as f64);
    Some(match &stall.why {
        Why::Unknown => return None,
        Why::NoRequest => {
            "hardly any request was in flight during this time, so look for a lock or a network file system"
                .to_owned()
        }
        Why::OneRequest { op: Op::Flush, took_ms, .. } => {
            format!("the device took {} to flush its cache", Unit::S.format(*took_ms as f64 / 1000.0))
        }
        Why::OneRequest { op, bytes: size, took_ms, party } => {
            let of = party.as_ref().filter(|party| **party != stall.party);
            let of = of.map(|party| format!(" of {}", party_name(party))).unwrap_or_default();
            format!(
                "the device took {} for one {}{of} ({})",
                Unit::S.format(*took_ms as f64 / 1000.0),
                op.name(),
                bytes(*size)
            )
        }
        Why::Behind { party, op, bytes: moved, share_thousandths } => format!(
            "during this time, the device served {} of {} for {}, {} of all data",
            bytes(*moved),
            plural(*op),
            party_name(party),
            Unit::Share.format(*share_thousandths as f64 / 1000.0)
        ),
        Why::Own { op, bytes: moved, requests } => {
            format!("its own {} filled this time: {requests} with a total of {}", plural(*op), bytes(*moved))
        }
    })
}

fn plural(op: Op) -> String {
    match op {
        Op::Flush => "flushes".to_owned(),
        op => format!("{}s", op.name()),
    }
}

fn others(others: &[Party]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let names: Vec<String> = others.iter().map(party_name).collect();
    format!(" Also blocked: {}.", names.join(", "))
}

pub(crate) fn notes(sum: &Summary, damaged: u64) -> Vec<String> {
    let mut notes = Vec::new();
    for event in &sum.events {
        notes.extend(match event {
            Event::Started { at, limited: Some(because) } => Some(format!(
                "Since {}, only long waits are observed, but no requests, because {because}.",
                times::shown(*at)
            )),
            Event::ClockSet { at, by_s } => Some(format!(
                "At {}, the clock was set {} by {}; earlier times are from the old clock.",
                times::shown(*at),
                if *by_s < 0 { "back" } else { "forward" },
                Unit::S.format(by_s.unsigned_abs() as f64)
            )),
            Event::Removed { at, device } => Some(format!("At {}, {device} was removed.", times::shown(*at))),
            Event::Added { at, device } => Some(format!("At {}, {device} appeared.", times::shown(*at))),
            Event::NotWritten { at, why } => {
                Some(format!("At {}, the history could not be written: {why}.", times::shown(*at)))
            }
            Event::Started { .. } | Event::Stopped { .. } => None,
        });
    }
    notes.dedup();
    if sum.unobserved > 0 {
        notes.push(format!(
            "{} requests or waits were not recorded, because there were too many at once.",
            sum.unobserved
        ));
    }
    if damaged > 0 {
        notes.push(format!(
            "{damaged} parts of the history are damaged, for example by a power cut, and were skipped."
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use fonio_core::{BlockedIn, ByteCount};
    use fonio_record::observer::PartyKind;

    use super::*;
    use crate::summary::DeviceFigures;

    fn unit(name: &str) -> Party {
        Party { name: name.to_owned(), kind: PartyKind::Unit }
    }

    fn stall(began: i64, lasted_ms: u64, why: Why) -> Stall {
        Stall {
            began,
            lasted_ms,
            goes_on: false,
            party: unit("mosquitto.service"),
            thread: "mosquitto".into(),
            blocked_in: BlockedIn::Fsync,
            file: Some("/var/lib/mosquitto/db".into()),
            device: Some("mmcblk0".into()),
            others: Vec::new(),
            why,
            kept: None,
        }
    }

    fn check(stalls: Vec<Stall>, expected: Expect) {
        let minute = Summary {
            began: 100_000,
            ended: 107_200,
            watched_s: 7200,
            stalls_in_all: stalls.len() as u64,
            stalls,
            devices: vec![DeviceFigures { name: "mmcblk0".into(), ..DeviceFigures::default() }],
            ..Summary::default()
        };
        let history = History { minutes: vec![minute], ..History::default() };
        let answer = super::stalls(&history, 100_000);
        // Times are shown in the machine's time zone.
        let shift = times::shown(100_000);
        expected.assert_eq(&answer.verdict.replace(&shift, "THEN"));
    }

    #[test]
    fn the_verdict_says_who_and_why() {
        check(vec![], expect!["Nothing stalled since THEN (watched for 2 h 00 min)."]);
        let behind = Why::Behind {
            party: unit("backup.service"),
            op: Op::Write,
            bytes: ByteCount(212 << 20),
            share_thousandths: 930,
        };
        check(
            vec![stall(100_000, 4210, behind)],
            expect![
                "1 stall since THEN (watched for 2 h 00 min). At THEN, mosquitto.service (thread mosquitto) was blocked for 4.21 s in fsync of /var/lib/mosquitto/db on mmcblk0; during this time, the device served 212 MiB of writes for backup.service, 93 % of all data."
            ],
        );
        let mut elsewhere = stall(100_000, 4210, Why::Unknown);
        elsewhere.device = Some("sdb".into());
        check(
            vec![elsewhere],
            expect![
                "1 stall since THEN (watched for 2 h 00 min). At THEN, mosquitto.service (thread mosquitto) was blocked for 4.21 s in fsync of /var/lib/mosquitto/db on sdb, which is not watched."
            ],
        );
        let mut hung = stall(
            100_000,
            60_000,
            Why::OneRequest {
                op: Op::Write,
                bytes: ByteCount(4096),
                took_ms: 59_000,
                party: Some(unit("backup.service")),
            },
        );
        hung.goes_on = true;
        hung.others = vec![Party { name: "kworker".into(), kind: PartyKind::Kernel }, unit("cron.service")];
        check(
            vec![stall(100_000, 1500, Why::NoRequest), hung],
            expect![
                "2 stalls since THEN (watched for 2 h 00 min). The longest: at THEN, mosquitto.service (thread mosquitto) was blocked for 60 s and longer in fsync of /var/lib/mosquitto/db on mmcblk0; the device took 59 s for one write of backup.service (4 KiB). Also blocked: kworker (kernel), cron.service."
            ],
        );
    }

    #[test]
    fn nothing_watched_is_not_nothing_stalled() {
        let answer = super::stalls(&History::default(), 0);
        assert_eq!((answer.is_problem, answer.watched_s), (false, 0));
        assert!(answer.verdict.starts_with("Nothing was watched since"), "{}", answer.verdict);
    }
}
