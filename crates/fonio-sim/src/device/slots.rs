//! The queue slots of a device, which limit the number of commands in flight.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The times at which the slots become free.
#[derive(Debug)]
pub(super) struct Slots {
    free_at: BinaryHeap<Reverse<u64>>,
}

impl Slots {
    pub(super) fn new(depth: u32) -> Slots {
        Slots { free_at: vec![Reverse(0); depth.max(1) as usize].into() }
    }

    /// Returns the time at which the first slot is free.
    pub(super) fn first_free(&self) -> u64 {
        self.free_at.peek().expect("there is a slot").0
    }

    /// Takes the slot that becomes free first, and occupies it until the time `until`. Panics if no slot
    /// becomes free by `until`.
    pub(super) fn take(&mut self, until: u64) {
        let mut first = self.free_at.peek_mut().expect("there is a slot");
        assert!(first.0 <= until, "the slot is still in use at the command's end");
        *first = Reverse(until);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_free_slot_is_taken(spans in prop::collection::vec(0u64..50, 0..200), depth in 1u32..9) {
            let mut slots = Slots::new(depth);
            let mut naive = vec![0u64; depth as usize];
            for span in spans {
                let free = slots.first_free();
                let first = naive.iter_mut().min().expect("there is a slot");
                prop_assert_eq!(free, *first);
                *first += span;
                slots.take(free + span);
            }
        }
    }
}
