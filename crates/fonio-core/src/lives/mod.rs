//! Distinguishes things that had the same kernel number one after the other, such as the files that had one
//! inode number.

mod timeline;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

use std::hash::Hash;
use std::num::NonZeroU32;

use rustc_hash::FxHashMap;

use crate::units::{DeviceId, Timestamp};
use timeline::Timeline;

/// Maximum number of stored facts about all numbers together: 8 MB at 32 bytes each. If there would be more,
/// a gap replaces the oldest facts about a number.
const FACTS_MAX: usize = 1 << 18;

/// The number of a file within its file system. A later file can have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inode {
    /// The device number of the file system, as in `st_dev` of the files.
    pub fs: DeviceId,
    /// The inode number of the file.
    pub number: u64,
}

/// A value that differs between successive lives of one number, such as `i_generation` of an inode. In the
/// kernel, 0 means that the file system has no generations.
pub type Generation = NonZeroU32;

/// Distinguishes a life from the other lives of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Told {
    /// The kernel's generation.
    By(Generation),
    /// The kernel's generation, if an earlier life of the number had the same one, and the first time at which
    /// it was seen again. Generations are random: after 50,000 files with one inode number, two of them have
    /// the same generation in one of four cases.
    Again(Generation, Timestamp),
    /// The time when the previous life, or an interval without a known life, ended; 0 for the first life.
    After(Timestamp),
}

impl Told {
    /// Returns the kernel's generation, if it is known.
    pub fn generation(self) -> Option<Generation> {
        match self {
            Told::By(generation) | Told::Again(generation, _) => Some(generation),
            Told::After(_) => None,
        }
    }
}

/// A thing while it had a kernel number, such as a file while it had its inode number.
///
/// Two lives of a number never overlap. If two lives are equal, they belong to the same thing. A life without
/// a generation can be compared only with lives of the same [`Lives`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life<N> {
    /// The number. Other things can have it before and after this life.
    pub number: N,
    /// Distinguishes this life from the other lives of the number.
    pub told: Told,
}

/// A file while it had its inode number.
pub type FileLife = Life<Inode>;

/// A file as the kernel shows it at one time.
///
/// Equal values with a generation are nearly always the same file (see [`Told::Again`]). Without a generation,
/// the number can belong to several files: the file system has no generations, the source does not show them,
/// or the file has the generation 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeenFile {
    /// The number of the file at that time.
    pub inode: Inode,
    /// Distinguishes the file from others with its number.
    pub generation: Option<Generation>,
}

/// A part of a number's time: the times that are later than `after` and not later than `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<N> {
    /// The end of the previous piece; 0 if the beginning of this piece is unknown.
    pub after: Timestamp,
    /// The end of this piece; [`Timestamp::MAX`] if the end is unknown.
    pub until: Timestamp,
    /// The life that had the number in this piece; `None` if the life is unknown.
    pub life: Option<Life<N>>,
}

/// The lives of many numbers, determined from facts that arrive in any order.
///
/// 1. An end at `t` is a cut in a number's time: the times up to `t` and the times after `t` belong to
///    different lives.
/// 2. All times between two sightings of one generation belong to one life, if no other generation was seen
///    between the sightings. This is true even if there are ends between them (the kernel can evict an inode
///    and read it again) or gaps. If another generation was seen between them, they are different lives.
/// 3. A sighting between two cuts determines the life for all times between these cuts. If several
///    generations were seen between the cuts, an end is missing, and the life is unknown for the times
///    between the sightings of two generations.
/// 4. If there is no sighting between two cuts, the time of the first cut identifies the life.
/// 5. The beginning and the end of a gap are cuts. In the gap, the life is unknown, except if rule 2 applies.
///
/// Therefore, if no ends are reported for a number, it counts as having one life until a second generation is
/// seen.
#[derive(Clone, Debug)]
pub struct Lives<N> {
    known: FxHashMap<N, Timeline>,
    /// The gaps of all numbers.
    gaps: Gaps,
    /// The number of stored facts.
    count: usize,
    /// The largest allowed value of `count`.
    count_max: usize,
}

/// Intervals in which ends may be missing, in order and without overlaps. An interval contains the times that
/// are later than its first timestamp and not later than its second.
#[derive(Clone, Debug, Default)]
struct Gaps(Vec<(Timestamp, Timestamp)>);

