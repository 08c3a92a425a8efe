//! The slots of a device's queue, which limit the commands that it accepts at once.

/// The instants at which the slots become free, as a binary heap with the earliest at the root.
#[derive(Debug)]
pub(super) struct Slots {
    free_at: Vec<u64>,
}

impl Slots {
    pub(super) fn new(depth: u32) -> Slots {
        Slots { free_at: vec![0; depth.max(1) as usize] }
    }

    /// When the first slot is free.
    pub(super) fn first_free(&self) -> u64 {
        self.free_at[0]
    }

    /// Takes the slot that becomes free first, and keeps it until `until`, which is not before it is free.
    pub(super) fn take(&mut self, until: u64) {
        let mut at = 0;
        self.free_at[at] = until;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut first = at;
            if left < self.free_at.len() && self.free_at[left] < self.free_at[first] {
                first = left;
            }
            if right < self.free_at.len() && self.free_at[right] < self.free_at[first] {
                first = right;
            }
            if first == at {
                return;
            }
            self.free_at.swap(at, first);
            at = first;
        }
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
