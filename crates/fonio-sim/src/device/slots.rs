//! The places for commands that a device accepts at once.

/// When each place is free again, as a binary heap with the first to be free at the root.
#[derive(Debug)]
pub(super) struct Slots {
    free_at: Vec<u64>,
}

impl Slots {
    pub(super) fn new(depth: u32) -> Slots {
        Slots { free_at: vec![0; depth.max(1) as usize] }
    }

    /// The place that is free first, and when.
    pub(super) fn first_free(&self) -> (usize, u64) {
        (0, self.free_at[0])
    }

    /// Takes that place until `until`, which is not before it was free.
    pub(super) fn take(&mut self, slot: usize, until: u64) {
        let mut at = slot;
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
        fn the_first_free_place_is_taken(spans in prop::collection::vec(0u64..50, 0..200), depth in 1u32..9) {
            let mut slots = Slots::new(depth);
            let mut naive = vec![0u64; depth as usize];
            for span in spans {
                let (slot, free) = slots.first_free();
                let first = naive.iter_mut().min().expect("there is a place");
                prop_assert_eq!(free, *first);
                *first += span;
                slots.take(slot, free + span);
            }
        }
    }
}
