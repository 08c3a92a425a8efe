//! Bins of equal time in bounded number: when time passes the last bin, pairs of neighbours are folded and the width
//! doubles.
//!
//! The first instant requested is the origin; earlier instants fall into the first bin. Nearly all requests fall into
//! the same bin as the request before them, so that bin is remembered.

/// The contents of a bin.
pub(crate) trait Fold: Default {
    /// Adds the contents of the bin that follows.
    fn fold(&mut self, later: Self);
}

#[derive(Debug)]
pub(crate) struct Bins<T> {
    limit: usize,
    width: u64,
    origin: Option<u64>,
    bins: Vec<T>,
    current: usize,
    current_from: u64,
    current_until: u64,
}

/// The first width: 1 ms. 512 such bins are half a second, shorter than any recording worth a curve.
const FIRST_WIDTH_NS: u64 = 1_000_000;

impl<T: Fold> Bins<T> {
    pub(crate) fn new(limit: usize) -> Bins<T> {
        assert!(limit >= 2, "folding needs two bins");
        Bins {
            limit,
            width: FIRST_WIDTH_NS,
            origin: None,
            bins: Vec::new(),
            current: 0,
            current_from: 1,
            current_until: 0,
        }
    }

    pub(crate) fn width(&self) -> u64 {
        self.width
    }

    /// The first instant; 0 if there is none yet.
    pub(crate) fn origin(&self) -> u64 {
        self.origin.unwrap_or(0)
    }

    pub(crate) fn bins(&self) -> &[T] {
        &self.bins
    }

    /// Sets the start of the first bin, before any bin is requested.
    pub(crate) fn begin_at(&mut self, origin: u64) {
        assert!(self.bins.is_empty(), "bins are laid out from their origin");
        self.origin = Some(origin);
    }

    /// The bin of an instant.
    #[inline]
    pub(crate) fn at(&mut self, time: u64) -> &mut T {
        if time < self.current_from || time >= self.current_until {
            self.seek(time);
        }
        &mut self.bins[self.current]
    }

    fn seek(&mut self, time: u64) {
        let offset = time.saturating_sub(*self.origin.get_or_insert(time));
        while offset / self.width >= self.limit as u64 {
            self.halve();
        }
        let index = (offset / self.width) as usize;
        if self.bins.len() <= index {
            self.bins.resize_with(index + 1, T::default);
        }
        self.current = index;
        let from = self.origin().saturating_add(index as u64 * self.width);
        // The last bin also takes instants beyond the clock's range, the first also those before the origin.
        self.current_from = if index == 0 { 0 } else { from };
        self.current_until = from.saturating_add(self.width);
        if self.current_until == u64::MAX && time == u64::MAX {
            self.current_from = 1;
            self.current_until = 0;
        }
    }

    /// Halves the number of bins and doubles their width.
    pub(crate) fn halve(&mut self) {
        let mut old = std::mem::take(&mut self.bins).into_iter();
        while let Some(mut bin) = old.next() {
            if let Some(later) = old.next() {
                bin.fold(later);
            }
            self.bins.push(bin);
        }
        self.width = self.width.saturating_mul(2);
        self.current_from = 1;
        self.current_until = 0;
    }

    /// Calls `give` for each bin that `start..end` overlaps, with the length of the overlap.
    #[inline]
    pub(crate) fn spread(&mut self, start: u64, end: u64, mut give: impl FnMut(&mut T, u64)) {
        if end <= start {
            return;
        }
        if start >= self.current_from && end <= self.current_until && start >= self.origin() {
            return give(&mut self.bins[self.current], end - start);
        }
        // The later end comes first: it may fold the bins, which would move the earlier end.
        self.at(start);
        self.at(end - 1);
        let origin = self.origin();
        let mut from = start.max(origin);
        while from < end {
            let index = ((from - origin) / self.width) as usize;
            let until = origin.saturating_add((index as u64 + 1).saturating_mul(self.width)).min(end);
            give(&mut self.bins[index], until - from);
            from = until;
        }
    }

    /// Adds bins up to an instant, so that a quiet end is visible.
    pub(crate) fn extend_to(&mut self, end: u64) {
        if self.origin.is_some_and(|origin| end > origin) {
            self.at(end - 1);
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
        let mut bins = Bins::<Sum>::new(4);
        bins.at(10).0 += 1;
        bins.at(10 + 3_999_999).0 += 1;
        assert_eq!((bins.width(), bins.bins().len()), (1_000_000, 4));
        bins.at(10 + 4_000_000).0 += 1;
        assert_eq!((bins.width(), bins.bins()), (2_000_000, &[Sum(1), Sum(1), Sum(1)][..]));
    }

    #[test]
    fn the_ends_of_the_clock_fall_into_bins() {
        let mut bins = Bins::<Sum>::new(4);
        for time in [5, u64::MAX, 0, u64::MAX - 1] {
            bins.at(time).0 += 1;
        }
        bins.spread(3, u64::MAX, |bin, _| bin.0 += 1);
        assert!(bins.bins().len() <= 4);
        assert!(bins.bins().iter().map(|bin| bin.0).sum::<u64>() >= 4);
    }

    proptest! {
        /// A spread gives every nanosecond once, to the bin that holds it.
        #[test]
        fn spreads_add_up(spans in prop::collection::vec((0u64..20_000_000, 0u64..9_000_000), 1..30)) {
            let mut bins = Bins::<Sum>::new(8);
            bins.at(0);
            for (start, length) in &spans {
                bins.spread(*start, start + length, |bin, time| bin.0 += time);
            }
            let width = bins.width();
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
