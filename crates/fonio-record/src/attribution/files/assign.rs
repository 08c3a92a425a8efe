//! Finds the lives of the files in the kernel's name events.
//!
//! A name event contains the generation of its file, but no time: the recorder knows only the two wake-ups
//! between which the event happened. If a generation was seen at a known time, this sighting identifies the
//! file's life. For the other files, the trace shows when lives ended, but not which files had these lives.
//! Files and lives are ordered: each file has its own piece of the number's time, the pieces are in the order
//! of the files, and the events of a file happened in its piece. A piece can also belong to a file without an
//! event, because the file never had a name (`O_TMPFILE`), or existed before and was replaced by a rename.
//! Therefore a file gets a piece only if it has this piece in every possible assignment.

use fonio_core::lives::{Generation, Piece};
use fonio_core::{FileLife, Inode, Timestamp};

/// The two wake-ups between which an event happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Between {
    pub since: Timestamp,
    pub until: Timestamp,
}

/// A file, as far as the kernel's name events show it.
#[derive(Clone, Debug)]
pub(super) struct NamedFile {
    pub generation: Option<Generation>,
    /// The file's names in order, each with the interval in which the file got the name.
    pub names: Vec<(Between, String)>,
    pub created: Option<Between>,
    pub deleted: Option<Between>,
    /// When the file's first and last event happened.
    pub first: Between,
    pub last: Between,
}

impl NamedFile {
    /// Returns two times between which the file had its number; `None` if they are not known.
    pub(super) fn lived(&self) -> Option<(Timestamp, Timestamp)> {
        (self.first.until <= self.last.since).then_some((self.first.until, self.last.since))
    }

    /// Returns whether the file can have had the number in this piece. No file had the number at some time in
    /// `free`, so the file of that piece was created later.
    fn can_have(&self, piece: &Piece<Inode>, free: Option<Between>) -> bool {
        let free = free.filter(|free| piece.after < free.since && free.until <= piece.until);
        let after = free.map_or(piece.after, |free| free.since);
        after < self.first.until && piece.until > self.last.since
    }

    /// Adds the names of a file to which this piece of time belongs.
    fn add_names(&self, piece: &Piece<Inode>, names: &mut Vec<(FileLife, Timestamp, String)>) {
        let Some(life) = piece.life else { return };
        let first = Timestamp(piece.after.0.saturating_add(1));
        for (at, (between, name)) in self.names.iter().enumerate() {
            let from = if at == 0 { first } else { between.until.max(first) };
            names.push((life, from.min(piece.until), name.clone()));
        }
    }
}

/// Returns the names of the files of one inode number, each with the life of its file and the time from which
/// the name is valid. The files and the pieces of the number's time are in order. No file had the number at
/// some time in `free`.
pub(super) fn assign(
    files: &[NamedFile],
    pieces: &[Piece<Inode>],
    free: Option<Between>,
) -> Vec<(FileLife, Timestamp, String)> {
    let told: Vec<Option<usize>> = files.iter().map(|file| told(file, pieces)).collect();
    let can_have = |file: usize, at: usize| match (told[file], pieces[at].life.map(|life| life.told)) {
        (Some(piece), _) => piece == at,
        (None, Some(told)) if told.generation().is_some() => false,
        (None, _) => files[file].can_have(&pieces[at], free),
    };
    let earliest = places(0..files.len(), 0..pieces.len(), pieces, &can_have);
    let latest = places((0..files.len()).rev(), (0..pieces.len()).rev(), pieces, &can_have);
    let places = earliest.zip(latest).map(|(earliest, mut latest)| {
        latest.reverse();
        (earliest, latest)
    });
    let mut names = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let only = places.as_ref().filter(|(earliest, latest)| earliest[at] == latest[at]);
        if let Some(piece) = told[at].or(only.map(|(earliest, _)| earliest[at])) {
            file.add_names(&pieces[piece], &mut names);
        }
    }
    names
}

/// Returns the index of the piece that has the file's generation. If several pieces have this generation,
/// returns the piece in whose time the file's events happened.
fn told(file: &NamedFile, pieces: &[Piece<Inode>]) -> Option<usize> {
    let generation = file.generation?;
    let has =
        |piece: &Piece<Inode>| piece.life.is_some_and(|life| life.told.generation() == Some(generation));
    let all: Vec<usize> = (0..pieces.len()).filter(|at| has(&pieces[*at])).collect();
    let [only] = all.as_slice() else {
        let meets = |at: &usize| file.can_have(&pieces[*at], None);
        let mut met = all.into_iter().filter(meets);
        return met.next().filter(|_| met.next().is_none());
    };
    Some(*only)
}

