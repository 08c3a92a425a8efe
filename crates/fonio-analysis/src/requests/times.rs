//! Collects service and response times by class, for several questions.

use fonio_core::ByteCount;

use super::class::{Class, Group};
use crate::distribution::tally::Tally;
use crate::question::seen::Seen;

/// Upper bounds of the size classes in bytes. The first bound is one page, and each further bound is twice
/// the previous one. One more size class contains all larger requests.
pub(super) const BOUNDS: [u64; 10] =
    [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];
pub(super) const SIZES: usize = BOUNDS.len() + 1;

#[derive(Debug)]
pub(crate) struct ServiceTally {
    tallies: Vec<[Tally; SIZES]>,
    /// For each class and size class: the number of requests without a service time.
    without: Vec<[u64; SIZES]>,
}

impl Default for ServiceTally {
    fn default() -> ServiceTally {
        ServiceTally {
            tallies: (0..Class::COUNT).map(|_| Default::default()).collect(),
            without: vec![[0; SIZES]; Class::COUNT],
        }
    }
}

fn size_class(bytes: ByteCount) -> usize {
    // The number of doublings from one page is the bit length of (number of pages - 1).
    let pages = bytes.0.div_ceil(BOUNDS[0]);
    ((u64::BITS - pages.saturating_sub(1).leading_zeros()) as usize).min(SIZES - 1)
}

impl ServiceTally {
    #[inline]
    pub(crate) fn add(&mut self, seen: &Seen) {
        let (class, size) = (seen.class as usize, size_class(seen.bytes));
        match seen.service {
            Some(service) => self.tallies[class][size].add(service.0),
            None => self.without[class][size] += 1,
        }
    }

    /// Returns the sum of the service times of a class.
    pub(crate) fn sum_ns(&self, class: Class) -> u64 {
        self.tallies[class as usize].iter().map(|tally| tally.sum).fold(0, u64::saturating_add)
    }

    /// Returns the service times of a group, over all sizes.
    pub(crate) fn of_group(&self, group: Group) -> Tally {
        Tally::together(group.classes().flat_map(|class| &self.tallies[class as usize]))
    }

    /// Returns the number of requests of a group without a service time.
    pub(crate) fn without(&self, group: Group) -> u64 {
        group.classes().flat_map(|class| &self.without[class as usize]).sum()
    }

    /// Returns the service times of a group in one size class, and the number of requests without a service
    /// time.
    pub(super) fn of_size(&self, group: Group, size: usize) -> (Tally, u64) {
        let tally = Tally::together(group.classes().map(|class| &self.tallies[class as usize][size]));
        (tally, group.classes().map(|class| self.without[class as usize][size]).sum())
    }
}

#[derive(Debug, Default)]
pub(crate) struct ResponseTally {
    requests: [u64; Class::COUNT],
    response: [Tally; Class::COUNT],
    readahead_unknown: u64,
}

impl ResponseTally {
    #[inline]
    pub(crate) fn add(&mut self, seen: &Seen, readahead_known: bool) {
        self.requests[seen.class as usize] += 1;
        if let Some(response) = seen.response {
            self.response[seen.class as usize].add(response.0);
        }
        self.readahead_unknown += u64::from(seen.class == Class::Read && !readahead_known);
    }

    /// Returns the response times of each class for which `wanted` is true.
    pub(crate) fn of_classes(&self, wanted: fn(Class) -> bool) -> impl Iterator<Item = &Tally> {
        let classes = Class::ALL.into_iter().filter(move |class| wanted(*class));
        classes.map(|class| &self.response[class as usize])
    }

    /// Returns the number of requests of a group, and their response times.
    pub(super) fn of_group(&self, group: Group) -> (u64, Tally) {
        let requests = group.classes().map(|class| self.requests[class as usize]).sum();
        (requests, Tally::together(group.classes().map(|class| &self.response[class as usize])))
    }

    /// Whether the source shows which reads are readahead.
    pub(crate) fn is_readahead_known(&self) -> bool {
        self.readahead_unknown == 0
    }

    /// Whether the source shows which writes are synchronous.
    pub(crate) fn is_sync_known(&self) -> bool {
        self.requests[Class::WriteUnknown as usize] == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes() {
        for (bytes, class) in [
            (0, 0),
            (512, 0),
            (4096, 0),
            (4097, 1),
            (8192, 1),
            (8193, 2),
            (1 << 20, 8),
            ((1 << 20) + 1, 9),
            (2 << 20, 9),
            ((2 << 20) + 1, 10),
            (u64::MAX, 10),
        ] {
            assert_eq!(size_class(ByteCount(bytes)), class, "{bytes}");
        }
    }
}
