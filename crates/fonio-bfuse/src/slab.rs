//! Provides a table of values that the kernel refers to by small numbers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// A table of values, addressed by number. The numbers of removed values are reused.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: RwLock<Slots<T>>,
    /// Number of values in the table. This number can be read without the lock.
    count: AtomicU64,
}

#[derive(Debug)]
struct Slots<T> {
    values: Vec<Option<Arc<T>>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: RwLock::new(Slots { values: Vec::new(), free: Vec::new() }), count: AtomicU64::new(0) }
    }
}

const UNPOISONED: &str = "no thread panics while it holds the lock of the table";

impl<T> Slab<T> {
    /// Calls `make` with a free number, from 1 on, and stores the value.
    pub(crate) fn insert_with(&self, make: impl FnOnce(u64) -> T) -> Arc<T> {
        let mut slots = self.slots.write().expect(UNPOISONED);
        let at = slots.free.pop().unwrap_or_else(|| {
            slots.values.push(None);
            slots.values.len() - 1
        });
        let value = Arc::new(make(at as u64 + 1));
        slots.values[at] = Some(Arc::clone(&value));
        self.count.fetch_add(1, Ordering::Relaxed);
        value
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<T>> {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        self.slots.read().expect(UNPOISONED).values.get(at)?.clone()
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn remove(&self, number: u64) -> Option<Arc<T>> {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        let mut slots = self.slots.write().expect(UNPOISONED);
        let removed = slots.values.get_mut(at)?.take()?;
        slots.free.push(at);
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;

    #[test]
    fn numbers_count_from_one_and_are_given_out_again() {
        let slab = Slab::default();
        for expected in 1..=3 {
            assert_eq!(*slab.insert_with(|number| number), expected);
        }
        assert_eq!(slab.get(0), None);
        assert_eq!(slab.get(u64::MAX), None);
        assert_eq!(slab.count(), 3);
        assert_eq!(slab.remove(2).as_deref(), Some(&2));
        assert_eq!(slab.remove(2), None);
        assert_eq!(slab.count(), 2);
        assert_eq!(*slab.insert_with(|number| number), 2);
    }
}