/// Gives each file the first of the remaining pieces that it can have; `None` if a file gets no piece. Several
/// files can be in a piece whose life is unknown.
fn places(
    files: impl Iterator<Item = usize>,
    order: impl Iterator<Item = usize>,
    pieces: &[Piece<Inode>],
    can_have: &impl Fn(usize, usize) -> bool,
) -> Option<Vec<usize>> {
    let mut order = order.peekable();
    let mut places = Vec::new();
    for file in files {
        while !can_have(file, *order.peek()?) {
            order.next();
        }
        let at = *order.peek()?;
        places.push(at);
        if pieces[at].life.is_some() {
            order.next();
        }
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use fonio_core::lives::Lives;
    use fonio_core::{DeviceId, Random};

    use super::*;

    const INODE: Inode = Inode { fs: DeviceId(8 << 20 | 1), number: 12 };

    fn between(at: u64) -> Between {
        Between { since: Timestamp(at * 100), until: Timestamp((at + 1) * 100) }
    }

    fn generation(number: u32) -> Option<Generation> {
        Generation::new(number)
    }

    /// A file whose generation is the first letter of its name.
    fn file(name: &str, created: u64, deleted: Option<u64>) -> NamedFile {
        let (created, deleted) = (between(created), deleted.map(between));
        NamedFile {
            generation: generation(u32::from(name.as_bytes()[0])),
            names: vec![(created, name.to_owned())],
            created: Some(created),
            deleted,
            first: created,
            last: deleted.unwrap_or(created),
        }
    }

    fn lives(ends: &[u64], sightings: &[(u64, char)]) -> Lives<Inode> {
        let mut lives = Lives::default();
        ends.iter().for_each(|end| lives.ended(INODE, Timestamp(*end)));
        for (at, name) in sightings {
            lives.is(INODE, Timestamp(*at), generation(*name as u32).unwrap());
        }
        lives
    }

    #[test]
    fn a_name_belongs_to_a_life_only_if_no_other_assignment_is_possible() {
        let check = |files: &[NamedFile],
                     ends: &[u64],
                     sightings: &[(u64, char)],
                     free: Option<u64>,
                     expected: &[(u64, &str)]| {
            let pieces = lives(ends, sightings).pieces(INODE);
            let names = assign(files, &pieces, free.map(between));
            let names: Vec<(u64, &str)> = names.iter().map(|(_, at, name)| (at.0, name.as_str())).collect();
            assert_eq!(names, expected, "{ends:?} {sightings:?}");
        };
        let three = [file("a", 1, Some(1)), file("b", 1, Some(1)), file("c", 1, Some(2))];
        check(&three, &[120, 150, 230], &[], None, &[(1, "a"), (121, "b"), (151, "c")]);
        // An unnamed file also had the inode number, but the order of the files is unknown.
        check(&three, &[120, 130, 150, 230], &[], None, &[(151, "c")]);
        check(&three, &[120, 130, 150, 230], &[(125, 'b')], None, &[(1, "a"), (121, "b"), (151, "c")]);
        // The unnamed file was deleted before the other files were created.
        check(&three, &[90, 120, 150, 230], &[], None, &[(91, "a"), (121, "b"), (151, "c")]);
        // The file `c` was still open when it was deleted, until `d` appeared.
        let open = [file("a", 1, Some(1)), file("b", 1, Some(1)), file("c", 2, Some(2)), file("d", 3, None)];
        let all = [(1, "a"), (121, "b"), (211, "c"), (231, "d")];
        check(&open, &[120, 210, 230], &[(400, 'd')], None, &all);
        // After the last deletion, either no file has the number, or one file has it. This can be the file
        // that was deleted last, because a deleted file can still be open.
        let two = [file("a", 1, Some(1)), file("b", 1, Some(1))];
        check(&two, &[120, 150], &[], Some(5), &[(1, "a"), (121, "b")]);
        check(&two, &[120, 150], &[], Some(0), &[]);
        check(&two, &[120, 150], &[], None, &[]);
        check(&two, &[120, 150], &[(400, 'z')], None, &[(1, "a"), (121, "b")]);
        // A file from before the recording was replaced by a rename, and a later file still exists. The
        // number of ends equals the number of files with an event that could explain an end.
        let journal_and_clip = [file("journal", 1, Some(1)), file("clip", 1, None)];
        check(&journal_and_clip, &[110, 150], &[], None, &[]);
        check(&journal_and_clip, &[110, 150], &[(400, 'c')], None, &[(151, "clip")]);
        let both = [(111, "journal"), (151, "clip")];
        check(&journal_and_clip, &[110, 150], &[(120, 'j')], None, &both);
        // A rename replaced the first file. The kernel does not report the replacement as a deletion.
        let replaced = [file("a", 1, None), file("b", 4, None)];
        check(&replaced, &[420], &[], None, &[(1, "a"), (421, "b")]);
        // Cases: a file that existed before the recording, and a file that was not deleted.
        let found = NamedFile { created: None, ..file("a", 1, Some(1)) };
        check(&[found], &[120], &[], Some(5), &[(1, "a")]);
        check(&[file("a", 1, None)], &[], &[], None, &[(1, "a")]);
        // More files than pieces: ends are missing. Only the file whose generation was seen is certain.
        check(&three, &[120], &[(110, 'b')], None, &[(1, "b")]);
    }

    /// A random history of a number: files that are created and deleted, some without an event, with all ends
    /// and some sightings.
    struct History {
        files: Vec<NamedFile>,
        lives: Lives<Inode>,
        /// The time and generation of each file.
        truth: Vec<(u64, u64, u32)>,
        free: Option<Between>,
    }

    fn history(seed: u64) -> History {
        let mut random = Random::new(seed);
        let interval = |at: u64| between(at / 100);
        let (mut files, mut lives, mut truth) = (Vec::new(), Lives::default(), Vec::new());
        let mut time = 0;
        let count = 1 + random.below(6);
        let is_free = random.below(2) == 0;
        let mut free = None;
        for number in 0..count {
            let (birth, end) = (time + 1 + random.below(60), time + 62 + random.below(90));
            let is_last = number + 1 == count && !is_free;
            if birth > time + 1 && random.below(4) == 0 {
                let at = Timestamp(time + 1 + random.below(birth - time - 1));
                free = Some(Between { since: at, until: at });
            }
            let of = generation(number as u32 + 1);
            if random.below(4) > 0 {
                // Only some deletions have an event, and a file can stay open after its deletion.
                let deleted = (random.below(3) > 0).then(|| interval(birth + random.below(end - birth)));
                let deleted = deleted.filter(|_| !is_last);
                files.push(NamedFile {
                    generation: of,
                    names: vec![(interval(birth), number.to_string())],
                    created: Some(interval(birth)),
                    deleted,
                    first: interval(birth),
                    last: deleted.unwrap_or(interval(birth)),
                });
            }
            if random.below(3) == 0 {
                lives.is(INODE, Timestamp(birth + random.below(end - birth)), of.unwrap());
            }
            if !is_last {
                lives.ended(INODE, Timestamp(end));
            }
            truth.push((birth, if is_last { u64::MAX } else { end }, number as u32));
            time = end;
        }
        if random.below(5) == 0 {
            let after = random.below(300);
            lives.lost(Timestamp(after), Timestamp(after + random.below(100)));
        }
        if is_free && random.below(2) == 0 {
            let at = Timestamp(time + 100);
            free = Some(Between { since: at, until: at });
        }
        History { files, lives, truth, free }
    }

    #[test]
    fn names_belong_to_the_files_that_had_them() {
        let (mut named, mut all) = (0, 0);
        for seed in 0..20_000 {
            let history = history(seed);
            let names = assign(&history.files, &history.lives.pieces(INODE), history.free);
            all += history.files.len();
            named += names.len();
            for (life, _, name) in names {
                for (birth, end, number) in &history.truth {
                    let number = number.to_string();
                    let has = |at| history.lives.at(INODE, Timestamp(at)) == Some(life);
                    let has_any = has(*birth) || has((*end).min(birth + 10)) || has(*end);
                    assert!(!has_any || name == number, "seed {seed}: {name} is {number}");
                }
            }
        }
        assert!(named > all / 3, "{named} of {all}");
    }

    /// Adds to `found` the places of all files in every possible assignment.
    fn search(
        history: &History,
        pieces: &[Piece<Inode>],
        taken: &mut Vec<usize>,
        found: &mut Vec<Vec<usize>>,
    ) {
        let Some(file) = history.files.get(taken.len()) else {
            return found.push(taken.clone());
        };
        for (at, piece) in pieces.iter().enumerate() {
            let is_later =
                taken.last().is_none_or(|last| at > *last || (at == *last && piece.life.is_none()));
            let is_possible = match (told(file, pieces), piece.life.map(|life| life.told)) {
                (Some(told), _) => told == at,
                (None, Some(told)) if told.generation().is_some() => false,
                (None, _) => file.can_have(piece, history.free),
            };
            if is_later && is_possible {
                taken.push(at);
                search(history, pieces, taken, found);
                taken.pop();
            }
        }
    }

    #[test]
    fn a_place_is_certain_if_all_assignments_agree() {
        for seed in 0..5000 {
            let history = history(seed);
            let pieces = history.lives.pieces(INODE);
            let mut all = Vec::new();
            search(&history, &pieces, &mut Vec::new(), &mut all);
            let mut expected = Vec::new();
            for (at, file) in history.files.iter().enumerate() {
                let first = all.first().map(|places| places[at]);
                let first = first.filter(|first| all.iter().all(|places| places[at] == *first));
                if let Some(piece) = first.or(told(file, &pieces)) {
                    file.add_names(&pieces[piece], &mut expected);
                }
            }
            assert_eq!(assign(&history.files, &pieces, history.free), expected, "seed {seed}");
        }
    }
}
