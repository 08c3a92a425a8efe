//! Combines threads that followed each other in the recording into one thread.
//!
//! A recording of a shell can have thousands of threads, although only a few ran at a time. Without combining
//! threads, a replay without pauses would run all commands at once.

use fonio_core::Timestamp;

use super::budget::{LANES_MAX, TooLarge};

/// The accesses of a thread, with its time.
#[derive(Debug)]
pub struct Threaded<A> {
    /// When the thread's first access began.
    pub began: Timestamp,
    /// When the thread's last access ended.
    pub ended: Timestamp,
    /// All accesses of the thread, ordered by time.
    pub accesses: Vec<A>,
}

/// Returns lists of successive accesses. There are as many lists as threads ran at the same time. Fails if there are
/// more than [`LANES_MAX`].
pub fn lanes<A>(mut threads: Vec<Threaded<A>>) -> Result<Vec<Vec<A>>, TooLarge> {
    threads.retain(|thread| !thread.accesses.is_empty());
    threads.sort_by_key(|thread| thread.began);
    let mut lanes: Vec<Threaded<A>> = Vec::new();
    for mut thread in threads {
        // This thread most likely waited for the thread that ended last.
        let is_full = lanes.len() == LANES_MAX;
        let free = lanes.iter_mut().filter(|lane| lane.ended <= thread.began).max_by_key(|lane| lane.ended);
        match free {
            Some(lane) => {
                lane.ended = thread.ended;
                lane.accesses.append(&mut thread.accesses);
            }
            None if is_full => return Err(TooLarge::Threads),
            None => lanes.push(thread),
        }
    }
    Ok(lanes.into_iter().map(|lane| lane.accesses).collect())
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
            // This thread follows both earlier threads, so it is appended to the thread that ended last.
            thread(20, 30, 'c'),
            thread(21, 25, 'd'),
            Threaded { accesses: Vec::new(), ..thread(0, 99, 'x') },
        ];
        assert_eq!(lanes(threads).expect("there are few"), [vec!['a', 'd'], vec!['b', 'c']]);
        let at_once = (0..=LANES_MAX as u64).map(|at| thread(at, 9999, 'x')).collect();
        assert_eq!(lanes(at_once), Err(TooLarge::Threads));
    }
}
