//! Follows a kept fix: what the watch saw before it was kept, and since then.

use fonio_core::Nanos;
use fonio_core::quantity::Unit;
use fonio_record::observer::{Party, PartyKind};
use serde::Serialize;

use crate::rings::History;
use crate::summary::{Summary, UnixSeconds};
use crate::times;

const DAY_S: i64 = 24 * 3600;
/// The time before a fix with which the time since then is compared.
const BEFORE_S: i64 = 7 * DAY_S;
/// A fix is followed for this long.
const FOLLOWED_S: i64 = 31 * DAY_S;
/// Less watched time says nothing.
const WATCHED_MIN_S: u64 = 600;
/// If less time was watched, the sentence says how long.
const WATCHED_LONG_S: u64 = 24 * 3600;
/// A fix has stopped helping if the last day has at least this share of the blocked time of the week before it, although
/// the fix helped at first.
const LIKE_BEFORE: f64 = 0.8;
/// A fix helped at first if the blocked time fell to less than this share.
const HELPED: f64 = 0.5;

/// The fixes that slow down a unit in favour of others.
const SLOWER: [&str; 3] = ["io-class", "io-rate", "io-weight"];

/// The figures of a span: stalls a day, and the time for which the threads of programs were blocked, in seconds an hour.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FollowedSpan {
    /// The watched time in seconds.
    pub watched_s: u64,
    /// Number of stalls in 24 watched hours.
    pub stalls_per_day: f64,
    /// Blocked time of all programs except kernel threads, fonio's trials, and the unit that the fix slows down, in
    /// seconds in a watched hour.
    pub blocked_s_per_hour: f64,
}

/// What the watch saw before a fix was kept, and since then.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Followed {
    /// The fix, as a command names it.
    pub fix: String,
    /// When it was kept.
    pub kept_at: UnixSeconds,
    /// The week before; `None` if less than ten minutes of it were watched.
    pub before: Option<FollowedSpan>,
    /// The time since then; `None` if less than ten minutes of it were watched.
    pub since: Option<FollowedSpan>,
    /// Whether the fix helped at first, and the last day is as bad as the week before it.
    pub has_stopped: bool,
    /// The figures in a sentence.
    pub sentence: String,
}

/// Returns the unit that a fix slows down in favour of others, if it is such a fix. The unit itself then waits longer.
pub fn slowed_unit(fix: &str) -> Option<&str> {
    let (name, target) = fix.split_once(' ')?;
    let kind = name.split('=').next().unwrap_or(name);
    SLOWER.contains(&kind).then_some(target)
}

/// Follows a fix that was kept at a time; `None` after a month.
pub fn followed(history: &History, fix: &str, kept_at: UnixSeconds, now: UnixSeconds) -> Option<Followed> {
    if now - kept_at > FOLLOWED_S {
        return None;
    }
    let span = |from: UnixSeconds, until: UnixSeconds| {
        let mut of_span = history.clone();
        of_span.end_at(until);
        let sum = of_span.sum_since(from);
        (sum.watched_s >= WATCHED_MIN_S).then(|| figures(&sum, slowed_unit(fix)))
    };
    let before = span(kept_at - BEFORE_S, kept_at);
    let since = span(kept_at, now);
    let first = span(kept_at, (now - DAY_S).max(kept_at));
    let last = span((now - DAY_S).max(kept_at), now);
    let ratio = |later: Option<FollowedSpan>| {
        let (before, later) = (before?.blocked_s_per_hour, later?.blocked_s_per_hour);
        (before > 0.0).then_some(later / before)
    };
    let has_stopped = ratio(first).is_some_and(|ratio| ratio < HELPED)
        && ratio(last).is_some_and(|ratio| ratio >= LIKE_BEFORE);
    let sentence = sentence(fix, kept_at, before, since, has_stopped);
    Some(Followed { fix: fix.to_owned(), kept_at, before, since, has_stopped, sentence })
}

fn figures(sum: &Summary, slowed: Option<&str>) -> FollowedSpan {
    let is_slowed = |party: &Party| party.kind == PartyKind::Unit && Some(party.name.as_str()) == slowed;
    let is_program = |party: &Party| party.kind != PartyKind::Kernel && !party.is_trial();
    let programs = sum.blocked.iter().filter(|row| is_program(&row.party) && !is_slowed(&row.party));
    let blocked: Nanos = programs.map(|row| row.waits.total()).sum();
    let watched = sum.watched_s as f64;
    FollowedSpan {
        watched_s: sum.watched_s,
        stalls_per_day: sum.stalls_in_all as f64 * DAY_S as f64 / watched,
        blocked_s_per_hour: blocked.as_secs_f64() * 3600.0 / watched,
    }
}

