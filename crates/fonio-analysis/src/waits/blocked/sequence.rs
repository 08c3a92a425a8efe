//! Combines the threads of a program that waited one after the other, such as the processes that a script
//! starts.

use std::collections::BTreeMap;

use fonio_core::{Nanos, Timestamp};

/// The waits of one thread: when the first wait began, when the last wait ended, and the blocked time.
pub(super) type Waits = (Timestamp, Timestamp, Nanos);

/// Returns the longest blocked time of a sequence of threads. In a sequence, each thread begins its first wait
/// after the last wait of the previous thread.
///
/// Each thread joins the sequence that ended last before the thread began to wait. The threads of a server,
/// which all wait from time to time, are therefore not combined.
pub(super) fn longest_blocked(mut threads: Vec<Waits>) -> Nanos {
    threads.sort_unstable();
    // The blocked times of the sequences, by the end of the last wait and the number of the last thread.
    let mut sequences: BTreeMap<(Timestamp, usize), Nanos> = BTreeMap::new();
    for (number, (first, last, blocked)) in threads.into_iter().enumerate() {
        let previous = sequences.range(..=(first, usize::MAX)).next_back().map(|(key, _)| *key);
        let before = previous.and_then(|key| sequences.remove(&key)).unwrap_or_default();
        sequences.insert((last, number), before + blocked);
    }
    sequences.into_values().max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_wait_one_after_the_other_are_combined() {
        let longest = |threads: &[(u64, u64, u64)]| {
            let waits = |&(first, last, blocked)| (Timestamp(first), Timestamp(last), Nanos(blocked));
            longest_blocked(threads.iter().map(waits).collect()).0
        };
        assert_eq!(longest(&[]), 0);
        assert_eq!(longest(&[(0, 10, 9)]), 9);
        assert_eq!(longest(&[(20, 30, 10), (0, 10, 9), (10, 20, 8)]), 27, "one after the other");
        assert_eq!(longest(&[(0, 100, 9), (1, 99, 12), (2, 98, 10)]), 12, "threads of a server");
        assert_eq!(longest(&[(0, 10, 9), (1, 12, 9), (11, 20, 5), (13, 20, 7)]), 16, "two sequences");
        assert_eq!(longest(&[(0, 10, 1), (0, 18, 2), (20, 30, 4)]), 6, "joins the one that ended last");
    }
}
