//! Finds the creation and deletion times of the files in the kernel's name events.
//!
//! The kernel's name events contain no time: the recorder knows only the two wake-ups between which an event
//! happened. The trace shows when an inode number was freed, but does not show the name of the file. The list
//! of events and the list of freed numbers are ordered, and an inode number is reused only after its file is
//! deleted. Therefore, within an interval with equally many deletions and named files, the first deletion
//! belongs to the first file, and so on. If the numbers of deletions and named files differ, unnamed files
//! (`O_TMPFILE`) also used the inode number, and nothing is assumed.

use fonio_core::Timestamp;

/// The two wake-ups between which an event happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Between {
    pub since: Timestamp,
    pub until: Timestamp,
}

/// A file from its creation to its deletion.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub generation: u32,
    /// The file's names in order, each with the interval in which the file got the name.
    pub names: Vec<(Between, String)>,
    pub created: Option<Between>,
    pub deleted: Option<Between>,
}

impl Life {
    /// Returns a lower bound of the file's deletion time.
    fn lived_until(&self) -> Timestamp {
        let last = self.deleted.or_else(|| self.names.last().map(|(between, _)| *between));
        last.map_or(Timestamp(0), |between| between.since)
    }
}

/// Returns the names of files with one inode number, each with its start time. `freed` are the deletion
/// times, in order.
pub(super) fn timed(lives: &[Life], freed: &[Timestamp]) -> Vec<(Timestamp, String)> {
    let mut names = Vec::new();
    if freed.is_empty() {
        // The file system shows no deletions, or no file was deleted.
        for (at, life) in lives.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| &lives[before]);
            let is_in_one_span = before.is_some_and(|before| before.deleted == life.created);
            let born = life.created.map(|span| if is_in_one_span { span.until } else { span.since });
            life.add_names(born.unwrap_or_default(), None, &mut names);
        }
        return names;
    }
    // Number of deletions that belong to earlier files.
    let mut used = 0;
    let mut rest = lives;
    while !rest.is_empty() {
        // The next file may have been created before the previous file was deleted.
        let is_joined = |pair: &[Life]| pair[1].created.is_none_or(|made| pair[1].lived_until() < made.until);
        let count = 1 + rest.windows(2).take_while(|pair| is_joined(pair)).count();
        let (group, later) = rest.split_at(count);
        let since = group[0].lived_until();
        let first = freed.partition_point(|end| *end <= since).max(used);
        let until = match (later.first().and_then(|next| next.created), group[count - 1].deleted) {
            (Some(next), _) => next.until,
            (None, Some(deleted)) => deleted.until,
            (None, None) => Timestamp(u64::MAX),
        };
        let mut ends = &freed[first..freed.partition_point(|end| *end <= until).max(first)];
        // The last file was still open when it was deleted.
        if later.is_empty() && ends.len() + 1 == count {
            ends = &freed[first..freed.len().min(first + count)];
        }
        if ends.len() == count || (later.is_empty() && ends.len() + 1 == count) {
            let mut after = first.checked_sub(1).map_or(Timestamp(0), |before| freed[before]);
            for (at, life) in group.iter().enumerate() {
                let end = ends.get(at).copied();
                life.add_names(after, end, &mut names);
                after = end.unwrap_or(after);
            }
            used = first + ends.len();
        }
        rest = later;
    }
    names
}

impl Life {
    /// Adds the names of a file created after `after` and deleted at `end`.
    fn add_names(&self, after: Timestamp, end: Option<Timestamp>, names: &mut Vec<(Timestamp, String)>) {
        let first = Timestamp(after.0 + 1);
        for (at, (between, name)) in self.names.iter().enumerate() {
            let from = if at == 0 { first } else { between.until.max(first) };
            names.push((end.map_or(from, |end| from.min(end)), name.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(name: &str, created: u64, deleted: Option<u64>) -> Life {
        let between = |at: u64| Between { since: Timestamp(at * 100), until: Timestamp((at + 1) * 100) };
        let created = between(created);
        Life {
            generation: 0,
            names: vec![(created, name.to_owned())],
            created: Some(created),
            deleted: deleted.map(between),
        }
    }

    #[test]
    fn deletions_belong_to_the_names_in_their_order() {
        let check = |lives: &[Life], freed: &[u64], expected: &[(u64, &str)]| {
            let freed: Vec<Timestamp> = freed.iter().copied().map(Timestamp).collect();
            let names = timed(lives, &freed);
            let names: Vec<(u64, &str)> = names.iter().map(|(at, name)| (at.0, name.as_str())).collect();
            assert_eq!(names, expected, "{freed:?}");
        };
        let three = [life("a", 1, Some(1)), life("b", 1, Some(1)), life("c", 1, Some(2))];
        check(&three, &[120, 150, 230], &[(1, "a"), (121, "b"), (151, "c")]);
        // An unnamed file also had the inode number, but the order of the files is unknown.
        check(&three, &[120, 130, 150, 230], &[(151, "c")]);
        // The unnamed file was deleted before the other files were created.
        check(&three, &[90, 120, 150, 230], &[(91, "a"), (121, "b"), (151, "c")]);
        // The file `c` was still open when it was deleted, until `d` appeared.
        let open = [life("a", 1, Some(1)), life("b", 1, Some(1)), life("c", 2, Some(2)), life("d", 3, None)];
        check(&open, &[120, 210, 230], &[(1, "a"), (121, "b"), (211, "c"), (231, "d")]);
        // A rename replaced the first file. The kernel does not report the replacement as a deletion.
        let replaced = [life("a", 1, None), life("b", 4, None)];
        check(&replaced, &[420], &[(1, "a"), (421, "b")]);
        // Cases: a file that existed before the recording, and a file that was not deleted.
        let found = Life { created: None, ..life("a", 1, Some(1)) };
        check(&[found], &[120], &[(1, "a")]);
        check(&[life("a", 1, None)], &[], &[(101, "a")]);
        // Case: the file system does not show deletions.
        check(&[life("a", 1, Some(2)), life("b", 2, None)], &[], &[(101, "a"), (301, "b")]);
    }
}