fn sentence(
    fix: &str,
    kept_at: UnixSeconds,
    before: Option<FollowedSpan>,
    since: Option<FollowedSpan>,
    has_stopped: bool,
) -> String {
    let kept = format!("{fix}, kept since {}", times::shown(kept_at));
    let (Some(before), Some(since)) = (before, since) else {
        let which = if before.is_none() { "before it" } else { "since then" };
        return format!("{kept}: less than ten minutes {which} were watched, so its gain is not known.");
    };
    let time = |span: FollowedSpan| Unit::S.format(span.watched_s as f64);
    let is_short = before.watched_s.min(since.watched_s) < WATCHED_LONG_S;
    let watched = if is_short {
        format!(" Watched for {} before it, and for {} since then.", time(before), time(since))
    } else {
        String::new()
    };
    let stopped =
        if has_stopped { " It has stopped helping: the last day was like the week before it." } else { "" };
    let who = if slowed_unit(fix).is_some() { "other programs" } else { "programs" };
    format!(
        "{kept}: stalls a day {:.1} → {:.1}; {who} were blocked for {} → {} an hour.{watched}{stopped}",
        before.stalls_per_day,
        since.stalls_per_day,
        Unit::S.format(before.blocked_s_per_hour),
        Unit::S.format(since.blocked_s_per_hour)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use crate::summary::BlockedFigures;

    const HOUR_S: i64 = 3600;

    /// An hour of the watch in which a program was blocked for this many seconds.
    fn hour(number: i64, blocked_s: u64) -> Summary {
        let mut waits = Histogram::default();
        waits.add(Nanos(blocked_s * 1_000_000_000));
        let party = |name: &str, kind| Party { name: name.to_owned(), kind };
        let row = |party| BlockedFigures { party, device: None, waits: waits.clone() };
        Summary {
            began: number * HOUR_S,
            ended: (number + 1) * HOUR_S,
            watched_s: 3600,
            stalls_in_all: u64::from(blocked_s > 5),
            blocked: vec![
                row(party("notes.service", PartyKind::Unit)),
                row(party("jbd2", PartyKind::Kernel)),
                row(party(fonio_system::TRIAL_NAME, PartyKind::Program)),
            ],
            ..Summary::default()
        }
    }

    fn check(hours: &[(i64, i64, u64)], kept_hour: i64, now_hour: i64) -> Option<(f64, f64, bool)> {
        let spans =
            hours.iter().flat_map(|(from, until, blocked)| (*from..*until).map(|at| hour(at, *blocked)));
        let history = History { hours: spans.collect(), ..History::default() };
        let found = followed(&history, "noatime", kept_hour * HOUR_S, now_hour * HOUR_S)?;
        let (before, since) = (found.before?, found.since?);
        Some((before.blocked_s_per_hour.round(), since.blocked_s_per_hour.round(), found.has_stopped))
    }

    #[test]
    fn the_week_before_is_compared_with_the_time_since() {
        assert_eq!(check(&[(0, 200, 40), (200, 300, 4)], 200, 300), Some((40.0, 4.0, false)));
        let worse_again = check(&[(0, 200, 40), (200, 276, 4), (276, 300, 40)], 200, 300);
        assert!(worse_again.is_some_and(|(_, _, has_stopped)| has_stopped), "{worse_again:?}");
        let never = check(&[(0, 200, 40), (200, 300, 40)], 200, 300);
        assert_eq!(never, Some((40.0, 40.0, false)), "it never helped, which the figures show");
        assert_eq!(check(&[(200, 300, 4)], 200, 300), None, "nothing is known of the time before");
        assert_eq!(check(&[(0, 200, 40), (200, 1000, 4)], 200, 1000), None, "a month has passed");
    }

    #[test]
    fn the_unit_that_is_slowed_down_may_wait_longer() {
        for (fix, expected) in [
            ("io-rate=2MiB backup.service", Some("backup.service")),
            ("io-class=idle backup.service", Some("backup.service")),
            ("io-weight backup.service", Some("backup.service")),
            ("bfq sda", None),
            ("io-rates x", None),
            ("noatime", None),
        ] {
            assert_eq!(slowed_unit(fix), expected, "{fix}");
        }
        let found = |unit| figures(&hour(0, 40), unit).blocked_s_per_hour.round();
        assert!((found(None) - 40.0).abs() < 0.1 && found(Some("notes.service")).abs() < 0.1);
    }

    #[test]
    fn the_sentence_has_both_spans() {
        let span = |stalls_per_day, blocked_s_per_hour| {
            Some(FollowedSpan { watched_s: 100_000, stalls_per_day, blocked_s_per_hour })
        };
        let at = times::shown(0);
        assert_eq!(
            sentence("io-class=idle backup.service", 0, span(12.0, 31.0), span(0.5, 2.0), false),
            format!(
                "io-class=idle backup.service, kept since {at}: stalls a day 12.0 → 0.5; other programs were blocked for 31 s → 2 s an hour."
            )
        );
        assert!(
            sentence("x", 0, None, span(1.0, 1.0), false)
                .contains("less than ten minutes before it were watched")
        );
        let short = Some(FollowedSpan { watched_s: 7200, ..span(12.0, 31.0).expect("it is there") });
        let said = sentence("x", 0, short, span(0.5, 2.0), false);
        assert!(
            said.ends_with("an hour. Watched for 2 h 00 min before it, and for 27 h 47 min since then."),
            "{said}"
        );
    }
}