impl Gaps {
    /// Adds a gap. Returns by how many entries the list became longer, or shorter if negative.
    fn add(&mut self, mut after: Timestamp, mut until: Timestamp) -> isize {
        if after >= until {
            return 0;
        }
        let first = self.0.partition_point(|gap| gap.1 < after);
        let end = self.0.partition_point(|gap| gap.0 <= until);
        if first < end {
            after = after.min(self.0[first].0);
            until = until.max(self.0[end - 1].1);
        }
        self.0.splice(first..end, [(after, until)]);
        1 - (end - first) as isize
    }

    /// Returns the beginnings and ends of the gaps, in order.
    fn edges(&self) -> impl Iterator<Item = Timestamp> {
        self.0.iter().flat_map(|gap| [gap.0, gap.1])
    }

    /// Returns the last edge before `at`, and the first edge at or after `at`.
    fn edges_around(&self, at: Timestamp) -> (Timestamp, Timestamp) {
        let next = self.0.partition_point(|gap| gap.1 < at);
        let before = next.checked_sub(1).map_or(Timestamp(0), |before| self.0[before].1);
        match self.0.get(next) {
            Some(gap) if gap.0 < at => (gap.0, gap.1),
            next => (before, next.map_or(Timestamp::MAX, |gap| gap.0)),
        }
    }

    fn contain(&self, at: Timestamp) -> bool {
        self.0.get(self.0.partition_point(|gap| gap.1 < at)).is_some_and(|gap| gap.0 < at)
    }
}

impl<N> Default for Lives<N> {
    fn default() -> Lives<N> {
        Lives { known: FxHashMap::default(), gaps: Gaps::default(), count: 0, count_max: FACTS_MAX }
    }
}

impl<N: Copy + Eq + Hash> Lives<N> {
    /// Records that the current life of the number ended at `at`.
    pub fn ended(&mut self, number: N, at: Timestamp) {
        self.change(number, |timeline| timeline.ended(at));
    }

    /// Records that the number had this generation at `at`.
    pub fn is(&mut self, number: N, at: Timestamp, generation: Generation) {
        self.change(number, |timeline| timeline.is(at, generation));
    }

    /// Records that ends of any number may be missing later than `after` and up to `until`.
    pub fn lost(&mut self, after: Timestamp, until: Timestamp) {
        self.gaps.add(after, until);
        if self.gaps.0.len() > self.count_max {
            // Join the two oldest gaps.
            let (first, second) = (self.gaps.0[0], self.gaps.0[1]);
            self.gaps.add(first.0, second.1);
        }
    }

    /// Records that ends of this number may be missing later than `after` and up to `until`.
    pub fn lost_of(&mut self, number: N, after: Timestamp, until: Timestamp) {
        self.change(number, |timeline| timeline.gaps.add(after, until));
    }

    fn change(&mut self, number: N, change: impl FnOnce(&mut Timeline) -> isize) {
        let timeline = self.known.entry(number).or_default();
        self.count = self.count.saturating_add_signed(change(timeline));
        while self.count > self.count_max && timeline.len() > 1 {
            self.count = self.count.saturating_add_signed(timeline.forget());
        }
    }

    /// Returns the life that had the number at `at`; `None` if the life is unknown.
    pub fn at(&self, number: N, at: Timestamp) -> Option<Life<N>> {
        static EMPTY: Timeline = Timeline::EMPTY;
        let told = self.known.get(&number).unwrap_or(&EMPTY).at(at, &self.gaps)?;
        Some(Life { number, told })
    }

    /// Returns all pieces of a number's time, in order.
    pub fn pieces(&self, number: N) -> Vec<Piece<N>> {
        let mut ends = vec![Timestamp::MAX];
        ends.extend(self.gaps.edges());
        if let Some(timeline) = self.known.get(&number) {
            timeline.piece_ends(&mut ends);
        }
        ends.sort_unstable();
        ends.dedup();
        let mut pieces: Vec<Piece<N>> = Vec::new();
        let mut after = Timestamp(0);
        for until in ends.into_iter().filter(|end| *end > Timestamp(0)) {
            let life = self.at(number, until);
            match pieces.last_mut() {
                Some(last) if last.life == life => last.until = until,
                _ => pieces.push(Piece { after, until, life }),
            }
            after = until;
        }
        pieces
    }
}
