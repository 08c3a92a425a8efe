//! Records when each thread worked on each database. Journal and metadata requests of the kernel have no
//! file; the calls that the causing thread made at the time of the request identify the database.

use fonio_core::Timestamp;
use rustc_hash::FxHashMap;

/// Maximum number of spans over all threads. A span takes 24 bytes.
const SPANS_MAX: usize = 1 << 20;

/// A time span in which all calls of a thread were on the same database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from: Timestamp,
    until: Timestamp,
    /// `None` during calls that sync files of no database.
    database: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Spans {
    threads: FxHashMap<u32, Vec<Span>>,
    count: usize,
    /// Number of time spans dropped because the table was full.
    pub(super) beyond: u64,
}

impl Spans {
    /// Adds the time of a call. Calls must be added in order of their begin times.
    pub(super) fn add(&mut self, tid: u32, from: Timestamp, until: Timestamp, database: Option<usize>) {
        let database = database.map(|database| database as u32);
        let spans = self.threads.entry(tid).or_default();
        if let Some(last) = spans.last_mut()
            && last.database == database
        {
            last.until = last.until.max(until);
            return;
        }
        if self.count >= SPANS_MAX {
            self.beyond += 1;
            return;
        }
        self.count += 1;
        spans.push(Span { from, until, database });
    }

    /// Returns the database on which thread `tid` worked at `time`.
    pub(super) fn at(&self, tid: u32, time: Timestamp) -> Option<usize> {
        let spans = self.threads.get(&tid)?;
        let span = spans.get(spans.partition_point(|span| span.from <= time).checked_sub(1)?)?;
        span.database.filter(|_| time <= span.until).map(|database| database as usize)
    }

    /// Returns the database on which a thread's last call worked.
    pub(super) fn last(&self, tid: u32) -> Option<usize> {
        self.threads.get(&tid)?.last()?.database.map(|database| database as usize)
    }

    /// Returns the database on which a thread worked, if the thread worked on exactly one database.
    pub(super) fn only(&self, tid: u32) -> Option<usize> {
        let mut databases = self.threads.get(&tid)?.iter().map(|span| span.database);
        let first = databases.next()??;
        databases.all(|other| other == Some(first)).then_some(first as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_works_on_one_database_until_it_turns_to_another_file() {
        let mut spans = Spans::default();
        for (from, until, database) in
            [(10, 20, Some(1)), (30, 40, Some(1)), (50, 60, None), (70, 80, Some(2)), (90, 95, Some(1))]
        {
            spans.add(7, Timestamp(from), Timestamp(until), database);
        }
        spans.add(8, Timestamp(10), Timestamp(90), Some(3));
        let at = [5, 10, 25, 40, 45, 55, 75, 85, 92, 96].map(|time| spans.at(7, Timestamp(time)));
        assert_eq!(at, [None, Some(1), Some(1), Some(1), None, None, Some(2), None, Some(1), None]);
        assert_eq!((spans.at(8, Timestamp(15)), spans.at(9, Timestamp(15))), (Some(3), None));
        assert_eq!((spans.only(7), spans.only(8), spans.only(9)), (None, Some(3), None));
    }
}
