//! Keeps values in a bounded number of time bins of equal width. When time passes the last bin, neighbouring
//! bins are merged in pairs and the width doubles.
//!
//! The first timestamp is the origin; requests with earlier timestamps fall into the first bin. Nearly all
//! requests fall into the same bin as the previous request, so this bin is cached.

use fonio_core::{Nanos, Timestamp};

pub(crate) trait Fold: Default {
    /// Merges the values of the following bin into this bin.
    fn fold(&mut self, later: Self);
}

#[derive(Debug)]
pub(crate) struct Bins<T, const LIMIT: usize> {
    width: Nanos,
    origin: Option<Timestamp>,
    bins: Vec<T>,
    current: usize,
    current_from: Timestamp,
    current_until: Timestamp,
}

/// Initial width of a bin: 1 ms. 512 bins of this width cover half a second, which is shorter than any useful
/// recording.
const FIRST_WIDTH: Nanos = Nanos(1_000_000);

impl<T, const LIMIT: usize> Default for Bins<T, LIMIT> {
    fn default() -> Bins<T, LIMIT> {
        const { assert!(LIMIT >= 2, "folding needs two bins") };
        Bins {
            width: FIRST_WIDTH,
            origin: None,
            bins: Vec::new(),
            current: 0,
            current_from: Timestamp(1),
            current_until: Timestamp(0),
        }
    }
}

impl<T: Fold, const LIMIT: usize> Bins<T, LIMIT> {
    pub(crate) fn width(&self) -> Nanos {
        self.width
    }

    /// Returns the start of the first bin, or 0 before it is known.
    pub(crate) fn origin(&self) -> Timestamp {
        self.origin.unwrap_or_default()
    }

    pub(crate) fn bins(&self) -> &[T] {
        &self.bins
    }

    pub(crate) fn begin_of(&self, index: u64) -> Timestamp {
        self.origin() + Nanos(index.saturating_mul(self.width.0))
    }

    /// Sets the start of the first bin, before any bin is requested.
    pub(crate) fn begin_at(&mut self, origin: Timestamp) {
        assert!(self.bins.is_empty(), "the origin is set before the first bin exists");
        self.origin = Some(origin);
    }

    /// Calls `change` with each bin.
    pub(crate) fn each(&mut self, change: impl FnMut(&mut T)) {
        self.bins.iter_mut().for_each(change);
    }

    /// Returns the bin that contains `time`, creating it if needed.
    #[inline]
    pub(crate) fn at(&mut self, time: Timestamp) -> &mut T {
        if time < self.current_from || time >= self.current_until {
            self.seek(time);
        }
        &mut self.bins[self.current]
    }

    fn seek(&mut self, time: Timestamp) {
        let offset = (time - *self.origin.get_or_insert(time)).0;
        while offset / self.width.0 >= LIMIT as u64 {
            self.halve();
        }
        let index = (offset / self.width.0) as usize;
        assert!(index < LIMIT, "bins are merged until the timestamp fits");
        if self.bins.len() <= index {
            self.bins.resize_with(index + 1, T::default);
        }
        self.current = index;
        let from = self.begin_of(index as u64);
        // The first bin also takes timestamps before the origin; the last bin takes timestamps beyond the
        // clock's range.
        self.current_from = if index == 0 { Timestamp(0) } else { from };
        self.current_until = from + self.width;
        if self.current_until.0 == u64::MAX && time.0 == u64::MAX {
            self.current_from = Timestamp(1);
            self.current_until = Timestamp(0);
        }
    }

    pub(crate) fn halve(&mut self) {
        let mut old = std::mem::take(&mut self.bins).into_iter();
        while let Some(mut bin) = old.next() {
            if let Some(later) = old.next() {
                bin.fold(later);
            }
            self.bins.push(bin);
        }
        self.width = self.width + self.width;
        self.current_from = Timestamp(1);
        self.current_until = Timestamp(0);
    }

    /// For each bin that overlaps `start..end`, calls `give` with the bin and the length of the overlap.
    #[inline]
    pub(crate) fn spread(&mut self, start: Timestamp, end: Timestamp, mut give: impl FnMut(&mut T, Nanos)) {
        if end <= start {
            return;
        }
        if start >= self.current_from && end <= self.current_until && start >= self.origin() {
            return give(&mut self.bins[self.current], end - start);
        }
        // Look up the end bin first, because this look-up can merge bins and thus change the index of the
        // start bin.
        self.at(start);
        self.at(Timestamp(end.0 - 1));
        let origin = self.origin();
        let mut from = start.max(origin);
        while from < end {
            let index = ((from - origin).0 / self.width.0) as usize;
            let until = self.begin_of(index as u64 + 1).min(end);
            give(&mut self.bins[index], until - from);
            from = until;
        }
    }

    /// Adds empty bins up to `end`, so that a final period without requests is visible.
    pub(crate) fn extend_to(&mut self, end: Timestamp) {
        if self.origin.is_some_and(|origin| end > origin) {
            self.at(Timestamp(end.0 - 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Default, PartialEq, Eq)]
    struct Sum(u64);
    impl Fold for Sum {
        fn fold(&mut self, later: Sum) {
            self.0 += later.0;
        }
    }

    #[test]
    fn width_doubles_until_time_fits() {
        let mut bins = Bins::<Sum, 4>::default();
        bins.at(Timestamp(10)).0 += 1;
        bins.at(Timestamp(10 + 3_999_999)).0 += 1;
        assert_eq!((bins.width(), bins.bins().len()), (Nanos(1_000_000), 4));
        bins.at(Timestamp(10 + 4_000_000)).0 += 1;
        assert_eq!((bins.width(), bins.bins()), (Nanos(2_000_000), &[Sum(1), Sum(1), Sum(1)][..]));
    }

    #[test]
    fn the_ends_of_the_clock_fall_into_bins() {
        let mut bins = Bins::<Sum, 4>::default();
        for time in [5, u64::MAX, 0, u64::MAX - 1] {
            bins.at(Timestamp(time)).0 += 1;
        }
        bins.spread(Timestamp(3), Timestamp(u64::MAX), |bin, _| bin.0 += 1);
        assert!(bins.bins().len() <= 4);
        assert!(bins.bins().iter().map(|bin| bin.0).sum::<u64>() >= 4);
    }

    proptest! {
        #[test]
        fn spreads_add_up(spans in prop::collection::vec((0u64..20_000_000, 0u64..9_000_000), 1..30)) {
            let mut bins = Bins::<Sum, 8>::default();
            bins.at(Timestamp(0));
            for (start, length) in &spans {
                bins.spread(Timestamp(*start), Timestamp(start + length), |bin, time| bin.0 += time.0);
            }
            let width = bins.width().0;
            for (index, bin) in bins.bins().iter().enumerate() {
                let (from, until) = (index as u64 * width, (index as u64 + 1) * width);
                let expected: u64 = spans
                    .iter()
                    .map(|(start, length)| (start + length).min(until).saturating_sub(*start.max(&from)))
                    .sum();
                prop_assert_eq!(bin.0, expected);
            }
        }
    }
}
