//! A queue of the ends of requests in flight, the earliest end first.
//!
//! Requests end nearly in the order in which they begin, so a new end belongs near the back of a sorted list. For
//! the few requests that a device has in flight, a list is cheaper than a heap, whose branches the processor cannot
//! predict. A heap takes the ends behind the list, so that any number of requests stays cheap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Maximum length of the list.
const LIST_MAX: usize = 64;

/// The ends of requests in flight.
#[derive(Clone, Debug)]
pub(crate) struct Ends<T> {
    /// The earliest ends, sorted. Those before `first` have been removed.
    list: Vec<T>,
    first: usize,
    /// All other ends; none is earlier than an end in the list.
    heap: BinaryHeap<Reverse<T>>,
}

impl<T: Copy + Ord> Default for Ends<T> {
    fn default() -> Ends<T> {
        Ends { list: Vec::new(), first: 0, heap: BinaryHeap::new() }
    }
}

impl<T: Copy + Ord> Ends<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.list.len() - self.first + self.heap.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the earliest end.
    #[inline]
    pub(crate) fn peek(&self) -> Option<T> {
        // The heap has ends only if the list has some.
        self.list.get(self.first).copied()
    }

    /// Removes the earliest end, if there is one.
    #[inline]
    pub(crate) fn pop(&mut self) {
        if self.first < self.list.len() {
            self.first += 1;
        }
        if self.first == self.list.len() {
            self.list.clear();
            self.first = 0;
            if !self.heap.is_empty() {
                self.refill();
            }
        }
    }

    /// Moves the earliest ends of the heap into the empty list.
    #[cold]
    fn refill(&mut self) {
        while self.list.len() < LIST_MAX / 2
            && let Some(Reverse(end)) = self.heap.pop()
        {
            self.list.push(end);
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, end: T) {
        if self.list.len() == LIST_MAX || !self.heap.is_empty() {
            return self.push_far(end);
        }
        self.insert(end);
    }

    #[inline]
    fn insert(&mut self, end: T) {
        let mut place = self.list.len();
        self.list.push(end);
        while place > self.first && self.list[place - 1] > end {
            self.list[place] = self.list[place - 1];
            place -= 1;
        }
        self.list[place] = end;
    }

    /// Adds an end if the list is full, or the heap has ends.
    #[inline(never)]
    fn push_far(&mut self, end: T) {
        if self.first > 0 {
            self.list.drain(..self.first);
            self.first = 0;
        }
        let is_before_heap = self.heap.peek().is_none_or(|Reverse(first)| end <= *first);
        if self.list.len() < LIST_MAX && is_before_heap {
            return self.insert(end);
        }
        match self.list.last().copied() {
            Some(last) if end < last => {
                self.list.pop();
                self.heap.push(Reverse(last));
                self.insert(end);
            }
            _ => self.heap.push(Reverse(end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the queue with a sorted list, for few and for many requests in flight.
        #[test]
        fn the_earliest_end_comes_first(
            steps in prop::collection::vec((0u64..100, any::<bool>()), 0..400),
            more in 0usize..3,
        ) {
            let (mut ends, mut sorted) = (Ends::default(), Vec::new());
            for (at, (end, pops)) in steps.iter().enumerate() {
                let end = end + at as u64;
                ends.push(end);
                sorted.push(end);
                sorted.sort_unstable();
                if *pops && at % (more + 1) == 0 {
                    ends.pop();
                    sorted.remove(0);
                }
                prop_assert_eq!(ends.len(), sorted.len());
                prop_assert_eq!(ends.peek(), sorted.first().copied());
            }
            while !ends.is_empty() {
                prop_assert_eq!(ends.peek(), sorted.first().copied());
                ends.pop();
                sorted.remove(0);
            }
            ends.pop();
            prop_assert!(sorted.is_empty() && ends.peek().is_none());
        }
    }
}
