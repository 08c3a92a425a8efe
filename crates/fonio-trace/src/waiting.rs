//! Events that wait until all earlier events have been read, and are given out in the order of time.
//!
//! The events stay in their places while their times are sorted, because an event is ten times larger than its time.

use std::collections::VecDeque;

/// The time of an event, and its place.
type Key = (u64, u32);

/// Events that were read but not given out.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    events: Vec<T>,
    /// Places whose events were given out.
    free: Vec<u32>,
    /// The events that wait, in the order in which they were added.
    keys: Vec<Key>,
    /// The events that are ready, in the order of time, and whether each came too late to be sorted.
    ready: VecDeque<(u32, bool)>,
}

impl<T> Default for Waiting<T> {
    fn default() -> Waiting<T> {
        Waiting { events: Vec::new(), free: Vec::new(), keys: Vec::new(), ready: VecDeque::new() }
    }
}

impl<T> Waiting<T> {
    /// Adds an event.
    #[inline]
    pub fn add(&mut self, time: u64, event: T) {
        let place = match self.free.pop() {
            Some(place) => {
                self.events[place as usize] = event;
                place
            }
            None => {
                self.events.push(event);
                (self.events.len() - 1) as u32
            }
        };
        self.keys.push((time, place));
    }

    /// Returns the number of events that wait.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Makes the events up to the time `until` ready. `decide` says for each event, in the order of time, whether it came too
    /// late, and `None` to leave it out. It also gets the events that are ready, the last first.
    pub fn release_until(&mut self, until: u64, decide: impl FnMut(u64, &T, Ready<'_, T>) -> Option<bool>) {
        self.keys.sort_by_key(|(time, _)| *time);
        let count = self.keys.partition_point(|(time, _)| *time <= until);
        self.release(count, decide);
    }

    /// Makes the earlier half of the events ready; returns the time of the last of them.
    pub fn release_half(&mut self, decide: impl FnMut(u64, &T, Ready<'_, T>) -> Option<bool>) -> u64 {
        self.keys.sort_by_key(|(time, _)| *time);
        let count = self.keys.len() / 2;
        let until = count.checked_sub(1).map_or(0, |last| self.keys[last].0);
        self.release(count, decide);
        until
    }

    fn release(&mut self, count: usize, mut decide: impl FnMut(u64, &T, Ready<'_, T>) -> Option<bool>) {
        for (time, place) in self.keys.drain(..count) {
            let ready = Ready { events: &self.events, places: &self.ready };
            match decide(time, &self.events[place as usize], ready) {
                Some(is_late) => self.ready.push_back((place, is_late)),
                None => self.free.push(place),
            }
        }
    }

    /// Returns the next event that is ready, and whether it came too late. It is kept until another event gets its place.
    #[inline]
    pub fn next(&mut self) -> Option<(&T, bool)> {
        let (place, is_late) = self.ready.pop_front()?;
        self.free.push(place);
        Some((&self.events[place as usize], is_late))
    }
}

/// The events that are ready but not given out.
pub(crate) struct Ready<'a, T> {
    events: &'a [T],
    places: &'a VecDeque<(u32, bool)>,
}

impl<'a, T> Ready<'a, T> {
    /// Returns the events, the last first.
    pub fn latest_first(&self) -> impl Iterator<Item = &'a T> {
        let events = self.events;
        self.places.iter().rev().map(move |(place, _)| &events[*place as usize])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Events are given out as by a list that is sorted again and again.
        #[test]
        fn order_is_that_of_a_sorted_list(
            rounds in prop::collection::vec((prop::collection::vec(0_u64..50, 0..20), 0_u64..60, 0_usize..30), 0..20)
        ) {
            let (mut waiting, mut list, mut ready) = (Waiting::default(), Vec::new(), VecDeque::new());
            let mut number = 0;
            for (times, until, taken) in rounds {
                for time in times {
                    number += 1;
                    waiting.add(time, number);
                    list.push((time, number));
                }
                list.sort_by_key(|(time, _)| *time);
                let half = until == 0;
                let count = if half { list.len() / 2 } else { list.partition_point(|(time, _)| *time <= until) };
                // Numbers that are multiples of seven are left out, those of three are late.
                let mut released = Vec::new();
                let decide = |time: u64, number: &i32, before: Ready<'_, i32>| {
                    released.push((time, *number, before.latest_first().next().copied()));
                    (number % 7 != 0).then_some(number % 3 == 0)
                };
                if half {
                    let last = waiting.release_half(decide);
                    prop_assert_eq!(last, list[..count].last().map_or(0, |(time, _)| *time));
                } else {
                    waiting.release_until(until, decide);
                }
                let mut expected = Vec::new();
                for (time, number) in list.drain(..count) {
                    expected.push((time, number, ready.back().copied()));
                    if number % 7 != 0 {
                        ready.push_back(number);
                    }
                }
                prop_assert_eq!(released, expected);
                for _ in 0..taken {
                    let next = waiting.next().map(|(number, is_late)| (*number, is_late));
                    prop_assert_eq!(next, ready.pop_front().map(|number| (number, number % 3 == 0)));
                }
                prop_assert_eq!(waiting.len(), list.len());
            }
        }
    }
}
