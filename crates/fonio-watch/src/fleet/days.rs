//! Adds up a watch's history by day.

use std::collections::BTreeMap;

use crate::rings::History;
use crate::summary::{Summary, UnixSeconds};

/// A day (UTC) as the number of days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub i64);

const DAY_S: i64 = 86_400;

impl Day {
    /// Returns the day of a time.
    pub fn of(at: UnixSeconds) -> Day {
        Day(at.div_euclid(DAY_S))
    }

    /// Returns the end of the day.
    pub fn end(self) -> UnixSeconds {
        (self.0 + 1) * DAY_S
    }

    /// Formats the day as `2026-11-24`.
    pub fn name(self) -> String {
        crate::times::utc_day(self.0 * DAY_S)
    }
}

/// Returns the figures of each day that ended before `now`.
///
/// A span of the history belongs to the day that contains its middle. The spans of the last two weeks are at most two
/// hours long; older days can be shifted by up to half a day.
pub fn days(history: &History, now: UnixSeconds) -> BTreeMap<Day, Summary> {
    let mut days: BTreeMap<Day, Summary> = BTreeMap::new();
    for span in history.since(UnixSeconds::MIN) {
        let middle = span.began + (span.ended - span.began) / 2;
        let day = Day::of(middle);
        if span.watched_s > 0 && day.end() <= now {
            days.entry(day).or_default().merge(span);
        }
    }
    days
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_belong_to_the_day_of_their_middle_and_the_present_day_waits() {
        let span = |began: i64, ended: i64| Summary {
            began,
            ended,
            watched_s: (ended - began) as u64,
            ..Summary::default()
        };
        let history = History {
            hours: vec![span(0, 7200), span(DAY_S - 3600, DAY_S + 3599), span(DAY_S + 3599, DAY_S + 7200)],
            minutes: vec![span(2 * DAY_S, 2 * DAY_S + 60)],
            ..History::default()
        };
        let found = days(&history, 2 * DAY_S + 100);
        let watched: Vec<_> = found.iter().map(|(day, sum)| (day.name(), sum.watched_s)).collect();
        assert_eq!(watched, [("1970-01-01".into(), 7200 + 7199), ("1970-01-02".into(), 3601)]);
        assert_eq!(days(&history, DAY_S - 1), BTreeMap::new());
    }
}
