//! Sums up the waits for each file. Files with one path count together: a program that replaces a file by
//! renaming makes a new file at each save.

use std::cmp::Reverse;

use fonio_core::Nanos;
use rustc_hash::FxHashMap;

use super::BlockedFile;
use super::count::{Count, FileCount};

/// Maximum number of files in the list.
const FILES_LISTED: usize = 1024;

/// A program: the numbers that stand for its name and its unit.
type Whose = (u32, Option<u32>);

/// The waits for the files with one path.
#[derive(Debug)]
struct OfPath {
    path: Option<String>,
    /// The smallest number of these files in the recording.
    file: u32,
    sum: FileCount,
    /// The waiting time of each program.
    programs: FxHashMap<Whose, Nanos>,
}

#[derive(Debug, Default)]
pub(super) struct WaitedFiles {
    of_paths: Vec<OfPath>,
    /// Indexes into `of_paths`.
    by_path: FxHashMap<String, usize>,
    by_file: FxHashMap<u32, usize>,
    beyond: u64,
}

impl WaitedFiles {
    /// Adds the waits of a thread of the program `whose`.
    pub(super) fn add(&mut self, whose: Whose, count: &Count, path: &dyn Fn(u32) -> Option<String>) {
        self.beyond += count.of_files_beyond;
        for (&file, of_file) in &count.files {
            let place = match self.by_file.get(&file) {
                Some(place) => *place,
                None => self.place(file, path(file)),
            };
            let OfPath { file: first, sum, programs, .. } = &mut self.of_paths[place];
            *first = file.min(*first);
            sum.waits += of_file.waits;
            sum.time += of_file.time;
            sum.longest = sum.longest.max(of_file.longest);
            *programs.entry(whose).or_default() += of_file.time;
        }
    }

    fn place(&mut self, file: u32, path: Option<String>) -> usize {
        let next = self.of_paths.len();
        let place = match &path {
            Some(path) => *self.by_path.entry(path.clone()).or_insert(next),
            None => next,
        };
        if place == next {
            self.of_paths.push(OfPath {
                path,
                file,
                sum: FileCount::default(),
                programs: FxHashMap::default(),
            });
        }
        self.by_file.insert(file, place);
        place
    }

    /// Returns the number of waits for files that the threads did not count, because there were too many.
    pub(super) fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Returns the files by descending time.
    pub(super) fn listed(mut self, name: impl Fn(Whose) -> String) -> Vec<BlockedFile> {
        self.of_paths.sort_unstable_by_key(|of| (Reverse(of.sum.time), of.file));
        self.of_paths.truncate(FILES_LISTED);
        let listed = |of: OfPath| {
            let most = of.programs.iter().max_by_key(|(whose, time)| (**time, Reverse(**whose)));
            BlockedFile {
                path: of.path,
                waits: of.sum.waits,
                time_ns: of.sum.time,
                longest_ns: of.sum.longest,
                program: most.map(|(whose, _)| name(*whose)).unwrap_or_default(),
            }
        };
        self.of_paths.into_iter().map(listed).collect()
    }
}
