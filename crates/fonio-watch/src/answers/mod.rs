//! Answers questions from a watch's history. Each answer has data fields and a sentence for the user.

mod groups;
mod kept;
mod names;
mod stalls;
mod unwatched;
mod wear;

use crate::rings::History;
use crate::summary::{Summary, UnixSeconds};
pub use groups::{CauseKind, StallGroup, groups};
pub use kept::{Followed, FollowedSpan, followed, slowed_unit};
pub use names::{party_name, stall_operation};
pub use stalls::{StallsAnswer, ToldStall, stall_reason, stall_sentence, stalls};
pub use unwatched::{UnwatchedDisk, unwatched, unwatched_sentence};
pub use wear::{
    Basis, Estimate, FileShare, PartyShare, WearAnswer, WornDevice, health_facts, wear, wear_sentence,
};

impl History {
    /// Returns all spans since `since`, in the finest available resolution: minutes for the most recent
    /// period, hours for the period before it, and days for everything earlier.
    pub fn since(&self, since: UnixSeconds) -> Vec<&Summary> {
        let first = |rows: &[Summary]| rows.iter().map(|row| row.began).min().unwrap_or(UnixSeconds::MAX);
        let (minutes, hours) = (first(&self.minutes), first(&self.hours).min(first(&self.minutes)));
        // Without the second condition, a span that began and ended in the same second would precede itself.
        let is_before = |row: &Summary, end: UnixSeconds| row.ended <= end && row.began < end;
        let days = self.days.iter().filter(|day| is_before(day, hours));
        let hours = self.hours.iter().filter(|hour| is_before(hour, minutes));
        let all = days.chain(hours).chain(&self.minutes);
        all.filter(|row| row.ended > since).collect()
    }

    /// Removes the spans and the stalls that began after `until`.
    pub fn end_at(&mut self, until: UnixSeconds) {
        for rows in [&mut self.minutes, &mut self.hours, &mut self.days] {
            rows.retain(|row| row.began < until);
            for row in rows {
                let listed = row.stalls.len();
                row.stalls.retain(|stall| stall.began < until);
                row.stalls_in_all -= (listed - row.stalls.len()) as u64;
            }
        }
    }

    /// Returns the sum of the history's spans since `since`.
    pub fn sum_since(&self, since: UnixSeconds) -> Summary {
        let mut sum = Summary::default();
        self.since(since).into_iter().for_each(|row| sum.merge(row));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_counted_twice() {
        let row = |began: i64, ended: i64| Summary {
            began,
            ended,
            watched_s: (ended - began) as u64,
            ..Summary::default()
        };
        let history = History {
            minutes: vec![row(7200, 7260), row(7260, 7320)],
            hours: vec![row(0, 3600), row(3600, 7200), row(7200, 7320)],
            days: vec![row(-86_400, 0), row(0, 7320)],
            damaged: 0,
        };
        assert_eq!(history.sum_since(i64::MIN).watched_s, 86_400 + 7200 + 120);
        assert_eq!(history.sum_since(3600).watched_s, 3600 + 120);
        assert_eq!(history.sum_since(7300).watched_s, 60);
        assert_eq!(history.sum_since(8000), Summary::default());
        let mut until = history.clone();
        until.end_at(7260);
        assert_eq!(until.sum_since(3600).watched_s, 3600 + 60);
        let short = Summary { watched_s: 1, ..row(50, 50) };
        let history = History { minutes: vec![short.clone()], hours: vec![short], ..History::default() };
        assert_eq!(history.sum_since(0).watched_s, 1);
    }
}
