//! Combines threads that followed each other in the recording into one thread.
//!
//! A recording of a shell can have thousands of threads, but only few ran at a time. In a replay without
//! pauses, all its commands would otherwise run at once.

use fonio_core::Timestamp;

/// The accesses of a thread of the recording.
#[derive(Debug)]
pub(super) struct Threaded<A> {
    /// When the first one began.
    pub began: Timestamp,
    /// When the last one ended.
    pub ended: Timestamp,
    /// All accesses, in the order of time.
    pub accesses: Vec<A>,
}

/// Returns lists of accesses that follow each other; their number is the number of threads that ran at once.
pub(super) fn lanes<A>(mut threads: Vec<Threaded<A>>) -> Vec<Vec<A>> {
    threads.retain(|thread| !thread.accesses.is_empty());
    threads.sort_by_key(|thread| thread.began);
    let mut lanes: Vec<Threaded<A>> = Vec::new();
    for mut thread in threads {
        // The thread that ended last is most likely the one for which this thread waited.
        let free = lanes.iter_mut().filter(|lane| lane.ended <= thread.began).max_by_key(|lane| lane.ended);
        match free {
            Some(lane) => {
                lane.ended = thread.ended;
                lane.accesses.append(&mut thread.accesses);
            }
            None => lanes.push(thread),
        }
    }
    lanes.into_iter().map(|lane| lane.accesses).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_a_lane_if_they_did_not_overlap() {
        let thread = |began, ended, name| Threaded {
            began: Timestamp(began),
            ended: Timestamp(ended),
            accesses: vec![name],
        };
        let threads = vec![
            thread(0, 10, 'a'),
            thread(5, 20, 'b'),
            // After both: behind the one that ended last.
            thread(20, 30, 'c'),
            thread(21, 25, 'd'),
            Threaded { accesses: Vec::new(), ..thread(0, 99, 'x') },
        ];
        assert_eq!(lanes(threads), [vec!['a', 'd'], vec!['b', 'c']]);
    }
}
