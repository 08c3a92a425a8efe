//! Tracks the existing files of each group.

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) bytes: u64,
    pub(super) seed: u64,
}

/// The files of a group, oldest first.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) entries: VecDeque<Entry>,
    next_number: u64,
    /// The end of the last sequential call: index in `entries`, and offset in bytes.
    cursor: (usize, u64),
}

/// A read or write call on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) entry: Entry,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Group {
    pub(super) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    pub(super) fn add(&mut self, entry: Entry) {
        self.next_number = self.next_number.max(entry.number + 1);
        self.entries.push_back(entry);
    }

    pub(super) fn take_oldest(&mut self) -> Option<Entry> {
        let oldest = self.entries.pop_front()?;
        self.cursor = match self.cursor {
            (0, _) => (0, 0),
            (at, offset) => (at - 1, offset),
        };
        Some(oldest)
    }

    pub(super) fn grow(&mut self, number: u64, bytes: u64) {
        if let Some(entry) = self.entries.iter_mut().rev().find(|entry| entry.number == number) {
            entry.bytes = entry.bytes.max(bytes);
        }
    }

    /// Returns the next sequential call of at most `bytes` bytes within one file; `None` if all files are
    /// empty.
    pub(super) fn sequential(&mut self, bytes: u64) -> Option<Call> {
        // Try each file at most once more, because files can be empty and the cursor can be at the end of a
        // file.
        for _ in 0..=self.entries.len() {
            let (at, offset) = self.cursor;
            let Some(&entry) = self.entries.get(at) else {
                self.cursor = (0, 0);
                continue;
            };
            if offset >= entry.bytes {
                self.cursor = (at + 1, 0);
                continue;
            }
            let bytes = bytes.min(entry.bytes - offset);
            self.cursor = (at, offset + bytes);
            return Some(Call { entry, offset, bytes });
        }
        self.entries.front().filter(|entry| entry.bytes > 0).map(|&entry| {
            let bytes = bytes.min(entry.bytes);
            self.cursor = (0, bytes);
            Call { entry, offset: 0, bytes }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_calls_go_through_all_files_and_round_again() {
        let mut group = Group::default();
        assert_eq!(group.sequential(10), None);
        for bytes in [25, 0, 10] {
            let number = group.number();
            group.add(Entry { number, bytes, seed: 0 });
        }
        let calls: Vec<(u64, u64, u64)> = (0..6)
            .map(|_| group.sequential(10).unwrap())
            .map(|call| (call.entry.number, call.offset, call.bytes))
            .collect();
        assert_eq!(calls, [(0, 0, 10), (0, 10, 10), (0, 20, 5), (2, 0, 10), (0, 0, 10), (0, 10, 10)]);
        assert_eq!(group.take_oldest().unwrap().number, 0);
        assert_eq!(group.sequential(10).unwrap().entry.number, 2);
    }
}
